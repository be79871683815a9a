"""AsyncBarrier on PostgreSQL and SQLite: the promises of the blocking one, awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from halfhitch.barrier import (
    AsyncBarrier,
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
)
from halfhitch.client import LocalTransactionState
from halfhitch.errors import ConfigurationError, InvalidRequest
from harness.barriers import ENOUGH_S, GROUP, asked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN


@pytest.fixture(params=["postgres", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    if request.param == "sqlite":
        made = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")

        @event.listens_for(made.sync_engine, "connect")
        def write_ahead(connection: Any, _: Any) -> None:
            cursor = connection.cursor()
            cursor.execute("PRAGMA journal_mode=WAL")
            cursor.close()
    else:
        made = create_async_engine(request.getfixturevalue("postgres").url)
    async with made.begin() as connection:
        for statement in (
            "DROP TABLE IF EXISTS shop_orders",
            "DROP TABLE IF EXISTS halfhitch_barrier",
            "CREATE TABLE shop_orders (id VARCHAR(64) PRIMARY KEY)",
        ):
            await connection.execute(text(statement))
    yield made
    await made.dispose()


@pytest.fixture
async def barrier(engine: AsyncEngine) -> AsyncBarrier:
    made = AsyncBarrier(engine, GROUP, wait_s=ENOUGH_S)
    await made.create()
    return made


async def insert(session: AsyncSession, transaction_id: str) -> None:
    await session.execute(text(f"INSERT INTO shop_orders (id) VALUES ('{transaction_id}')"))


async def orders(engine: AsyncEngine) -> set[str]:
    async with engine.connect() as connection:
        return set(await connection.scalars(text("SELECT id FROM shop_orders")))


class Transaction:
    """A producer's transaction that only remembers how it was ended."""

    def __init__(self, transaction_id: str) -> None:
        self.id = transaction_id
        self.ends: list[str] = []
        #: Why it cannot be committed.
        self.doomed: Exception | None = None
        self.on_commit: Callable[[], None] = lambda: None

    async def commit(self) -> None:
        self.on_commit()
        self.ends.append("commit")

    def assert_can_commit(self) -> None:
        assert self.ends == []
        if self.doomed is not None:
            raise self.doomed

    async def drop(self, error: BaseException) -> None:
        self.ends.append("rollback")


class Producer:
    """A producer whose messages go nowhere."""

    def __init__(self) -> None:
        self.made: list[Transaction] = []

    def transaction(self, transaction_id: str | None = None, **_: Any) -> Transaction:
        self.made.append(Transaction(transaction_id or "a"))
        return self.made[-1]

    @property
    def ends(self) -> list[str]:
        return self.made[0].ends


async def test_a_committed_record_is_answered_commit(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await insert(session, "a")
        await barrier.record(session, "a")
    async with engine.begin() as connection:
        await barrier.record(connection, "b")
    assert [await barrier.check(asked(one)) for one in ("a", "b")] == [COMMIT, COMMIT]


async def test_a_late_local_transaction_is_fenced_and_rolled_back_as_a_whole(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    async with AsyncSession(engine) as session:
        assert await barrier.check(asked("a")) is ROLLBACK
        await insert(session, "a")
        with pytest.raises(TransactionFenced):
            await barrier.record(session, "a")
        await session.commit()
    assert await orders(engine) == set()


async def test_a_record_that_is_not_committed_yet_is_answered_unknown_then_commit(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    async with AsyncSession(engine) as session:
        await insert(session, "a")
        await barrier.record(session, "a")
        assert await AsyncBarrier(engine, GROUP, wait_s=0.1).check(asked("a")) is UNKNOWN
        waiting = asyncio.create_task(AsyncBarrier(engine, GROUP, wait_s=20.0).check(asked("a")))
        await asyncio.sleep(0)
        await session.commit()
    assert await asyncio.wait_for(waiting, 10.0) is COMMIT


async def test_many_checks_at_once(engine: AsyncEngine, barrier: AsyncBarrier) -> None:
    checks = [barrier.check(asked(f"a-{number % 5}")) for number in range(20)]
    assert set(await asyncio.gather(*checks)) == {ROLLBACK}


async def test_what_goes_wrong_is_answered_unknown(engine: AsyncEngine) -> None:
    other = AsyncBarrier(engine, GROUP, table="never_made")
    assert await other.check(asked("a")) is UNKNOWN
    assert await other.check(asked("a", group="another")) is UNKNOWN


async def test_old_rows_are_purged(engine: AsyncEngine, barrier: AsyncBarrier) -> None:
    for number in range(5):
        await barrier.check(asked(f"old-{number}"))
    sqlite = engine.dialect.name == "sqlite"
    ago = "datetime('now', '-8 days')" if sqlite else "now() - interval '8 days'"
    async with engine.begin() as connection:
        await connection.execute(text(f"UPDATE halfhitch_barrier SET at = {ago}"))
    await barrier.check(asked("young"))
    assert await barrier.purge(batch_count=2) == 5


async def test_a_blocking_session_is_refused(barrier: AsyncBarrier) -> None:
    with pytest.raises(InvalidRequest, match="AsyncSession"):
        await barrier.record(object(), "a")


# -- messages and rows end together --------------------------------------------------------------


async def run_block(
    barrier: AsyncBarrier, producer: Producer, then: Any = None, *, is_retry: bool = False
) -> None:
    async with barrier.transaction(producer, "a" if is_retry else None) as (tx, session):
        assert tx is producer.made[0]
        await insert(session, "a")
        if then is not None:
            then(session)


async def test_a_block_commits_rows_and_messages(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    producer = Producer()
    await run_block(barrier, producer)
    assert producer.ends == ["commit"]
    assert await orders(engine) == {"a"}
    assert await barrier.check(asked("a")) is COMMIT


async def test_a_block_that_raises_commits_neither(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    def fail(_: Any) -> None:
        raise KeyError

    producer = Producer()
    with pytest.raises(KeyError):
        await run_block(barrier, producer, fail)
    assert producer.ends == ["rollback"]
    assert await orders(engine) == set()


def breaks(*, after: bool, error: type[BaseException] = ConnectionError) -> Any:
    """A commit that fails, after it has taken place or before."""

    def patch(session: AsyncSession) -> None:
        real = session.commit

        async def commit() -> None:
            if after:
                await real()
            raise error

        session.commit = commit

    return patch


async def test_a_commit_that_failed_but_took_place_commits_the_messages(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    producer = Producer()
    await run_block(barrier, producer, breaks(after=True))
    assert producer.ends == ["commit"]
    assert await orders(engine) == {"a"}


async def test_a_cancelled_commit_that_took_place_commits_the_messages_and_stays_cancelled(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    producer = Producer()
    with pytest.raises(asyncio.CancelledError):
        await run_block(barrier, producer, breaks(after=True, error=asyncio.CancelledError))
    assert producer.ends == ["commit"]
    assert await orders(engine) == {"a"}


async def test_a_commit_that_did_not_take_place_is_fenced_before_the_rollback(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    producer = Producer()
    with pytest.raises(ConnectionError):
        await run_block(barrier, producer, breaks(after=False))
    assert producer.ends == ["rollback"]
    assert await barrier.check(asked("a")) is ROLLBACK


async def test_a_commit_of_which_nobody_knows_decides_nothing(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    def break_all(session: AsyncSession) -> None:
        async def commit() -> None:
            barrier._made_of = None  # nothing that could be asked
            raise ConnectionError

        session.commit = commit

    producer = Producer()
    with pytest.raises(LocalOutcomeUnknown):
        await run_block(barrier, producer, break_all)
    assert producer.ends == []


async def test_a_record_that_fails_leaves_no_doubt(engine: AsyncEngine) -> None:
    producer = Producer()
    with pytest.raises(DBAPIError):
        await run_block(AsyncBarrier(engine, GROUP, table="never_made"), producer)
    assert producer.ends == ["rollback"]


async def test_a_repeated_block_leaves_the_messages_of_the_first_to_the_check_back(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    async with engine.begin() as connection:
        await barrier.record(connection, "a")
    producer = Producer()
    with pytest.raises(TransactionRecordedTwice):
        await run_block(barrier, producer, is_retry=True)
    assert producer.ends == []
    assert await orders(engine) == set()


async def test_rows_are_not_committed_when_a_message_could_not_be_sent(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    producer = Producer()

    def doom(_: Any) -> None:
        producer.made[0].doomed = OSError("a message was not sent")

    with pytest.raises(OSError, match="not sent"):
        await run_block(barrier, producer, doom)
    assert producer.ends == ["rollback"]
    assert await orders(engine) == set()


async def test_no_connection_is_held_while_the_sidecar_is_told_to_commit(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    producer = Producer()
    pool: Any = engine.sync_engine.pool
    held: list[int] = []

    def look(_: Any) -> None:
        producer.made[0].on_commit = lambda: held.append(pool.checkedout())

    await run_block(barrier, producer, look)
    assert held == [0]


async def test_a_producer_of_another_group_is_refused(barrier: AsyncBarrier) -> None:
    producer: Any = Producer()
    producer.group = "another"
    with pytest.raises(ConfigurationError, match="belongs to group 'another'"):
        await run_block(barrier, producer)
    assert producer.made == []
