"""A check ends in time and on connections of its own process, whatever the database does.

A PostgreSQL whose process for one connection is stopped is a server that has taken the question and
says nothing: nothing in the driver or on the server would ever end that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import create_async_engine

from halfhitch.barrier import AsyncBarrier, Barrier, DbapiBarrier
from halfhitch.barrier.deadline import LEFT_BEHIND_MAX
from halfhitch.client import LocalTransactionState
from halfhitch.testing.loops import loop_in_thread
from harness.barriers import ENOUGH_S, GROUP, RecordingProducer, asked
from harness.kafka import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from harness.postgres import EmbeddedPostgres

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN
#: Long enough for a check that is answered, and longer than which nothing may take.
_WAIT_S = 3.0
_END_S = 30.0


@pytest.fixture
def table(postgres: EmbeddedPostgres) -> Iterator[None]:
    """With one committed transaction."""
    barrier = DbapiBarrier(lambda: psycopg.connect(postgres.dsn), GROUP, wait_s=ENOUGH_S)
    barrier.create()
    with psycopg.connect(postgres.dsn) as connection:
        barrier.record(connection, "committed")
    yield
    with psycopg.connect(postgres.dsn) as connection:
        connection.execute("DROP TABLE halfhitch_barrier")


def in_time(ask: Callable[[], Any]) -> Any:
    """What it says, unless it hangs (then nobody may wait for its thread either)."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(_END_S)
    assert answers, "it hangs"
    return answers[0]


@contextmanager
def stopped(process_id: int) -> Iterator[None]:
    os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process_id, signal.SIGCONT)


# -- in time -------------------------------------------------------------------------------------


def test_a_pool_that_is_used_up_is_answered_unknown_in_time(
    postgres: EmbeddedPostgres, table: None, caplog: pytest.LogCaptureFixture
) -> None:
    engine = create_engine(postgres.url, pool_size=1, max_overflow=0, pool_timeout=600)
    barrier = Barrier(engine, GROUP, wait_s=0.2)
    with engine.connect(), caplog.at_level(logging.WARNING, "halfhitch.barrier"):
        assert in_time(lambda: barrier.check(asked("committed"))) is UNKNOWN
    assert "no answer within 0.2 s" in caplog.text
    patient = Barrier(engine, GROUP, wait_s=ENOUGH_S)
    assert patient.check(asked("committed")) is COMMIT
    engine.dispose()


def test_a_server_that_takes_the_question_and_says_nothing(
    postgres: EmbeddedPostgres, table: None
) -> None:
    engine = create_engine(postgres.url, pool_size=1, max_overflow=0)
    opened: list[Any] = []
    event.listen(engine, "connect", lambda connection, _: opened.append(connection))
    barrier = Barrier(engine, GROUP, wait_s=_WAIT_S)
    assert barrier.check(asked("committed")) is COMMIT
    with stopped(opened[0].info.backend_pid):
        assert in_time(lambda: barrier.check(asked("committed"))) is UNKNOWN
        # What hung was cut off, and its place in the pool is free for another connection.
        wait_until(lambda: barrier.check(asked("committed")) is COMMIT, _END_S)
        assert not barrier._deadline._running
    assert len(opened) == 2
    engine.dispose()


def test_a_plain_connection_that_says_nothing_is_cut_off_and_closed(
    postgres: EmbeddedPostgres, table: None
) -> None:
    given: list[Any] = []

    def connect() -> Any:
        given.append(psycopg.connect(postgres.dsn))
        if len(given) == 1:
            os.kill(given[0].info.backend_pid, signal.SIGSTOP)
            stopped_ids.append(given[0].info.backend_pid)
        return given[-1]

    stopped_ids: list[int] = []
    barrier = DbapiBarrier(connect, GROUP, wait_s=_WAIT_S)
    try:
        assert in_time(lambda: barrier.check(asked("committed"))) is UNKNOWN
        assert barrier.check(asked("committed")) is COMMIT
        wait_until(lambda: not barrier._deadline._running, _END_S)
        assert given[0].closed
    finally:
        for process_id in stopped_ids:
            os.kill(process_id, signal.SIGCONT)


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_a_silent_server_holds_up_no_task(
    postgres: EmbeddedPostgres, table: None, driver: str
) -> None:
    url = postgres.url
    if driver == "asyncpg":
        url = url.replace("+psycopg", "+asyncpg").partition("?")[0]
    engine = create_async_engine(url, pool_size=1, max_overflow=0)
    opened: list[int] = []

    def note(connection: Any, _: Any) -> None:
        real = connection.driver_connection
        is_asyncpg = driver == "asyncpg"
        opened.append(real.get_server_pid() if is_asyncpg else real.info.backend_pid)

    event.listen(engine.sync_engine, "connect", note)
    barrier = AsyncBarrier(engine, GROUP, wait_s=_WAIT_S)
    assert await barrier.check(asked("committed")) is COMMIT
    with stopped(opened[0]):
        answer = await asyncio.wait_for(barrier.check(asked("committed")), _END_S)
        assert answer is UNKNOWN
        while await barrier.check(asked("committed")) is not COMMIT:
            pass  # until the pool has learned of it
        assert not barrier._deadline._running
    assert len(opened) == 2
    await engine.dispose()


def test_a_program_ends_although_a_check_on_its_sqlite_file_still_runs(tmp_path: Path) -> None:
    """`asyncio.run` cancels what it finds, and waits for it."""
    go_on = threading.Event()
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")

    @event.listens_for(engine.sync_engine, "connect")
    def be_held_up(connection: Any, _: Any) -> None:
        connection.run_async(
            lambda driver: driver.set_trace_callback(
                lambda text: "SELECT outcome" in text and go_on.wait(_END_S / 3)
            )
        )

    async def let_go_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await several_turns()
            go_on.set()

    async def program() -> LocalTransactionState:
        await AsyncBarrier(engine, GROUP).create()
        at_the_end = asyncio.create_task(let_go_at_the_end())
        state = await AsyncBarrier(engine, GROUP, wait_s=0.5).check(asked("pending"))
        await several_turns()
        assert not at_the_end.done()
        assert not go_on.is_set()
        return state

    assert in_time(lambda: asyncio.run(program())) is UNKNOWN


def test_the_loop_of_a_test_was_stopped_while_a_check_s_connection_was_being_closed() -> None:
    """It never finished: SQLAlchemy closes what has run out of time in another task."""
    did: list[str] = []

    async def close() -> None:
        await several_turns()
        did.append("closed")

    async def check() -> None:
        did.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.shield(asyncio.create_task(close()))

    with loop_in_thread() as loop:
        asyncio.run_coroutine_threadsafe(check(), loop)
        wait_until(lambda: did == ["begun"], _END_S)
    assert did == ["begun", "closed"]


async def several_turns() -> None:
    """What was cancelled has done all it can do without waiting."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_host_that_never_answers_blocks_no_check_worker_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=50) as deaf:
        dsn = f"postgresql://postgres@127.0.0.1:{deaf.getsockname()[1]}/postgres"
        barrier = DbapiBarrier(lambda: psycopg.connect(dsn), GROUP, wait_s=0.1)
        for _ in range(LEFT_BEHIND_MAX):
            assert in_time(lambda: barrier.check(asked("a"))) is UNKNOWN
        with caplog.at_level(logging.WARNING, "halfhitch.barrier"):
            assert in_time(lambda: barrier.check(asked("a"))) is UNKNOWN
        assert "8 earlier checks still hang" in caplog.text
    # What waited for that host ends with it, and checks are begun again.
    wait_until(lambda: not barrier._deadline._running, _END_S)


# -- nobody else's connection --------------------------------------------------------------------


def fail_in(block: Any, work: Callable[[Any], Any]) -> None:
    with block as (_, local):
        work(local)
        raise KeyError


class AskingProducer(RecordingProducer):
    """Ends its messages only once the database has been asked about something else."""

    def __init__(self, ask: Callable[[], Any]) -> None:
        super().__init__()
        self.ask = ask
        self.answers: list[Any] = []

    def transaction(self, transaction_id: str | None = None, **options: Any) -> Any:
        made = super().transaction(transaction_id, **options)
        real = made.follow

        def follow() -> None:
            self.answers.append(self.ask())
            real()

        made.follow = follow
        return made


def test_no_connection_is_held_while_the_sidecar_is_told_to_commit(
    postgres: EmbeddedPostgres, table: None
) -> None:
    engine = create_engine(postgres.url, pool_size=1, max_overflow=0, pool_timeout=5)
    barrier = Barrier(engine, GROUP, wait_s=_WAIT_S)
    producer = AskingProducer(engine.pool.checkedout)  # type: ignore[attr-defined]
    with barrier.transaction(producer) as (_, session):
        session.connection()
    assert producer.answers == [0]
    engine.dispose()


@pytest.mark.parametrize("fails", [False, True])
def test_a_plain_connection_is_let_go_before_anybody_is_asked(
    tmp_path: Path, *, fails: bool
) -> None:
    lent: list[str] = []

    @contextmanager
    def pool() -> Iterator[sqlite3.Connection]:
        assert lent.count("taken") == lent.count("given back"), "the pool has one connection"
        lent.append("taken")
        connection = sqlite3.connect(tmp_path / "shop.db")
        try:
            yield connection
            connection.commit()  # as psycopg's pool does
        finally:
            connection.close()
            lent.append("given back")

    barrier = DbapiBarrier(pool, GROUP, wait_s=ENOUGH_S)
    barrier.create()
    producer = AskingProducer(lambda: lent[-1])
    if fails:
        with pytest.raises(KeyError):
            fail_in(barrier.transaction(producer, "a"), lambda c: barrier.record(c, "never"))
        assert producer.made[0].ends == ["rollback"]
        assert barrier.check(asked("a")) is ROLLBACK  # asked for, and fenced
        assert barrier.check(asked("never")) is ROLLBACK
    else:
        with barrier.transaction(producer, "a"):
            pass
        assert producer.answers == ["given back"]
        assert barrier.check(asked("a")) is COMMIT


# -- after a fork --------------------------------------------------------------------------------

_FORK = """\
import os, sys, asyncio
from types import SimpleNamespace
import psycopg
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine
from halfhitch.barrier import AsyncBarrier, Barrier

url, is_async = sys.argv[1], sys.argv[2] == "async"
engine = (create_async_engine if is_async else create_engine)(url + "&application_name=forktest")
barrier = (AsyncBarrier if is_async else Barrier)(engine, "shop", wait_s=20.0)

def check():
    answer = barrier.check(
        SimpleNamespace(transaction_id="committed", producer_group="shop", age_s=1.0)
    )
    return asyncio.run(answer) if is_async else answer

def servers():
    plain = url.replace("+psycopg", "")
    with psycopg.connect(plain) as admin:
        return {row[0] for row in admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'forktest'")}

before = check().value, servers()
asked, told = os.pipe(), os.pipe()
child = os.fork()
if not child:
    answer = check().value
    os.write(told[1], answer.encode())
    os.read(asked[0], 1)
    os._exit(0)
print(before[0], os.read(told[0], 20).decode())
print(len(before[1]), len(servers()), len(servers() & before[1]))
os.write(asked[1], b"x")
os.waitpid(child, 0)
print(len(servers() & before[1]))
"""


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_a_forked_child_asks_over_connections_of_its_own(
    postgres: EmbeddedPostgres, table: None, kind: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORK, postgres.url, kind],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # Both are answered; there is one connection before, two after; the parent's outlives the child.
    assert done.stdout.split() == ["COMMIT", "COMMIT", "1", "2", "1", "1"], done.stderr


def test_a_connection_shared_with_another_process_decides_nothing(
    postgres: EmbeddedPostgres, table: None, caplog: pytest.LogCaptureFixture
) -> None:
    """A pool of one's own that was made before a fork: each reads what the other has asked for."""
    connection = psycopg.connect(postgres.dsn)

    @contextmanager
    def shared() -> Iterator[Any]:
        yield connection

    barrier = DbapiBarrier(shared, GROUP, wait_s=ENOUGH_S)
    keys = {"fenced": "committed"}  # what the other one's question comes to

    class Notes(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            if params and "SELECT outcome" in str(query):
                params = {**params, "p2": keys.get(params["p2"], params["p2"])}
            return super().execute(query, params, **options)

    connection.cursor_factory = Notes
    with caplog.at_level(logging.WARNING, "halfhitch.barrier"):
        assert barrier.check(asked("fenced")) is UNKNOWN
    assert "two processes are using one connection" in caplog.text
    assert barrier.check(asked("committed")) is COMMIT
    connection.close()


def test_many_checks_at_once_do_not_wait_for_one_another(
    postgres: EmbeddedPostgres, table: None
) -> None:
    barrier = DbapiBarrier(lambda: psycopg.connect(postgres.dsn), GROUP, wait_s=ENOUGH_S)
    count = 2 * LEFT_BEHIND_MAX
    with ThreadPoolExecutor(count) as pool:
        answers = [pool.submit(barrier.check, asked("committed")) for _ in range(count)]
        assert {answer.result(_END_S) for answer in answers} == {COMMIT}


# -- a lock that SQLite does not wait for ---------------------------------------------------------


class LockedAtFirst:
    """A file whose first connection meets a lock, as where two switch it to WAL at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def __call__(self) -> sqlite3.Connection:
        self.count += 1
        made = sqlite3.connect(self.path, timeout=0, check_same_thread=False)
        if self.count > 1:
            return made
        with closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            try:
                made.execute("PRAGMA journal_mode=WAL")
            finally:
                made.close()
        raise AssertionError("no lock was met")


@pytest.mark.parametrize("kind", ["plain", "sqlalchemy"])
def test_a_lock_that_sqlite_did_not_wait_for_made_a_check_unknown(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "shop.db"
    DbapiBarrier(lambda: sqlite3.connect(path), GROUP).create()
    connect = LockedAtFirst(path)
    if kind == "plain":
        barrier: Any = DbapiBarrier(connect, GROUP, wait_s=ENOUGH_S)
    else:
        engine = create_engine(f"sqlite:///{path}", creator=connect)
        barrier = Barrier(engine, GROUP, wait_s=ENOUGH_S)
    assert barrier.check(asked("a")) is ROLLBACK
    assert connect.count == 2
