"""Questions to SQLite on the application's connection, whose rows cannot be left unread.

SQLAlchemy asks aiosqlite in two steps, for the statement and for its rows. A task that is cancelled
between them leaves the statement unfinished, in the frames of the cancellation. SQLAlchemy closes
the connection then, but SQLite keeps it, with its transaction and its lock, until that statement is
gone: until Python's garbage collection comes by. So both are asked for in one step of its thread.
"""

from typing import Any

from sqlalchemy.util import await_only


def rows_at_once(driver_connection: Any, statement: str, values: Any = ()) -> list[Any] | None:
    """None: a blocking driver's, in which nobody is cancelled; ask it as usual."""
    fetch_all = getattr(driver_connection, "execute_fetchall", None)
    if fetch_all is None:
        return None
    return list(await_only(fetch_all(statement, values)))
