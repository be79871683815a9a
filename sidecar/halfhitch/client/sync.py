"""The blocking producer.

It decides nothing: calls, retries and the course of a transaction are shared with the asyncio
producer (`calls`, `retries`, `conversation`).
"""

import weakref
from collections.abc import Callable, Sequence
from math import inf
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from halfhitch.client.address import Address, find_address
from halfhitch.client.calls import Call, Calls, Operation, new_transaction_id
from halfhitch.client.conversation import (
    LEAVING_DEADLINE_S,
    Conversation,
    Leaving,
    check_check,
    check_limits,
    check_on_error,
    failed_result,
    no_check,
    note_closed,
    note_failed_rollback,
    require_listener,
    result_of,
)
from halfhitch.client.errors import ProducerClosed, TransactionDoomed
from halfhitch.client.pacing import REAL_PACING, Pacing
from halfhitch.client.retries import Attempts, TransportFailure
from halfhitch.client.sync_connections import ConnectionPool
from halfhitch.client.values import (
    Check,
    CheckedMessage,
    Ended,
    Headers,
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

T = TypeVar("T")


class TransactionProducer:
    """Sends transactional messages through the sidecar at `address`.

    `address` is `http://host:port` or `unix:/path`; without it HALFHITCH_ADDRESS counts, then
    http://127.0.0.1:8340. A call takes at most about `deadline_s`, all tries together.

    Threads may share a producer. It survives a fork: the child opens connections of its own. But
    a transaction belongs to the process that began it; in a child it raises TransactionMisused.
    Close the producer, or use it in a `with` block.

    With `check`, or a listener that has `check_local_transaction`, it answers the coordinator's
    questions what became of transactions of the group, from now on until it is closed: a thread in
    the background listens for them, and at most `check_workers` run at once. `check` is given the
    whole `Check`; both mean the same, and `check` is preferred. `answers_checks=False` leaves this
    to other processes of the group, or to `start_checks()`. A forked child answers from its first
    call on.

    An exception that leaves a transaction's block sends nothing if the producer has a check, for
    the local transaction may have committed before it; the check-back decides. Without a check it
    rolls the messages back. `on_error="rollback"` or `"unknown"` chooses. Whatever that says,
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
        pacing: Pacing = REAL_PACING,
    ) -> None:
        check_limits(deadline_s, connections_max, check_workers)
        check_on_error(on_error)
        check_check(check)
        found = find_address(address)
        self.group = group
        self.address = found.text
        self._address = found
        self._calls = Calls(found, group, token)
        self._listener = listener
        self._pacing = pacing
        self._pool = ConnectionPool(found, connections_max, pacing.clock)
        self._caller = Caller(self._pool, found, deadline_s, pacing)
        self._check = check or _check_of(listener)
        # Without a check nobody may ever answer: see "An exception in a block" in DESIGN.md.
        self._on_error = on_error or ("rollback" if self._check is None else "unknown")
        self._check_workers = check_workers
        self._answers: CheckAnswers | None = None
        self._blocks: dict[str, None] = {}  # that are running; one step each, so without a lock
        if self._check is not None and answers_checks:
            self.start_checks()

    def transaction(
        self,
        transaction_id: str | None = None,
        *,
        immunity_s: int | None = None,
        on_error: OnError | None = None,
    ) -> "Transaction":
        """A transaction for a `with` block: leaving it commits, by `return` and `break` too.

        The local commit is the last thing in the block: what comes after it may fail, and only
        when the block ends well do the messages follow. What an exception does, `on_error` says
        (see the class). Nothing is stored until the first message. No check-back comes before
        `immunity_s`. Blocks may stand inside one another: they are independent transactions.
        """
        check_on_error(on_error)
        talk = Conversation(
            self._calls,
            transaction_id or new_transaction_id(),
            immunity_s,
            on_error or self._on_error,
            has_check=self._check is not None,
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
        transaction_id = message.transaction_id or new_transaction_id()
        prepared = self.prepare([message], transaction_id, immunity_s)
        try:
            told = listener.execute_local_transaction(
                message._replace(transaction_id=prepared.transaction_id), arg
            )
        except Exception as error:  # noqa: BLE001 - the application's; logged and on the result
            return failed_result(prepared, error)
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
        chosen = transaction_id or new_transaction_id()
        return self.perform(self._calls.prepare(messages, chosen, immunity_s))

    def add(self, handle: str, messages: Sequence[Message]) -> Prepared:
        """Store further messages of a pending transaction; use the new handle from then on.

        Adds to one transaction must follow one another, each with the handle of the last. The
        same messages with the same handle may be sent again: they are stored once. Different
        messages with a handle that was already added to are taken for that repetition.
        """
        return self.perform(self._calls.add(handle, messages))

    def commit(self, handle: str, *, wait_visible: bool = False) -> Ended:
        """Make the messages visible. Returns when the decision is durable; repeating it is safe.

        `wait_visible` also waits until consumers can see them, or raises VisibilityUnknown.
        """
        return self.perform(self._calls.end(Operation.COMMIT, handle, wait_visible=wait_visible))

    def rollback(self, handle: str) -> Ended:
        """Drop the messages. Returns when the decision is durable; repeating it is safe."""
        return self.perform(self._calls.end(Operation.ROLLBACK, handle))

    def view(self, handle: str) -> TransactionView:
        """What the coordinator knows of the transaction."""
        return self.perform(self._calls.view(handle))

    def perform(self, call: Call[T], at_most_s: float = inf) -> T:
        """Carry out one call with its retries. For this package; programs use the methods above."""
        self._pool.check_open()
        if self._answers is not None and self._answers.is_forked:
            self._answers.start()
        return self._caller.perform(call, at_most_s)

    def check_open(self) -> None:
        """Raises ProducerClosed. For this package."""
        self._pool.check_open()

    def note_block(self, transaction_id: str, *, is_running: bool) -> None:
        """For this package: `close()` tells which blocks it comes too early for."""
        if is_running:
            self._blocks[transaction_id] = None
        else:
            self._blocks.pop(transaction_id, None)

    def start_checks(self) -> None:
        """Begin to answer checks, if that has not begun; `close()` ends it."""
        self._pool.check_open()
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

        Checks that are running are waited for some seconds; what they say later is not sent.
        """
        note_closed(list(self._blocks))
        self._pool.close()
        if self._answers is not None:
            self._answers.close()

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
        self, pool: ConnectionPool, address: Address, deadline_s: float, pacing: Pacing
    ) -> None:
        self._pool = pool
        self._address = address.text
        self._deadline_s = deadline_s
        self._pacing = pacing

    def perform(self, call: Call[T], at_most_s: float = inf) -> T:
        """One call, however often it has to be tried. Works after the pool was closed too."""
        pacing = self._pacing
        clock = pacing.clock
        attempts = Attempts(
            call,
            self._address,
            now_s=clock(),
            deadline_s=min(at_most_s, self._deadline_s),
            jitter=pacing.jitter,
        )
        while True:
            try:
                response = self._pool.exchange(call.request, attempts)
            except TransportFailure as failure:
                pause_s = attempts.failed(failure, clock())
            else:
                answered = attempts.answered(response, clock())
                if answered is None:
                    return call.read(response)
                pause_s = answered
            pacing.sleep(pause_s)


def _check_of(
    listener: TransactionListener | None,
) -> Callable[[Check], LocalTransactionState] | None:
    """The listener's answer to a check, if it has one."""
    ask = getattr(listener, "check_local_transaction", None)
    return None if ask is None else lambda check: ask(CheckedMessage.of(check))


class Transaction:
    """One transaction; made by `TransactionProducer.transaction()`.

    Its methods may be called from several threads; they take turns. A thread that sends after the
    block has ended is refused (TransactionEnded): join it before the local commit.
    """

    def __init__(self, producer: TransactionProducer, conversation: Conversation) -> None:
        self._producer = producer
        self._talk = conversation
        self._lock = Lock()

    @property
    def id(self) -> str:
        """The transaction id: known before anything is sent, so it can go into the database."""
        return self._talk.transaction_id

    @property
    def handle(self) -> str | None:
        """What ends this transaction from anywhere; None before the first message is stored."""
        return self._talk.handle

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Store one message, invisible, on all in-sync replicas before this returns."""
        self.prepare([Message(topic, value, key, headers, partition)])

    def prepare(self, messages: Sequence[Message]) -> None:
        """Store several messages in one request."""
        self._require_usable()
        with self._lock:
            call = self._talk.next_send(messages)
            try:
                self._talk.sent(self._producer.perform(call))
            except BaseException as error:  # of a signal's handler too, when all is stored
                self._talk.send_failed(error)
                raise

    def assert_can_commit(self) -> None:
        """Call it right before the local commit: raises if the messages cannot follow.

        TransactionDoomed, with what failed, when a message was not sent and the program went on;
        else TransactionEnded, TransactionMisused, ProducerClosed. It asks nobody.
        """
        self._require_usable()
        with self._lock:
            self._talk.assert_can_commit()

    def commit(self, *, wait_visible: bool = False) -> Ended:
        """Make the messages visible, before the block ends. May be repeated."""
        self._require_usable()
        with self._lock:
            call = self._talk.next_commit(wait_visible=wait_visible)
            if call is None:
                return self._talk.nothing_to_end(Operation.COMMIT)
            return self._producer.perform(call)

    def rollback(self) -> Ended:
        """Drop the messages, before the block ends. May be repeated."""
        return self._roll_back(inf)

    def drop(self, error: BaseException) -> None:
        """Roll back because of `error`, when the local transaction surely has not committed.

        It takes two seconds at most, and a failure is a note on `error`; the check-back settles
        it then. Without effect once an end was begun.
        """
        if not self._talk.wants_end():
            return
        try:
            self._roll_back(LEAVING_DEADLINE_S)
        except HalfHitchError as failed:
            note_failed_rollback(error, failed)

    def _roll_back(self, at_most_s: float) -> Ended:
        self._require_usable()
        with self._lock:
            call = self._talk.next_rollback()
            if call is None:
                return self._talk.nothing_to_end(Operation.ROLLBACK)
            return self._producer.perform(call, at_most_s)

    def _require_usable(self) -> None:
        """Before the lock, of which a forked child has a copy that nobody opens."""
        self._talk.require_process()
        try:
            self._producer.check_open()
        except ProducerClosed:
            raise ProducerClosed(self.id) from None

    def __enter__(self) -> Self:
        self._talk.require_process()
        self._talk.enter()
        self._producer.note_block(self.id, is_running=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._producer.note_block(self.id, is_running=False)
        leaving = self._talk.leave(error)
        if leaving is Leaving.COMMIT:
            try:
                self.commit()
            except TransactionDoomed as doomed:
                if self._talk.leave(doomed) is Leaving.ROLLBACK:
                    self.drop(doomed)
                raise
        elif leaving is Leaving.ROLLBACK and error is not None:
            self.drop(error)
