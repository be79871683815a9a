"""The barrier for plain database drivers (PEP 249): sqlite3, psycopg and their like.

`record` runs on the application's connection and is part of its transaction. Checks and purges take
connections of their own by calling `connect`, and close them.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from halfhitch.barrier import guards, table
from halfhitch.barrier.block import before_commit, fail, finish
from halfhitch.barrier.errors import refusal
from halfhitch.barrier.rules import KEEP_S, Checked, Question, Rules
from halfhitch.barrier.table import check_style
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import ConfigurationError

if TYPE_CHECKING:
    from halfhitch.client import Transaction, TransactionProducer

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
        local transaction is rolled back then, whatever the caller does with the exception.
        """
        key = self._rules.key(transaction_id)
        found = connection if hasattr(connection, "cursor") else connection.connection
        driver = self._driver(found)
        guards.require_transaction(found)
        try:
            driver.run(table.insert(self._rules.table, table.COMMITTED), key)
        except driver.integrity_error as error:
            raise refusal(transaction_id, self._look_again(driver, key)) from error
        except Exception as error:
            self._rules.explain(error)
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
        immunity_s: int | None = None,
    ) -> Iterator[tuple["Transaction", Any]]:
        """Messages and rows that end together, on a connection of its own: `Barrier.transaction`.

        Do not commit or roll back inside.
        """
        is_new = transaction_id is None
        tx = producer.transaction(transaction_id, immunity_s=immunity_s)
        with self._connection() as connection:
            local = _ConnectionWork(self, connection, tx.id)
            try:
                yield tx, connection
            except BaseException as error:
                fail(local, tx, error, before_commit(error, is_new=is_new))
                raise
            finish(local, tx, is_new=is_new)

    def purge(
        self, older_than_s: float | None = None, *, batch_count: int = 1_000, force: bool = False
    ) -> int:
        """See `Barrier.purge`."""
        age_s = self._rules.purge_age_s(older_than_s, batch_count, force=force)
        deleted, batch = 0, batch_count
        with self._connection() as connection:
            driver = self._driver(connection)
            statement, count = table.delete_old(
                driver.dialect, self._rules.table, age_s, batch_count
            )
            while batch >= batch_count:
                batch = driver.run(statement, (self._rules.group,) * count)
                connection.commit()
                deleted += batch
        return deleted

    def ask(self, question: Question) -> LocalTransactionState:
        """For this package: on a connection of its own."""
        try:
            with self._connection() as connection:
                driver = self._driver(connection)
                with _bounded(driver, self._rules.wait_ms) as first:
                    return self._rules.decide(_Notes(driver, self._rules, first), question)
        except Exception as error:  # noqa: BLE001 - UNKNOWN is the answer to everything else
            return self._rules.failed(question, error)

    def _create(self) -> None:
        with self._connection() as connection:
            driver = self._driver(connection)
            for statement in table.ddl_statements(driver.dialect, self._rules.table):
                driver.run(statement, ())
            connection.commit()

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        given = self._connect()
        if not hasattr(given, "cursor"):
            with given as connection:
                yield connection
            return
        try:
            yield given
        finally:
            given.close()

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
        self.integrity_error: type[Exception] = error
        self.dialect = dialect or _DIALECTS.get(name, name or "unknown")
        self._style: str = style

    def run(self, statement: str, values: Sequence[str]) -> int:
        """How many rows it changed."""
        cursor = self.connection.cursor()
        try:
            self._execute(cursor, statement, values)
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def outcome(self, name: str, key: tuple[str, str]) -> str | None:
        """Of the row, if there is one."""
        cursor = self.connection.cursor()
        try:
            self._execute(cursor, table.select_outcome(name), key)
            return table.outcome_in(cursor.fetchone())
        finally:
            cursor.close()

    def _execute(self, cursor: Any, statement: str, values: Sequence[str]) -> None:
        if values:
            cursor.execute(*table.styled(statement, values, self._style))
        else:
            cursor.execute(statement)


class _Notes:
    """The table through a connection that is a check's own."""

    def __init__(self, driver: _Driver, rules: Rules, first: str | None) -> None:
        self._driver = driver
        self._rules = rules
        self._first = first

    def read(self, transaction_id: str) -> str | None:
        """In a transaction of its own, so that it sees all that is committed now."""
        self._begin()
        outcome = self._driver.outcome(self._rules.table, self._rules.key(transaction_id))
        self._driver.connection.rollback()
        return outcome

    def fence(self, transaction_id: str) -> bool:
        """Returns only when it is committed, or refused because a row stands there."""
        self._begin()
        statement = table.insert(self._rules.table, table.FENCED)
        try:
            self._driver.run(statement, self._rules.key(transaction_id))
            self._driver.connection.commit()
        except self._driver.integrity_error:
            self._driver.connection.rollback()
            return False
        return True

    def _begin(self) -> None:
        if self._first is not None:
            self._driver.run(self._first, ())


class _ConnectionWork:
    """A block's connection, as `block` wants it."""

    def __init__(self, barrier: DbapiBarrier, connection: Any, transaction_id: str) -> None:
        self._barrier = barrier
        self._connection = connection
        self._id = transaction_id

    def record(self) -> None:
        """After all the work."""
        self._barrier.record(self._connection, self._id)

    def commit(self) -> None:
        """Rows and record."""
        self._connection.commit()

    def drop(self) -> None:
        """The block closes the connection."""
        self._connection.rollback()

    def ask(self) -> LocalTransactionState:
        """Of the table."""
        return self._barrier.ask(Question(self._id, is_own=True))


@contextmanager
def _bounded(driver: _Driver, wait_ms: int) -> Iterator[str | None]:
    """Gives what must be run first in each transaction of a check."""
    connection = driver.connection
    if driver.dialect == "sqlite":
        with guards.sqlite_bounds(connection, connection, wait_ms):
            yield None
    elif driver.dialect == "postgresql":
        # Bounds hold for a transaction, so there must be one.
        was_autocommit = getattr(connection, "autocommit", None) is True
        if was_autocommit:
            connection.autocommit = False
        try:
            yield guards.postgresql_bounds(wait_ms)
        finally:
            if was_autocommit:  # it may belong to a pool
                connection.rollback()
                connection.autocommit = True
    else:
        yield None


def _module_of(connection: Any) -> Any:
    """The driver's module: applications may have made a class of their own of its connections."""
    for kind in type(connection).__mro__:
        module = sys.modules.get(kind.__module__.partition(".")[0])
        if hasattr(module, "paramstyle"):
            return module
    return None
