"""A local transaction and its messages end together, in one block.

    with barrier.transaction(producer) as (tx, session): ...

What a block of the producer's own cannot know is settled here:

- the local *commit* failed: the rows may be there all the same (the connection broke after the
  database had done it);
- the program chose the id: an earlier attempt with it may have committed before its process died.
  That attempt may have sent more than this one, so nothing is decided with this one's handle: a
  check-back is about all that is stored;
- a message was not sent, and the program went on: then the rows must not be committed either.

Then the table tells, and where it cannot be asked either, nothing is decided: the check-back goes
on. No I/O of its own.

    the local commit succeeded                      messages committed
    it was not tried, and the id is new             messages rolled back
    it failed, and the table says committed         messages committed
    not tried, the table says committed (earlier)   nothing is sent
    else, it says fenced (so for good)              messages rolled back
    else                                            nothing is sent
"""

from enum import Enum
from typing import Protocol

from halfhitch.barrier.errors import (
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
)
from halfhitch.barrier.rules import log
from halfhitch.client.values import LocalTransactionState


class LocalWork(Protocol):
    """The database's side of a block."""

    @property
    def is_inherited(self) -> bool:
        """This is a forked child, and the local transaction is its parent's."""

    def record(self) -> None:
        """As the last statement of the local transaction."""

    def commit(self) -> None:
        """Commit it."""

    def drop(self) -> None:
        """Roll back what was not committed and let go of the connection."""

    def ask(self) -> LocalTransactionState:
        """Read the table, fencing what is not there."""


class Messages(Protocol):
    """The producer's side: a `Transaction`."""

    @property
    def id(self) -> str:
        """The transaction id."""

    def commit(self) -> object:
        """Let the messages be seen."""

    def assert_can_commit(self) -> None:
        """Raises when the messages could not follow the rows. Asks nobody."""

    def drop(self, error: BaseException) -> None:
        """The local transaction surely has not committed: a courtesy that must not take long."""


class Failure(Enum):
    """How far a block came; what is known without asking."""

    #: No commit was tried, and nobody else has used the id.
    CERTAIN = "certain"
    #: No commit was tried here; an earlier attempt may have committed.
    BEFORE_COMMIT = "before the commit"
    AT_COMMIT = "at the commit"


def before_commit(error: BaseException, *, is_new: bool) -> Failure:
    """A refused record says that the id was not so new."""
    refused = isinstance(error, TransactionRecordedTwice | TransactionFenced)
    return Failure.CERTAIN if is_new and not refused else Failure.BEFORE_COMMIT


def finish(local: LocalWork, messages: Messages, *, is_new: bool) -> None:
    """The block came to its end; `is_new`: the id was made for it."""
    try:
        messages.assert_can_commit()
        local.record()
    except BaseException as error:
        fail(local, messages, error, before_commit(error, is_new=is_new))
        raise
    try:
        local.commit()
    except BaseException as error:
        if fail(local, messages, error, Failure.AT_COMMIT):
            return
        raise
    messages.commit()


def fail(local: LocalWork, messages: Messages, error: BaseException, failure: Failure) -> bool:
    """Settle it; True when the block's own work is committed after all, so that nothing failed.

    A forked child that leaves its parent's block settles nothing: a word to the database would go
    over the parent's connection, and end the parent's local transaction.

    Raises LocalOutcomeUnknown.
    """
    if local.is_inherited:
        return False
    try:
        local.drop()
    except Exception as failed:  # noqa: BLE001 - a broken connection is rolled back by its server
        note_undropped(error, failed)
    state = LocalTransactionState.ROLLBACK if failure is Failure.CERTAIN else local.ask()
    if state is LocalTransactionState.ROLLBACK:
        messages.drop(error)
    elif commits(state, failure):
        messages.commit()
    return is_done(state, messages.id, error, failure)


def commits(state: LocalTransactionState, failure: Failure) -> bool:
    """Whether this attempt's handle may commit: for an earlier attempt it may leave some out."""
    return state is LocalTransactionState.COMMIT and failure is Failure.AT_COMMIT


def is_done(
    state: LocalTransactionState, transaction_id: str, error: BaseException, failure: Failure
) -> bool:
    """Whether the error can be forgotten. Raises LocalOutcomeUnknown."""
    if failure is Failure.AT_COMMIT and isinstance(error, Exception):  # a cancellation stays one
        if state is LocalTransactionState.COMMIT:
            log.warning(
                "transaction %s: its local commit failed (%s) and has taken place all the same, so"
                " its messages are committed",
                transaction_id,
                type(error).__name__,
                extra={"action": "barrier_committed_after_all"},
            )
            return True
        if state is LocalTransactionState.UNKNOWN:
            raise LocalOutcomeUnknown(transaction_id) from error
    if state is LocalTransactionState.UNKNOWN:
        error.add_note(
            f"Half Hitch: whether a local transaction {transaction_id} has committed could not be"
            " found out. Nothing was decided about its messages; the check-back will settle it."
        )
    elif commits(state, failure):
        error.add_note(
            f"Half Hitch: the local transaction {transaction_id} has committed all the same, so its"
            " messages were committed too."
        )
    elif state is LocalTransactionState.COMMIT:
        error.add_note(
            f"Half Hitch: an earlier local transaction {transaction_id} has committed. This attempt"
            " has changed no rows and decided nothing; the check-back commits all messages that"
            " were sent under this id."
        )
    return False


def note_undropped(error: BaseException, failed: BaseException) -> None:
    """The exception that ended the block stays the one that is raised."""
    error.add_note(f"Half Hitch: the local rollback failed too ({failed}).")
