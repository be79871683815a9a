# Made of aio_transactions.py by tools/blocking.py: change that one, then `make format`.
"""One transaction of the blocking producer, as a block.

What may be sent, and what must be at the end, is decided in `conversation`.
"""

import threading
from collections.abc import Callable, Sequence
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Self

from halfhitch.client import in_use
from halfhitch.client.calls import Call, Operation
from halfhitch.client.conversation import (
    LEAVING_DEADLINE_S,
    Conversation,
    Leaving,
    in_line,
)
from halfhitch.client.errors import (
    ProducerClosed,
    TransactionDoomed,
    TransactionEnded,
)
from halfhitch.client.marks import Mark
from halfhitch.client.notes import note_failed_rollback, note_rows_stand
from halfhitch.client.retries import without_inner_lines
from halfhitch.client.turns import is_held_here
from halfhitch.client.values import Ended, Headers, Message, Prepared
from halfhitch.errors import HalfHitchError

if TYPE_CHECKING:
    from halfhitch.client.sync import TransactionProducer


class Transaction:
    """One transaction; made by `TransactionProducer.transaction()`.

    Its methods may be called from several threads; they take turns. A thread that sends after
    the block has ended is refused (TransactionEnded): join it before the local commit.
    """

    def __init__(self, producer: "TransactionProducer", conversation: Conversation) -> None:
        self._producer = producer
        self._talk = conversation
        # Re-entrant only so that whoever enters it twice can be told.
        self._lock = threading.RLock()
        #: Sends that wait for the lock, and their threads; one step each.
        self._in_line: dict[object, int] = {}

    @property
    def id(self) -> str:
        """The transaction id: known before anything is sent, so it can go into the database."""
        return self._talk.transaction_id

    @property
    def handle(self) -> str | None:
        """What ends this transaction from anywhere; None before the first message is stored."""
        return self._talk.handle

    @property
    def send_count(self) -> int:
        """For this package: how often messages were sent."""
        return self._talk.send_count

    def watch_sends(self, watch: Callable[[], None]) -> None:
        """For this package: `watch` is called before each message is sent."""
        self._talk.watch_sends = watch

    @property
    def rows_stand(self) -> bool:
        """For this package: its barrier has said so. The messages follow, at last by a check."""
        return self._talk.rows_stand

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
    ) -> None:
        """Store one message, invisible, on all in-sync replicas before this returns."""
        messages = [Message(topic, value, key, headers, partition)]
        return self._prepare(messages)

    def prepare(self, messages: Sequence[Message]) -> None:
        """Store several messages in one request."""
        return self._prepare(messages)

    def commit(self, *, wait_visible: bool = False) -> Ended:
        """Make the messages visible, before the block ends. May be repeated."""
        self._talk.require_unheld("tx.commit()")
        return self._commit(wait_visible=wait_visible)

    def rollback(self) -> Ended:
        """Drop the messages, before the block ends. May be repeated."""
        self._talk.require_unheld("tx.rollback()")
        return self._roll_back(inf, is_by_hand=True)

    def assert_can_commit(self) -> None:
        """Call it right before the local commit: raises if the messages cannot follow.

        TransactionDoomed, with what failed, when a message was not sent and the program went on;
        else TransactionEnded, TransactionMisused, ProducerClosed. It asks nobody.
        """
        self._require_whole(self._talk.assert_can_commit)

    def seal(self) -> None:
        """For this package: the local commit begins now; a message that is sent later is refused.

        Raises as `assert_can_commit` does.
        """
        self._require_whole(self._talk.seal)

    def _require_whole(self, require: Callable[[], None]) -> None:
        self._require_usable()
        with self._lock:
            self._require_nobody_in_line()
            require()

    def hold(self, mark: Mark) -> None:
        """For this package: a barrier's block, which alone ends the transaction (`follow`, `drop`).

        As long as the mark is held. Afterwards the program may: a commit that was not answered is
        repeated.
        """
        self._producer.hold(self._talk, mark)

    def follow(self) -> Ended:
        """For this package: the rows are committed, so the messages are."""
        self._talk.rows_stand = True
        try:
            return self._commit(wait_visible=False)
        except BaseException as error:
            note_rows_stand(error, self.id)
            raise

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

    def _prepare(self, messages: Sequence[Message]) -> None:
        mark: object = None
        try:
            mark = object()
            self._in_line[mark] = threading.get_ident()  # first: the end may be close behind
            self._require_usable()
            self._require_own_id("tx.send")
            with self._lock:
                self._in_line.pop(mark, None)
                self._perform(self._talk.next_send(messages))
        except BaseException as error:
            if not isinstance(error, TransactionEnded):  # which is behind the end, and too late
                self._talk.send_refused(messages, error)
            self._in_line.pop(mark, None)  # last: who ends it sees one of the two
            raise

    def _perform(self, call: Call[Prepared]) -> None:
        try:
            prepared = self._producer.perform(call)
            self._talk.sent(prepared)
            in_use.note_handle(self._talk, prepared.handle)
        except HalfHitchError as error:
            self._talk.send_failed(error)
            raise without_inner_lines(error) from error.__cause__
        except BaseException as error:  # of a signal's handler too, when all is stored
            self._talk.send_failed(error)
            raise

    def _commit(self, *, wait_visible: bool) -> Ended:
        self._require_usable()
        with self._lock:
            if not self._talk.is_held:  # else the rows stand, and it was asked before
                self._require_nobody_in_line()
            call = self._talk.next_commit(wait_visible=wait_visible)
            if call is None:
                return self._talk.nothing_to_end(Operation.COMMIT)
            return self._producer.perform(call)

    def _roll_back(self, at_most_s: float, *, is_by_hand: bool = False) -> Ended:
        self._require_usable()
        with self._lock:
            if is_by_hand:
                self._talk.require_uncommitted()
            call = self._talk.next_rollback()
            if call is None:
                return self._talk.nothing_to_end(Operation.ROLLBACK)
            return self._producer.perform(call, at_most_s)

    def _require_usable(self) -> None:
        """Before the lock, of which a forked child has a copy that nobody opens."""
        self._talk.require_process()
        if is_held_here(self._lock):
            raise self._talk.within_itself()
        try:
            self._producer.check_open()
        except ProducerClosed:
            raise ProducerClosed(self.id) from None

    def _require_nobody_in_line(self) -> None:
        """A lock knows no order: the end may have overtaken a send that was called before it.

        That one will be refused in its thread, where perhaps nobody looks. So all is doomed.
        """
        here = threading.get_ident()
        others = [one for one in list(self._in_line.values()) if one != here]
        if others and self._talk.wants_end():
            self._talk.send_failed(in_line(self.id))

    def _require_own_id(self, what: str) -> None:
        in_use.require_unheld_id(self._talk.group, self.id, what, self._talk)

    def __enter__(self) -> Self:
        self._require_usable()
        self._require_own_id("with producer.transaction(...)")
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
                self._commit(wait_visible=False)
            except TransactionDoomed as doomed:
                if self._talk.leave(doomed) is Leaving.ROLLBACK:
                    self.drop(doomed)
                raise
        elif leaving is Leaving.ROLLBACK and error is not None:
            self.drop(error)
