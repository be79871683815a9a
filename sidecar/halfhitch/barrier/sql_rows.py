"""The barrier's table on a connection of SQLAlchemy 2's.

`record` runs on the application's connection and is part of its transaction; the rest on ones that
are the barrier's own. Blocking, and for asyncio too: there SQLAlchemy runs it (`run_sync`).
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import BigInteger, TextClause, bindparam, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError, UnboundExecutionError
from sqlalchemy.orm import Session, scoped_session

from halfhitch.barrier import durable, guards, mysql, sql_guards, sql_recorded, table
from halfhitch.barrier.deadline import Watch
from halfhitch.barrier.errors import refusal
from halfhitch.barrier.rules import Question, Rules
from halfhitch.barrier.sql_home import HomeEngine
from halfhitch.barrier.sql_recorded import ByHand
from halfhitch.barrier.sql_same_database import OwnDatabase
from halfhitch.barrier.told import Look, Told
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import InvalidRequest

T = TypeVar("T")


class Rows:
    """Writes and reads them, for one producer group."""

    def __init__(self, rules: Rules, home: HomeEngine, dialect: str) -> None:
        self._rules = rules
        self._own = OwnDatabase(home, rules.table)
        self._statements = _Statements(rules, dialect)

    def record(
        self, session: Session | scoped_session[Any] | Connection, transaction_id: str
    ) -> ByHand | None:
        """See `Barrier.record`. None: it was the one of a barrier's block."""
        by_hand = None
        key = self._rules.key(transaction_id)
        sql_guards.require_unrecorded(session, self.full_key(transaction_id))
        connection = _connection_of(session)
        sql_guards.require_transaction(connection)
        self._own.require(connection)
        pooled = connection.connection
        try:
            sql_recorded.require_earlier(connection)
            made = connection.execute(self._statements.record, _key_values(connection, key))
            sql_recorded.watch_commit(connection, made)
            if not sql_guards.is_ending_block(session):
                by_hand = ByHand(connection, will_be_proven=sql_guards.proves_commit(session))
            if not isinstance(session, Connection):
                sql_recorded.watch_session(sql_guards.session_of(session), connection)
        except IntegrityError as error:
            outcome = self._look_again(connection, pooled, key)
            _roll_back_all(session)
            raise refusal(transaction_id, outcome) from error
        except Exception as error:
            self._rules.explain(error)
            # Not every database has given up the whole: MariaDB, after a wait, only the statement.
            with suppress(Exception):
                _roll_back_all(session)
            raise
        return by_hand

    def full_key(self, transaction_id: str) -> tuple[str, ...]:
        """The row's, and whose table it is in."""
        return (self._rules.table, *self._rules.key(transaction_id))

    def create(self, connection: Connection) -> None:
        """In a transaction of its own, unless it is there."""
        for statement in table.ddl_statements(connection.dialect.name, self._rules.table):
            connection.exec_driver_sql(statement)

    def purge(self, connection: Connection, age_s: int, batch_count: int) -> int:
        """One batch, in a transaction of its own."""
        dialect, name = connection.dialect.name, self._rules.table
        group, _ = table.key_values(dialect, (self._rules.group, ""))
        if dialect in mysql.NAMES:
            connection.exec_driver_sql(mysql.LEVEL)
            select = _text(table.select_old_of_mysql(name, age_s, batch_count))
            found = connection.execute(select, _named((group,))).scalars().all()
            if not found:
                return 0
            statement, count = table.delete_of_mysql(name, found), 1
        else:
            statement, count = table.delete_old(dialect, name, age_s, batch_count)
        return connection.execute(_text(statement), _named((group,) * count)).rowcount

    def decide(
        self, connection: Connection, question: Question, watch: Watch
    ) -> LocalTransactionState:
        """Answer it, on a connection that is the check's own."""
        return self._look(connection, watch, lambda notes: self._rules.decide(notes, question))

    def require_first(self, connection: Connection, transaction_id: str, watch: Watch) -> None:
        """`Rules.require_first`, on a connection that nobody else is using."""
        self._look(
            connection, watch, lambda notes: self._rules.require_first(notes, transaction_id)
        )

    def told(self, connection: Connection, transaction_id: str, look: Look, watch: Watch) -> Told:
        """Of the record, on a connection that nobody else is using."""

        def tell(notes: _Notes) -> Told:
            outcome = notes.read(transaction_id)
            return look.told(outcome, lambda number: notes.is_of(transaction_id, number))

        look.begin(watch)
        return self._look(connection, watch, tell)

    def _look(self, connection: Connection, watch: Watch, work: "Callable[[_Notes], T]") -> T:
        pooled = connection.connection
        if connection.dialect.name == "postgresql" and guards.is_in_transaction(
            pooled.driver_connection
        ):
            # asyncpg in AUTOCOMMIT: of a BEGIN by text its pool knows nothing, and gives the
            # connection back with that open. Every check that got it would be UNKNOWN.
            connection.invalidate()
            pooled = connection.connection
        notes = _Notes(connection, self._rules, self._statements, watch)
        try:
            watch.hold(pooled.driver_connection)
            if connection.dialect.name == "sqlite":
                # A COMMIT that it refused leaves the transaction open, and SQLAlchemy gives that
                # back to the pool when such a connection is closed: its rows would be read here.
                if guards.is_in_transaction(pooled.driver_connection) is not False:
                    pooled.rollback()
                patience_ms = watch.patience_ms()
                with guards.sqlite_bounds(pooled, pooled.driver_connection, patience_ms):
                    return work(notes)
            if connection.dialect.name in mysql.NAMES:
                with mysql.bounds(pooled, watch.patience_ms()):
                    return work(notes)
            # Never what is uncommitted, and a later statement sees what an earlier one waited for.
            connection.execution_options(isolation_level="READ COMMITTED")
            return work(notes)
        finally:
            watch.release()
            # A file's connection was not cut off, and is as good as before (see `sql_aio`, too).
            if watch.is_cut and connection.dialect.name != "sqlite":
                connection.invalidate()

    def _look_again(self, connection: Connection, pooled: Any, key: tuple[str, str]) -> str | None:
        """Which row was in the way, for the words of the error; on the connection at hand.

        Below SQLAlchemy, for the transaction it knows of is over and another connection might not
        be had. What comes of it decides nothing.
        """
        try:
            pooled.rollback()
            select = table.select_outcome(connection.dialect.name, self._rules.table)
            dialect = connection.dialect
            keys = table.key_values(dialect.name, key)
            statement, values = table.styled(select, keys, dialect.paramstyle)
            cursor = pooled.cursor()
            try:
                cursor.execute(statement, values)
                return table.outcome_in(cursor.fetchone(), key) or ""
            finally:
                cursor.close()
                pooled.rollback()
        except Exception:  # noqa: BLE001 - then the error says less
            return None


class _Statements:
    """What is run on SQLAlchemy's connections of one dialect."""

    def __init__(self, rules: Rules, dialect: str) -> None:
        self.select = _text(table.select_outcome(dialect, rules.table))
        record = table.insert(dialect, rules.table, table.COMMITTED)
        if dialect == "postgresql":
            record += sql_recorded.POSTGRESQL
        self.record = _text(record)
        self.fence = _text(table.insert(dialect, rules.table, table.FENCED))
        is_of = table.select_is_of(dialect, rules.table)
        self.is_of = None if is_of is None else _text(is_of)
        #: None where the database cannot be asked for its clock.
        self.young_fence: TextClause | None = None
        young = table.insert_young_fence(dialect, rules.table, rules.fence_age_ms_max)
        if young is not None:  # milliseconds since 1970 are more than a driver's INTEGER holds
            self.young_fence = _text(young).bindparams(bindparam("p3", type_=BigInteger))


class _Notes:
    """The table through a connection that is a check's own."""

    def __init__(
        self, connection: Connection, rules: Rules, statements: _Statements, watch: Watch
    ) -> None:
        self._connection = connection
        self._rules = rules
        self._statements = statements
        self._watch = watch

    def read(self, transaction_id: str) -> str | None:
        """In a transaction of its own, so that it sees all that is committed now."""
        connection, dialect = self._connection, self._connection.dialect.name
        key = self._rules.key(transaction_id)
        values = _key_values(connection, key)

        def look() -> str | None:
            row = connection.execute(self._statements.select, values).first()
            return table.outcome_in(row, key)

        self._begin()
        outcome = look()
        connection.rollback()
        if outcome is None or not durable.is_needed(dialect):
            return outcome
        self._watch.has_seen = True
        name, group = self._rules.table, self._rules.group
        behind = durable.Behind(dialect, name, group, self._begin, self._run)
        return behind.sure(look, connection.commit)

    def is_of(self, transaction_id: str, number: str) -> bool:
        """Whether the row was written by the transaction of this number, where that is told."""
        connection, statement = self._connection, self._statements.is_of
        if statement is None:
            return False
        key = self._rules.key(transaction_id)
        with suppress(Exception):  # of a view, say: then it is not known
            self._begin()
            found = connection.execute(statement, _named((number, *key))).scalar()
            connection.rollback()
            return found is True
        return False

    def _run(self, statement: str, values: table.Values) -> int:
        given = {f"p{number}": value for number, value in enumerate(values, 1)}
        return self._connection.execute(_text(statement), given).rowcount

    def fence(self, transaction_id: str, born_ms: int | None) -> None:
        """Returns only when it is committed, or refused because a row stands there."""
        self._begin()
        connection = self._connection
        statement = self._statements.fence
        values = _key_values(connection, self._rules.key(transaction_id))
        if born_ms is not None and self._statements.young_fence is not None:
            statement, values = self._statements.young_fence, {**values, "p3": born_ms}
        try:
            connection.execute(statement, values)
            connection.commit()
        except IntegrityError:
            connection.rollback()

    def _begin(self) -> None:
        patience_ms = self._watch.patience_ms()
        if self._connection.dialect.name == "postgresql":
            self._connection.exec_driver_sql(guards.postgresql_bounds(patience_ms))
        elif self._connection.dialect.name in mysql.NAMES:
            self._connection.exec_driver_sql(mysql.LEVEL)


def _connection_of(session: Session | scoped_session[Any] | Connection) -> Connection:
    if isinstance(session, Connection):
        return session
    if isinstance(session, Session | scoped_session):
        found = sql_guards.session_of(session)
        try:
            connection = found.connection()
        except UnboundExecutionError:  # it has engines for its tables, and none for the rest
            used = sql_guards.connection_of(found)
            if used is None:
                raise
            return used
        sql_guards.connection_of(found)  # raises when that was a second one
        return connection
    raise InvalidRequest(
        f"record takes the Session or Connection of the local transaction, not"
        f" {type(session).__name__} (AsyncSession and AsyncConnection go to AsyncBarrier)"
    )


def _roll_back_all(session: Session | scoped_session[Any] | Connection) -> None:
    """Savepoints included: nothing of this local transaction may be committed any more."""
    if isinstance(session, Connection):
        transaction = session.get_transaction()
        if transaction is not None:
            transaction.rollback()
    else:
        session.rollback()


def _text(statement: str) -> TextClause:
    named, _ = table.styled(statement, (), "named")
    return text(named)


def _key_values(connection: Connection, key: tuple[str, str]) -> dict[str, Any]:
    return _named(table.key_values(connection.dialect.name, key))


def _named(values: Sequence[str]) -> dict[str, Any]:
    return {f"p{number}": value for number, value in enumerate(values, 1)}
