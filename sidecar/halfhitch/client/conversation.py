"""The course of one transaction object: which call comes next, and when none may.

Shared by both shells; no I/O.

Invariants:
- the transaction id is fixed before the first call, and the newest handle replaces the older ones;
- calls follow one another (the shells hold a lock around each): an add is only idempotent
  with the handle it was first sent with;
- once a commit was begun, no rollback is made here, whatever became of the commit;
- after any failed send only a rollback is possible. Its messages may be stored although the handle
  does not cover them, so a commit could leave some of the transaction out, and another message sent
  with the same handle would be taken for a repetition of the failed one.
"""

from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

from halfhitch.client.calls import Call, Calls, Operation
from halfhitch.client.errors import TransactionDoomed, TransactionEnded
from halfhitch.client.values import (
    Ended,
    LocalTransactionState,
    Message,
    Prepared,
    SendResult,
)
from halfhitch.errors import ConfigurationError, HalfHitchError, InvalidRequest

L = TypeVar("L")

#: How long leaving a block by an exception may be held up by the rollback. It is a courtesy:
#: a rollback that does not arrive is what the check-back settles.
LEAVING_DEADLINE_S = 2.0


class Phase(Enum):
    """Where a transaction object is."""

    OPEN = "open"
    DOOMED = "doomed"
    COMMITTING = "commit sent"
    ROLLING_BACK = "rollback sent"


class Conversation:
    """One transaction as its producer sees it."""

    def __init__(self, calls: Calls, transaction_id: str, immunity_s: int | None) -> None:
        self.transaction_id = transaction_id
        self.handle: str | None = None
        self.phase = Phase.OPEN
        self._calls = calls
        self._immunity_s = immunity_s

    def next_send(self, messages: Sequence[Message]) -> Call[Prepared]:
        """Raises what is wrong with the messages before anything has happened."""
        if self.phase is Phase.DOOMED:
            raise _doomed()
        if self.phase is not Phase.OPEN:
            raise TransactionEnded(
                f"a {self.phase.value.split()[0]} of this transaction was already sent:"
                " begin a new transaction for further messages"
            )
        if self.handle is None:
            return self._calls.prepare(messages, self.transaction_id, self._immunity_s)
        return self._calls.add(self.handle, messages, self.transaction_id)

    def sent(self, prepared: Prepared) -> None:
        """The messages are stored."""
        self.handle = prepared.handle

    def send_failed(self) -> None:
        """Refused, unknown, or abandoned."""
        self.phase = Phase.DOOMED

    def next_commit(self, *, wait_visible: bool) -> Call[Ended] | None:
        """None: nothing was ever sent, so there is nothing to commit."""
        if self.phase is Phase.DOOMED:
            raise _doomed()
        if self.phase is Phase.ROLLING_BACK:
            raise TransactionEnded("a rollback of this transaction was already sent")
        self.phase = Phase.COMMITTING
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
        self.phase = Phase.ROLLING_BACK
        if self.handle is None:
            return None
        return self._calls.end(Operation.ROLLBACK, self.handle, self.transaction_id)

    def nothing_to_end(self, operation: Operation) -> Ended:
        """The end of a transaction without messages, of which the coordinator never heard."""
        state = "committed" if operation is Operation.COMMIT else "rolled_back"
        return Ended(self.transaction_id, state, visible=True)

    def wants_rollback(self) -> bool:
        """On leaving a block by an exception."""
        return self.phase in (Phase.OPEN, Phase.DOOMED)

    def enter(self) -> None:
        """On entering a block."""
        if self.phase is not Phase.OPEN:
            raise TransactionEnded("this transaction was already used: begin a new one")


def check_limits(deadline_s: float, connections_max: int, check_workers: int) -> None:
    """Of a new producer. Raises ConfigurationError."""
    if not deadline_s > 0:
        raise ConfigurationError(f"deadline_s is {deadline_s}: give a call some seconds, e.g. 10")
    if connections_max < 1:
        raise ConfigurationError(f"connections_max is {connections_max}: it takes at least 1")
    if check_workers < 1:
        raise ConfigurationError(
            f"check_workers is {check_workers}: it takes at least 1. To answer no checks, say so"
            " with answers_checks=False"
        )


def require_listener(listener: L | None) -> L:
    """Raises InvalidRequest."""
    if listener is None:
        raise InvalidRequest(
            "send_message_in_transaction runs the listener's local transaction, and this producer"
            " has no listener: make it with listener=..."
        )
    return listener


def no_check() -> InvalidRequest:
    """There is nothing that could be asked."""
    return InvalidRequest(
        "this producer cannot answer checks: make it with check=... (a function that takes a Check)"
        " or with a listener that has check_local_transaction"
    )


def _doomed() -> TransactionDoomed:
    return TransactionDoomed(
        "a message of this transaction could not be sent, so it cannot be committed: roll it back"
        " (leaving the block does) and begin a new one"
    )


def note_failed_rollback(original: BaseException, error: HalfHitchError) -> None:
    """The exception that left the block stays the one that is raised."""
    original.add_note(
        f"Half Hitch: the transaction's rollback failed too ({error}). Its messages stay"
        " invisible; the check-back will settle it."
    )


def result_of(prepared: Prepared, told: object) -> SendResult:
    """What the listener said; anything that is not a state is UNKNOWN, as in RocketMQ."""
    if isinstance(told, LocalTransactionState):
        return SendResult(prepared.transaction_id, prepared.handle, told, None)
    error = TypeError(
        f"execute_local_transaction must return a LocalTransactionState, not {type(told).__name__}"
    )
    return failed_result(prepared, error)


def failed_result(prepared: Prepared, error: Exception) -> SendResult:
    """The local transaction's fate is not known: say so in the log, send no decision."""
    import logging

    logging.getLogger("halfhitch.client").error(
        "local transaction of %s: state unknown, no decision sent; the check-back will ask",
        prepared.transaction_id,
        exc_info=error,
        extra={"action": "local_transaction_unknown"},
    )
    return SendResult(
        prepared.transaction_id, prepared.handle, LocalTransactionState.UNKNOWN, error
    )
