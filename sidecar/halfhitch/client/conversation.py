"""The course of one transaction object: which call comes next, and when none may.

Shared by both shells; no I/O.

Invariants:
- the transaction id is fixed before the first call, and the newest handle replaces the older ones;
- calls follow one another (the shells hold a lock around each): an add is only idempotent
  with the handle it was first sent with;
- once a commit was begun, no rollback is made here, whatever became of the commit;
- after any failed send only a rollback is possible. Its messages may be stored although the handle
  does not cover them, so a commit could leave some of the transaction out, and another message sent
  with the same handle would be taken for a repetition of the failed one;
- an exception that leaves a block says nothing about the local transaction, which may have
  committed before it. So it sends nothing, unless the program has chosen `on_error="rollback"` (or
  has no check, and nobody could answer), and then for an `Exception` only: a cancellation or Ctrl-C
  comes out of any line, out of the local commit too;
- of messages whose local transaction a barrier has recorded no rollback is sent unless it is
  sure that no record stands, nor will (`recorded`).
"""

import os
from collections.abc import Callable, Sequence
from enum import Enum

from halfhitch.client import given
from halfhitch.client.calls import Call, Calls, Operation
from halfhitch.client.errors import TransactionDoomed, TransactionEnded, TransactionMisused
from halfhitch.client.marks import Mark
from halfhitch.client.notes import note_undecided
from halfhitch.client.recorded import attempt
from halfhitch.client.values import Ended, Message, OnError, Prepared
from halfhitch.errors import HalfHitchError, OutcomeUnknown

#: How long leaving a block by an exception may be held up by the rollback. It is a courtesy:
#: a rollback that does not arrive is what the check-back settles.
LEAVING_DEADLINE_S = 2.0


class Phase(Enum):
    """Where a transaction object is."""

    OPEN = "open"
    DOOMED = "doomed"
    COMMITTING = "commit sent"
    ROLLING_BACK = "rollback sent"


class Leaving(Enum):
    """What goes out when a block is left."""

    NOTHING = "nothing"
    COMMIT = "commit"
    ROLLBACK = "rollback"


class Conversation:
    """One transaction as its producer sees it."""

    def __init__(
        self,
        calls: Calls,
        transaction_id: str,
        immunity_s: int | None,
        on_error: OnError = "rollback",
        *,
        has_check: bool = False,
        is_given: bool = True,
    ) -> None:
        """`is_given`: the id was, by the program."""
        self.group = calls.group
        self.transaction_id = given.transaction_id(transaction_id)
        self.handle: str | None = None
        self._phase = Phase.OPEN
        self._calls = calls
        self._immunity_s = immunity_s
        self._on_error = on_error
        self._has_check = has_check
        self._process_id = os.getpid()
        #: What a barrier tells of the local transaction.
        self.recorded = attempt(self.group, self.transaction_id, is_given=is_given)
        self._is_entered = False
        self._is_left = False
        #: None: it was never held.
        self._holder: Mark | None = None
        self._is_sealed = False
        #: A barrier has committed the local transaction, whatever becomes of the messages' commit.
        self.rows_stand = False
        #: How often messages were sent, stored or not.
        self.send_count = 0
        #: Called before each: a barrier counts them in the local transaction.
        self.watch_sends: Callable[[], None] = _nobody
        self._handles: set[str] = set()
        self._failure: BaseException | None = None
        self._refused: BaseException | None = None
        self._is_perhaps_stored = False
        #: What was called and never awaited (asyncio only), and how to be rid of it.
        self._unawaited: dict[object, tuple[str, Callable[[], None]]] = {}

    @property
    def phase(self) -> Phase:
        """Where it is."""
        if self._phase is Phase.OPEN and self._is_refused:
            return Phase.DOOMED
        return self._phase

    def next_send(self, messages: Sequence[Message]) -> Call[Prepared]:
        """Raises what is wrong with the messages; it dooms them all, for nobody may look at it."""
        self.recorded.used()
        self._require_open()
        if self._is_over:
            late = TransactionEnded(
                "the block of this transaction was left: begin a new one for further messages"
            )
            if self._is_sealed:  # the commit may be in line behind this
                self.send_failed(late)
            raise late
        if self._is_sealed:
            raise self._sealed()
        if messages:
            self.watch_sends()
            self.send_count += 1
        try:
            if self.handle is None:
                return self._calls.prepare(messages, self.transaction_id, self._immunity_s)
            return self._calls.add(self.handle, messages, self.transaction_id)
        except Exception as error:
            if messages:  # else none is missing
                self._phase, self._failure = Phase.DOOMED, error
            raise

    def require_unended(self) -> None:
        """As it is called, for what is called behind the end is perhaps never awaited.

        Starlette's background tasks take a call of ours for a plain function: they call it in a
        thread and drop what it returns.
        """
        if self._is_over:
            self._require_open()
        elif self._is_sealed:
            raise self._sealed()

    def _require_open(self) -> None:
        phase = self.phase  # once: it may change just now
        if phase is Phase.DOOMED:
            raise self._doomed()
        if phase is not Phase.OPEN:
            raise TransactionEnded(
                f"a {phase.value.split()[0]} of this transaction was already sent:"
                " begin a new transaction for further messages"
            )

    def sent(self, prepared: Prepared) -> None:
        """The messages are stored."""
        self.handle = prepared.handle
        self._handles.add(prepared.handle)

    def has_had(self, handle: str) -> bool:
        """It is this transaction's, of the last send or of an earlier one."""
        return handle in self._handles

    def send_failed(self, error: BaseException) -> None:
        """Refused, unknown, or abandoned."""
        if self.wants_end():  # else it was ended by handle meanwhile
            self._phase = Phase.DOOMED
        self._failure = error
        if isinstance(error, OutcomeUnknown) or not isinstance(error, HalfHitchError):
            self._is_perhaps_stored = True

    def send_refused(self, messages: Sequence[Message], error: BaseException) -> None:
        """Before its turn: refused where it was called, cancelled in line, struck by a handler."""
        if messages:  # else none is missing
            self._refuse(error)

    def _refuse(self, error: BaseException) -> None:
        """It may be another thread's, or a signal's handler in the midst of what is below.

        So no phase is changed, which may be changing just now: who ends the transaction looks. What
        came behind the local commit dooms nothing: the rows stand.
        """
        self._refused = error
        if self._is_sealed and not self._is_over:
            self._refused = None

    @property
    def _is_refused(self) -> bool:
        return self._refused is not None and (self._is_over or not self._is_sealed)

    def assert_can_commit(self) -> None:
        """Raises TransactionDoomed, TransactionEnded."""
        phase = self.phase
        if phase is Phase.DOOMED:
            raise self._doomed()
        if self._unawaited:
            raise self._forgotten()
        if phase is not Phase.OPEN:
            raise TransactionEnded(
                f"a {phase.value.split()[0]} of transaction {self.transaction_id} was already"
                " sent: roll the local transaction back and begin a new one. The local commit comes"
                " before the end of the messages, never after it"
            )

    def seal(self) -> None:
        """The local commit begins: `assert_can_commit`, and from now on nothing more is sent."""
        self.assert_can_commit()
        self._is_sealed = True
        refused = self._refused
        if refused is not None:  # just now: it may not have seen the seal
            self._phase, self._failure = Phase.DOOMED, refused
            raise self._doomed()

    def next_commit(self, *, wait_visible: bool) -> Call[Ended] | None:
        """None: nothing was ever sent, so there is nothing to commit."""
        if self.phase is Phase.DOOMED:
            raise self._doomed()
        if self._unawaited and not self.rows_stand:
            raise self._forgotten()
        if self.phase is Phase.ROLLING_BACK:
            raise TransactionEnded("a rollback of this transaction was already sent")
        self._require_local_end()
        is_first = self._phase is Phase.OPEN
        self._phase, self.recorded.is_over = Phase.COMMITTING, True
        if is_first and self._is_refused:  # just now; one that comes later is behind the commit
            self._phase, self._failure = Phase.DOOMED, self._refused
            raise self._doomed()
        if self.handle is None:
            return None
        return self._calls.end(
            Operation.COMMIT, self.handle, self.transaction_id, wait_visible=wait_visible
        )

    def next_rollback(self) -> Call[Ended] | None:
        """None: there is nothing that could be rolled back."""
        if self.phase is Phase.COMMITTING:
            raise TransactionEnded(
                "a commit of this transaction was already sent; it may stand even if its answer"
                " did not come, so it is not rolled back. Commit again to learn how it ended"
            )
        self._phase, self.recorded.is_over = Phase.ROLLING_BACK, True
        if self.handle is None:
            return None
        return self._calls.end(Operation.ROLLBACK, self.handle, self.transaction_id)

    def ends_by_handle(self, operation: Operation) -> None:
        """`producer.commit` or `rollback` of one of its handles is sent next: leaving sends none.

        Raises TransactionMisused as `tx.commit()` does. The rest the coordinator judges: who comes
        by handle may know more, as of a local commit behind which a send has failed.
        """
        if operation is Operation.COMMIT:
            self._require_local_end()
        else:
            self.require_uncommitted()
        if self.wants_end():
            is_commit = operation is Operation.COMMIT
            self._phase = Phase.COMMITTING if is_commit else Phase.ROLLING_BACK
            self.recorded.is_over = True

    def nothing_to_end(self, operation: Operation) -> Ended:
        """The end of a transaction without messages, of which the coordinator never heard."""
        state = "committed" if operation is Operation.COMMIT else "rolled_back"
        return Ended(self.transaction_id, state, visible=True)

    def wants_end(self) -> bool:
        """No end was begun yet."""
        return self.phase in (Phase.OPEN, Phase.DOOMED)

    def hold(self, mark: Mark) -> None:
        """A barrier's block begins: while the mark is held, nobody else ends the transaction."""
        self._holder = mark

    @property
    def is_held(self) -> bool:
        """By a barrier's block that is running."""
        return self._holder is not None and self._holder.is_held

    @property
    def _is_over(self) -> bool:
        """Its block was left: what is sent then has no row, and a check's COMMIT is about all."""
        return self._is_left or (self._holder is not None and not self.is_held)

    def require_unheld(self, what: str) -> None:
        """Raises TransactionMisused where a barrier ends the transaction.

        A rollback that was wanted is not followed by a commit, though the exception be swallowed.
        """
        if self.is_held:
            if "rollback" in what and self.phase is Phase.OPEN:
                self._refuse(self._unwanted(what))
            raise TransactionMisused(
                f"{what} inside a barrier's block: it would end the messages of transaction"
                f" {self.transaction_id} before its rows. Nothing was sent. Leave the block, and"
                " the barrier commits rows and messages; raise an exception in it to roll both back"
            )

    def enter(self) -> None:
        """On entering a block."""
        self.require_unheld("with tx")
        if self.phase is not Phase.OPEN or self._is_over:
            raise TransactionEnded("this transaction was already used: begin a new one")
        if self._is_entered:
            raise TransactionMisused(
                f"the block of transaction {self.transaction_id} is already running: a transaction"
                " has one block. For another transaction, inside this one too, call"
                " producer.transaction() again"
            )
        self._is_entered = True

    def leave(self, error: BaseException | None) -> Leaving:
        """What goes out when the block is left, by `error` or (None) at its end.

        Raises TransactionMisused when its local transaction was recorded and is still open.
        """
        self._is_left = self.recorded.is_over = True
        if not self.wants_end():
            return Leaving.NOTHING
        if error is None:
            try:
                self._require_local_end()
            except TransactionMisused as misused:
                # Whatever `on_error` says nothing goes out: there is a barrier, which will know.
                note_undecided(misused, self.transaction_id, has_check=self._has_check)
                raise
            self._is_sealed = True
            return Leaving.COMMIT
        if self.rolls_back(error) and (self.handle is None or self.recorded.may_roll_back()):
            return Leaving.ROLLBACK
        if self.handle is not None or self._is_perhaps_stored:
            note_undecided(error, self.transaction_id, has_check=self._has_check)
        return Leaving.NOTHING

    def rolls_back(self, error: BaseException) -> bool:
        """This is what the program has chosen for it."""
        return isinstance(error, Exception) and self._on_error == "rollback"

    def require_uncommitted(self) -> None:
        """Before a rollback by hand. Raises TransactionMisused where the rows may stand."""
        if self.wants_end() and self.handle is not None:
            self.recorded.require_uncommitted(self.transaction_id)

    def _require_local_end(self) -> None:
        """Raises TransactionMisused while one that was recorded is open.

        Of its own rows the barrier's block knows; what is noted is another attempt's, by hand.
        """
        if self.rows_stand:
            return
        if self.phase is Phase.OPEN and self.handle is not None:
            self.recorded.require_end(self.transaction_id)

    async def look(self, *, is_rollback: bool = False) -> None:
        """For asyncio, before an end: what that requires of a local transaction is awaited."""
        if self.wants_end() and self.handle is not None:
            await self.recorded.look(is_rollback=is_rollback)

    def require_process(self) -> None:
        """Raises TransactionMisused in a forked child."""
        require_process(self.transaction_id, self._process_id)

    def within_itself(self) -> TransactionMisused:
        """A thread may not wait for itself."""
        return TransactionMisused(
            f"transaction {self.transaction_id} is used while a call of it is running in this very"
            " thread, which would wait for itself: in a signal's handler, or in what the call has"
            " called. Note it there, and use the transaction when the call has returned; or raise"
            " an exception there, and the block is left"
        )

    def called(self, what: str, give_up: Callable[[], None]) -> object:
        """Something that must be awaited was called; the answer is its mark."""
        mark = object()
        self._unawaited[mark] = (what, give_up)
        return mark

    def awaited(self, mark: object) -> None:
        """It is under way."""
        self._unawaited.pop(mark, None)

    @property
    def has_unawaited(self) -> bool:
        """Something was called and is not under way."""
        return bool(self._unawaited)

    def forget_unawaited(self, *, are_closed: bool) -> None:
        """On leaving a block: what is still not under way never will be."""
        if not self._unawaited:
            return
        if self.phase is Phase.OPEN:
            self._phase = Phase.DOOMED
            self._failure = self._forgotten()
        for _, give_up in self._unawaited.values() if are_closed else ():
            give_up()
        self._unawaited.clear()

    def _forgotten(self) -> TransactionDoomed:
        what = ", ".join(what for what, _ in list(self._unawaited.values())[:3])
        return TransactionDoomed(
            f"{what} of transaction {self.transaction_id} was called without await, so nothing of"
            " it was carried out, and the transaction cannot be committed. Write `await` before the"
            " call, or await its task before the local commit"
        )

    def _sealed(self) -> TransactionEnded:
        return TransactionEnded(
            f"the local commit of transaction {self.transaction_id} has begun, so its messages are"
            " complete: one that is sent now, as in an after_commit hook, could be lost although"
            " the rows stand. It was not sent. Send it inside the block, in a before_commit hook at"
            " the latest, or in a transaction of its own behind it"
        )

    def _unwanted(self, what: str) -> TransactionDoomed:
        return TransactionDoomed(
            f"{what} was called inside the barrier's block of transaction {self.transaction_id},"
            " and its refusal was swallowed: rows and messages are both rolled back. Raise an"
            " exception in the block to do so"
        )

    def _doomed(self) -> TransactionDoomed:
        failure = self._failure if self._phase is Phase.DOOMED else self._refused
        if isinstance(failure, TransactionDoomed):
            return failure
        told = first_line(failure)
        doomed = TransactionDoomed(
            f"a message of transaction {self.transaction_id} could not be sent ({told}), so it"
            " cannot be committed: roll the local transaction back, let this exception leave the"
            " block, and begin a new one"
        )
        doomed.__cause__ = failure
        return doomed


def _nobody() -> None:
    """Watches."""


def require_process(transaction_id: str, process_id: int) -> None:
    """Raises TransactionMisused in a forked child of the process that has begun it."""
    if os.getpid() != process_id:
        raise TransactionMisused(
            f"transaction {transaction_id} was begun in process {process_id}, and this is its child"
            f" {os.getpid()}: only the process that began a transaction sends and ends it, or both"
            " would. Begin another one here"
        )


def held_already(transaction_id: str, what: str) -> TransactionMisused:
    """Another object, or none, for the transaction of a barrier's block that is running."""
    return TransactionMisused(
        f"{what} with the id {transaction_id} while a barrier's block with this id is running: it"
        " would end the block's messages from beside it, before its rows. Nothing was sent. Inside"
        " the block use the block's own tx; elsewhere take another id, or a barrier's block"
    )


def in_line(transaction_id: str) -> TransactionEnded:
    """A send of another thread that waits while the end of its transaction is being prepared."""
    return TransactionEnded(
        f"a message of another thread was still waiting to be sent when transaction"
        f" {transaction_id} came to its end, and is refused: join the threads before the local"
        " commit"
    )


def first_line(error: BaseException | None) -> str:
    """What an exception says, in one short line."""
    lines = str(error).splitlines()
    told = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return told if len(told) <= 200 else told[:199] + "…"
