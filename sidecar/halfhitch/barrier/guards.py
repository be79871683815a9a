"""What a database connection must be like before a barrier relies on it.

- `record` must be part of the local transaction: a connection that commits every statement by
  itself would keep the note when the rest is rolled back.
- A check needs a connection nobody else is using, that sees committed rows only, and must not wait
  for a lock for long.

Works on drivers' connections; knows no statement of the table's.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from halfhitch.barrier.rules import UnfitConnection
from halfhitch.errors import InvalidRequest

_PSYCOPG_IDLE = 0


def require_transaction(driver_connection: Any) -> None:
    """Raises InvalidRequest when a statement would be committed at once, all by itself."""
    if _commits_at_once(driver_connection):
        raise InvalidRequest(
            "this connection is in autocommit mode and in no transaction: the record would be"
            " committed alone. Begin a transaction, and do the local work in it too"
        )


def _commits_at_once(connection: Any) -> bool:
    # sqlite3 and aiosqlite: a transaction that was begun by hand is as good.
    in_transaction = getattr(connection, "in_transaction", None)
    if isinstance(in_transaction, bool):
        modern = getattr(connection, "autocommit", None)
        legacy = getattr(connection, "isolation_level", "")
        return not in_transaction and (modern is True or (modern is not False and legacy is None))
    if getattr(connection, "autocommit", None) is not True:
        return False
    # psycopg: so is `with connection.transaction()`.
    status = getattr(getattr(connection, "info", None), "transaction_status", _PSYCOPG_IDLE)
    return int(status) == _PSYCOPG_IDLE


def postgresql_bounds(wait_ms: int) -> str:
    """Run first in each transaction of a check: no lock, and nothing else, may hold it for long."""
    return (
        f"SELECT set_config('lock_timeout', '{int(wait_ms)}ms', true),"
        f" set_config('statement_timeout', '{2 * int(wait_ms)}ms', true)"
    )


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
    cursor = raw.cursor()
    try:
        cursor.execute(f"PRAGMA {text}")
        row = cursor.fetchone()
        if row is None:
            return 0
        return int(next(iter(row.values())) if isinstance(row, dict) else row[0])
    finally:
        cursor.close()
