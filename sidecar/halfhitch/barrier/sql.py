"""The barrier for SQLAlchemy 2.

`record` runs on the application's connection and is part of its transaction. Checks, purges and
the creation of the table take connections of their own from the engine; in a forked child they are
the child's own.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import BigInteger, TextClause, bindparam, text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.pool import StaticPool

from halfhitch.barrier import guards, mysql, sql_guards, table
from halfhitch.barrier.block import before_commit, fail, finish
from halfhitch.barrier.deadline import Deadline, Watch
from halfhitch.barrier.errors import refusal
from halfhitch.barrier.rules import KEEP_S, Checked, Question, Rules
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import ConfigurationError, InvalidRequest

if TYPE_CHECKING:
    from halfhitch.client import Transaction, TransactionProducer


class Barrier:
    """Records local transactions of one producer group and answers its checks.

    fence_after_s: until a transaction is so old, one without a record is answered UNKNOWN; then, by
        default at once, it is fenced and answered ROLLBACK.
    keep_s: how long rows are kept at least; a transaction of about that age that has none is
        answered UNKNOWN.
    wait_s: how long a check may take; then it is answered UNKNOWN.
    """

    def __init__(
        self,
        engine: Engine,
        group: str,
        *,
        table: str = table.DEFAULT_TABLE,
        fence_after_s: float = 0.0,
        keep_s: float = KEEP_S,
        wait_s: float = 2.0,
    ) -> None:
        if not isinstance(engine, Engine):
            raise ConfigurationError(
                f"Barrier takes an Engine, not {type(engine).__name__}: a check needs connections"
                " of its own (for an AsyncEngine use AsyncBarrier)"
            )
        if isinstance(engine.pool, StaticPool):
            raise ConfigurationError(
                "this engine has one connection for all (StaticPool): a check on it would read and"
                " roll back what others are doing. Use a database in a file, or a server"
            )
        self._rules = Rules(group, table, fence_after_s, keep_s, wait_s)
        self._home = sql_guards.HomeEngine(engine)
        self._deadline = Deadline(wait_s)
        self._statements = _Statements(self._rules, engine.dialect.name)

    @property
    def group(self) -> str:
        """The producer group."""
        return self._rules.group

    @property
    def engine(self) -> Engine:
        """For this package: with connections of this process only."""
        return self._home.here()

    def create(self) -> None:
        """Create the table unless it is there."""
        engine = self.engine
        try:
            with engine.begin() as connection:
                self.create_on(connection)
        except DBAPIError:  # two processes create it at once, and one found it half done
            with engine.begin() as connection:
                self.create_on(connection)

    def record(
        self, session: Session | scoped_session[Any] | Connection, transaction_id: str
    ) -> None:
        """Note, as part of the local transaction, that this id has committed.

        Raises TransactionFenced or TransactionRecordedTwice; the local transaction is rolled back
        then, whatever the caller does with the exception. Raises InvalidRequest inside a savepoint
        and in autocommit mode.
        """
        key = self._rules.key(transaction_id)
        connection = _connection_of(session)
        sql_guards.require_transaction(connection)
        pooled = connection.connection
        try:
            connection.execute(self._statements.record, _key_values(connection, key))
            sql_guards.watch_commit(connection)
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

    def check(self, check: Checked) -> LocalTransactionState:
        """What became of the local transaction; for a producer's `check` or a listener.

        Raises nothing: whatever goes wrong is in the log and the answer is UNKNOWN.
        """
        question = self._rules.question(check)
        if question is None:
            return LocalTransactionState.UNKNOWN
        return self.ask(question)

    @contextmanager
    def transaction(
        self,
        producer: "TransactionProducer",
        transaction_id: str | None = None,
        *,
        session: Session | scoped_session[Any] | None = None,
        immunity_s: int | None = None,
    ) -> Iterator[tuple["Transaction", Session]]:
        """Messages and rows that end together: leaving commits both, an exception neither.

        The id is recorded and the session committed at the end of the block; do not commit or roll
        back either inside. A given `session` is left open, for further use.

        When the local commit fails, the table is asked whether it took place after all. If it
        cannot be asked, LocalOutcomeUnknown is raised and the check-back settles it. With a given
        `transaction_id` the table is also asked when the block raises, for an earlier attempt.
        """
        is_new = transaction_id is None
        self._rules.require_producer(producer, is_awaited=False)
        given = None if session is None else sql_guards.session_of(session)
        if given is not None:
            sql_guards.require_own_commit(given)
        tx = producer.transaction(transaction_id, immunity_s=immunity_s)
        found = Session(self.engine) if given is None else given
        home = guards.Home()
        local = _SessionWork(self, found, tx.id, home)
        try:
            with sql_guards.in_block(found):
                try:
                    yield tx, found
                except BaseException as error:
                    fail(local, tx, error, before_commit(error, is_new=is_new))
                    raise
                finish(local, tx, is_new=is_new)
        finally:
            if given is None and not home.is_left(found):
                found.close()

    def purge(
        self, older_than_s: float | None = None, *, batch_count: int = 1_000, force: bool = False
    ) -> int:
        """Delete this group's rows that are older than `keep_s`, in batches; how many they were.

        A younger age is refused unless forced: see docs/barrier.md.
        """
        age_s = self._rules.purge_age_s(older_than_s, batch_count, force=force)
        deleted, batch = 0, batch_count
        while batch >= batch_count:
            with self.engine.begin() as connection:
                batch = self.purge_on(connection, age_s, batch_count)
            deleted += batch
        return deleted

    def create_on(self, connection: Connection) -> None:
        """For this package: in a transaction of its own."""
        for statement in table.ddl_statements(connection.dialect.name, self._rules.table):
            connection.exec_driver_sql(statement)

    def purge_on(self, connection: Connection, age_s: int, batch_count: int) -> int:
        """For this package: one batch, in a transaction of its own."""
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

    def ask(self, question: Question) -> LocalTransactionState:
        """For this package: on a connection of its own, in time."""
        try:
            return self._deadline.run(lambda watch: self._ask(question, watch))
        except Exception as error:  # noqa: BLE001 - UNKNOWN is the answer to everything else
            return self._rules.failed(question, error)

    def _ask(self, question: Question, watch: Watch) -> LocalTransactionState:
        with self.engine.connect() as connection:
            return self.decide_on(connection, question, watch)

    def decide_on(
        self, connection: Connection, question: Question, watch: Watch
    ) -> LocalTransactionState:
        """For this package: on a connection that is the check's own."""
        pooled = connection.connection
        notes = _Notes(connection, self._rules, self._statements, watch)
        try:
            watch.hold(pooled.driver_connection)
            if connection.dialect.name == "sqlite":
                patience_ms = watch.patience_ms()
                with guards.sqlite_bounds(pooled, pooled.driver_connection, patience_ms):
                    return self._rules.decide(notes, question)
            if connection.dialect.name in mysql.NAMES:
                with mysql.bounds(pooled, watch.patience_ms()):
                    return self._rules.decide(notes, question)
            # Never what is uncommitted, and a later statement sees what an earlier one waited for.
            connection.execution_options(isolation_level="READ COMMITTED")
            return self._rules.decide(notes, question)
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
        self.record = _text(table.insert(dialect, rules.table, table.COMMITTED))
        self.fence = _text(table.insert(dialect, rules.table, table.FENCED))
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
        self._begin()
        key = self._rules.key(transaction_id)
        values = _key_values(self._connection, key)
        row = self._connection.execute(self._statements.select, values).first()
        self._connection.rollback()
        return table.outcome_in(row, key)

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


class _SessionWork:
    """A block's session, as `block` wants it."""

    def __init__(
        self, barrier: Barrier, session: Session, transaction_id: str, home: guards.Home
    ) -> None:
        self._barrier = barrier
        self._session = session
        self._id = transaction_id
        self._home = home

    @property
    def is_inherited(self) -> bool:
        """In a forked child."""
        return self._home.is_left(self._session)

    def record(self) -> None:
        """All the work first: what the database refuses shows before the note is made."""
        self._session.flush()
        self._barrier.record(self._session, self._id)

    def commit(self) -> None:
        """Rows and record."""
        self._session.commit()
        sql_guards.require_committed(self._session)

    def drop(self) -> None:
        """Its connection goes back to the pool, where the barrier may need it."""
        self._session.close()

    def ask(self) -> LocalTransactionState:
        """Of the table."""
        return self._barrier.ask(Question(self._id, is_own=True))


def _connection_of(session: Session | scoped_session[Any] | Connection) -> Connection:
    if isinstance(session, Connection):
        return session
    if isinstance(session, Session | scoped_session):
        return session.connection()
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
