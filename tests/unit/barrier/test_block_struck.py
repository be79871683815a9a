"""A signal's handler raises anywhere in a block: its session and its id can be used afterwards."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from halfhitch import AsyncTransactionProducer, TransactionProducer
from halfhitch.barrier import (
    AsyncBarrier,
    Barrier,
    block,
    block_aio,
    ends,
    one_transaction,
    running,
    sql,
    sql_aio,
    sql_guards,
    sql_recorded,
    sql_rows,
    statement,
    statement_aio,
)
from halfhitch.client import aio_transactions, conversation, in_use, marks, sync_transactions
from halfhitch.client.marks import held
from halfhitch.errors import InvalidRequest
from halfhitch.testing import MemoryCoordinator
from harness.strikes import Struck, strikes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INSERT = text("INSERT INTO orders VALUES (:id)")
SHARED = [
    (conversation, in_use, marks),
    (running, sql_guards),
    (sql_recorded, sql_rows, one_transaction),
]
BLOCKING = [(sql, sync_transactions), (block, ends, statement), *SHARED]
ASYNCIO = [(sql_aio, aio_transactions), (block_aio, ends, statement_aio), *SHARED]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id VARCHAR(64))")
    Barrier(engine, "shop").create()
    engine.dispose()
    return path


def named(modules: tuple[Any, ...]) -> str:
    return "-".join(module.__name__.rpartition(".")[2] for module in modules)


def hastily(connection: Any, _: object) -> None:
    """Nobody pulls a plug here."""
    connection.cursor().execute("PRAGMA synchronous = OFF")


def nothing_is_held() -> None:
    assert held(running._BLOCKS) == []
    assert held(in_use._HELD) == []


def rows(file: Path) -> list[str]:
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        found = connection.execute(text("SELECT id FROM orders ORDER BY id")).scalars().all()
    engine.dispose()
    return list(found)


def messages(coordinator: MemoryCoordinator) -> list[str]:
    """When all was asked."""
    for _ in range(3):
        coordinator.advance(60)
    return sorted(str(message.value, "utf-8") for message in coordinator.messages("orders"))


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What was struck is collected here, and not while another file's test looks for garbage."""
    yield
    gc.collect()


@pytest.mark.parametrize("modules", BLOCKING, ids=named)
def test_what_a_handler_ended_was_not_rolled_back_and_its_session_in_a_block_for_good(
    file: Path, modules: tuple[Any, ...]
) -> None:
    """The next block, or commit, of the session committed its rows without their messages; or was
    refused: while the exception was handled, or for good."""
    engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": 1})
    event.listen(engine, "connect", hastily)
    barrier = Barrier(engine, "shop")
    kept: list[BaseException] = []
    again = 0
    with (
        MemoryCoordinator(topics={"orders": 1}) as coordinator,
        Session(engine) as session,
        TransactionProducer("shop", coordinator.address, check=barrier.check) as producer,
    ):

        def block(name: str) -> None:
            with barrier.transaction(producer, name, session=session) as (tx, _):
                tx.send("orders", name)
                session.execute(INSERT, {"id": name})

        for number, strike in enumerate(strikes(*modules, is_real=True)):
            with strike:
                try:
                    block(f"{number}-struck")
                except Struck as struck:
                    kept.append(struck)  # a traceback has the frames, and their variables
                    nothing_is_held()
                    assert not sql_guards.is_ending_block(session), strike.place
                    block(f"{number}-again")
                    again += 1
                    raise
            kept.clear()
            session.execute(INSERT, {"id": f"{number}-plain"})
            session.commit()
        sent, stored = messages(coordinator), rows(file)
    assert [name for name in stored if not name.endswith("plain")] == sent
    assert len(stored) - len(sent) == number + 1
    assert again > 3
    engine.dispose()


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # struck before its await
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # SQLAlchemy's then
@pytest.mark.parametrize("modules", ASYNCIO, ids=named)
def test_what_a_handler_ended_was_not_rolled_back_with_asyncio(
    file: Path, modules: tuple[Any, ...]
) -> None:
    """Where nobody could roll back, for that would have to be awaited, the next one is refused."""
    kept: list[BaseException] = []
    #: The step that was struck -> the refusals behind it.
    refused: dict[str, set[str]] = {}

    async def main(coordinator: MemoryCoordinator) -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}", connect_args={"timeout": 1})
        event.listen(engine.sync_engine, "connect", hastily)
        barrier = AsyncBarrier(engine, "shop")
        again = 0
        async with (
            AsyncTransactionProducer("shop", coordinator.address, check=barrier.check) as producer,
            AsyncSession(engine) as session,
        ):

            async def block(name: str) -> None:
                async with barrier.transaction(producer, name, session=session) as (tx, _):
                    await tx.send("orders", name)
                    await session.execute(INSERT, {"id": name})

            async def commit(name: str) -> None:
                await session.execute(INSERT, {"id": name})
                await session.commit()

            for number, strike in enumerate(strikes(*modules, is_real=True, every=3)):
                with strike:
                    try:
                        await block(f"{number}-struck")
                    except Struck as struck:
                        kept.append(struck)
                        nothing_is_held()
                        assert not sql_guards.is_ending_block(session.sync_session), strike.place
                        for work in (commit, block):
                            name = f"{number}-{work.__name__}"
                            try:
                                await work(name)
                            except InvalidRequest as error:
                                place = strike.place.partition(":")[0]
                                refused.setdefault(place, set()).add(str(error).partition(" (")[0])
                                await session.rollback()
                                await work(name)
                        again += 1
                        raise
                kept.clear()
            sent = await asyncio.to_thread(messages, coordinator)
        stored = await asyncio.to_thread(rows, file)
        assert [name for name in stored if not name.endswith("commit")] == sent
        assert len(stored) - len(sent) == again > 3
        await engine.dispose()

    with MemoryCoordinator(topics={"orders": 1}) as coordinator:
        asyncio.run(main(coordinator))
    assert refused.keys() <= {"leave"}
    assert all(
        told.endswith("was interrupted") for refusals in refused.values() for told in refusals
    )


async def test_two_tasks_had_a_block_each_on_one_session(file: Path) -> None:
    """Each passed the look at the session while it asked the table for its id; the second block
    then took the first one's watch off, whose rows were committed without its message."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    barrier = AsyncBarrier(engine, "shop")
    both = asyncio.Event()

    with MemoryCoordinator(topics={"orders": 1}) as coordinator:
        async with (
            AsyncTransactionProducer("shop", coordinator.address, check=barrier.check) as producer,
            AsyncSession(engine) as session,
        ):

            async def work(name: str) -> None:
                async with barrier.transaction(producer, name, session=session) as (tx, local):
                    await tx.send("orders", name)
                    await local.execute(INSERT, {"id": name})
                    await both.wait()

            tasks = [asyncio.create_task(work(name)) for name in ("a", "b")]
            (refused,), _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            both.set()
            await asyncio.wait(tasks)
            with pytest.raises(InvalidRequest, match="in another block of a barrier"):
                await refused
            (well,) = (task for task in tasks if task is not refused)
            await well
        async with engine.connect() as connection:
            rows = (await connection.execute(text("SELECT id FROM orders"))).scalars().all()
        assert [message.value for message in coordinator.messages("orders")] == [
            name.encode() for name in rows
        ]
        assert len(rows) == 1
    await engine.dispose()
