# block.py is made of this by tools/blocking.py.
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


class AsyncLocalWork(Protocol):
    """The database's side of a block."""

    @property
    def is_inherited(self) -> bool:
        """This is a forked child, and the local transaction is its parent's."""

    async def record(self) -> None:
        """As the last statement of the local transaction."""

    async def commit(self, before: Callable[[], None]) -> None:
        """Commit it; `before` is called when nothing of the program's own runs any more."""

    async def drop(self) -> None:
        """Roll back what was not committed and let go of the connection."""

    async def ask(self) -> LocalTransactionState:
        """Read the table, fencing what is not there."""


class AsyncMessages(Protocol):
    """The producer's side: `AsyncTransaction`."""

    @property
    def id(self) -> str:
        """The transaction id."""

    async def follow(self) -> object:
        """The rows are committed: let the messages be seen."""

    def hold(self, mark: Mark) -> None:
        """As long as the mark is held nobody else ends them."""

    def assert_can_commit(self) -> None:
        """Raises when the messages could not follow the rows. Asks nobody."""

    def seal(self) -> None:
        """The same, when the local commit begins: from now on no message is taken."""

    async def drop(self, error: BaseException) -> None:
        """The local transaction surely has not committed: a courtesy that must not take long."""


async def finish(local: AsyncLocalWork, messages: AsyncMessages, *, is_new: bool) -> None:
    """The block came to its end; `is_new`: the id was made for it."""
    try:
        messages.assert_can_commit()
        await local.record()
        messages.assert_can_commit()  # it flushes: hooks of the program's may have sent
    except BaseException as error:
        await fail(local, messages, error, before_commit(error, is_new=is_new))
        raise
    commit = LocalCommit(messages.seal)
    try:
        await local.commit(commit)
    except BaseException as error:
        if await fail(local, messages, error, commit.failure(error, is_new=is_new)):
            return
        raise
    await messages.follow()


async def fail(
    local: AsyncLocalWork, messages: AsyncMessages, error: BaseException, failure: Failure
) -> bool:
    """Settle it; True when the block's own work is committed after all, so that nothing failed.

    A forked child that leaves its parent's block settles nothing: a word to the database would go
    over the parent's connection, and end the parent's local transaction.

    Raises LocalOutcomeUnknown.
    """
    if local.is_inherited:
        return False
    await drop(local, error)
    state = LocalTransactionState.ROLLBACK if failure is Failure.CERTAIN else await local.ask()
    if state is LocalTransactionState.ROLLBACK:
        await messages.drop(error)
    elif commits(state, failure):
        await messages.follow()
    return is_done(state, messages.id, error, failure)


async def drop(local: AsyncLocalWork, error: BaseException) -> None:
    """Because of `error`, which stays the one that is raised."""
    try:
        await local.drop()
    except Exception as failed:  # noqa: BLE001 - a broken connection is rolled back by its server
        note_undropped(error, failed)
