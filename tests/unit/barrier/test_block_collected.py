"""Python's collector of cycles closes a generator that a barrier's block is open in."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from halfhitch import AsyncTransactionProducer, TransactionProducer
from halfhitch.barrier import AsyncBarrier, Barrier, DbapiBarrier
from halfhitch.testing import MemoryCoordinator
from harness.kafka import wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

INSERT = "INSERT INTO orders VALUES ('a')"
#: What a `finally` may try, as the block is left by GeneratorExit.
WAYS = ["tx.commit", "producer.commit", "session.commit", "record"]
REFUSED = {
    "tx.commit": "TransactionMisused",
    "producer.commit": "TransactionMisused",
    "session.commit": "InvalidRequest",
    "record": "InvalidRequest",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id VARCHAR(64))")
    Barrier(engine, "shop").create()
    engine.dispose()
    return path


def rows(file: Path) -> int:
    engine = create_engine(f"sqlite:///{file}")
    with engine.connect() as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM orders").scalar_one()
    engine.dispose()
    return int(count)


def is_nothing_left(coordinator: MemoryCoordinator, file: Path) -> bool:
    for _ in range(3):
        coordinator.advance(60)
    return rows(file) == 0 and coordinator.messages("orders") == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_plain", [False, True], ids=["sqlalchemy", "dbapi"])
def test_a_generator_in_a_cycle_was_believed_to_have_left_its_block(
    file: Path, way: str, is_plain: bool
) -> None:
    if is_plain and way == "session.commit":
        pytest.skip("of a driver's connection nobody is told; the record finds it out")
    engine = create_engine(f"sqlite:///{file}")
    barrier: Any = Barrier(engine, "shop")
    if is_plain:
        import sqlite3

        barrier = DbapiBarrier(lambda: sqlite3.connect(file), "shop")
    said: list[str] = []
    with (
        MemoryCoordinator(topics={"orders": 1}) as coordinator,
        TransactionProducer("shop", coordinator.address, check=barrier.check) as producer,
    ):

        def work(_: object) -> Iterator[None]:
            with barrier.transaction(producer) as (tx, local):
                tx.send("orders", "a")
                local.execute(INSERT if is_plain else text(INSERT))
                calls: dict[str, Callable[[], object]] = {
                    "tx.commit": tx.commit,
                    "producer.commit": lambda: producer.commit(tx.handle),
                    "session.commit": local.commit,
                    "record": lambda: barrier.record(local, tx.id),
                }
                try:
                    yield
                finally:
                    try:
                        calls[way]()
                    except Exception as error:  # noqa: BLE001 - looked at below
                        said.append(type(error).__name__)

        cycle: list[object] = []
        generator = work(cycle)
        cycle.append(generator)
        next(generator)
        del generator, cycle
        # It collects nothing while another thread is at it.
        wait_until(lambda: (gc.collect(), said)[1], 20, what="the generator is collected")
        assert said == [REFUSED[way]]
        assert is_nothing_left(coordinator, file)
    engine.dispose()


@pytest.mark.parametrize("way", WAYS)
def test_an_asyncio_generator_in_a_cycle_was_believed_to_have_left_its_block(
    file: Path, way: str
) -> None:
    """The loop closes it afterwards."""
    said: list[str] = []

    async def main(coordinator: MemoryCoordinator) -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
        barrier = AsyncBarrier(engine, "shop")
        over = asyncio.Event()
        async with AsyncTransactionProducer(
            "shop", coordinator.address, check=barrier.check
        ) as producer:

            async def work(_: object) -> AsyncIterator[None]:
                try:
                    async with barrier.transaction(producer) as (tx, local):
                        await tx.send("orders", "a")
                        await local.execute(text(INSERT))
                        calls: dict[str, Callable[[], Awaitable[object]]] = {
                            "tx.commit": tx.commit,
                            "producer.commit": lambda: producer.commit(str(tx.handle)),
                            "session.commit": local.commit,
                            "record": lambda: barrier.record(local, tx.id),
                        }
                        try:
                            yield
                        finally:
                            try:
                                await calls[way]()
                            except Exception as error:  # noqa: BLE001 - looked at below
                                said.append(type(error).__name__)
                finally:
                    over.set()

            cycle: list[object] = []
            generator = work(cycle)
            cycle.append(generator)
            await anext(generator)
            del generator, cycle
            gc.collect()
            async with asyncio.timeout(10):
                await over.wait()
            assert said == [REFUSED[way]]
            assert await asyncio.to_thread(is_nothing_left, coordinator, file)
        await engine.dispose()

    with MemoryCoordinator(topics={"orders": 1}) as coordinator:
        asyncio.run(main(coordinator))
