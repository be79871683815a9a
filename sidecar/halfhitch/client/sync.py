# Made of aio.py by tools/blocking.py: change that one, then `make format`.
"""The blocking producer.

It decides nothing: calls, retries and the course of a transaction are shared with the asyncio
producer (`calls`, `retries`, `conversation`).
"""

import os
import weakref
from collections.abc import Callable, Sequence
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from halfhitch.client import in_use
from halfhitch.client.address import Address, find_address, require_secrecy
from halfhitch.client.calls import Call, Calls, Operation, new_transaction_id
from halfhitch.client.conversation import (
    Conversation,
    require_process,
)
from halfhitch.client.marks import Mark
from halfhitch.client.notes import (
    failed_result,
    note_closed,
    note_unanswered,
    note_unasked,
    result_of,
)
from halfhitch.client.options import (
    check_check,
    check_limits,
    check_on_error,
    no_check,
    require_listener,
)
from halfhitch.client.pacing import REAL_PACING, Pacing
from halfhitch.client.protocol import Response
from halfhitch.client.retries import Attempts, TransportFailure, without_inner_lines
from halfhitch.client.sync_connections import ConnectionPool
from halfhitch.client.sync_transactions import Transaction
from halfhitch.client.values import (
    Check,
    CheckedMessage,
    Ended,
    LocalTransactionState,
    Message,
    OnError,
    Prepared,
    SendResult,
    TransactionListener,
    TransactionView,
)
from halfhitch.errors import HalfHitchError

if TYPE_CHECKING:
    from halfhitch.client.sync_checks import CheckAnswers
    from halfhitch.client.tls import ClientTls

T = TypeVar("T")


class TransactionProducer:
    """Sends transactional messages through the sidecar at `address`.

    `address` is `http://host:port`, `https://host:port` or `unix:/path`; without it
    HALFHITCH_ADDRESS counts, then http://127.0.0.1:8340. `tls` names the files for https://;
    without it HALFHITCH_CLIENT_CA_FILE and its like count. A `token` is sent over http:// on
    loopback only, unless `encrypted_in_front` (or HALFHITCH_CLIENT_ENCRYPTED_IN_FRONT=true) says
    that a mesh or a proxy encrypts. A call takes at most about `deadline_s`, all tries together.

    Threads may share a producer. It survives a fork: the child opens connections of its own.
    But a transaction belongs to the process that began it; in a child it raises
    TransactionMisused. Close the producer, or use it in a `with` block.

    With `check`, or a listener that has `check_local_transaction`, it answers the coordinator's
    questions what became of transactions of the group, from now on until it is closed: a thread
    in the background listens for them, and at most `check_workers` run at once. `check` is given
    the whole `Check`; both mean the same, and `check` is preferred. `answers_checks=False`
    leaves this to other processes of the group, or to `start_checks()`. A forked child answers
    from its first call on.

    An exception that leaves a transaction's block sends nothing if the producer has a check, for
    the local transaction may have committed before it; the check-back decides. Without a check
    it rolls the messages back. `on_error="rollback"` or `"unknown"` chooses. Whatever that says,
    nothing is sent for what is no `Exception`: a cancellation, Ctrl-C, an exit.
    """

    def __init__(
        self,
        group: str,
        address: str | None = None,
        token: str | None = None,
        deadline_s: float = 10.0,
        listener: TransactionListener | None = None,
        *,
        check: Callable[[Check], LocalTransactionState] | None = None,
        answers_checks: bool = True,
        check_workers: int = 8,
        connections_max: int = 32,
        on_error: OnError | None = None,
        tls: "ClientTls | None" = None,
        encrypted_in_front: bool | None = None,
        pacing: Pacing = REAL_PACING,
    ) -> None:
        check_limits(deadline_s, connections_max, check_workers)
        check_on_error(on_error)
        check_check(check, listener, is_awaited=False)
        found = find_address(address, tls)
        require_secrecy(found, token, encrypted_in_front=encrypted_in_front)
        self.group = group
        self.address = found.text
        self._address = found
        self._calls = Calls(found, group, token)
        self._listener = listener
        self._pacing = pacing
        self._pool = ConnectionPool(found, connections_max, pacing.clock)
        self._caller = Caller(self._pool, found, deadline_s, pacing, self._calls.greeting)
        self._check = check or _check_of(listener)
        # Without a check nobody may ever answer: see "An exception in a block" in DESIGN.md.
        self._on_error = on_error or ("rollback" if self._check is None else "unknown")
        self._check_workers = check_workers
        self._answers: CheckAnswers | None = None
        self._blocks: dict[str, None] = {}  # that are running; one step each, so without a lock
        # Whoever leaves the answers to somebody else has said so.
        self._is_unanswered = self._check is None and answers_checks and on_error != "unknown"
        if self._check is not None and answers_checks:
            self._start_checks()

    def transaction(
        self,
        transaction_id: str | None = None,
        *,
        immunity_s: int | None = None,
        on_error: OnError | None = None,
    ) -> Transaction:
        """A transaction for a `with` block: leaving it commits, by `return` and `break` too.

        The local commit is the last thing in the block: what comes after it may fail, and only
        when the block ends well do the messages follow. What an exception does, `on_error` says
        (see the class). Nothing is stored until the first message. No check-back comes before
        `immunity_s`. Blocks may stand inside one another: they are independent transactions.
        """
        check_on_error(on_error)
        talk = Conversation(
            self._calls,
            new_transaction_id() if transaction_id is None else transaction_id,
            immunity_s,
            on_error or self._on_error,
            has_check=self._check is not None,
            is_given=transaction_id is not None,
        )
        return Transaction(self, talk)

    def send_message_in_transaction(
        self, message: Message, arg: Any = None, *, immunity_s: int | None = None
    ) -> SendResult:
        """Store the message, run the listener's local transaction, send what it decided.

        An exception in the listener means UNKNOWN: no decision is sent and the exception is on the
        result. Raises when the message was not surely stored (the listener did not run), and when
        the decision was not surely stored (DecisionUnknown carries the handle to repeat it with).
        """
        listener = require_listener(self._listener)
        process_id = os.getpid()
        prepared = self.prepare([message], message.transaction_id, immunity_s)
        transaction_id = prepared.transaction_id
        recorded = in_use.recorded(self._calls.group, prepared.handle)
        try:
            told = listener.execute_local_transaction(
                message._replace(transaction_id=transaction_id), arg
            )
            if recorded is not None:
                if told is LocalTransactionState.COMMIT:
                    recorded.require_end(transaction_id)
                elif told is LocalTransactionState.ROLLBACK:
                    recorded.require_uncommitted(transaction_id)
        except Exception as error:  # noqa: BLE001 - the application's; logged and on the result
            return failed_result(prepared, error)
        require_process(transaction_id, process_id)  # the listener may have forked
        result = result_of(prepared, told)
        if result.state is LocalTransactionState.COMMIT:
            self.commit(result.handle)
        elif result.state is LocalTransactionState.ROLLBACK:
            self.rollback(result.handle)
        return result

    def prepare(
        self,
        messages: Sequence[Message],
        transaction_id: str | None = None,
        immunity_s: int | None = None,
    ) -> Prepared:
        """Store the messages, invisible. Repeating it with the same id and messages is safe."""
        chosen = new_transaction_id() if transaction_id is None else transaction_id
        in_use.require_unheld_id(self._calls.group, chosen, "producer.prepare")
        prepared = self.perform(self._calls.prepare(messages, chosen, immunity_s))
        in_use.note_prepared(self._calls.group, prepared, is_given=transaction_id is not None)
        return prepared

    def add(self, handle: str, messages: Sequence[Message]) -> Prepared:
        """Store further messages of a pending transaction; use the new handle from then on.

        Adds to one transaction must follow one another, each with the handle of the last. The
        same messages with the same handle may be sent again: they are stored once. Different
        messages with a handle that was already added to are taken for that repetition.
        """
        prepared = self.perform(self._calls.add(handle, messages))
        in_use.note_prepared(self._calls.group, prepared, added_to=handle)
        return prepared

    def commit(self, handle: str, *, wait_visible: bool = False) -> Ended:
        """Make the messages visible. Returns when the decision is durable; repeating it is safe.

        `wait_visible` also waits until consumers can see them, or raises VisibilityUnknown.
        """
        call = self._calls.end(Operation.COMMIT, handle, wait_visible=wait_visible)
        return self._end(call, handle, "producer.commit(tx.handle)")

    def rollback(self, handle: str) -> Ended:
        """Drop the messages. Returns when the decision is durable; repeating it is safe."""
        call = self._calls.end(Operation.ROLLBACK, handle)
        return self._end(call, handle, "producer.rollback(tx.handle)")

    def _end(self, call: Call[Ended], handle: str, what: str) -> Ended:
        in_use.require_end(call.operation, self._calls.group, handle, what)
        ended = self.perform(call)
        in_use.note_ended(self._calls.group, handle)
        return ended

    def view(self, handle: str) -> TransactionView:
        """What the coordinator knows of the transaction."""
        return self.perform(self._calls.view(handle))

    def perform(self, call: Call[T], at_most_s: float = inf) -> T:
        """Carry out one call with its retries. For this package; programs use the methods above."""
        try:
            with self._pool.call():
                self._pool.check_open()
                if self._answers is not None and self._answers.is_due:
                    self._answers.start()
                if self._is_unanswered and call.operation is Operation.PREPARE:
                    self._warn_unanswered(call.transaction_id)
                return self._caller.perform(call, at_most_s)
        finally:
            self._pool.call_ended()

    def check_open(self) -> None:
        """Raises ProducerClosed. For this package."""
        self._pool.check_open()

    def note_block(self, transaction_id: str, *, is_running: bool) -> None:
        """For this package: `close()` tells which blocks it comes too early for."""
        if is_running:
            self._blocks[transaction_id] = None
        else:
            self._blocks.pop(transaction_id, None)

    def hold(self, talk: Conversation, mark: Mark) -> None:
        """For this package: a barrier ends it, by no handle, as long as the mark is held."""
        if self._is_unanswered:
            note_unasked(self.group)
        in_use.hold(talk, mark)

    def _warn_unanswered(self, transaction_id: str | None) -> None:
        if not in_use.is_held(self._calls.group, transaction_id):
            self._is_unanswered = False
            note_unanswered(self.group)

    def start_checks(self) -> None:
        """Begin to answer checks, if that has not begun; `close()` ends it."""
        self._pool.check_open()
        self._start_checks()

    def _start_checks(self) -> None:
        if self._check is None:
            raise no_check()
        if self._answers is None:
            from halfhitch.client.sync_checks import Answering, CheckAnswers

            self._answers = CheckAnswers(
                Answering(
                    self._address,
                    self.group,
                    self._calls,
                    self._check,
                    self._caller.perform,
                    self._pacing,
                    self._check_workers,
                )
            )
            weakref.finalize(self, self._answers.stop)
        self._answers.start()

    def close(self) -> None:
        """Close the connections; calls under way are finished first, new ones are refused.

        Calls that wait for a connection, or for another try, are under way: it takes `deadline_s`
        at most. Nothing is sent behind it; of a block that still runs nothing is committed.
        Checks that are running are waited for some seconds; what they say later is not sent.
        """
        note_closed(list(self._blocks))
        self._pool.refuse()
        if self._answers is not None:
            self._answers.close()
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Caller:
    """Carries calls out with their retries. It does not know the producer: see `Answering`."""

    def __init__(
        self,
        pool: ConnectionPool,
        address: Address,
        deadline_s: float,
        pacing: Pacing,
        greeting: bytes | None,
    ) -> None:
        self._pool = pool
        self._greeting = greeting
        self._address = address.text
        self._deadline_s = deadline_s
        self._pacing = pacing

    def perform(self, call: Call[T], at_most_s: float = inf) -> T:
        """One call, however often it has to be tried. Works after the pool was closed too."""
        clock = self._pacing.clock
        attempts = Attempts(
            call,
            self._address,
            now_s=clock(),
            deadline_s=min(at_most_s, self._deadline_s),
            jitter=self._pacing.jitter,
            greeting=None if self._pool.has_answered else self._greeting,
        )
        while True:
            outcome: Response | TransportFailure
            try:
                outcome = self._pool.exchange(attempts.request, attempts)
            except TransportFailure as failure:
                # Judged below: an error that is raised there has its words and not its chain.
                outcome = failure.with_traceback(None)
            try:
                if isinstance(outcome, TransportFailure):
                    pause_s = attempts.failed(outcome, clock())
                else:
                    answered = attempts.answered(outcome, clock())
                    if answered is None:
                        return call.read(outcome)
                    pause_s = answered
            except HalfHitchError as error:
                raise without_inner_lines(error) from error.__cause__
            self._pacing.sleep(pause_s)


def _check_of(
    listener: TransactionListener | None,
) -> Callable[[Check], LocalTransactionState] | None:
    """The listener's answer to a check, if it has one."""
    ask = getattr(listener, "check_local_transaction", None)
    return None if ask is None else lambda check: ask(CheckedMessage.of(check))
