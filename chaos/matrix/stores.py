"""The databases of the matrix: how a program reaches one, and what stands in it at the end.

A store is a value that travels to the process which uses it. Every connection that is made is
remembered, so that it can be cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.ext.asyncio import create_async_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

ORDERS = "crash_orders"
_CREATE = f"CREATE TABLE IF NOT EXISTS {ORDERS} (id VARCHAR(64) PRIMARY KEY, messages INT NOT NULL)"
_BUSY_S = 20.0


@dataclass(frozen=True)
class Store:
    """`kind`: sqlite, postgresql or mariadb. `place`: the file, or the port of a server."""

    kind: str
    place: str

    @property
    def is_server(self) -> bool:
        """It is reached over a connection that can be cut."""
        return self.kind != "sqlite"

    def through(self, port: int) -> Store:
        """The same by way of a relay."""
        return Store(self.kind, str(port))

    def url(self, *, is_async: bool = False) -> str:
        """For SQLAlchemy."""
        if self.kind == "sqlite":
            return f"sqlite{'+aiosqlite' if is_async else ''}:///{self.place}"
        if self.kind == "postgresql":
            return (
                f"postgresql+psycopg://postgres@127.0.0.1:{self.place}/postgres?connect_timeout=20"
            )
        driver = "aiomysql" if is_async else "pymysql"
        return f"mysql+{driver}://root@127.0.0.1:{self.place}/shop?charset=utf8mb4"

    def connect(self) -> Any:
        """A connection of the driver's own."""
        if self.kind == "sqlite":
            return sqlite3.connect(self.place, timeout=_BUSY_S)
        if self.kind == "postgresql":
            import psycopg

            return psycopg.connect(
                host="127.0.0.1", port=int(self.place), user="postgres", dbname="postgres"
            )
        import pymysql

        return pymysql.connect(host="127.0.0.1", port=int(self.place), user="root", database="shop")

    async def connect_async(self) -> Any:
        """The same of an asyncio driver."""
        if self.kind == "sqlite":
            import aiosqlite

            return await aiosqlite.connect(self.place, timeout=_BUSY_S)
        if self.kind == "postgresql":
            import psycopg

            return await psycopg.AsyncConnection.connect(
                host="127.0.0.1", port=int(self.place), user="postgres", dbname="postgres"
            )
        import aiomysql

        return await aiomysql.connect(
            host="127.0.0.1", port=int(self.place), user="root", db="shop"
        )

    def set_up(self) -> None:
        """The shop's table."""
        with contextlib.closing(self.connect()) as connection:
            if self.kind == "sqlite":
                connection.execute("PRAGMA journal_mode=WAL")
            connection.cursor().execute(_CREATE)
            connection.commit()

    def orders(self) -> dict[str, int]:
        """What has been committed: how many messages each order has by its own account."""
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"SELECT id, messages FROM {ORDERS}")
            return dict(cursor.fetchall())

    def has(self, order_id: str) -> bool:
        """Whether it stands there."""
        with contextlib.closing(self.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"SELECT 1 FROM {ORDERS} WHERE id = '{order_id}'")
            return cursor.fetchone() is not None

    def insert(self, order_id: str, messages: int) -> str:
        """The statement that makes an order."""
        return f"INSERT INTO {ORDERS} (id, messages) VALUES ('{order_id}', {messages})"


class Connections:
    """What one process has made, of engines and of drivers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._made: list[Any] = []

    def engine(self) -> Engine:
        """Of the application."""
        options = {"connect_args": {"timeout": _BUSY_S}} if self._store.kind == "sqlite" else {}
        made = create_engine(self._store.url(), **options)
        event.listen(made, "connect", self._engine_made)
        return made

    def async_engine(self) -> AsyncEngine:
        """Of an asyncio application."""
        options = {"connect_args": {"timeout": _BUSY_S}} if self._store.kind == "sqlite" else {}
        made = create_async_engine(self._store.url(is_async=True), **options)
        event.listen(made.sync_engine, "connect", self._engine_made)
        return made

    def connect(self) -> Any:
        """Of a plain driver."""
        made = self._store.connect()
        self._made.append(made)
        return made

    async def connect_async(self) -> Any:
        """Of an asyncio driver."""
        made = await self._store.connect_async()
        self._made.append(made)
        return made

    def cut(self) -> None:
        """All of them, as a network does it: neither side has said goodbye."""
        for connection in self._made:
            with contextlib.suppress(Exception):  # it has been closed already
                _cut(connection)

    def _engine_made(self, connection: Any, _: Any) -> None:
        self._made.append(getattr(connection, "driver_connection", connection))


def _cut(connection: Any) -> None:
    if hasattr(connection, "fileno"):  # psycopg
        with socket.socket(fileno=os.dup(connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)
    elif hasattr(connection, "_sock"):  # PyMySQL
        connection._sock.shutdown(socket.SHUT_RDWR)
    elif hasattr(connection, "_writer"):  # aiomysql
        connection._writer.transport.abort()


class Database:
    """The shop's own work on a plain connection: what README calls `database`."""

    def __init__(self, connect: Callable[[], Any], statement: Callable[[], str]) -> None:
        self._connect = connect
        self._statement = statement

    def commit(self) -> None:
        """One order."""
        connection = self._connect()
        try:
            connection.cursor().execute(self._statement())
            connection.commit()
        finally:
            connection.close()


class AsyncDatabase:
    """The same, awaited."""

    def __init__(self, connect: Callable[[], Any], statement: Callable[[], str]) -> None:
        self._connect = connect
        self._statement = statement

    async def commit(self) -> None:
        """One order."""
        connection = await self._connect()
        try:
            cursor = connection.cursor()
            cursor = await cursor if asyncio.iscoroutine(cursor) else cursor
            if hasattr(cursor, "__await__"):  # aiosqlite's and aiomysql's wait for their thread
                cursor = await cursor
            await cursor.execute(self._statement())
            await connection.commit()
        finally:
            closed = connection.close()
            if closed is not None:
                await closed
