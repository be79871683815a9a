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
on. No I/O: what is done about it is in `block`, for threads and for asyncio.

    the local commit succeeded                      messages committed
    it was not tried, and the id is new             messages rolled back
    it failed, and the table says committed         messages committed
    it was not begun, and the table says committed  messages committed; the exception goes on
    the same, under an id of the program's own      nothing is sent
    not tried, the table says committed (earlier)   nothing is sent
    else, it says fenced (so for good)              messages rolled back
    else                                            nothing is sent
"""

import sys
from collections.abc import Callable
from enum import Enum

from halfhitch.barrier.errors import (
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
)
from halfhitch.barrier.rules import log
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import RequestError


class Failure(Enum):
    """How far a block came; what is known without asking."""

    #: No commit was tried, and nobody else has used the id.
    CERTAIN = "certain"
    #: No commit was tried here; an earlier attempt may have committed.
    BEFORE_COMMIT = "before the commit"
    AT_COMMIT = "at the commit"
    #: The same, by what was refused in a hook behind it: the program has to hear of that.
    REFUSED = "refused at the commit"
    #: Something failed between the record and the database's commit, as a hook of the program's.
    #: A row that is there all the same was committed by the program: what came then is not.
    BEHIND_RECORD = "behind the record"
    #: The same as these, of an id that the program chose: the row may be an earlier attempt's.
    AT_COMMIT_AGAIN = "at the commit, under an id of the program's own"


def before_commit(error: BaseException, *, is_new: bool) -> Failure:
    """A refused record says that the id was not so new."""
    refused = isinstance(error, TransactionRecordedTwice | TransactionFenced)
    return Failure.CERTAIN if is_new and not refused else Failure.BEFORE_COMMIT


class LocalCommit:
    """To be called when the database's commit begins, and nothing of the program's runs before."""

    def __init__(self, seal: Callable[[], None]) -> None:
        self._seal = seal
        self._is_begun = False
        self._handled = sys.exception()

    def __call__(self) -> None:
        """No message is taken any more. Raises when those that are could not follow the rows."""
        self._seal()
        self._is_begun = True

    def failure(self, error: BaseException, *, is_new: bool) -> Failure:
        """Of it. A row says that its id has committed, and not in which attempt."""
        if not is_new:
            return Failure.AT_COMMIT_AGAIN
        if not self._is_begun:
            return Failure.BEHIND_RECORD
        return Failure.REFUSED if self._was_refused(error) else Failure.AT_COMMIT

    def _was_refused(self, error: BaseException) -> bool:
        """By us, of the program's misuse: rows behind a commit of its own, or a late message.

        The error may be a framework's, around what a hook has raised. What was being handled
        before is none of it.
        """
        looked_at = {id(self._handled)}
        coming: list[BaseException | None] = [error]
        while coming:
            found = coming.pop()
            if found is None or id(found) in looked_at:
                continue
            if isinstance(found, RequestError):
                return True
            looked_at.add(id(found))
            coming += [found.__cause__, found.__context__, *getattr(found, "exceptions", ())]
        return False


def commits(state: LocalTransactionState, failure: Failure) -> bool:
    """Whether this attempt's handle may commit: for an earlier attempt it may leave some out."""
    is_own = failure in (Failure.AT_COMMIT, Failure.REFUSED, Failure.BEHIND_RECORD)
    return state is LocalTransactionState.COMMIT and is_own


def is_done(
    state: LocalTransactionState, transaction_id: str, error: BaseException, failure: Failure
) -> bool:
    """Whether the error can be forgotten. Raises LocalOutcomeUnknown."""
    if isinstance(error, Exception):  # a cancellation stays one
        if state is LocalTransactionState.COMMIT and failure is Failure.AT_COMMIT:
            log.warning(
                "transaction %s: its local commit failed (%s) and has taken place all the same, so"
                " its messages are committed",
                transaction_id,
                type(error).__name__,
                extra={"action": "barrier_committed_after_all"},
            )
            return True
        is_recorded = failure not in (Failure.CERTAIN, Failure.BEFORE_COMMIT)
        if state is LocalTransactionState.UNKNOWN and is_recorded:
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
        if failure is Failure.BEHIND_RECORD:
            error.add_note(
                "Half Hitch: that was a commit of the program's own behind the record, in a hook"
                " (before_commit). What came after it was rolled back. Leave the commit to the"
                " block."
            )
    elif state is LocalTransactionState.COMMIT and failure is Failure.AT_COMMIT_AGAIN:
        error.add_note(
            f"Half Hitch: a local transaction {transaction_id} has committed: this attempt's, or an"
            " earlier one's, and then this one has changed no rows. Nothing was decided; the"
            " check-back commits all messages that were sent under this id."
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
