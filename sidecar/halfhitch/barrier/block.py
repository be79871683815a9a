# Made of block_aio.py by tools/blocking.py: change that one, then `make format`.
"""What is done at the end of a block; `ends` has the reasons. No I/O of its own."""

from collections.abc import Callable
from typing import Protocol

from halfhitch.barrier.ends import (
    Failure,
    LocalCommit,
    before_commit,
    commits,
    is_done,
    note_undropped,
)
from halfhitch.client.marks import Mark
from halfhitch.client.values import LocalTransactionState


class LocalWork(Protocol):
    """The database's side of a block."""

    @property
    def is_inherited(self) -> bool:
        """This is a forked child, and the local transaction is its parent's."""

    def record(self) -> None:
        """As the last statement of the local transaction."""

    def commit(self, before: Callable[[], None]) -> None:
        """Commit it; `before` is called when nothing of the program's own runs any more."""

    def drop(self) -> None:
        """Roll back what was not committed and let go of the connection."""

    def ask(self) -> LocalTransactionState:
        """Read the table, fencing what is not there."""


class Messages(Protocol):
    """The producer's side: `Transaction`."""

    @property
    def id(self) -> str:
        """The transaction id."""

    def follow(self) -> object:
        """The rows are committed: let the messages be seen."""

    def hold(self, mark: Mark) -> None:
        """As long as the mark is held nobody else ends them."""

    def assert_can_commit(self) -> None:
        """Raises when the messages could not follow the rows. Asks nobody."""

    def seal(self) -> None:
        """The same, when the local commit begins: from now on no message is taken."""

    def drop(self, error: BaseException) -> None:
        """The local transaction surely has not committed: a courtesy that must not take long."""


def finish(local: LocalWork, messages: Messages, *, is_new: bool) -> None:
    """The block came to its end; `is_new`: the id was made for it."""
    try:
        messages.assert_can_commit()
        local.record()
        messages.assert_can_commit()  # it flushes: hooks of the program's may have sent
    except BaseException as error:
        fail(local, messages, error, before_commit(error, is_new=is_new))
        raise
    commit = LocalCommit(messages.seal)
    try:
        local.commit(commit)
    except BaseException as error:
        if fail(local, messages, error, commit.failure(error, is_new=is_new)):
            return
        raise
    messages.follow()


def fail(local: LocalWork, messages: Messages, error: BaseException, failure: Failure) -> bool:
    """Settle it; True when the block's own work is committed after all, so that nothing failed.

    A forked child that leaves its parent's block settles nothing: a word to the database would go
    over the parent's connection, and end the parent's local transaction.

    Raises LocalOutcomeUnknown.
    """
    if local.is_inherited:
        return False
    drop(local, error)
    state = LocalTransactionState.ROLLBACK if failure is Failure.CERTAIN else local.ask()
    if state is LocalTransactionState.ROLLBACK:
        messages.drop(error)
    elif commits(state, failure):
        messages.follow()
    return is_done(state, messages.id, error, failure)


def drop(local: LocalWork, error: BaseException) -> None:
    """Because of `error`, which stays the one that is raised."""
    try:
        local.drop()
    except Exception as failed:  # noqa: BLE001 - a broken connection is rolled back by its server
        note_undropped(error, failed)
