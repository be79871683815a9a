"""A signal's handler raises anywhere in a block: its session and its id can be used afterwards."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from halfhitch import AsyncTransactionProducer, TransactionProducer
from halfhitch.barrier import AsyncBarrier, Barrier, running, sql, sql_aio, sql_guards
from halfhitch.client import aio_transactions, conversation, in_use, marks, sync_transactions
from halfhitch.client.marks import held
from halfhitch.errors import InvalidRequest
from halfhitch.testing import MemoryCoordinator
from harness.strikes import Struck, strikes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INSERT = text("INSERT INTO orders VALUES (:id)")
SHARED = [(running, sql_guards), (conversation, in_use, marks)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id VARCHAR(64))")
    Barrier(engine, "shop").create()
    engine.dispose()
    return path


@contextmanager
def keeping(kept: list[BaseException]) -> Iterator[None]:
    """A traceback has the frames, and what is in their variables."""
    try:
        yield
    except Struck as struck:
        kept.append(struck)
        raise


def named(modules: tuple[Any, ...]) -> str:
    return "-".join(module.__name__.rpartition(".")[2] for module in modules)


def nothing_is_held() -> None:
    assert held(running._BLOCKS) == []
    assert held(in_use._HELD) == []


@pytest.mark.parametrize("modules", [(sql, sync_transactions), *SHARED], ids=named)
def test_a_session_was_in_a_block_for_good_once_a_handler_had_raised(
    file: Path, modules: tuple[Any, ...]
) -> None:
    engine = create_engine(f"sqlite:///{file}", connect_args={"timeout": 1})
    kept: list[BaseException] = []
    with (
        MemoryCoordinator(topics={"orders": 1}) as coordinator,
        Session(engine) as session,
        TransactionProducer("shop", coordinator.address, check=lambda _: None) as producer,
    ):
        barrier = Barrier(engine, "shop")

        def block(name: str) -> None:
            with barrier.transaction(producer, name, session=session) as (tx, _):
                tx.send("orders", name)
                session.execute(INSERT, {"id": name})

        for number, strike in enumerate(strikes(*modules, is_real=True)):
            with strike, keeping(kept):
                block(f"struck-{number}")
            nothing_is_held()
            assert not sql_guards.is_ending_block(session), strike.place
            session.rollback()
            session.execute(INSERT, {"id": f"plain-{number}"})
            session.commit()
            block(f"again-{number}")
            kept.clear()
    engine.dispose()


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")  # struck before its await
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # SQLAlchemy's then
@pytest.mark.parametrize("modules", [(sql_aio, aio_transactions), *SHARED], ids=named)
def test_an_asyncio_session_was_in_a_block_for_good_once_a_handler_had_raised(
    file: Path, modules: tuple[Any, ...]
) -> None:
    async def main(address: str) -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}", connect_args={"timeout": 1})
        barrier = AsyncBarrier(engine, "shop")
        kept: list[BaseException] = []
        async with (
            AsyncSession(engine) as session,
            AsyncTransactionProducer("shop", address, check=barrier.check) as producer,
        ):

            async def block(name: str) -> None:
                async with barrier.transaction(producer, name, session=session) as (tx, _):
                    await tx.send("orders", name)
                    await session.execute(INSERT, {"id": name})

            for number, strike in enumerate(strikes(*modules, is_real=True, every=4)):
                with strike, keeping(kept):
                    await block(f"struck-{number}")
                nothing_is_held()
                assert not sql_guards.is_ending_block(session.sync_session), strike.place
                await session.rollback()
                await session.execute(INSERT, {"id": f"plain-{number}"})
                await session.commit()
                await block(f"again-{number}")
                kept.clear()
        await engine.dispose()

    with MemoryCoordinator(topics={"orders": 1}) as coordinator:
        asyncio.run(main(coordinator.address))


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
