# sql.py is made of this by tools/blocking.py, which puts in what stands behind `#|`.
#| """The barrier for SQLAlchemy 2.
#|
#| `record` runs on the application's connection and is part of its transaction. Checks, purges and
#| the creation of the table take connections of their own from the engine; in a forked child they
#| are the child's own.
#| """
# asyncio only
"""The barrier for asyncio: `AsyncBarrier` over SQLAlchemy's AsyncEngine.

It decides nothing: statements, rules and guards are the blocking barrier's, run in SQLAlchemy's
own way from tasks to blocking code (`run_sync`).
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy.exc import DBAPIError

# asyncio only
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from halfhitch.barrier import guards, sql_guards, sql_recorded, table
from halfhitch.barrier.block_aio import drop
from halfhitch.barrier.deadline import Watch

# asyncio only
from halfhitch.barrier.deadline_aio import AsyncDeadline
from halfhitch.barrier.errors import stands
from halfhitch.barrier.rules import KEEP_S, Checked, Question, Rules
from halfhitch.barrier.sql_home import HomeEngine
from halfhitch.barrier.sql_rows import Rows
from halfhitch.barrier.statement_aio import AsyncBlock
from halfhitch.barrier.told import Look, Told, refused
from halfhitch.client import recorded
from halfhitch.client.marks import Mark
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import ConfigurationError, InvalidRequest

#| from halfhitch.barrier.deadline import Deadline
#| from sqlalchemy.engine import Connection, Engine
#| from sqlalchemy.orm import Session, scoped_session
#| from typing import Any
if TYPE_CHECKING:
    from halfhitch.client import AsyncTransaction, AsyncTransactionProducer

#| Given: TypeAlias = Session | scoped_session[Any]
# asyncio only
Given: TypeAlias = AsyncSession


class AsyncBarrier:
    #| """Records local transactions of one producer group and answers its checks.
    #|
    #| fence_after_s: until a transaction is so old, one without a record is answered UNKNOWN; then,
    #|     by default at once, it is fenced and answered ROLLBACK.
    #| keep_s: how long rows are kept at least; a transaction of about that age that has none is
    #|     answered UNKNOWN.
    #| wait_s: how long a check may take; then it is answered UNKNOWN.
    #| """
    # asyncio only
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
            #| raise ConfigurationError(
            #|     f"Barrier takes an Engine, not {type(engine).__name__}: a check needs"
            #|     " connections of its own (for an AsyncEngine use AsyncBarrier)"
            #| )
            # asyncio only
            raise ConfigurationError(
                f"AsyncBarrier takes an AsyncEngine, not {type(engine).__name__} (for an Engine use"
                " Barrier)"
            )
        sql_guards.require_pool(engine.pool)
        self._rules = Rules(group, table, fence_after_s, keep_s, wait_s)
        self._made_of = engine
        self._home = HomeEngine(engine.sync_engine)
        #| self._deadline = Deadline(wait_s)
        # asyncio only
        self._deadline = AsyncDeadline(wait_s, cancels=_cancels(engine.dialect.name))
        self._rows = Rows(self._rules, self._home, engine.dialect.name)

    @property
    def group(self) -> str:
        """The producer group."""
        return self._rules.group

    @property
    def _engine(self) -> AsyncEngine:
        """With connections of this process only."""
        self._home.here()
        return self._made_of

    async def create(self) -> None:
        """Create the table unless it is there."""
        try:
            async with self._engine.begin() as connection:
                await connection.run_sync(self._rows.create)
        except DBAPIError:  # two processes create it at once, and one found it half done
            async with self._engine.begin() as connection:
                await connection.run_sync(self._rows.create)

    async def record(self, session: Given | AsyncConnection, transaction_id: str) -> None:
        """Note, as part of the local transaction, that this id has committed.

        Raises TransactionFenced or TransactionRecordedTwice; the local transaction is rolled back
        then, whatever the caller does with the exception. Raises InvalidRequest inside a savepoint
        and in autocommit mode.
        """
        try:
            #| by_hand = self._rows.record(session, transaction_id)
            # asyncio only
            by_hand = await self._record(session, transaction_id)
        except BaseException as error:
            self._note_refused(session, transaction_id, is_known=stands(error))
            raise
        if by_hand is None:
            return

        look = Look(by_hand.number)

        async def state(wanted: LocalTransactionState) -> recorded.Local:
            seen = by_hand.seen(wanted)
            return seen or by_hand.judged(await self._told(transaction_id, look))

        #| settle = self._settle(transaction_id)
        #| word = recorded.Word(
        #|     state, settle=settle, is_proven=by_hand.is_proven, reason=look.reason
        #| )
        # asyncio only: a blocking producer cannot await it
        word = recorded.Word(
            lambda _: by_hand.seen() or recorded.Local.UNASKED,
            state,
            settle_awaited=self._settle(transaction_id),
            is_proven=by_hand.is_proven,
            reason=look.reason,
        )
        recorded.note(self.group, transaction_id, word)

    # asyncio only
    async def _record(
        self, session: AsyncSession | AsyncConnection, transaction_id: str
    ) -> sql_recorded.ByHand | None:
        if not isinstance(session, AsyncSession | AsyncConnection):
            raise InvalidRequest(
                "record takes the AsyncSession or AsyncConnection of the local transaction, not"
                f" {type(session).__name__}"
            )
        return await session.run_sync(self._rows.record, transaction_id)

    def _note_refused(self, session: object, transaction_id: str, *, is_known: bool) -> None:
        """`is_known`: that a record stands. Of its own the barrier's block knows what became."""
        # asyncio only
        session = getattr(session, "sync_session", session)
        if sql_guards.is_ending_block(session):
            return

        look = Look()

        async def state(_: LocalTransactionState) -> recorded.Local:
            told = Told.UNREAD if is_known else await self._told(transaction_id, look)
            return refused(told, is_known=is_known)

        #| settle = self._settle(transaction_id)
        #| word = recorded.Word(state, settle=settle, reason=look.reason)
        # asyncio only: a blocking producer cannot await it
        word = recorded.Word(
            lambda _: refused(Told.UNREAD, is_known=is_known),
            state,
            settle_awaited=self._settle(transaction_id),
            reason=look.reason,
        )
        recorded.note(self.group, transaction_id, word, is_refused=True)

    def _settle(self, transaction_id: str) -> Callable[[], Awaitable[LocalTransactionState]]:
        """Before a rollback: what a check would be answered, by a fence if need be."""
        return lambda: self.ask(Question(transaction_id, is_own=True))

    async def check(self, check: Checked) -> LocalTransactionState:
        """What became of the local transaction; for a producer's `check` or a listener.

        Raises nothing: whatever goes wrong is in the log and the answer is UNKNOWN.
        """
        question = self._rules.question(check)
        if question is None:
            return LocalTransactionState.UNKNOWN
        return self._rules.told(await self.ask(question))

    def transaction(
        self,
        producer: "AsyncTransactionProducer",
        transaction_id: str | None = None,
        *,
        session: Given | None = None,
        immunity_s: int | None = None,
    ) -> AbstractAsyncContextManager[tuple["AsyncTransaction", AsyncSession]]:
        """Messages and rows that end together: leaving commits both, an exception neither.

        The id is recorded and the session committed at the end of the block; who commits or rolls
        back inside is refused (InvalidRequest). A given `session` is left open, for further use.

        When the local commit fails, the table is asked whether it took place after all. If it
        cannot be asked, LocalOutcomeUnknown is raised and the check-back settles it. With a given
        `transaction_id` the table is also asked for an earlier attempt: before the block, which is
        not begun if there is a row (TransactionRecordedTwice, TransactionFenced), and when it
        raises.
        """
        return AsyncBlock(lambda: self._begun(producer, transaction_id, session, immunity_s))

    def _begun(
        self,
        producer: "AsyncTransactionProducer",
        transaction_id: str | None,
        session: Given | None,
        immunity_s: int | None,
    ) -> "_AsyncSessionWork":
        #| self._rules.require_producer(producer, is_awaited=False)
        # asyncio only
        self._rules.require_producer(producer, is_awaited=True)
        given = None if session is None else _session_of(session)
        if given is not None:
            sql_guards.require_own_commit(given.sync_session)
        tx = producer.transaction(transaction_id, immunity_s=immunity_s)
        found = AsyncSession(self._engine) if given is None else given
        key = self._rows.full_key(tx.id)
        watched = sql_guards.SessionInBlock(found.sync_session, session, key, lambda: tx.send_count)
        return _AsyncSessionWork(
            self, tx, found, watched, is_new=transaction_id is None, is_given=given is not None
        )

    async def purge(
        self, older_than_s: float | None = None, *, batch_count: int = 1_000, force: bool = False
    ) -> int:
        """Delete this group's rows that are older than `keep_s`, in batches; how many they were.

        A younger age is refused unless forced: see docs/barrier.md.
        """
        age_s = self._rules.purge_age_s(older_than_s, batch_count, force=force)
        deleted, batch = 0, batch_count
        while batch >= batch_count:
            async with self._engine.begin() as connection:
                batch = await connection.run_sync(self._rows.purge, age_s, batch_count)
            deleted += batch
        return deleted

    async def require_first(self, transaction_id: str) -> None:
        """For this package: see `Rules.require_first`. On a connection of its own.

        Never over the session's, for all that the pool may have no other one. Its snapshot may be
        older than the earlier attempt's row. At SERIALIZABLE a read that finds nothing collides
        with the rows that others record. And it may see a row that is not committed.
        """

        async def look(watch: Watch) -> None:
            async with self._engine.connect() as connection:
                await connection.run_sync(self._rows.require_first, transaction_id, watch)

        with self._rules.first_or_unread(transaction_id):
            await self._deadline.run_task(look)

    async def _told(self, transaction_id: str, look: Look) -> Told:
        """Of the record, by the table."""

        async def read(watch: Watch) -> Told:
            async with self._engine.connect() as connection:
                return await connection.run_sync(self._rows.told, transaction_id, look, watch)

        try:
            return await self._deadline.run_task(read)
        except Exception as error:  # noqa: BLE001 - nobody knows, then
            return look.failed(error)

    async def ask(self, question: Question) -> LocalTransactionState:
        """For this package: on a connection of its own, in time."""

        async def decide(watch: Watch) -> LocalTransactionState:
            async with self._engine.connect() as connection:
                return await connection.run_sync(self._rows.decide, question, watch)

        try:
            return await self._deadline.run_task(decide)
        except Exception as error:  # noqa: BLE001 - UNKNOWN is the answer to everything else
            return self._rules.failed(question, error)


class _AsyncSessionWork:
    """A block's session, as `block` wants it."""

    def __init__(
        self,
        barrier: AsyncBarrier,
        messages: "AsyncTransaction",
        session: AsyncSession,
        watched: sql_guards.SessionInBlock,
        *,
        is_new: bool,
        is_given: bool,
    ) -> None:
        self.messages = messages
        self.local = session
        self.is_new = is_new
        self._is_given = is_given
        self._barrier = barrier
        self._id = messages.id
        self._watched = watched
        self._home = guards.Home()

    @property
    def is_inherited(self) -> bool:
        """In a forked child."""
        return self._home.is_left(self.local)

    @property
    def is_open(self) -> bool:
        """The session has not ended what this block is working in."""
        return self._watched.is_open

    async def begin(self, mark: Mark) -> None:
        """An earlier attempt first; then nothing of this block's may be committed, either."""
        if not self.is_new:
            try:
                await self._barrier.require_first(self._id)
            except BaseException as error:
                await drop(self, error)
                raise
        self._watched.enter(mark)

    async def use(self) -> None:
        """Marks the transaction of a session that was used before."""
        session = self.local
        await session.run_sync(self._watched.begin)

    async def record(self) -> None:
        """All the work first: what the database refuses shows before the note is made."""
        session = self.local
        await session.flush()
        await session.run_sync(sql_recorded.require_one, self._watched)
        await self._barrier.record(session, self._id)

    async def commit(self, before: Callable[[], None]) -> None:
        """Rows and record."""
        session = self.local
        await session.run_sync(sql_recorded.call_before_commit, before)
        self._watched.expect_commit()
        await session.commit()
        self._watched.require_committed()

    async def drop(self) -> None:
        """Its connection goes back to the pool, where the barrier may need it."""
        session = self.local
        try:
            await session.run_sync(self._watched.leave)
            await session.run_sync(sql_guards.give_up_failed)
        finally:
            await session.close()
            if session.in_transaction():  # of a class whose close() does something else
                await session.rollback()

    async def close(self) -> None:
        """A session that was given is left as it is."""
        if not self._is_given and not self.is_inherited:
            await self.local.close()
        self._watched.forget()

    async def ask(self) -> LocalTransactionState:
        """Of the table."""
        return await self._barrier.ask(Question(self._id, is_own=True))


#| _session_of = sql_guards.session_of
# asyncio only
def _session_of(session: AsyncSession) -> AsyncSession:
    if not isinstance(session, AsyncSession):
        raise sql_guards.no_session("an AsyncSession", session)
    return session


# asyncio only
def _cancels(dialect: str) -> bool:
    """Whether to cancel a check whose time is over.

    SQLite's waits end by themselves. Cancelled, its connection would be closed in a task of
    SQLAlchemy's; cancelled again with that one, as `asyncio.run` ends, both tell aiosqlite's thread
    to stop, and one of them waits for its answer for ever.
    """
    return dialect != "sqlite"
