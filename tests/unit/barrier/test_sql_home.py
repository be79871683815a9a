"""An engine that was used before: by other threads, or before a fork."""

from __future__ import annotations

import math
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.util import greenlet_spawn

from halfhitch.barrier import AsyncBarrier, Barrier, sql_home
from harness.barriers import RecordingProducer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.engine import Engine

_ENOUGH_S = 30.0


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{tmp_path / 'shop.db'}", connect_args={"timeout": _ENOUGH_S})
    yield made
    made.dispose()


# -- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["connect", "checkout"])
def test_a_barrier_that_was_made_while_another_thread_connected_broke_that_one(
    engine: Engine, moment: str
) -> None:
    """RuntimeError: deque mutated during iteration. The barrier had added a listener meanwhile."""
    inside, goes_on = threading.Event(), threading.Event()

    def listens(*_: Any) -> None:
        inside.set()
        assert goes_on.wait(_ENOUGH_S)

    event.listen(engine, moment, listens)
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(lambda: engine.connect().close())
        assert inside.wait(_ENOUGH_S)
        Barrier(engine, "shop")
        goes_on.set()
        connecting.result(_ENOUGH_S)


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("quick_switches")
def test_threads_that_make_and_use_barriers_at_once_do_not_break_each_other(
    tmp_path: Path,
) -> None:
    """Each round an engine on which nobody has listened yet, and threads that begin together."""
    path = tmp_path / "shop.db"
    Barrier(create_engine(f"sqlite:///{path}", poolclass=NullPool), "shop").create()
    with ThreadPoolExecutor(8) as pool:
        for turn in range(12):
            engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": _ENOUGH_S})
            for moment in ("connect", "checkout"):
                event.listen(engine, moment, lambda *_: time.sleep(0))
            start = threading.Barrier(8)
            jobs = [pool.submit(_use, engine, start, f"{turn}-{part}") for part in range(8)]
            for job in jobs:
                job.result(_ENOUGH_S)
            engine.dispose()


def _use(engine: Engine, start: threading.Barrier, name: str) -> None:
    start.wait(_ENOUGH_S)
    for _ in range(3):
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
    with Barrier(engine, "shop").transaction(RecordingProducer(name)) as (_tx, session):  # type: ignore[arg-type]
        session.execute(text("SELECT 1"))


# -- forks ---------------------------------------------------------------------------------------


def fill(engine: Engine) -> None:
    """The pool keeps a connection."""
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))


def test_a_pool_that_is_older_than_the_process_is_put_aside(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(engine)
    before = engine.pool
    assert sql_home.HomeEngine(engine).here().pool is before
    monkeypatch.setattr(sql_home, "_began_s", lambda _: math.inf)
    assert sql_home.HomeEngine(engine).here().pool is not before


async def test_a_pool_of_asyncio_s_that_is_older_is_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    async with engine.connect() as connection:
        await connection.execute(text("SELECT 1"))
    before = engine.pool
    monkeypatch.setattr(sql_home, "_began_s", lambda _: math.inf)
    AsyncBarrier(engine, "shop")
    assert engine.pool is not before
    await engine.dispose()
    await greenlet_spawn(before.dispose)


@pytest.mark.parametrize("kept", [True, False])
def test_a_pool_in_which_nothing_lies_is_left_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """Or nothing that is open."""
    if kept:
        fill(engine)
        with engine.connect() as connection:
            connection.invalidate()
    before = engine.pool
    monkeypatch.setattr(sql_home, "_began_s", lambda _: math.inf)
    assert sql_home.HomeEngine(engine).here().pool is before


def test_a_pool_that_does_not_show_what_lies_in_it_is_left_alone(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}", poolclass=NullPool)
    fill(engine)
    before = engine.pool
    assert sql_home.HomeEngine(engine).here().pool is before


def test_in_another_process_the_pool_is_another_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = sql_home.HomeEngine(engine)
    before = home.here().pool
    monkeypatch.setattr("os.getpid", lambda: 1)
    there = home.here().pool
    assert there is not before
    assert home.here().pool is there


def test_where_the_system_does_not_tell_when_it_began_nothing_is_older(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(engine)
    before = engine.pool
    monkeypatch.setattr(sql_home, "Path", lambda _: None)
    sql_home._began_s.cache_clear()
    assert sql_home.HomeEngine(engine).here().pool is before
    sql_home._began_s.cache_clear()
