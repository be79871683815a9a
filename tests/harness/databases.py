"""The barrier on every database, driver and pooler: what a test does to one way, it does to all.

A way is how a program reaches its database: a driver, over SQLAlchemy (blocking or asyncio) or
plain, at an isolation level. Asyncio's live on a loop in a thread, so that a test need not know.

The truth is read past barrier and driver, over a connection of its own: an order is there if and
only if its local transaction has committed.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiomysql
import asyncpg
import psycopg
import pymysql
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from halfhitch.barrier import AsyncBarrier, Barrier, DbapiBarrier
from halfhitch.barrier.table import ddl_statements
from halfhitch.testing.loops import loop_in_thread
from harness.barriers import GROUP, LocalTransaction, RecordingProducer, asked
from harness.kafka import wait_until
from harness.producers import Blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.client import LocalTransactionState

ERRORS = (
    *(DBAPIError, sqlite3.Error, psycopg.Error, asyncpg.PostgresError),
    *(pymysql.MySQLError, aiomysql.MySQLError),
)
#: For what is to come to its end on a machine that is busy with other things.
ENOUGH_S = 30.0

_URLS = {
    "sqlite3": "sqlite:///{0}",
    "aiosqlite": "sqlite+aiosqlite:///{0}",
    "psycopg": "postgresql+psycopg://postgres@127.0.0.1:{0}/postgres",
    "asyncpg": "postgresql+asyncpg://postgres@127.0.0.1:{0}/postgres",
    "pymysql": "mysql+pymysql://root@127.0.0.1:{0}/shop?charset=utf8mb4",
    "aiomysql": "mysql+aiomysql://root@127.0.0.1:{0}/shop?charset=utf8mb4",
}
_PSYCOPG = {
    "READ UNCOMMITTED": psycopg.IsolationLevel.READ_UNCOMMITTED,
    "READ COMMITTED": psycopg.IsolationLevel.READ_COMMITTED,
    "REPEATABLE READ": psycopg.IsolationLevel.REPEATABLE_READ,
    "SERIALIZABLE": psycopg.IsolationLevel.SERIALIZABLE,
}


@dataclass(frozen=True, slots=True)
class Way:
    """`isolation` is the database's default if None; `style` is sqlalchemy, asyncio or plain."""

    server: str  # sqlite, postgresql, pgbouncer or mariadb
    driver: str
    style: str
    isolation: str | None = None

    def __str__(self) -> str:
        level = "" if self.isolation is None else f"-{self.isolation.lower().replace(' ', '-')}"
        return f"{self.server}-{self.driver}-{self.style}{level}"

    def at(self, isolation: str | None) -> Way:
        return Way(self.server, self.driver, self.style, isolation)


WAYS = (
    Way("sqlite", "sqlite3", "sqlalchemy"),
    Way("sqlite", "sqlite3", "plain"),
    Way("sqlite", "aiosqlite", "asyncio"),
    Way("postgresql", "psycopg", "sqlalchemy"),
    Way("postgresql", "psycopg", "plain"),
    Way("postgresql", "psycopg", "asyncio"),
    Way("postgresql", "asyncpg", "asyncio"),
    Way("pgbouncer", "psycopg", "sqlalchemy"),
    Way("pgbouncer", "psycopg", "plain"),
    Way("pgbouncer", "asyncpg", "asyncio"),
    Way("mariadb", "pymysql", "sqlalchemy"),
    Way("mariadb", "pymysql", "plain"),
    Way("mariadb", "aiomysql", "asyncio"),
)
#: Beside each database's default, which is READ COMMITTED, SERIALIZABLE, REPEATABLE READ.
LEVELS = {
    "sqlite": (),
    "pgbouncer": ("SERIALIZABLE",),
    "postgresql": ("REPEATABLE READ", "SERIALIZABLE"),
    "mariadb": ("READ UNCOMMITTED", "READ COMMITTED", "SNAPSHOT", "SERIALIZABLE"),
}
LEVELLED = tuple(way.at(level) for way in WAYS for level in LEVELS[way.server])


class Truth:
    """A database past the barrier: one connection in autocommit mode, kept."""

    def __init__(self, dialect: str, connect: Callable[[], Any]) -> None:
        self.dialect = dialect
        self.connect = connect
        self._kept: Any = None

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        if self._kept is None:
            self._kept = self.connect()
        cursor = self._kept.cursor()
        try:
            cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        finally:
            cursor.close()

    def make_tables(self) -> None:
        """Empty ones, whatever was there."""
        for name in ("shop_orders", "halfhitch_barrier"):
            self.run(f"DROP TABLE IF EXISTS {name}")
        self.run("CREATE TABLE shop_orders (id VARCHAR(64) PRIMARY KEY)")
        for statement in ddl_statements(self.dialect, "halfhitch_barrier"):
            self.run(statement)

    def empty_tables(self) -> None:
        self.run("DELETE FROM shop_orders")
        self.run("DELETE FROM halfhitch_barrier")

    def orders(self) -> set[str]:
        """The ids whose local transaction has committed."""
        return {row[0] for row in self.run("SELECT id FROM shop_orders")}

    def rows(self) -> dict[str, str]:
        """The barrier's table: id -> outcome."""
        found = self.run("SELECT transaction_id, outcome FROM halfhitch_barrier")
        return {
            key.decode() if isinstance(key, bytes) else key: str(outcome) for key, outcome in found
        }

    def await_waiting(self, count: int) -> None:
        """Until so many wait for a lock of somebody else's."""
        statement = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            if self.dialect == "postgresql"
            else "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
        )
        # Who asks MariaDB more often than every 0.1 s is told the same again.
        wait_until(
            lambda: self.run(statement) == [(count,)],
            ENOUGH_S,
            interval_s=0.02 if self.dialect == "postgresql" else 0.12,
            what=f"{count} waiting",
        )

    def make_old(self, days: int) -> None:
        """All rows of the barrier's."""
        ago = {
            "sqlite": f"datetime('now', '-{days} days')",
            "postgresql": f"now() - interval '{days} days'",
            "mariadb": f"now() - interval {days} day",
        }[self.dialect]
        self.run(f"UPDATE halfhitch_barrier SET at = {ago}")

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None


class AlchemyShop:
    """Over SQLAlchemy."""

    def __init__(self, way: Way, address: object, **options: Any) -> None:
        self.engine = create_engine(_URLS[way.driver].format(address), **_options(way), **options)
        _set_up(self.engine, way)

    def barrier(self, **options: Any) -> Barrier:
        return Barrier(self.engine, GROUP, **{"wait_s": ENOUGH_S, **options})

    def check(self, transaction_id: str, **options: Any) -> LocalTransactionState:
        return self.barrier(**options).check(asked(transaction_id))

    def session(self) -> Any:
        return Session(self.engine)

    def begin(self) -> LocalTransaction:
        session = self.session()
        return LocalTransaction(
            lambda statement: session.execute(text(statement)),
            lambda transaction_id: self.barrier().record(session, transaction_id),
            session.commit,
            session.rollback,
            session.close,
        )

    def block(self, transaction_id: str, **options: Any) -> RecordingProducer:
        producer = RecordingProducer(transaction_id)
        with self.barrier(**options).transaction(producer) as (tx, session):
            session.execute(text(f"INSERT INTO shop_orders (id) VALUES ('{tx.id}')"))
        return producer

    def purge(self, **options: Any) -> int:
        return self.barrier().purge(**options)

    def create(self) -> None:
        self.barrier().create()

    def close(self) -> None:
        self.engine.dispose()


class PlainShop:
    """Over a plain driver; `connect` takes nothing."""

    def __init__(self, way: Way, address: Any, **options: Any) -> None:
        self.connect = lambda: _plain(way, address, options)

    def barrier(self, **options: Any) -> DbapiBarrier:
        return DbapiBarrier(self.connect, GROUP, **{"wait_s": ENOUGH_S, **options})

    def check(self, transaction_id: str, **options: Any) -> LocalTransactionState:
        return self.barrier(**options).check(asked(transaction_id))

    def begin(self) -> LocalTransaction:
        connection = self.connect()
        return LocalTransaction(
            lambda statement: connection.cursor().execute(statement),
            lambda transaction_id: self.barrier().record(connection, transaction_id),
            connection.commit,
            connection.rollback,
            connection.close,
        )

    def block(self, transaction_id: str, **options: Any) -> RecordingProducer:
        producer = RecordingProducer(transaction_id)
        with self.barrier(**options).transaction(producer) as (tx, connection):
            connection.cursor().execute(f"INSERT INTO shop_orders (id) VALUES ('{tx.id}')")
        return producer

    def purge(self, **options: Any) -> int:
        return self.barrier().purge(**options)

    def create(self) -> None:
        self.barrier().create()

    def close(self) -> None:
        """Every connection was closed after its use."""


class AsyncShop(AlchemyShop):
    """Over SQLAlchemy's asyncio."""

    def __init__(self, way: Way, address: object, **options: Any) -> None:
        self._running = ExitStack()
        self._loop = self._running.enter_context(loop_in_thread())
        url = _URLS[way.driver].format(address)
        self.async_engine = create_async_engine(url, **_options(way), **options)
        _set_up(self.async_engine.sync_engine, way)

    def barrier(self, **options: Any) -> Any:
        made = AsyncBarrier(self.async_engine, GROUP, **{"wait_s": ENOUGH_S, **options})
        return Blocking(made, self._loop)

    def session(self) -> Any:
        return Blocking(AsyncSession(self.async_engine), self._loop)

    def close(self) -> None:
        with self._running:
            Blocking(self.async_engine, self._loop).dispose()


Shop = AlchemyShop | PlainShop


def open_shop(way: Way, address: object, **options: Any) -> Shop:
    """At a port, or a file of SQLite's. `options` go to the engine or to the driver's connect."""
    kinds: dict[str, Any] = {"sqlalchemy": AlchemyShop, "plain": PlainShop, "asyncio": AsyncShop}
    shop: Shop = kinds[way.style](way, address, **options)
    return shop


def _options(way: Way) -> dict[str, Any]:
    """For an engine."""
    options: dict[str, Any] = {}
    if way.isolation is not None and way.isolation != "SNAPSHOT":
        options["isolation_level"] = way.isolation
    if way.server == "pgbouncer" and way.driver == "psycopg":
        options["connect_args"] = {"prepare_threshold": None}
    elif way.server == "pgbouncer":
        options["connect_args"] = {
            "statement_cache_size": 0,
            "prepared_statement_cache_size": 0,
            "prepared_statement_name_func": lambda: f"__asyncpg_{uuid4()}__",
        }
    return options


def _set_up(engine: Any, way: Way) -> None:
    """What a new connection is told, that an engine cannot be."""
    from sqlalchemy import event

    def tell(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        for statement in _first_words(way):
            cursor.execute(statement)
        cursor.close()

    event.listen(engine, "connect", tell)


def _first_words(way: Way) -> tuple[str, ...]:
    if way.isolation == "SNAPSHOT":  # what newer ones take REPEATABLE READ for
        return ("SET SESSION innodb_snapshot_isolation = ON",)
    return ()


def _plain(way: Way, address: Any, options: dict[str, Any]) -> Any:
    connection: Any
    if way.server == "sqlite":
        connection = sqlite3.connect(address, timeout=60, check_same_thread=False, **options)
    elif way.driver == "psycopg":
        given: dict[str, Any] = {} if way.server == "postgresql" else {"prepare_threshold": None}
        dsn = f"postgresql://postgres@127.0.0.1:{address}/postgres"
        connection = psycopg.connect(dsn, **{"connect_timeout": 10, **given, **options})
        if way.isolation is not None:
            connection.isolation_level = _PSYCOPG[way.isolation]
    else:
        given = {"host": "127.0.0.1", "port": address, "user": "root", "database": "shop"}
        connection = pymysql.connect(**{"charset": "utf8mb4", **given, **options})
        if way.isolation not in (None, "SNAPSHOT"):
            connection.cursor().execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {way.isolation}")
    for statement in _first_words(way):
        connection.cursor().execute(statement)
    return connection
