"""What the barriers refuse to be made of, and what importing them costs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import StaticPool, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import halfhitch.barrier
from halfhitch.barrier import (
    AsyncBarrier,
    Barrier,
    DbapiBarrier,
    LocalOutcomeUnknown,
    TransactionFenced,
    TransactionRecordedTwice,
    guards,
)
from halfhitch.barrier.table import UnfitConnection
from halfhitch.client import (
    AsyncTransactionProducer,
    LocalTransactionState,
    TransactionProducer,
)
from halfhitch.client.checks import answer_of
from halfhitch.errors import ConfigurationError, InvalidRequest, OutcomeUnknown
from harness.barriers import RecordingProducer, asked

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN = LocalTransactionState.UNKNOWN


def test_a_connection_shared_by_all_is_refused() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with pytest.raises(ConfigurationError, match="StaticPool"):
        Barrier(engine, "shop")


def test_a_database_in_memory_was_another_one_to_each_check() -> None:
    with pytest.raises(ConfigurationError, match="Use a database in a file"):
        Barrier(create_engine("sqlite://"), "shop")


def test_each_barrier_wants_its_own_kind_of_engine(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with pytest.raises(ConfigurationError, match="for an AsyncEngine use AsyncBarrier"):
        Barrier(create_async_engine("sqlite+aiosqlite:///a.db"), "shop")
    with pytest.raises(ConfigurationError, match="for an Engine use Barrier"):
        AsyncBarrier(engine, "shop")
    with pytest.raises(ConfigurationError, match="a function that gives a new connection"):
        DbapiBarrier("shop.db", "shop")
    with pytest.raises(ConfigurationError, match="paramstyle"):
        DbapiBarrier(lambda: None, "shop", paramstyle="dollar")


def test_a_session_of_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    barrier = Barrier(create_engine(f"sqlite:///{tmp_path / 'a.db'}"), "shop")
    with pytest.raises(InvalidRequest, match="local transaction, not object"):
        barrier.record(object(), "a")


async def test_a_block_of_the_other_kind_of_producer_committed_rows_without_messages(
    tmp_path: Path,
) -> None:
    """Nobody awaited the commit of the messages: the rows stood, and Python gave a warning."""
    blocking = Barrier(create_engine(f"sqlite:///{tmp_path / 'a.db'}"), "shop")
    plain = DbapiBarrier(lambda: sqlite3.connect(tmp_path / "a.db"), "shop")
    awaited = AsyncBarrier(create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}"), "shop")
    async with AsyncTransactionProducer("shop") as producer:
        for barrier in (blocking, plain):
            with (
                pytest.raises(ConfigurationError, match="for that use AsyncBarrier"),
                barrier.transaction(producer),  # type: ignore[arg-type]
            ):
                pass
    other: Any = TransactionProducer("shop")
    with pytest.raises(ConfigurationError, match="for that use Barrier"):
        async with awaited.transaction(other):
            pass
    other.close()


async def test_a_block_that_was_given_no_session_said_what_attribute_it_has_not(
    tmp_path: Path,
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    awaited = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'a.db'}")
    producer: Any = RecordingProducer(group="shop")
    for wrong in (sessionmaker(engine), engine, AsyncSession(awaited)):
        with (
            pytest.raises(InvalidRequest, match=f"takes a Session, not {type(wrong).__name__}"),
            Barrier(engine, "shop").transaction(producer, session=wrong),  # type: ignore[arg-type]
        ):
            pass
    strangers: tuple[Any, ...] = (async_sessionmaker(awaited), Session(engine))
    for given in strangers:
        with pytest.raises(InvalidRequest, match="takes an AsyncSession, not"):
            async with AsyncBarrier(awaited, "shop").transaction(producer, session=given):
                pass
    assert producer.made == []  # refused before anything could be sent


def test_a_frameworks_scoped_session_was_refused_by_the_block_and_taken_by_record(
    tmp_path: Path,
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    barrier = Barrier(engine, "shop")
    barrier.create()
    producer: Any = RecordingProducer(new_id="a", group="shop")
    sessions = scoped_session(sessionmaker(engine))
    with barrier.transaction(producer, session=sessions) as (_, session):
        assert session is sessions()
    assert barrier.check(asked("a", group="shop")) is LocalTransactionState.COMMIT
    with engine.connect() as connection, connection.begin():
        inner = scoped_session(sessionmaker(connection))
        with (
            pytest.raises(InvalidRequest, match="transaction that was begun on its connection"),
            barrier.transaction(producer, session=inner),
        ):
            pass
    assert len(producer.made) == 1


def test_the_group_is_told() -> None:
    assert Barrier(create_engine("sqlite:///a.db"), "shop").group == "shop"
    assert AsyncBarrier(create_async_engine("sqlite+aiosqlite:///a.db"), "s").group == "s"
    assert DbapiBarrier(lambda: None, "shop").group == "shop"


def test_a_driver_that_says_too_little_is_answered_unknown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stranger = SimpleNamespace(cursor=lambda: None, close=lambda: None)
    assert DbapiBarrier(lambda: stranger, "shop").check(asked("a", group="shop")) is UNKNOWN
    assert "paramstyle" in caplog.text


def test_a_pool_may_give_connections_in_context_managers(tmp_path: Path) -> None:
    given: list[str] = []

    class Lease:
        def __enter__(self) -> sqlite3.Connection:
            given.append("taken")
            self.connection = sqlite3.connect(tmp_path / "a.db")
            return self.connection

        def __exit__(self, *_: object) -> None:
            given.append("returned")
            self.connection.close()

    barrier = DbapiBarrier(Lease, "shop")
    barrier.create()
    assert barrier.check(asked("a", group="shop")) is LocalTransactionState.ROLLBACK
    assert given == ["taken", "returned"] * 2


def test_connections_of_a_class_of_ones_own_are_known(tmp_path: Path) -> None:
    class Mine(sqlite3.Connection):
        pass

    barrier = DbapiBarrier(lambda: sqlite3.connect(tmp_path / "a.db", factory=Mine), "shop")
    barrier.create()
    assert barrier.check(asked("a", group="shop")) is LocalTransactionState.ROLLBACK


def test_a_connection_somebody_is_using_decides_nothing(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db", check_same_thread=False)

    class Lent:
        def __enter__(self) -> sqlite3.Connection:
            return connection

        def __exit__(self, *_: object) -> None:
            pass

    barrier = DbapiBarrier(Lent, "shop")
    barrier.create()
    barrier.record(connection, "a")
    assert barrier.check(asked("a", group="shop")) is UNKNOWN
    assert connection.in_transaction  # and nothing of it was rolled back
    connection.commit()
    assert barrier.check(asked("a", group="shop")) is LocalTransactionState.COMMIT
    connection.close()


def test_dirty_reads_decide_nothing() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA read_uncommitted = 1")
    with (
        pytest.raises(UnfitConnection, match="read_uncommitted"),
        guards.sqlite_bounds(connection, connection, 10),
    ):
        pass
    connection.close()


@pytest.mark.parametrize(
    ("connection", "is_alone"),
    [
        # sqlite3 as it always was
        ({"in_transaction": False, "isolation_level": ""}, False),
        ({"in_transaction": False, "isolation_level": None}, True),
        ({"in_transaction": True, "isolation_level": None}, False),
        # and since Python 3.12
        ({"in_transaction": False, "isolation_level": "", "autocommit": -1}, False),
        ({"in_transaction": False, "isolation_level": None, "autocommit": -1}, True),
        ({"in_transaction": False, "isolation_level": "", "autocommit": True}, True),
        ({"in_transaction": True, "isolation_level": "", "autocommit": True}, False),
        ({"in_transaction": True, "isolation_level": None, "autocommit": False}, False),
        # psycopg
        ({"autocommit": False}, False),
        ({"autocommit": True}, True),
        ({"autocommit": True, "info": SimpleNamespace(transaction_status=2)}, False),
        ({"autocommit": True, "info": SimpleNamespace(transaction_status=0)}, True),
        # asyncpg has no such word, and is in a transaction or not
        ({"is_in_transaction": lambda: False}, True),
        ({"is_in_transaction": lambda: True}, False),
        # PyMySQL, aiomysql, mysqlclient: `autocommit` is a method that sets it
        ({"autocommit": bool, "get_autocommit": lambda: True}, True),
        ({"autocommit": bool, "get_autocommit": lambda: False}, False),
        ({"autocommit": bool, "get_autocommit": lambda: True, "server_status": 3}, False),
        ({"autocommit": bool, "get_autocommit": lambda: True, "server_status": 2}, True),
        # MySQL Connector
        ({"in_transaction": False, "autocommit": True}, True),
        ({"in_transaction": True, "autocommit": True}, False),
        # one that says nothing: the database is asked
        ({}, False),
    ],
)
def test_a_record_needs_a_transaction(connection: dict[str, Any], is_alone: bool) -> None:
    if is_alone:
        with pytest.raises(InvalidRequest, match="autocommit"):
            guards.require_transaction(SimpleNamespace(**connection))
    else:
        guards.require_transaction(SimpleNamespace(**connection))


def test_a_plain_driver_needs_no_sqlalchemy() -> None:
    # A process of its own: here SQLAlchemy has long been imported.
    script = (
        "import sys, builtins; sys.modules['sqlalchemy'] = None\n"
        "from halfhitch.barrier import DbapiBarrier, ddl\n"
        "ddl('sqlite')\n"
        "assert not {m for m in sys.modules if m.startswith(('asyncio.', 'sqlalchemy.'))}\n"
        "try: from halfhitch.barrier import Barrier\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    assert "pip install 'halfhitch[barrier]'" in done.stdout


def test_what_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Moat'"):
        _ = halfhitch.barrier.Moat
    assert set(halfhitch.barrier.__all__) <= {*dir(halfhitch.barrier), "AsyncBarrier", "Barrier"}


def test_errors_say_what_to_do() -> None:
    fenced = TransactionFenced("a")
    assert "Begin again with a new transaction id" in str(fenced)
    assert not fenced.retryable
    assert "or it was recorded before" in str(TransactionFenced("a", is_sure=False))
    assert "never rolled back" in str(TransactionRecordedTwice("a", committed_before=True))
    unknown = LocalOutcomeUnknown("a")
    assert isinstance(unknown, OutcomeUnknown)
    assert "the check-back settles it" in str(unknown)


def with_no_messages(check: Any) -> Any:
    more = {"messages": (), "number": 1, "number_max": 15}
    return SimpleNamespace(**{"producer_group": "shop", **vars(check), **more})


@pytest.mark.parametrize("driver", ["sqlite", "sqlite+aiosqlite"])
async def test_why_the_barrier_says_unknown_was_known_to_its_log_alone(
    tmp_path: Path, driver: str
) -> None:
    check = asked("a", group="shop")
    url = f"{driver}:///{tmp_path}/a.db"  # without its table
    if driver == "sqlite":
        said = Barrier(create_engine(url), "shop").check(check)
    else:
        engine = create_async_engine(url)
        said = await AsyncBarrier(engine, "shop").check(check)
        await engine.dispose()
    state, reason = answer_of(with_no_messages(check), said)
    assert state is UNKNOWN
    assert reason is not None
    assert reason.startswith("OperationalError: (sqlite3.OperationalError) no such table: halfh")
    assert "SELECT" not in reason


@pytest.mark.parametrize("kind", ["sqlalchemy", "plain"])
def test_why_a_transaction_is_too_old_for_the_barrier_was_known_to_its_log_alone(
    tmp_path: Path, kind: str
) -> None:
    """The table is asked in a thread of its own: what is noted there is not seen here."""
    path = tmp_path / "a.db"
    barrier: Any = Barrier(create_engine(f"sqlite:///{path}"), "shop")
    if kind == "plain":
        barrier = DbapiBarrier(lambda: sqlite3.connect(path, check_same_thread=False), "shop")
    barrier.create()
    check = asked("a", age_s=1e7, group="shop")
    state, reason = answer_of(with_no_messages(check), barrier.check(check))
    assert state is UNKNOWN
    assert (reason or "").startswith("Undecidable: no row in halfhitch_barrier, and so old")


async def test_why_a_transaction_is_too_old_for_the_asyncio_barrier_was_known_to_its_log_alone(
    tmp_path: Path,
) -> None:
    check = asked("a", age_s=1e7, group="shop")
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/a.db")
    barrier = AsyncBarrier(engine, "shop")
    await barrier.create()
    state, reason = answer_of(with_no_messages(check), await barrier.check(check))
    assert state is UNKNOWN
    assert (reason or "").startswith("Undecidable: no row in halfhitch_barrier, and so old")
    await engine.dispose()


def test_a_retry_after_a_failed_attempt_was_told_of_a_check_that_had_never_come(
    tmp_path: Path,
) -> None:
    """And to prepare with a longer immunity, which helps nobody who uses an id again."""
    barrier = DbapiBarrier(lambda: sqlite3.connect(tmp_path / "a.db"), "shop")
    barrier.create()
    producer: Any = RecordingProducer(group="shop")
    with pytest.raises(KeyError), barrier.transaction(producer, "a"):
        raise KeyError
    with pytest.raises(TransactionFenced) as retried, barrier.transaction(producer, "a"):
        pass
    for told in (str(retried.value), str(TransactionFenced("a", is_sure=False))):
        assert "an earlier attempt with this id has failed" in told
        assert "Begin again with a new transaction id, after a failed attempt too" in told
        assert told.index("first attempts") < told.index("immunity")
