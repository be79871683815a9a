"""What SQLAlchemy's sessions, connections and engines must be like: `guards`, for its own objects.

It runs no statement of the table's.
"""

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final
from weakref import ref

from sqlalchemy import event
from sqlalchemy.engine import Connection, NestedTransaction
from sqlalchemy.orm import Session, SessionTransaction, scoped_session
from sqlalchemy.pool import Pool, PoolProxiedConnection, SingletonThreadPool, StaticPool
from sqlalchemy.util import await_only

from halfhitch.barrier import guards, running
from halfhitch.barrier.one_transaction import (
    OneTransaction,
    begins_again,
    commits_inside,
    registry_changed,
    two_databases,
)
from halfhitch.barrier.sql_savepoints import Savepoints
from halfhitch.client.marks import Mark
from halfhitch.errors import ConfigurationError, InvalidRequest

_IN_BLOCK: Final = "halfhitch.barrier.block"
#: A connection's local commit: in one phase, or in two, the first of which may be left out.
COMMITS: Final = ("commit", "prepare_twophase", "commit_twophase")


def require_transaction(connection: Connection) -> None:
    """Raises InvalidRequest for a record that would be committed, or rolled back, by itself."""
    if connection.in_nested_transaction():
        raise guards.in_savepoint()
    at_once = _commits_at_once(connection)
    if at_once:
        raise guards.commits_alone()
    if at_once is None and connection.dialect.name == "postgresql":
        first, second = (
            connection.exec_driver_sql(probe).scalar() for probe in guards.TRANSACTION_PROBE
        )
        if first != second:
            raise guards.commits_alone()


def _commits_at_once(connection: Connection) -> bool | None:
    """By what SQLAlchemy was told and the driver says; None when nobody says anything."""
    pooled = connection.connection
    driver: Any = pooled.driver_connection
    adapted: Any = pooled.dbapi_connection  # asyncio's drivers wear the face of blocking ones
    at_once = guards.commits_at_once(adapted)
    if at_once is None and adapted is not driver:
        at_once = guards.commits_at_once(driver)
    if at_once or _is_told_autocommit(connection):
        return not guards.is_in_transaction(driver)
    return at_once


def _is_told_autocommit(connection: Connection) -> bool:
    """Whether it was asked of SQLAlchemy, which begins and ends nothing then."""
    told = connection.get_execution_options().get("isolation_level")
    of_engine = getattr(connection.dialect, "_on_connect_isolation_level", None)  # not public
    return (told or of_engine) == "AUTOCOMMIT"


def is_in_autocommit(connection: Connection) -> bool:
    """By what SQLAlchemy was told and the driver says: its commits need not be the database's."""
    pooled = connection.connection
    return (
        _is_told_autocommit(connection)
        or guards.is_in_autocommit(pooled.dbapi_connection)
        or guards.is_in_autocommit(pooled.driver_connection)
    )


def require_pool(pool: Pool) -> None:
    """Raises ConfigurationError for an engine that has but one connection."""
    if isinstance(pool, StaticPool):
        raise ConfigurationError(
            "this engine has one connection for all (StaticPool): a check on it would read and"
            " roll back what others are doing. Use a database in a file, or a server"
        )
    if isinstance(pool, SingletonThreadPool):
        raise ConfigurationError(
            "this engine has a connection for each thread (SingletonThreadPool, as a SQLite"
            " database in memory has): a check in another thread would look into another database."
            " Use a database in a file, or a server"
        )


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


def in_another_block() -> InvalidRequest:
    """To be raised when a block was given the session of one that is running."""
    return InvalidRequest(
        "this session is in another block of a barrier: this one would commit what that one has"
        " done, or roll it back, and that one's messages would not know. Send the messages of"
        " both in one block, or give this one another session"
    )


def interrupted() -> InvalidRequest:
    """To be raised when what a block has left open would be committed."""
    return InvalidRequest(
        "this session has the work of a barrier's block in it that was interrupted (by a signal's"
        " handler) before it was rolled back: committed now, it would have no messages. Call the"
        " session's rollback() or close() first"
    )


def require_own_commit(session: Session) -> None:
    """Raises InvalidRequest for a session whose `commit` is not this block's alone."""
    if _block_of(session) is not None:
        raise in_another_block()
    if session.in_nested_transaction():
        raise guards.given_in_savepoint()
    bind = session.bind
    if not isinstance(bind, Connection) or session.join_transaction_mode == "control_fully":
        return  # its own transaction, or the connection's that it will really end
    if bind.in_transaction():
        raise joined()


class SessionInBlock:
    """A block's session: its rows and the record are one transaction of one database.

    Its own commit is refused before it is done. What goes past the session, over its connection, is
    found out before the record (`one_transaction`).

    A signal's handler may raise as the block begins or ends, and what listens is left on the
    session then. So it is a mark that tells when all is over (`enter`), and no line of code.
    """

    def __init__(
        self, session: Session, given: object, key: tuple[str, ...], send_count: Callable[[], int]
    ) -> None:
        self._session = session
        self._given = given
        self._key = key
        self._savepoints = Savepoints(send_count)
        #: None before the block.
        self._mark: Mark | None = None
        self._first: Connection | None = None
        self._one: OneTransaction | None = None
        self._is_ending = False
        self._has_ended = False
        #: The session's transaction whose commit is awaited; None once it was heard of.
        self._to_commit: SessionTransaction | None = None
        #: The session's transaction that the block works in.
        self._worked_in: Callable[[], SessionTransaction | None] = _nothing
        #: On the session, and on the first connection.
        self._heard: list[tuple[object, str, Callable[..., None]]] = []

    def enter(self, mark: Mark) -> None:
        """As long as the mark is held no other block may take this session.

        It would end what this one has begun.
        """
        running.block(self._key, mark)
        self._mark = mark
        former = self._session.info.get(_IN_BLOCK)
        if former is not None:
            if former.is_running:  # it has begun while this one asked its database for its id
                raise in_another_block()
            if former.is_open:
                raise interrupted()
            former.forget()  # it was interrupted at its end
        self._session.info[_IN_BLOCK] = self
        for name, listener in (
            ("after_transaction_create", self._after_create),
            ("after_begin", self._after_begin),
            ("before_commit", self._before_commit),
            ("after_commit", self._after_commit),
            ("after_transaction_end", self._after_end),
        ):
            self._hear(self._session, name, listener)
        for name, listener in self._savepoints.of_session():
            self._hear(self._session, name, listener)

    def forget(self) -> None:
        """Behind the block: nothing of it stays on the session."""
        self._unhear()
        if self._session.info.get(_IN_BLOCK) is self:
            del self._session.info[_IN_BLOCK]

    @property
    def is_running(self) -> bool:
        """Its block is entered and not left."""
        return self._mark is not None and self._mark.is_held

    @property
    def is_open(self) -> bool:
        """The session has not ended the transaction that the block works in."""
        transaction = self._worked_in()
        return transaction is not None and self._session.get_transaction() is transaction

    @property
    def is_ending(self) -> bool:
        """All the work is done, and the block records by itself."""
        return self._is_ending and self.is_running

    def begin(self, session: Session) -> None:
        """The transaction of a session that was used before. Raises InvalidRequest."""
        transaction = session.get_transaction()
        if transaction is not None:
            self._worked_in = ref(transaction)
        connection = connection_of(session)
        if connection is not None:
            self._mark_used(connection, is_used=True)

    def require_one(self, session: Session) -> None:
        """Before the record: all that the block did is in one transaction, which is still open."""
        self._is_ending = True
        given = self._given
        if isinstance(given, scoped_session):
            registry = given.registry
            if not registry.has() or registry() is not session:
                raise registry_changed()
        self._savepoints.require()
        connection = connection_of(session)
        if self._has_ended or connection is not self._first:
            raise begins_again()
        if self._one is None:
            return  # nothing was done
        assert connection is not None
        require_transaction(connection)
        self._one.require()
        self.leave(session)

    def expect_commit(self) -> None:
        """Behind the record, before the session's commit."""
        self._to_commit = self._session.get_transaction()

    def require_committed(self) -> None:
        """Raises InvalidRequest when the session's commit returned and has not committed.

        What it did instead is the program's: a `commit` of its own may flush only, swallow what the
        database refused, or try again with a transaction in which nothing is left.
        """
        bind = self._session.bind
        if isinstance(bind, Connection) and not bind.closed and bind.in_transaction():
            raise joined()
        if self._to_commit is not None:
            raise uncommitted()

    def _after_create(self, _: Session, transaction: SessionTransaction) -> None:
        if transaction.parent is None and self.is_running:
            self._worked_in = ref(transaction)

    def _after_begin(
        self, session: Session, transaction: SessionTransaction, connection: Connection
    ) -> None:
        if transaction.nested or not self.is_running:
            return
        _require_end(transaction, connection)
        connection_of(session)
        if self._first is not None or self._has_ended:
            raise begins_again()
        if not self._is_ending:
            self._mark_used(connection, is_used=False)

    def _before_commit(self, session: Session) -> None:
        if not self.is_running and self.is_open:
            raise interrupted()
        if self.is_running and not self._is_ending and not session.in_nested_transaction():
            raise commits_inside()

    def _after_commit(self, session: Session) -> None:
        """SQLAlchemy tells of a commit that did not fail; of a savepoint's, too."""
        if not session.in_nested_transaction() and session.get_transaction() is self._to_commit:
            self._to_commit = None

    def _after_end(self, _: Session, transaction: SessionTransaction) -> None:
        """A rollback or close drops what was only added, of which no connection knows."""
        if transaction.parent is None and not self._is_ending:
            self._has_ended = True

    def _before_connection_s(self, connection: Connection, *_: object) -> None:
        """A commit past the session's, as of the root while a savepoint is open."""
        if not self.is_running and not self.is_open:
            return
        self._has_ended = True
        give_up(connection.connection)
        raise commits_inside() if self.is_running else interrupted()

    def _mark_used(self, connection: Connection, *, is_used: bool) -> None:
        # A BEGIN of the program's own is no excuse: who would end that one?
        if _is_told_autocommit(connection) or _commits_at_once(connection):
            raise guards.block_commits_alone()
        self._first = connection
        self._one = OneTransaction(
            connection.dialect.name,
            connection.connection.driver_connection,
            connection.exec_driver_sql,
            lambda statement: connection.exec_driver_sql(statement).scalar(),
            _waited,
        )
        self._one.begin(is_used=is_used)
        for name in COMMITS:
            self._hear(connection, name, self._before_connection_s)
        if connection.dialect.name == "sqlite":
            self._one.trace(self._savepoints.heard)
            self._hear(connection, "before_cursor_execute", self._look)
        else:
            self._hear(connection, *self._savepoints.of_connection())

    def _hear(self, target: object, name: str, listener: Callable[..., None]) -> None:
        self._heard.append((target, name, listener))
        event.listen(target, name, listener)

    def _look(self, _connection: Connection, _cursor: object, statement: str, *_: object) -> None:
        if self._one is not None and self.is_running:
            self._one.begin_before(statement)

    def leave(self, _: Session) -> None:
        """The block's connection is watched no more."""
        if self._one is not None:
            with suppress(Exception):  # it is closed
                self._one.let_go()
        self._unhear(keep=self._session)

    def _unhear(self, keep: object = None) -> None:
        for heard in [one for one in self._heard if one[0] is not keep]:
            if event.contains(*heard):
                event.remove(*heard)
            self._heard.remove(heard)


def require_commit(connection: Connection) -> None:
    """Raises InvalidRequest when the driver's commit would leave the transaction open: asyncpg's.

    It ends what it has begun itself. In autocommit mode that is nothing.
    """
    pooled = connection.connection
    is_asyncpg = connection.dialect.driver == "asyncpg"
    begun: Any = getattr(pooled.dbapi_connection, "_transaction", pooled)  # not public
    if is_asyncpg and begun is None and guards.is_in_transaction(pooled.driver_connection):
        pooled.invalidate()  # its rollback would do nothing, either
        raise guards.commits_nothing()


def give_up(pooled: PoolProxiedConnection) -> None:
    """SQLAlchemy does not roll back when a commit's event raises: the next one would commit it."""
    try:
        pooled.rollback()
    except Exception:  # noqa: BLE001 - what went wrong first is raised
        with suppress(Exception):
            if pooled.is_valid:
                pooled.invalidate()


def give_up_failed(session: Session) -> None:
    """After a commit that failed: SQLAlchemy takes its transaction for ended, and so does the pool.

    SQLite's goes on, as after a deferred foreign key was violated; a server's does where the commit
    was interrupted. Whoever gets the connection next would commit it. A server that has not
    answered the commit is told nothing more: it might not answer that, either.
    """
    for connection in _connections_of(session):
        transaction = connection.get_transaction()
        if transaction is None or transaction.is_active or connection.invalidated:
            continue
        pooled = connection.connection
        if guards.is_in_transaction(pooled.driver_connection) is False:
            continue
        if connection.dialect.name == "sqlite":
            give_up(pooled)
        else:
            pooled.invalidate()


def _waited(given: Any) -> Any:
    """aiosqlite's; what runs here runs in a greenlet of SQLAlchemy's then."""
    return await_only(given) if inspect.isawaitable(given) else given


def _require_end(transaction: SessionTransaction, connection: Connection) -> None:
    """Raises InvalidRequest when the session's commit will not be one of the database's."""
    # Not public; without it this is noticed behind the commit, when nobody knows what became of it.
    entry = getattr(transaction, "_connections", {}).get(connection)
    if entry is not None and (not entry[2] or isinstance(entry[1], NestedTransaction)):
        raise joined()


def require_unrecorded(session: object, key: tuple[str, ...]) -> None:
    """Raises InvalidRequest for what a running block records by itself, unless it is that."""
    if not is_ending_block(session):
        running.require_none(key)


def is_ending_block(session: object) -> bool:
    """Whether it is a block's, which records by itself now."""
    if isinstance(session, scoped_session):
        session = session()
    block = _block_of(session) if isinstance(session, Session) else None
    return block is not None and block.is_ending


def _block_of(session: Session) -> SessionInBlock | None:
    """The one that is running on it."""
    found: SessionInBlock | None = session.info.get(_IN_BLOCK)
    return found if found is not None and found.is_running else None


def _nothing() -> None:
    """No transaction."""


def proves_commit(session: object) -> bool:
    """Whether it is a session that ends its own transaction, and tells when that is done."""
    if isinstance(session, scoped_session):
        session = session()
    return isinstance(session, Session) and not isinstance(session.bind, Connection)


def connection_of(session: Session) -> Connection | None:
    """The one that its transaction has used, if any. Raises InvalidRequest when there are two."""
    found = _connections_of(session)
    if len(found) > 1:
        raise two_databases(*(one.engine.url.render_as_string() for one in found[:2]))
    return found[0] if found else None


def _connections_of(session: Session) -> list[Connection]:
    transaction = session.get_transaction()
    # Not public; without it a second database would be noticed in a block only.
    entries = getattr(transaction, "_connections", {}).values()
    return list(dict.fromkeys(entry[0] for entry in entries))


def joined() -> InvalidRequest:
    """To be raised when the commit of a session is no commit of the database."""
    return InvalidRequest(
        "this session works inside a transaction that was begun on its connection: its commit does"
        " not commit that one, and the messages would be committed without the rows. Give a"
        " session that is bound to the engine, or none"
    )


def uncommitted() -> InvalidRequest:
    """To be raised when nothing was committed by a commit that did not fail."""
    return InvalidRequest(
        "the session's commit() returned, and its transaction was not committed: commit was"
        " replaced (by flush, in a test), or it swallows the database's refusal. Rows that are not"
        " committed get no messages. Give a session whose commit() commits, or raises"
    )
