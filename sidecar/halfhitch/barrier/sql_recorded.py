"""From the record to the commit: what is committed must be the transaction that holds the record.

A deadlock rolls all of MariaDB's transaction back, INSERT OR ROLLBACK all of SQLite's, a rollback
of the driver's anybody's. A hook before the commit that swallows the exception, or a program that
has recorded early, would then commit what came afterwards, without rows and record, and the
messages would follow. So the transaction is marked by the record, and asked for at its commit:

    PostgreSQL              a setting (SET LOCAL), by the record's own statement; it ends with the
                            transaction, or with the savepoint that the record was in
    MySQL, MariaDB, SQLite  a savepoint behind the record: it ends likewise, and can be released
                            before that only

The row itself is not read again: at SERIALIZABLE that would make transactions that have nothing to
do with each other fail. Other databases are not asked.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, ref

from sqlalchemy import event
from sqlalchemy.engine import Connection, CursorResult, RootTransaction, TwoPhaseTransaction
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, SessionTransaction

from halfhitch.barrier import guards, mysql
from halfhitch.barrier.one_transaction import commits_inside, is_no_savepoint
from halfhitch.barrier.sql_guards import (
    COMMITS,
    SessionInBlock,
    connection_of,
    give_up,
    is_in_autocommit,
    require_commit,
)
from halfhitch.barrier.told import Told
from halfhitch.client.recorded import Local
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import InvalidRequest

_NAME: Final = "halfhitch_record"
_WITH_SAVEPOINT: Final = (*mysql.NAMES, "sqlite")
#: Behind the record's INSERT: the mark is the number of its transaction.
POSTGRESQL: Final = " RETURNING set_config('halfhitch.record', CAST(txid_current() AS TEXT), true)"
_ASK_POSTGRESQL: Final = "SELECT current_setting('halfhitch.record', true)"


@dataclass(frozen=True, slots=True)
class _Mark:
    """Of the last record on a connection."""

    transaction: "ReferenceType[RootTransaction]"
    #: PostgreSQL's.
    setting: Any


@dataclass(slots=True)
class _Course:
    """Of a transaction that was recorded by hand."""

    #: Its commit was begun; the database may have refused it.
    is_tried: bool = False
    #: Its session, or itself, has called its commit done.
    is_proven: bool = False
    #: By SQLAlchemy, while the driver had it open.
    is_rolled_back: bool = False


@dataclass(frozen=True, slots=True)
class _Before:
    """What a block wants to be called before its commit."""

    transaction: "ReferenceType[RootTransaction]"
    session: "ReferenceType[Session]"
    call: Callable[[], None]


_MARKS: Final["WeakKeyDictionary[Connection, _Mark]"] = WeakKeyDictionary()
_COURSES: Final["WeakKeyDictionary[RootTransaction, _Course]"] = WeakKeyDictionary()
_BEFORE: Final["WeakKeyDictionary[Connection, _Before]"] = WeakKeyDictionary()
#: Not `event.contains`: that goes by an id, which an object that is gone may have had before.
_HEARD: Final["WeakSet[Connection]"] = WeakSet()
_RECORDED_IN: Final["WeakKeyDictionary[Session, ReferenceType[SessionTransaction]]"] = (
    WeakKeyDictionary()
)
_RECORDED_ON: Final["WeakKeyDictionary[Session, ReferenceType[RootTransaction]]"] = (
    WeakKeyDictionary()
)
_HEARD_SESSIONS: Final["WeakSet[Session]"] = WeakSet()


def require_earlier(connection: Connection) -> None:
    """Before another record of the same transaction: the mark will be that one's.

    A failure leaves the earlier mark, so that whoever swallows it cannot commit either.
    """
    mark, transaction = _MARKS.get(connection), connection.get_transaction()
    if mark is not None and transaction is not None and mark.transaction() is transaction:
        _require(connection, mark)


def require_one(session: Session, watched: SessionInBlock) -> None:
    """`SessionInBlock.require_one`, where a record by hand came before the block's own.

    The block's savepoint is released there, and on MariaDB that takes away those behind it: the
    earlier record's, whose mark the block's own replaces.
    """
    connection = connection_of(session)
    if connection is not None:
        require_earlier(connection)
        _MARKS.pop(connection, None)
    watched.require_one(session)


def watch_commit(connection: Connection, made: "CursorResult[Any]") -> None:
    """After a record was `made`: the commit raises InvalidRequest if it would not commit that."""
    dialect = connection.dialect.name
    setting = None
    if dialect == "postgresql":
        setting = made.scalar()
        is_written = setting is not None
    else:
        is_written = made.rowcount != 0
    if not is_written:
        raise guards.unwritten()
    if dialect != "postgresql" and dialect not in _WITH_SAVEPOINT:
        return
    transaction = connection.get_transaction()
    if transaction is None:
        return
    if dialect in _WITH_SAVEPOINT:
        connection.exec_driver_sql(f"SAVEPOINT {_NAME}")
    _MARKS[connection] = _Mark(ref(transaction), setting)
    _listen(connection)


def watch_session(session: Session, connection: Connection) -> None:
    """After a record on it: what works in a second database behind it is no part of its commit.

    And its commit tells when it is done; a connection's does not.
    """
    transaction = session.get_transaction()
    if transaction is None:
        return
    _RECORDED_IN[session] = ref(transaction)
    root = connection.get_transaction()
    if root is not None:
        _RECORDED_ON[session] = ref(root)
    if session not in _HEARD_SESSIONS:
        event.listen(session, "after_begin", _require_one_database)
        event.listen(session, "after_commit", _prove)
        _HEARD_SESSIONS.add(session)


class _Telling(RootTransaction):
    """A connection's own, which tells when its commit is done: there is an event before it only.

    It is made of one that exists (`_tells_of_commit`), and has no more to it.
    """

    __slots__ = ()

    def commit(self) -> None:
        super().commit()
        _note_commit(self)


class _TellingOfTwo(TwoPhaseTransaction):
    """The same, of two phases: behind the second one."""

    __slots__ = ()

    def commit(self) -> None:
        super().commit()
        _note_commit(self)


_TELLING: Final[dict[type[RootTransaction], type[RootTransaction]]] = {
    RootTransaction: _Telling,
    TwoPhaseTransaction: _TellingOfTwo,
}


def _tells_of_commit(transaction: RootTransaction) -> bool:
    """From now on."""
    telling = _TELLING.get(type(transaction))
    if telling is not None:
        with suppress(TypeError):  # if SQLAlchemy ever makes them so that they cannot be changed
            object.__setattr__(transaction, "__class__", telling)
    return type(transaction) in _TELLING.values()


def _note_commit(transaction: RootTransaction) -> None:
    course = _COURSES.get(transaction)
    if course is not None and course.is_tried:
        course.is_proven = True


def _require_one_database(session: Session, *_: object) -> None:
    recorded_in = _RECORDED_IN.get(session)
    if recorded_in is not None and recorded_in() is session.get_transaction():
        connection_of(session)


def _prove(session: Session) -> None:
    """After a commit, of a savepoint too, or of one whose outer transaction goes on."""
    found = _RECORDED_ON.get(session)
    root = None if found is None else found()
    course = None if root is None else _COURSES.get(root)
    if course is not None and course.is_tried and not _hangs(root):
        course.is_proven = True


def _hangs(transaction: RootTransaction | None) -> bool:
    """It goes on; or its commit was refused, and nobody has rolled it back yet."""
    return transaction is not None and (
        transaction.is_active or transaction.connection.get_transaction() is transaction
    )


def call_before_commit(session: Session, call: Callable[[], None]) -> None:
    """After a block's record: behind all hooks of the session's, before the database's commit.

    What it raises is raised by the commit, which is not done.
    """
    connection = connection_of(session)
    assert connection is not None
    transaction = connection.get_transaction()
    assert transaction is not None
    _BEFORE[connection] = _Before(ref(transaction), ref(session), call)
    _listen(connection)


class ByHand:
    """How the local transaction of a record by hand is, as far as this process can see.

    It keeps no connection from its pool when the program drops it.
    """

    def __init__(self, connection: Connection, *, will_be_proven: bool) -> None:
        """Behind the record; `will_be_proven`: a session will tell that the commit is done.

        Else the connection's transaction does, where the commit asks for the record.
        """
        root = connection.get_transaction()
        assert root is not None
        self._root = ref(root)
        self._course = _COURSES.setdefault(root, _Course())
        mark = _MARKS.get(connection)
        #: Of the transaction, on PostgreSQL: its rows have it.
        self.number: str | None = None if mark is None else mark.setting
        self._is_heard = mark is not None and not is_in_autocommit(connection)
        # A session tells behind the program's hooks, which may raise; its transaction before them.
        is_told = self._is_heard and _tells_of_commit(root)
        self._will_be_proven = will_be_proven or is_told

    def is_proven(self) -> bool:
        """This very record is committed."""
        return self._course.is_proven

    def seen(self, wanted: LocalTransactionState = LocalTransactionState.COMMIT) -> Local | None:
        """None: only the table can tell, which was committed past SQLAlchemy, or was cut off.

        Or before a rollback, for what is open now may have been begun behind such a commit.
        """
        if self._course.is_proven:
            return Local.COMMITTED
        is_told = wanted is not LocalTransactionState.ROLLBACK
        return Local.OPEN if is_told and self._looks_open() else None

    def _looks_open(self) -> bool:
        # A COMMIT that was begun may be under way: a handler has left it, or another thread asks.
        return not self._course.is_tried and _is_open(self._root())

    def judged(self, told: Told) -> Local:
        """With what the table says of the record."""
        root, is_tried = self._root(), self._course.is_tried
        if told is Told.COMMITTED:  # another attempt's, perhaps, where this one's is gone
            is_gone = self._course.is_rolled_back and not is_tried
            return Local.COMMITTED_BEFORE if is_gone else Local.STANDS
        if told in (Told.NOTHING, Told.UNREAD) and self._looks_open():
            return Local.OPEN
        if told is Told.UNREAD:
            # Where nobody tells, and who has no connection left could commit no messages.
            is_believed = is_tried and not self._will_be_proven and not _hangs(root)
            return Local.ENDED if is_believed or not self._is_heard else Local.UNKNOWN
        if told is Told.NOTHING:
            # A commit that was cut off may still be under way; one that was prepared may come.
            is_over = self._is_heard and not is_tried and not (root is not None and root.is_active)
            return Local.ROLLED_BACK if is_over else Local.UNKNOWN
        return _TOLD[told]


_TOLD: Final[dict[Told, Local]] = {
    Told.OWN: Local.COMMITTED,
    Told.FENCED: Local.ROLLED_BACK,
    Told.UNSURE: Local.UNKNOWN,
}


def _is_open(transaction: RootTransaction | None) -> bool:
    """By SQLAlchemy and the driver. One whose connection is gone is over, whatever they say."""
    if transaction is None or not transaction.is_active or transaction.connection.invalidated:
        return False
    with suppress(Exception):
        driver = transaction.connection.connection.driver_connection
        return not guards.is_lost(driver) and guards.is_in_transaction(driver) is not False
    return False


def _listen(connection: Connection) -> None:
    """On this connection alone, which no other thread is using.

    A listener of the engine's, or of the class, must not come while others iterate over those.
    """
    if connection not in _HEARD:
        for name in COMMITS:
            event.listen(connection, name, _require_recorded)
        event.listen(connection, "rollback", _note_rollback)
        _HEARD.add(connection)


def _note_rollback(connection: Connection) -> None:
    """Just before it. The driver is in no transaction where the program has committed past us."""
    transaction = connection.get_transaction()
    course = None if transaction is None else _COURSES.get(transaction)
    if course is not None:
        with suppress(Exception):
            driver = connection.connection.driver_connection
            course.is_rolled_back = guards.is_in_transaction(driver) is True


def _require_recorded(connection: Connection, *phase: object) -> None:
    """`phase`: in two phases, the transaction's number, and of the second whether it is one."""
    if phase[1:] == (True,):
        return  # asked before the first
    transaction = connection.get_transaction()
    mark, before = _MARKS.pop(connection, None), _BEFORE.get(connection)
    pooled = connection.connection
    try:
        # Of another one: that was rolled back, and this has recorded nothing.
        if mark is not None and mark.transaction() is transaction:
            require_commit(connection)
            _require(connection, mark)
        if before is not None and before.transaction() is transaction:
            # A session that is still active prepares, in two phases, or somebody else commits.
            if not phase and _is_active(before.session()):
                raise commits_inside()
            before.call()
    except BaseException:
        give_up(pooled)
        raise
    course = None if transaction is None else _COURSES.get(transaction)
    if course is not None:
        course.is_tried = True


def _is_active(session: Session | None) -> bool:
    transaction = None if session is None else session.get_transaction()
    return transaction is not None and transaction.is_active


def _require(connection: Connection, mark: _Mark) -> None:
    try:
        if connection.dialect.name != "postgresql":
            connection.exec_driver_sql(f"RELEASE SAVEPOINT {_NAME}")
        elif guards.has_failed(connection.connection.driver_connection):
            raise guards.silent_rollback()
        elif connection.exec_driver_sql(_ASK_POSTGRESQL).scalar() != mark.setting:
            raise lost()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise
        if connection.dialect.name == "postgresql":  # a driver that does not say what has failed
            raise guards.silent_rollback() from error
        if is_no_savepoint(error):
            raise lost() from error
        raise


def lost() -> InvalidRequest:
    """To be raised before a commit of another transaction than the record's."""
    return InvalidRequest(
        "the local transaction was ended between the record and its commit: by a statement that"
        " failed and whose exception was swallowed (a deadlock rolls all of a transaction back, on"
        " SQLite INSERT OR ROLLBACK does), by a commit, rollback or begin past the session, by a"
        " statement that commits (on MariaDB: DDL, LOCK TABLES), or because record was called"
        " inside a savepoint; or, on PostgreSQL, RESET ALL took the barrier's mark away. What would"
        " be committed now does not hold the record, so it is rolled back. Let exceptions out of"
        " hooks (before_commit, before_flush), or run what may fail in a savepoint (begin_nested)"
    )
