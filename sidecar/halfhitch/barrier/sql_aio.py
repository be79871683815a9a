"""The barrier for asyncio: `AsyncBarrier` over SQLAlchemy's AsyncEngine.

It decides nothing: statements, rules and guards are the blocking barrier's, run in SQLAlchemy's
own way from tasks to blocking code (`run_sync`).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from halfhitch.barrier import guards, sql_guards, table
from halfhitch.barrier.block import (
    Failure,
    before_commit,
    commits,
    is_done,
    note_undropped,
)
from halfhitch.barrier.deadline import Watch
from halfhitch.barrier.deadline_aio import AsyncDeadline
from halfhitch.barrier.rules import KEEP_S, Checked, Question, Rules
from halfhitch.barrier.sql import Barrier
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import ConfigurationError, InvalidRequest

if TYPE_CHECKING:
    from halfhitch.client import AsyncTransaction, AsyncTransactionProducer


class AsyncBarrier:
    """`Barrier` for an AsyncEngine: the same arguments, methods and promises, to be awaited."""

    def __init__(
        self,
        engine: AsyncEngine,
        group: str,
        *,
        table: str = table.DEFAULT_TABLE,
        fence_after_s: float = 0.0,
        keep_s: float = KEEP_S,
        wait_s: float = 2.0,
    ) -> None:
        if not isinstance(engine, AsyncEngine):
            raise ConfigurationError(
                f"AsyncBarrier takes an AsyncEngine, not {type(engine).__name__} (for an Engine use"
                " Barrier)"
            )
        self._made_of = engine
        # SQLite's waits end by themselves. Cancelled, its connection would be closed in a task of
        # SQLAlchemy's; cancelled again with that one, as `asyncio.run` ends, both tell aiosqlite's
        # thread to stop, and one of them waits for its answer for ever.
        self._deadline = AsyncDeadline(wait_s, cancels=engine.dialect.name != "sqlite")
        self._rules = Rules(group, table, fence_after_s, keep_s, wait_s)
        self._barrier = Barrier(
            engine.sync_engine,
            group,
            table=table,
            fence_after_s=fence_after_s,
            keep_s=keep_s,
            wait_s=wait_s,
        )

    @property
    def group(self) -> str:
        """The producer group."""
        return self._rules.group

    @property
    def _engine(self) -> AsyncEngine:
        """With connections of this process only."""
        _ = self._barrier.engine
        return self._made_of

    async def create(self) -> None:
        """Create the table unless it is there."""
        try:
            async with self._engine.begin() as connection:
                await connection.run_sync(self._barrier.create_on)
        except DBAPIError:
            async with self._engine.begin() as connection:
                await connection.run_sync(self._barrier.create_on)

    async def record(self, session: AsyncSession | AsyncConnection, transaction_id: str) -> None:
        """See `Barrier.record`."""
        if not isinstance(session, AsyncSession | AsyncConnection):
            raise InvalidRequest(
                "record takes the AsyncSession or AsyncConnection of the local transaction, not"
                f" {type(session).__name__}"
            )
        await session.run_sync(self._barrier.record, transaction_id)

    async def check(self, check: Checked) -> LocalTransactionState:
        """See `Barrier.check`."""
        question = self._rules.question(check)
        if question is None:
            return LocalTransactionState.UNKNOWN
        return await self._ask(question)

    @asynccontextmanager
    async def transaction(
        self,
        producer: "AsyncTransactionProducer",
        transaction_id: str | None = None,
        *,
        session: AsyncSession | None = None,
        immunity_s: int | None = None,
    ) -> AsyncIterator[tuple["AsyncTransaction", AsyncSession]]:
        """See `Barrier.transaction`."""
        is_new = transaction_id is None
        self._rules.require_producer(producer, is_awaited=True)
        if session is not None:
            if not isinstance(session, AsyncSession):
                raise sql_guards.no_session("an AsyncSession", session)
            sql_guards.require_own_commit(session.sync_session)
        tx = producer.transaction(transaction_id, immunity_s=immunity_s)
        found = AsyncSession(self._engine) if session is None else session
        home = guards.Home()
        try:
            with sql_guards.in_block(found.sync_session):
                try:
                    yield tx, found
                except BaseException as error:
                    if not home.is_left(found):  # see `block.fail`
                        await self._fail(tx, found, error, before_commit(error, is_new=is_new))
                    raise
                if home.is_left(found):
                    tx.assert_can_commit()  # raises
                await self._finish(tx, found, is_new=is_new)
        finally:
            if session is None and not home.is_left(found):
                await found.close()

    async def purge(
        self, older_than_s: float | None = None, *, batch_count: int = 1_000, force: bool = False
    ) -> int:
        """See `Barrier.purge`."""
        age_s = self._rules.purge_age_s(older_than_s, batch_count, force=force)
        deleted, batch = 0, batch_count
        while batch >= batch_count:
            async with self._engine.begin() as connection:
                batch = await connection.run_sync(self._barrier.purge_on, age_s, batch_count)
            deleted += batch
        return deleted

    async def _finish(self, tx: "AsyncTransaction", session: AsyncSession, *, is_new: bool) -> None:
        """`block.finish`, awaited."""
        try:
            tx.assert_can_commit()
            await session.flush()
            await self.record(session, tx.id)
        except BaseException as error:
            await self._fail(tx, session, error, before_commit(error, is_new=is_new))
            raise
        try:
            await session.commit()
            sql_guards.require_committed(session.sync_session)
        except BaseException as error:
            if await self._fail(tx, session, error, Failure.AT_COMMIT):
                return
            raise
        await tx.commit()

    async def _fail(
        self, tx: "AsyncTransaction", session: AsyncSession, error: BaseException, failure: Failure
    ) -> bool:
        """`block.fail`, awaited."""
        try:
            await session.close()
        except Exception as failed:  # noqa: BLE001 - see there
            note_undropped(error, failed)
        state = LocalTransactionState.ROLLBACK
        if failure is not Failure.CERTAIN:
            state = await self._ask(Question(tx.id, is_own=True))
        if state is LocalTransactionState.ROLLBACK:
            await tx.drop(error)
        elif commits(state, failure):
            await tx.commit()
        return is_done(state, tx.id, error, failure)

    async def _ask(self, question: Question) -> LocalTransactionState:
        async def ask(watch: Watch) -> LocalTransactionState:
            async with self._engine.connect() as connection:
                return await connection.run_sync(self._barrier.decide_on, question, watch)

        try:
            return await self._deadline.run_task(ask)
        except Exception as error:  # noqa: BLE001 - UNKNOWN is the answer to everything else
            return self._rules.failed(question, error)
