"""What a database connection must be like before a barrier relies on it.

- `record` must be part of the local transaction: a connection that commits every statement by
  itself would keep the note when the rest is rolled back, and one inside somebody's outer
  transaction or savepoint would lose it, or keep it, with that.
- A check needs a connection nobody else is using, that sees committed rows only, and must not wait
  for a lock for long.

Works on drivers' connections; knows no statement of the table's.
"""

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from halfhitch.barrier.table import UnfitConnection
from halfhitch.errors import InvalidRequest

_PSYCOPG_IDLE: Final = 0
_PSYCOPG_ACTIVE: Final = 1
#: psycopg's INERROR: a statement has failed, and PostgreSQL takes no other one before the end.
_PSYCOPG_FAILED: Final = 3
#: MySQL's SERVER_STATUS_IN_TRANS.
_MYSQL_IN_TRANSACTION: Final = 1
_SQLITE_BUSY: Final = 5
#: Where drivers keep what a connection is read from: attributes, one inside the other.
_SOCKETS: Final = (
    ("_transport",),  # asyncpg
    ("_writer", "transport"),  # aiomysql, asyncmy
    ("_sock",),  # PyMySQL, pg8000
    ("_usock",),  # older pg8000
    ("_socket", "sock"),  # MySQL Connector
)

#: Of PostgreSQL, for a driver of which nothing is known: two statements of one transaction agree.
TRANSACTION_PROBE: Final = ("SELECT txid_current()", "SELECT txid_current_if_assigned()")

#: After an INSERT: the row is the transaction's own, not that of a savepoint inside it; its number.
POSTGRESQL_OUTSIDE_SAVEPOINT: Final = (
    " RETURNING CAST(CAST(xmin AS TEXT) AS BIGINT) = MOD(txid_current(), 4294967296),"
    " CAST(txid_current() AS TEXT)"
)


def commits_alone() -> InvalidRequest:
    """To be raised when a record would be committed by itself."""
    return InvalidRequest(
        "this connection is in autocommit mode and in no transaction: the record would be"
        " committed alone. Begin a transaction, and do the local work in it too"
    )


def block_commits_alone() -> InvalidRequest:
    """To be raised when a block could not commit what is done in it."""
    return InvalidRequest(
        "this connection is in autocommit mode: each statement of this block would be committed"
        " alone. What a BEGIN of the program's own has begun need not end with the block's commit,"
        " and its end inside the block would not be noticed. Give the block a connection that is"
        " not in this mode. By hand, `record` in a transaction of your own is fine; end it as it"
        " was begun, by COMMIT"
    )


def commits_nothing() -> InvalidRequest:
    """To be raised when the commit of a driver would not end a transaction begun by text."""
    return InvalidRequest(
        "the transaction of this record was begun by text (BEGIN), in autocommit mode, and its"
        " driver's commit() does nothing there: the rows would stay uncommitted, and be lost with"
        " the connection. It was given up. Run COMMIT as you ran BEGIN, or take a connection that"
        " is not in this mode"
    )


def unwritten() -> InvalidRequest:
    """To be raised when the database took the record's INSERT and wrote no row."""
    return InvalidRequest(
        "the database took the record's INSERT and wrote no row: without it a check could not tell"
        " that the local transaction was committed. Look for a trigger or a rule on the barrier's"
        " table that takes rows away"
    )


def in_savepoint() -> InvalidRequest:
    """To be raised when a record could be rolled back without its local transaction."""
    return InvalidRequest(
        "record was called inside a savepoint (begin_nested, a nested block): were that rolled"
        " back, the record would be gone and the rest committed, and the messages rolled back."
        " Call it behind the savepoint's end, as the last statement before the local commit"
    )


def given_in_savepoint() -> InvalidRequest:
    """To be raised for a block's session that has a savepoint open."""
    return InvalidRequest(
        "this session is inside a savepoint (begin_nested): the commit at the block's end would end"
        " that one, and the rows would stand or fall with what is around it. Begin the block first:"
        " `with barrier.transaction(...) as (tx, session), session.begin_nested():` is fine"
    )


def require_transaction(driver_connection: Any) -> None:
    """Raises InvalidRequest when a statement would be committed at once, all by itself."""
    if commits_at_once(driver_connection):
        raise commits_alone()


def commits_at_once(connection: Any) -> bool | None:
    """By what the driver says; None when it says nothing."""
    # sqlite3, aiosqlite, MySQL Connector: a transaction that was begun by hand is as good.
    in_transaction = getattr(connection, "in_transaction", None)
    if isinstance(in_transaction, bool):
        return not in_transaction and is_in_autocommit(connection)
    autocommit = getattr(connection, "autocommit", None)
    if isinstance(autocommit, bool):
        # psycopg: so is `with connection.transaction()`.
        return autocommit and not is_in_transaction(connection)
    ask = getattr(connection, "get_autocommit", None)
    if callable(ask):  # MySQL's drivers
        return bool(ask()) and not is_in_transaction(connection)
    if callable(getattr(connection, "is_in_transaction", None)):  # asyncpg: a block, or nothing
        return not is_in_transaction(connection)
    return None


def is_in_autocommit(connection: Any) -> bool:
    """The mode, in a transaction that was begun by text too; by what the driver says."""
    if isinstance(getattr(connection, "in_transaction", None), bool):  # SQLite's
        modern = getattr(connection, "autocommit", None)
        legacy = getattr(connection, "isolation_level", "")
        return modern is True or (modern is not False and legacy is None)
    ask = getattr(connection, "get_autocommit", None)
    return bool(ask()) if callable(ask) else getattr(connection, "autocommit", None) is True


def is_in_transaction(connection: Any) -> bool | None:
    """By what the driver says, without asking the server; None when it says nothing.

    Nothing says sqlite3 with autocommit=False (Python 3.12), where one is always open.
    """
    in_transaction = getattr(connection, "in_transaction", None)
    if isinstance(in_transaction, bool):
        return None if getattr(connection, "autocommit", None) is False else in_transaction
    if callable(ask := getattr(connection, "is_in_transaction", None)):
        return bool(ask())
    info = getattr(connection, "info", None)
    status = getattr(info, "transaction_status", None)
    if status is not None:
        return int(status) != _PSYCOPG_IDLE
    server_status = getattr(connection, "server_status", None)
    if isinstance(server_status, int):
        return bool(server_status & _MYSQL_IN_TRANSACTION)
    return None


def is_busy(connection: Any) -> bool:
    """A statement was not answered yet: a COMMIT perhaps, from which a signal's handler came."""
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    return status is not None and int(status) == _PSYCOPG_ACTIVE


def is_lost(connection: Any) -> bool:
    """Closed by the program, or by a server of which the driver has heard it."""
    with suppress(Exception):
        ask = getattr(connection, "is_closed", None)  # asyncpg's
        is_closed = ask() if callable(ask) else getattr(connection, "closed", False)
        is_in_transaction(connection)  # sqlite3's only raise
        return bool(is_closed) or not getattr(connection, "open", True)  # MySQL's drivers
    return True


def require_no_transaction(driver_connection: Any) -> None:
    """Raises InvalidRequest for a connection on which somebody's transaction is open."""
    if is_in_transaction(driver_connection):
        raise InvalidRequest(
            "a transaction is already open on the connection that the barrier was given: what is"
            " committed in this block would wait for, or be lost with, somebody else's. Let"
            " `connect` give a connection that nobody is using"
        )


def require_nothing_written(driver_connection: Any, ask: Callable[[str], Any]) -> None:
    """Raises UnfitConnection where a check would take an uncommitted record for a committed one.

    PostgreSQL's. A statement of `connect`, such as SET, leaves a transaction open too: no harm.
    """
    if is_in_transaction(driver_connection) and ask(TRANSACTION_PROBE[1]) is not None:
        raise UnfitConnection(
            "somebody is writing on the connection that the barrier was given: his rows are not"
            " committed yet, and a check would see them. Let `connect` give a new connection, or"
            " one of a pool"
        )


def has_failed(connection: Any) -> bool | None:
    """Whether PostgreSQL would take a COMMIT for a ROLLBACK; None when the driver does not say."""
    status = getattr(getattr(connection, "info", None), "transaction_status", None)
    return None if status is None else int(status) == _PSYCOPG_FAILED


def silent_rollback() -> InvalidRequest:
    """To be raised when a COMMIT would commit nothing and say nothing."""
    return InvalidRequest(
        "a statement of this local transaction has failed after the record, and its exception was"
        " swallowed: PostgreSQL would roll all of it back at the COMMIT, and say nothing. Let the"
        " exception out, or run what may fail in a savepoint (begin_nested)"
    )


class Home:
    """The process that a block was begun in."""

    def __init__(self) -> None:
        self._process_id = os.getpid()

    def is_left(self, held: object) -> bool:
        """Whether this is a forked child; then what the block holds is never let go of."""
        if os.getpid() == self._process_id:
            return False
        keep_unsaid(held)
        return True


def keep_unsaid(held: object) -> None:
    """In a forked child: never let go of its parent's connection.

    To close it, to roll back, even to forget it would be said to the server over the parent's
    socket, in the middle of the parent's local transaction.
    """
    # Not a list of ours: that is emptied when the child ends, and pools' generators close then.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))


def descriptor_of(driver_connection: Any) -> int | None:
    """Of the socket a driver's connection uses, where that can be found."""
    for path in ((), *_SOCKETS):
        found = driver_connection
        for name in path:
            found = getattr(found, name, None)
        about = getattr(found, "get_extra_info", None)
        if callable(about):  # a transport of asyncio's
            found = about("socket")
        ask = getattr(found, "fileno", None)
        if not callable(ask):
            continue
        descriptor = None
        with suppress(Exception):  # closed, or something else of that name
            descriptor = ask()
        if isinstance(descriptor, int) and descriptor >= 0:
            return descriptor
    return None


def postgresql_bounds(wait_ms: int) -> str:
    """Run first in each transaction of a check: no lock, and nothing else, may hold it for long."""
    return (
        f"SELECT set_config('lock_timeout', '{int(wait_ms)}ms', true),"
        f" set_config('statement_timeout', '{int(wait_ms)}ms', true)"
    )


def is_busy_file(error: BaseException) -> bool:
    """Whether SQLite says that somebody else has locked the file."""
    code = getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", None)
    return isinstance(code, int) and code & 0xFF == _SQLITE_BUSY


@contextmanager
def sqlite_bounds(raw: Any, driver_connection: Any, wait_ms: int) -> Iterator[None]:
    """Wait for a lock for `wait_ms`, whatever the connection is set to; then put that back.

    Raises UnfitConnection.
    """
    # With autocommit=False (Python 3.12) one is always open, and says nothing.
    is_told = getattr(driver_connection, "autocommit", None) is not False
    if is_told and getattr(driver_connection, "in_transaction", False):
        raise UnfitConnection(
            "a transaction is open on the connection that the check was given: it is shared with"
            " the application (an in-memory database, a StaticPool). A check needs its own"
        )
    if _pragma(raw, "read_uncommitted"):
        raise UnfitConnection("the connection reads what is not committed (read_uncommitted)")
    before_ms = _pragma(raw, "busy_timeout")
    _pragma(raw, f"busy_timeout = {int(wait_ms)}")
    try:
        yield
    finally:
        _pragma(raw, f"busy_timeout = {before_ms}")


def _pragma(raw: Any, text: str) -> int:
    return _one(raw, f"PRAGMA {text}")


def _one(raw: Any, statement: str) -> int:
    cursor = raw.cursor()
    try:
        cursor.execute(statement)
        row = cursor.fetchone()
        if row is None:
            return 0
        return int(next(iter(row.values())) if isinstance(row, dict) else row[0])
    finally:
        cursor.close()
