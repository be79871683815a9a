"""What SQLAlchemy's sessions, connections and engines must be like: `guards`, for its own objects.

It runs no statement of the table's.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session

from halfhitch.barrier import guards
from halfhitch.errors import InvalidRequest

_IN_BLOCK: Final = "halfhitch.barrier.block"


def require_transaction(connection: Connection) -> None:
    """Raises InvalidRequest for a record that would be committed, or rolled back, by itself."""
    if connection.in_nested_transaction():
        raise guards.in_savepoint()
    pooled = connection.connection
    driver: Any = pooled.driver_connection
    adapted: Any = pooled.dbapi_connection  # asyncio's drivers wear the face of blocking ones
    at_once = guards.commits_at_once(adapted)
    if at_once is None and adapted is not driver:
        at_once = guards.commits_at_once(driver)
    is_told = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
    if (at_once or is_told) and not guards.is_in_transaction(driver):
        raise guards.commits_alone()
    if at_once is None and connection.dialect.name == "postgresql":
        first, second = (
            connection.exec_driver_sql(probe).scalar() for probe in guards.TRANSACTION_PROBE
        )
        if first != second:
            raise guards.commits_alone()


def session_of(session: Session | scoped_session[Any]) -> Session:
    """The one that a registry of threads stands for. Raises InvalidRequest for what is none."""
    found = session() if isinstance(session, scoped_session) else session
    if not isinstance(found, Session):
        raise no_session("a Session", session)
    return found


def no_session(wanted: str, given: object) -> InvalidRequest:
    """To be raised when a block was given something else."""
    return InvalidRequest(
        f"session= takes {wanted}, not {type(given).__name__}. Of a sessionmaker give what it"
        " makes; give none, and the block makes its own and yields it"
    )


def require_own_commit(session: Session) -> None:
    """Raises InvalidRequest for a session whose `commit` is not this block's alone."""
    if _IN_BLOCK in session.info:
        raise InvalidRequest(
            "this session is in another block of a barrier: this one would commit what that one has"
            " done, or roll it back, and that one's messages would not know. Send the messages of"
            " both in one block, or give this one another session"
        )
    if session.in_nested_transaction():
        raise guards.in_savepoint()
    bind = session.bind
    if not isinstance(bind, Connection) or session.join_transaction_mode == "control_fully":
        return  # its own transaction, or the connection's that it will really end
    if bind.in_transaction():
        raise joined()


def require_committed(session: Session) -> None:
    """Raises InvalidRequest when a transaction is still open after the session's commit."""
    bind = session.bind
    if isinstance(bind, Connection) and not bind.closed and bind.in_transaction():
        raise joined()


@contextmanager
def in_block(session: Session) -> Iterator[None]:
    """No other block may take this session: it would end what this one has begun."""
    session.info[_IN_BLOCK] = True
    try:
        yield
    finally:
        session.info.pop(_IN_BLOCK, None)


def watch_commit(connection: Connection) -> None:
    """After a record: the commit that follows raises InvalidRequest if it would commit nothing.

    A statement that fails, in somebody's hook before the commit too, spoils all of a transaction
    of PostgreSQL's. Whoever swallows its exception is told nothing more: the COMMIT is answered
    with a ROLLBACK that drivers take for a success, and the messages would follow.
    """
    if connection.dialect.name == "postgresql" and not event.contains(
        connection, "commit", _require_sound
    ):
        event.listen(connection, "commit", _require_sound)


def _require_sound(connection: Connection) -> None:
    pooled = connection.connection
    cause = None
    has_failed = guards.has_failed(pooled.driver_connection)
    if has_failed is None:
        try:
            connection.exec_driver_sql("SELECT 1")
        except DBAPIError as error:
            has_failed, cause = True, error
    if has_failed:
        pooled.rollback()  # SQLAlchemy does not, when what raises is no statement
        raise guards.silent_rollback() from cause


def joined() -> InvalidRequest:
    """To be raised when the commit of a session is no commit of the database."""
    return InvalidRequest(
        "this session works inside a transaction that was begun on its connection: its commit does"
        " not commit that one, and the messages would be committed without the rows. Give a"
        " session that is bound to the engine, or none"
    )


class HomeEngine:
    """An engine that is not used with connections another process has opened."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process_id = os.getpid()
        self._inherited: list[object] = []

    def here(self) -> Engine:
        """In a forked child its pool is another one.

        The parent's connections are kept unused: some drivers say goodbye to the server when they
        are forgotten, over the parent's connection.
        """
        process_id = os.getpid()
        if self._process_id != process_id:
            self._inherited.append(self._engine.pool)
            self._engine.dispose(close=False)
            self._process_id = process_id  # last: two threads may both do it, none may be early
        return self._engine
