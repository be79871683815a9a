"""A task that is cancelled in a question of the barrier's leaves SQLite's file free for others."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import aiosqlite
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from halfhitch.barrier import AsyncBarrier, Barrier
from halfhitch.barrier.sqlite import rows_at_once
from harness.barriers import GROUP, RecordingProducer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INSERT = text("INSERT INTO shop_orders (id) VALUES ('a')")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """With both tables."""
    path = tmp_path / "shop.db"
    engine = create_engine(f"sqlite:///{path}")
    Barrier(engine, GROUP).create()
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE shop_orders (id VARCHAR(64) PRIMARY KEY)")
    engine.dispose()
    return path


@pytest.fixture
def without_collections() -> Iterator[None]:
    """Nobody comes by who would free the file after all."""
    gc.disable()
    yield
    gc.enable()


def cancel_in(monkeypatch: pytest.MonkeyPatch, part: str) -> list[str]:
    """The task that runs a statement with this in it; its thread carries that out all the same."""
    struck: list[str] = []
    before = aiosqlite.Connection._execute

    async def execute(self: Any, function: Any, *values: Any, **options: Any) -> Any:
        if values and part in str(values[0]) and not struck:
            struck.append(str(values[0]))
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
        return await before(self, function, *values, **options)

    monkeypatch.setattr(aiosqlite.Connection, "_execute", execute)
    return struck


def write_to(file: Path) -> None:
    """Raises OperationalError when it is locked."""
    with closing(sqlite3.connect(file, timeout=1, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO shop_orders (id) VALUES ('b')")
        other.execute("COMMIT")


@pytest.mark.usefixtures("without_collections")
async def test_a_task_cancelled_as_the_session_s_file_is_asked_for_left_that_locked(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the session's connection, behind rows that it has written."""
    own, other = (create_async_engine(f"sqlite+aiosqlite:///{file}") for _ in range(2))
    barrier = AsyncBarrier(own, GROUP)
    struck = cancel_in(monkeypatch, "database_list")

    async def work() -> None:
        producer: Any = RecordingProducer("a")
        async with (
            AsyncSession(other) as session,
            barrier.transaction(producer, session=session),
        ):
            await session.execute(INSERT)

    task = asyncio.create_task(work())
    with suppress(asyncio.CancelledError):
        await task
    try:
        assert len(struck) == 1
        assert task.cancelled()
        write_to(file)
    finally:
        gc.enable()
        gc.collect()
        for engine in (own, other):
            await engine.dispose()


def test_a_blocking_driver_is_asked_as_usual() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        assert rows_at_once(connection, "SELECT 1") is None
