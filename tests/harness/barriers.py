"""Shops with a barrier, on every database and driver: what a test does to one, it does to all.

A shop has one table, `shop_orders`; an order is there if and only if its local transaction has
committed. That is the truth which a barrier's answers are held against.
"""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import psycopg
import pymysql
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from halfhitch.barrier import AsyncBarrier, Barrier, DbapiBarrier
from halfhitch.client import LocalTransactionState
from halfhitch.testing.loops import loop_in_thread
from harness.producers import Blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GROUP = "shop"
#: For a check that is not to run out of time, on a machine that is busy with other tests.
ENOUGH_S = 10.0
DATABASE_ERRORS = (DBAPIError, sqlite3.Error, psycopg.Error)
_ORDERS = "CREATE TABLE IF NOT EXISTS shop_orders (id VARCHAR(64) PRIMARY KEY)"


def asked(
    transaction_id: str, age_s: float = 100.0, group: str = GROUP, born_ms: int | None = None
) -> Any:
    """A check, as far as a barrier looks at it."""
    return SimpleNamespace(
        transaction_id=transaction_id, age_s=age_s, producer_group=group, born_ms=born_ms
    )


class _Done:
    """What may be awaited, and need not be: the same transaction goes to both barriers."""

    def __await__(self) -> Iterator[None]:
        yield from ()


@dataclass
class RecordingTransaction:
    """A producer's transaction, blocking or asyncio's, that only remembers how it was ended."""

    id: str
    ends: list[str] = field(default_factory=list)
    #: Why it cannot be committed.
    doomed: Exception | None = None
    is_sealed: bool = False
    send_count: int = 0
    watch: Callable[[], None] | None = None

    def watch_sends(self, watch: Callable[[], None]) -> None:
        self.watch = watch

    def prepare(self, messages: Any) -> None:
        if self.watch is not None:
            self.watch()
        self.send_count += 1
        assert self.ends == []
        assert not self.is_sealed

    def hold(self, mark: Any) -> None:
        assert mark.is_held

    def follow(self) -> Any:
        self.ends.append("commit")
        return _Done()

    def assert_can_commit(self) -> None:
        assert self.ends == []
        if self.doomed is not None:
            raise self.doomed

    def seal(self) -> None:
        self.assert_can_commit()
        self.is_sealed = True

    def drop(self, error: BaseException) -> Any:
        self.ends.append("rollback")
        return _Done()


class RecordingProducer:
    """A producer whose messages go nowhere."""

    def __init__(self, new_id: str = "new", group: str = GROUP) -> None:
        self.new_id = new_id
        self.group = group
        self.made: list[RecordingTransaction] = []

    def transaction(self, transaction_id: str | None = None, **_: Any) -> Any:
        self.made.append(RecordingTransaction(transaction_id or self.new_id))
        return self.made[-1]


class AlchemyShop:
    """Over SQLAlchemy."""

    def __init__(self, url: str, **options: Any) -> None:
        self.is_sqlite = url.startswith("sqlite")
        self.engine = create_engine(url, **options)
        if self.is_sqlite:
            event.listen(self.engine, "connect", _write_ahead)
        self.barrier = Barrier(self.engine, GROUP, wait_s=ENOUGH_S)

    def with_barrier(self, **options: Any) -> Barrier:
        return Barrier(self.engine, GROUP, **{"wait_s": ENOUGH_S, **options})

    def set_up(self) -> None:
        self.barrier.create()
        with self.engine.begin() as connection:
            for statement in (
                _ORDERS,
                "DELETE FROM shop_orders",
                f"DELETE FROM {self.barrier._rules.table}",
            ):
                connection.execute(text(statement))

    def begin(self) -> LocalTransaction:
        session = self._session()
        return LocalTransaction(
            lambda statement: session.execute(text(statement)),
            lambda transaction_id: self.barrier.record(session, transaction_id),
            session.commit,
            session.rollback,
            session.close,
        )

    def _session(self) -> Any:
        return Session(self.engine)

    def query(self, statement: str) -> list[Any]:
        with self.engine.begin() as connection:
            result = connection.execute(text(statement))
            return [tuple(row) for row in result] if result.returns_rows else []

    def close(self) -> None:
        self.engine.dispose()


class AsyncShop(AlchemyShop):
    """Over SQLAlchemy's asyncio, on a loop in a thread; the truth is read past that."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._running = ExitStack()
        self._loop = self._running.enter_context(loop_in_thread())
        async_url = url.replace("sqlite:", "sqlite+aiosqlite:")
        self.async_engine = create_async_engine(async_url, **options)
        self.barrier = self.with_barrier()

    def with_barrier(self, **options: Any) -> Any:
        made = AsyncBarrier(self.async_engine, GROUP, **{"wait_s": ENOUGH_S, **options})
        return Blocking(made, self._loop)

    def _session(self) -> Any:
        return Blocking(AsyncSession(self.async_engine), self._loop)

    def close(self) -> None:
        with self._running:
            Blocking(self.async_engine, self._loop).dispose()
        super().close()


class DbapiShop:
    """Over a plain driver."""

    def __init__(self, connect: Any) -> None:
        self.connect = connect
        connection = connect()
        self.is_sqlite = isinstance(connection, sqlite3.Connection)
        connection.close()
        self.barrier = DbapiBarrier(connect, GROUP, wait_s=ENOUGH_S)

    def with_barrier(self, **options: Any) -> DbapiBarrier:
        return DbapiBarrier(self.connect, GROUP, **{"wait_s": ENOUGH_S, **options})

    def set_up(self) -> None:
        self.barrier.create()
        self.query(_ORDERS)
        self.query("DELETE FROM shop_orders")
        self.query(f"DELETE FROM {self.barrier._rules.table}")

    def begin(self) -> LocalTransaction:
        connection = self.connect()
        return LocalTransaction(
            lambda statement: connection.cursor().execute(statement),
            lambda transaction_id: self.barrier.record(connection.cursor(), transaction_id),
            connection.commit,
            connection.rollback,
            connection.close,
        )

    def query(self, statement: str) -> list[Any]:
        connection = self.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows = cursor.fetchall() if cursor.description else []
            connection.commit()
            return list(rows)
        finally:
            connection.close()

    def close(self) -> None:
        """Every connection was closed after its use."""


Shop = AlchemyShop | DbapiShop


def open_shop(kind: str, fixture: Callable[[str], Any], folder: Path) -> Shop:
    """`style-database`, or the name of a plain driver; `fixture` gives the servers."""
    style, _, database = kind.rpartition("-")
    if style:
        made = {"sqlalchemy": AlchemyShop, "asyncio": AsyncShop}[style]
        if database == "sqlite":
            patient = {"timeout": 60}
            return made(f"sqlite:///{folder / 'shop.db'}", pool_size=12, connect_args=patient)
        return made(fixture(database).url, pool_size=12)
    if kind == "psycopg":
        dsn = fixture("postgres").dsn
        return DbapiShop(lambda: psycopg.connect(dsn))
    if kind == "pymysql":
        arguments = fixture("mariadb").arguments()
        return DbapiShop(lambda: pymysql.connect(**arguments))
    return DbapiShop(sqlite_connect(folder / "shop.db"))


@contextmanager
def ready_shop(kind: str, fixture: Callable[[str], Any], folder: Path) -> Iterator[Any]:
    """With empty tables; closed at the end."""
    made = open_shop(kind, fixture, folder)
    made.set_up()
    yield made
    made.close()


def insert(local: Any, transaction_id: str) -> None:
    """An order, in what a block yields."""
    statement = f"INSERT INTO shop_orders (id) VALUES ('{transaction_id}')"
    if isinstance(local, Session | Blocking):
        local.execute(text(statement))
    else:
        local.cursor().execute(statement)


@dataclass
class LocalTransaction:
    """One of the application's, as its statements."""

    execute: Any
    record: Any
    commit: Any
    rollback: Any
    close: Any

    def order(self, transaction_id: str) -> None:
        self.execute(f"INSERT INTO shop_orders (id) VALUES ('{transaction_id}')")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def orders(shop: Shop) -> set[str]:
    """The ids whose local transaction has committed."""
    return {row[0] for row in shop.query("SELECT id FROM shop_orders")}


def rows(shop: Shop, table: str = "halfhitch_barrier") -> dict[str, str]:
    """The barrier's table."""
    found = shop.query(f"SELECT transaction_id, outcome FROM {table}")
    return {key.decode() if isinstance(key, bytes) else key: outcome for key, outcome in found}


def wrong_answers(
    answers: dict[str, set[LocalTransactionState]], committed: set[str]
) -> dict[str, set[LocalTransactionState]]:
    """Ids that were, ever, answered what is not so. UNKNOWN is never wrong."""
    return {
        transaction_id: given
        for transaction_id, given in answers.items()
        if (
            LocalTransactionState.ROLLBACK
            if transaction_id in committed
            else LocalTransactionState.COMMIT
        )
        in given
    }


def sqlite_connect(path: Path) -> Any:
    """Waits as long for a lock as an application may want, which a check must not."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=60, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        return connection

    return connect


def _write_ahead(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
