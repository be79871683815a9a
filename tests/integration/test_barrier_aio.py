"""AsyncBarrier on PostgreSQL and SQLite: what is asyncio's alone.

The promises that it shares with the blocking one are tested for both, in the modules beside this.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from halfhitch.barrier import AsyncBarrier
from halfhitch.client import LocalTransactionState
from halfhitch.errors import InvalidRequest
from harness.barriers import ENOUGH_S, GROUP, RecordingProducer, asked, sqlite_connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN


@pytest.fixture(params=["postgres", "sqlite"])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    if request.param == "sqlite":
        sqlite_connect(tmp_path / "shop.db")().close()  # writes ahead from now on
        made = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
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


async def test_a_committed_record_is_answered_commit(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await insert(session, "a")
        await barrier.record(session, "a")
    async with engine.begin() as connection:
        await barrier.record(connection, "b")
    assert [await barrier.check(asked(one)) for one in ("a", "b")] == [COMMIT, COMMIT]


async def test_many_checks_at_once(engine: AsyncEngine, barrier: AsyncBarrier) -> None:
    checks = [barrier.check(asked(f"a-{number % 5}")) for number in range(20)]
    assert set(await asyncio.gather(*checks)) == {ROLLBACK}


async def test_what_goes_wrong_is_answered_unknown(engine: AsyncEngine) -> None:
    other = AsyncBarrier(engine, GROUP, table="never_made")
    assert await other.check(asked("a")) is UNKNOWN
    assert await other.check(asked("a", group="another")) is UNKNOWN


async def test_a_blocking_session_is_refused(barrier: AsyncBarrier) -> None:
    with pytest.raises(InvalidRequest, match="AsyncSession"):
        await barrier.record(object(), "a")


# -- messages and rows end together --------------------------------------------------------------


async def test_a_cancelled_commit_that_took_place_commits_the_messages_and_stays_cancelled(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    def cancel(_: object) -> None:
        raise asyncio.CancelledError

    async def run_block() -> None:
        async with barrier.transaction(producer) as (_, session):
            await insert(session, "a")
            event.listen(session.sync_session, "after_commit", cancel)

    producer: Any = RecordingProducer("a")
    with pytest.raises(asyncio.CancelledError):
        await run_block()
    assert producer.made[0].ends == ["commit"]
    assert await orders(engine) == {"a"}


async def test_a_record_that_fails_leaves_no_doubt(engine: AsyncEngine) -> None:
    producer: Any = RecordingProducer("a")
    with pytest.raises(DBAPIError):
        async with AsyncBarrier(engine, GROUP, table="never_made").transaction(producer):
            pass
    assert producer.made[0].ends == ["rollback"]


async def test_no_connection_is_held_while_the_sidecar_is_told_to_commit(
    engine: AsyncEngine, barrier: AsyncBarrier
) -> None:
    producer: Any = RecordingProducer("a")
    held: list[int] = []
    async with barrier.transaction(producer) as (tx, session):
        await insert(session, "a")
        pool: Any = engine.pool
        end = tx.follow
        tx.follow = lambda: held.append(pool.checkedout()) or end()
    assert held == [0]
    assert producer.made[0].ends == ["commit"]
