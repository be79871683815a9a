"""The barrier for plain database drivers (PEP 249): sqlite3, psycopg and their like.

`record` runs on the application's connection and is part of its transaction. Checks and purges take
connections of their own by calling `connect`, and close them.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from halfhitch.barrier import durable, guards, mysql, running, table
from halfhitch.barrier.deadline import Deadline, Watch
from halfhitch.barrier.errors import refusal
from halfhitch.barrier.one_transaction import OneTransaction
from halfhitch.barrier.plain_recorded import ByHand, refusals_noted
from halfhitch.barrier.plain_work import ConnectionWork
from halfhitch.barrier.rules import KEEP_S, Checked, Question, Rules
from halfhitch.barrier.savepoints import InSetting
from halfhitch.barrier.statement import Block
from halfhitch.barrier.table import check_style
from halfhitch.barrier.told import Look, Told
from halfhitch.client import recorded
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import ConfigurationError

if TYPE_CHECKING:
    from halfhitch.client import Transaction, TransactionProducer

T = TypeVar("T")

_DIALECTS = {
    "sqlite3": "sqlite",
    "psycopg": "postgresql",
    "psycopg2": "postgresql",
    "pg8000": "postgresql",
    "MySQLdb": "mysql",
    "pymysql": "mysql",
    "mysql": "mysql",
    "mariadb": "mariadb",
}


class DbapiBarrier:
    """`Barrier` without SQLAlchemy; see there for what the methods promise.

    connect: gives a new connection, or a context manager around one (such as a pool's
        `connection` method).
    paramstyle: the driver's (PEP 249), found out if not given.
    dialect: postgresql, sqlite, mysql or mariadb, found out if not given.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        group: str,
        *,
        paramstyle: str | None = None,
        dialect: str | None = None,
        table: str = table.DEFAULT_TABLE,
        fence_after_s: float = 0.0,
        keep_s: float = KEEP_S,
        wait_s: float = 2.0,
    ) -> None:
        if not callable(connect):
            raise ConfigurationError(
                "connect must be a function that gives a new connection, such as"
                ' lambda: sqlite3.connect("shop.db")'
            )
        self._rules = Rules(group, table, fence_after_s, keep_s, wait_s)
        self._deadline = Deadline(wait_s)
        self._connect = connect
        self._paramstyle = paramstyle
        self._dialect = dialect
        if paramstyle is not None:
            check_style(paramstyle)

    @property
    def group(self) -> str:
        """The producer group."""
        return self._rules.group

    def create(self) -> None:
        """Create the table unless it is there."""
        try:
            self._create()
        except Exception:  # noqa: BLE001 - two processes create it at once: one finds it half done
            self._create()

    def record(self, connection: Any, transaction_id: str) -> None:
        """Note, as part of the local transaction, that this id has committed.

        Takes a connection or a cursor. Raises TransactionFenced or TransactionRecordedTwice; the
        local transaction is rolled back then, whatever the caller does with the exception. Raises
        InvalidRequest inside a savepoint and in autocommit mode, where the database tells.

        The producer's block reads the table at its end, for drivers call nobody at their commit.
        """
        settle = partial(self.ask, Question(transaction_id, is_own=True))
        tell = partial(self._told, transaction_id)
        with refusals_noted(self.group, transaction_id, tell, settle):
            running.require_none(self.full_key(transaction_id))
            used, number = self.note(connection, transaction_id)
        look = Look(number)
        by_hand = ByHand(used, partial(tell, look), is_numbered=number is not None)
        word = recorded.Word(by_hand.state, settle=settle, reason=look.reason)
        recorded.note(self.group, transaction_id, word)

    def full_key(self, transaction_id: str) -> tuple[str, ...]:
        """For this package: the row's, and whose table it is in."""
        return (self._rules.table, *self._rules.key(transaction_id))

    def note(self, connection: Any, transaction_id: str) -> tuple[Any, str | None]:
        """For this package: `record`, by the block of this transaction too.

        Gives the connection and the number of its transaction, where the database tells that.
        """
        key = self._rules.key(transaction_id)
        found = connection if hasattr(connection, "cursor") else connection.connection
        driver = self._driver(found)
        driver.require_transaction()
        try:
            number = driver.record(self._rules.table, key)
        except driver.integrity_error as error:
            raise refusal(transaction_id, self._look_again(driver, key)) from error
        except Exception as error:
            self._rules.explain(error)
            # Not every database has given up the whole: MariaDB, after a wait, only the statement.
            with suppress(Exception):
                found.rollback()
            raise
        return found, number

    def _told(self, transaction_id: str, look: Look) -> Told:
        """Of the record, by the table."""

        def tell(notes: _Notes) -> Told:
            look.begin(notes.watch)
            outcome = notes.read(transaction_id)
            return look.told(outcome, lambda number: notes.is_of(transaction_id, number))

        try:
            return self._look(tell)
        except Exception as error:  # noqa: BLE001 - nobody knows, then
            return look.failed(error)

    def check(self, check: Checked) -> LocalTransactionState:
        """What became of the local transaction; for a producer's `check` or a listener.

        Raises nothing: whatever goes wrong is in the log and the answer is UNKNOWN.
        """
        question = self._rules.question(check)
        if question is None:
            return LocalTransactionState.UNKNOWN
        return self._rules.told(self.ask(question))

    def transaction(
        self,
        producer: "TransactionProducer",
        transaction_id: str | None = None,
        *,
        immunity_s: int | None = None,
    ) -> AbstractContextManager[tuple["Transaction", Any]]:
        """Messages and rows that end together, on a connection of its own: `Barrier.transaction`.

        Do not commit or roll back inside.
        """

        def work() -> ConnectionWork:
            self._rules.require_producer(producer, is_awaited=False)
            tx = producer.transaction(transaction_id, immunity_s=immunity_s)
            return ConnectionWork(self, tx, is_new=transaction_id is None)

        return Block(work)

    def purge(
        self, older_than_s: float | None = None, *, batch_count: int = 1_000, force: bool = False
    ) -> int:
        """See `Barrier.purge`."""
        age_s = self._rules.purge_age_s(older_than_s, batch_count, force=force)
        deleted, batch = 0, batch_count
        with self.lease() as connection:
            driver = self._driver(connection)
            while batch >= batch_count:
                batch = driver.purge(self._rules, age_s, batch_count)
                connection.commit()
                deleted += batch
        return deleted

    def ask(self, question: Question) -> LocalTransactionState:
        """For this package: on a connection of its own, in time."""
        try:
            return self._look(lambda notes: self._rules.decide(notes, question))
        except Exception as error:  # noqa: BLE001 - UNKNOWN is the answer to everything else
            return self._rules.failed(question, error)

    def require_first(self, transaction_id: str) -> None:
        """For this package: `Rules.require_first`; the connection is given back behind it."""
        with self._rules.first_or_unread(transaction_id):
            self._look(lambda notes: self._rules.require_first(notes, transaction_id))

    def _look(self, work: Callable[["_Notes"], T]) -> T:
        return self._deadline.run(lambda watch: self._look_in_time(work, watch))

    def _look_in_time(self, work: Callable[["_Notes"], T], watch: Watch) -> T:
        with self.lease() as connection:
            driver = self._driver(connection)
            try:
                watch.hold(connection)
                if driver.dialect == "postgresql":
                    guards.require_nothing_written(connection, driver.value)
                with _bounded(driver, watch) as first:
                    return work(_Notes(driver, self._rules, watch, first))
            finally:
                watch.release()
                if watch.is_cut:  # a pool must not give it to anybody
                    with suppress(Exception):
                        connection.close()

    def _create(self) -> None:
        with self.lease() as connection:
            driver = self._driver(connection)
            for statement in table.ddl_statements(driver.dialect, self._rules.table):
                driver.run(statement, ())
            connection.commit()

    @contextmanager
    def lease(self) -> Iterator[Any]:
        """For this package: a connection, for a while."""
        given = self._connect()
        if not hasattr(given, "cursor"):
            with given as connection:
                yield connection
            return
        try:
            yield given
        finally:
            given.close()

    def one_transaction(self, connection: Any, heard: Callable[[str], None]) -> OneTransaction:
        """For this package: the one that a block begins with, marked; `heard`: its statements."""
        driver = self._driver(connection)
        one = OneTransaction(
            driver.dialect, connection, lambda statement: driver.run(statement, ()), driver.value
        )
        one.begin()
        one.trace(heard)
        return one

    def sent_in_setting(self, connection: Any) -> InSetting | None:
        """For this package: how messages inside savepoints are noticed on PostgreSQL."""
        driver = self._driver(connection)
        return InSetting(connection, driver.value) if driver.dialect == "postgresql" else None

    def require_transaction(self, connection: Any) -> None:
        """For this package. Raises InvalidRequest when a record would be committed by itself."""
        self._driver(connection).require_transaction()

    def _driver(self, connection: Any) -> "_Driver":
        return _Driver(connection, self._paramstyle, self._dialect)

    def _look_again(self, driver: "_Driver", key: tuple[str, str]) -> str | None:
        """Which row was in the way, for the words of the error; decides nothing.

        The rollback is what counts: nothing of this local transaction may be committed any more.
        Where the driver refuses it (psycopg, inside its own blocks) the server has seen to that.
        """
        try:
            driver.connection.rollback()
            outcome = driver.outcome(self._rules.table, key)
            driver.connection.rollback()
        except Exception:  # noqa: BLE001 - then the error says less
            return None
        return outcome or ""


class _Driver:
    """A connection and the ways of its driver."""

    def __init__(self, connection: Any, paramstyle: str | None, dialect: str | None) -> None:
        module = _module_of(connection)
        name = getattr(module, "__name__", "").partition(".")[0]
        style = paramstyle or getattr(module, "paramstyle", None)
        error = getattr(connection, "IntegrityError", None) or getattr(
            module, "IntegrityError", None
        )
        if style is None or error is None:
            raise ConfigurationError(
                f"the driver of {type(connection).__name__} does not say its paramstyle or its"
                " IntegrityError (PEP 249): give paramstyle=..., or connections of the driver's own"
            )
        self.connection = connection
        # Not what the application has told psycopg to make of its rows.
        rows = getattr(module, "rows", None) if name == "psycopg" else None
        self._cursor_options = {} if rows is None else {"row_factory": rows.tuple_row}
        self.integrity_error: type[Exception] = error
        self.dialect = dialect or _DIALECTS.get(name, name or "unknown")
        self._style: str = style

    def require_transaction(self) -> None:
        """Raises InvalidRequest when a record would be committed by itself."""
        at_once = guards.commits_at_once(self.connection)
        if at_once is None and self.dialect == "postgresql":
            first, second = (self._one(probe, ()) for probe in guards.TRANSACTION_PROBE)
            at_once = list(first) != list(second)
        if at_once:
            raise guards.commits_alone()

    def record(self, name: str, key: tuple[str, str]) -> str | None:
        """The number of the transaction, where the database tells it.

        Raises InvalidRequest inside a savepoint, where the database tells.
        """
        statement = table.insert(self.dialect, name, table.COMMITTED)
        values = table.key_values(self.dialect, key)
        if self.dialect != "postgresql":
            if self.run(statement, values) == 0:
                raise guards.unwritten()
            return None
        row = self._one(statement + guards.POSTGRESQL_OUTSIDE_SAVEPOINT, values)
        if row is None:
            raise guards.unwritten()
        is_outside, number = row.values() if isinstance(row, dict) else row
        if not is_outside:
            raise guards.in_savepoint()
        return str(number)

    def run(self, statement: str, values: table.Values) -> int:
        """How many rows it changed."""
        cursor = self.connection.cursor(**self._cursor_options)
        try:
            self._execute(cursor, statement, values)
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def value(self, statement: str, values: table.Values = ()) -> Any:
        """The first one of its row."""
        return _first(self._one(statement, values))

    def outcome(self, name: str, key: tuple[str, str]) -> str | None:
        """Of the row, if there is one."""
        row = self._one(
            table.select_outcome(self.dialect, name), table.key_values(self.dialect, key)
        )
        return table.outcome_in(row, key)

    def purge(self, rules: Rules, age_s: int, batch_count: int) -> int:
        """One batch of old rows; how many they were."""
        group, _ = table.key_values(self.dialect, (rules.group, ""))
        if self.dialect not in mysql.NAMES:
            statement, count = table.delete_old(self.dialect, rules.table, age_s, batch_count)
            return self.run(statement, (group,) * count)
        self.run(mysql.LEVEL, ())
        select = table.select_old_of_mysql(rules.table, age_s, batch_count)
        found = self._fetch("fetchall", select, (group,))
        ids = [next(iter(row.values())) if isinstance(row, dict) else row[0] for row in found]
        return self.run(table.delete_of_mysql(rules.table, ids), (group,)) if ids else 0

    def _one(self, statement: str, values: table.Values) -> Any:
        return self._fetch("fetchone", statement, values)

    def _fetch(self, how: str, statement: str, values: table.Values) -> Any:
        cursor = self.connection.cursor(**self._cursor_options)
        try:
            self._execute(cursor, statement, values)
            return getattr(cursor, how)()
        finally:
            cursor.close()

    def _execute(self, cursor: Any, statement: str, values: table.Values) -> None:
        if values:
            cursor.execute(*table.styled(statement, values, self._style))
        else:
            cursor.execute(statement)


class _Notes:
    """The table through a connection that is a check's own."""

    def __init__(
        self, driver: _Driver, rules: Rules, watch: Watch, first: Callable[[int], str | None]
    ) -> None:
        self._driver = driver
        self._rules = rules
        self.watch = watch
        self._first = first

    def read(self, transaction_id: str) -> str | None:
        """In a transaction of its own, so that it sees all that is committed now."""
        driver, name, key = self._driver, self._rules.table, self._rules.key(transaction_id)
        self._begin()
        outcome = driver.outcome(name, key)
        driver.connection.rollback()
        if outcome is None or not durable.is_needed(driver.dialect):
            return outcome
        self.watch.has_seen = True
        behind = durable.Behind(driver.dialect, name, self._rules.group, self._begin, driver.run)
        return behind.sure(lambda: driver.outcome(name, key), driver.connection.commit)

    def is_of(self, transaction_id: str, number: str) -> bool:
        """Whether the row was written by the transaction of this number, where that is told."""
        driver = self._driver
        statement = table.select_is_of(driver.dialect, self._rules.table)
        if statement is None:
            return False
        with suppress(Exception):  # of a view, say: then it is not known
            self._begin()
            found = driver.value(statement, (number, *self._rules.key(transaction_id)))
            driver.connection.rollback()
            return found is True
        return False

    def fence(self, transaction_id: str, born_ms: int | None) -> None:
        """Returns only when it is committed, or refused because a row stands there."""
        self._begin()
        rules, driver = self._rules, self._driver
        statement = table.insert(driver.dialect, rules.table, table.FENCED)
        values: table.Values = table.key_values(driver.dialect, rules.key(transaction_id))
        if born_ms is not None:
            young = table.insert_young_fence(driver.dialect, rules.table, rules.fence_age_ms_max)
            if young is not None:
                statement, values = young, (*values, born_ms)
        try:
            driver.run(statement, values)
            driver.connection.commit()
        except driver.integrity_error:
            driver.connection.rollback()

    def _begin(self) -> None:
        first = self._first(self.watch.patience_ms())
        if first is not None:
            self._driver.run(first, ())


@contextmanager
def _bounded(driver: _Driver, watch: Watch) -> Iterator[Callable[[int], str | None]]:
    """Gives what must be run first in each transaction of a check, for so many milliseconds."""
    connection = driver.connection
    if driver.dialect == "sqlite":
        with guards.sqlite_bounds(connection, connection, watch.patience_ms()):
            yield lambda _: None
    elif driver.dialect == "postgresql":
        # Bounds hold for a transaction, so there must be one.
        was_autocommit = getattr(connection, "autocommit", None) is True
        if was_autocommit:
            connection.autocommit = False
        try:
            yield guards.postgresql_bounds
        finally:
            if was_autocommit:  # it may belong to a pool
                connection.rollback()
                connection.autocommit = True
    elif driver.dialect in mysql.NAMES:
        with mysql.bounds(connection, watch.patience_ms()):
            yield lambda _: mysql.LEVEL
    else:
        yield lambda _: None


def _first(row: Any) -> Any:
    return next(iter(row.values())) if isinstance(row, dict) else row[0]


def _module_of(connection: Any) -> Any:
    """The driver's module: applications may have made a class of their own of its connections."""
    for kind in type(connection).__mro__:
        module = sys.modules.get(kind.__module__.partition(".")[0])
        if hasattr(module, "paramstyle"):
            return module
    return None
