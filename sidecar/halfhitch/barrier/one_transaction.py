"""A block is one transaction of the database: how it is found out that it was not.

The record is a block's last statement, so it knows nothing of what came before. A commit inside the
block, a rollback, a begin, a statement that commits by itself (DDL on MariaDB), a connection that
its driver has opened anew: each parts what was done before from the record, and the messages would
follow the record alone.

So the transaction is marked when the block begins to use it, and the mark ends with it, whoever
ends it:

    PostgreSQL      a setting of this transaction (SET LOCAL), which takes no snapshot
    MySQL, MariaDB  a savepoint: to those of its transaction alone it can be released
    SQLite          no mark, for it would begin the transaction, and so its view of the database,
                    too early. Instead: while no transaction is open, nothing must have changed

On other databases nothing is noticed. Works on drivers' connections; knows no statement of the
table's.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from halfhitch.barrier import guards
from halfhitch.barrier.mysql import NAMES as _MYSQLS
from halfhitch.errors import InvalidRequest

_NAME: Final = "halfhitch_block"
_POSTGRESQL: Final = (
    "SET LOCAL halfhitch.block = 'begun'",
    "SELECT current_setting('halfhitch.block', true) = 'begun'",
)
#: MySQL's: there is no such savepoint.
_NO_SAVEPOINT: Final = 1305
_NO_SAVEPOINT_OF_SQLITE: Final = "no such savepoint"
#: Where sqlite3 begins no transaction although rows may be written: it reads the first word alone.
_UNBEGUN: Final = re.compile(
    r"(?:[\s;]|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*"
    r"(?:SAVEPOINT\b|WITH\b.*\b(?:INSERT|UPDATE|DELETE|REPLACE)\b"
    r"|(?P<table>CREATE\s+TABLE\b.*\bAS\s+(?:SELECT|WITH|VALUES)\b|(?:DROP|ALTER)\s+TABLE\b))",
    re.IGNORECASE | re.DOTALL,
)
#: Without a row. Of a task that is cancelled here, one that nobody reads would keep the statement
#: unfinished, and with it the lock of the connection, closed or not: see SQLite in docs/barrier.md.
_PROBE: Final = "SELECT 'halfhitch' WHERE 0"


class OneTransaction:
    """The one that a block's record must be in.

    run: runs a statement on the connection; ask: gives the first value of its answer; wait: for
    what the driver gives back, if that is asyncio's.
    """

    def __init__(
        self,
        dialect: str,
        driver_connection: Any,
        run: Callable[[str], object],
        ask: Callable[[str], Any],
        wait: Callable[[Any], object] = lambda given: given,
    ) -> None:
        self._dialect = dialect
        self._driver = driver_connection
        self._run = run
        self._ask = ask
        self._wait = wait
        self._changes = 0
        self._is_used = False
        self._has_ended = False
        self._is_traced = False
        self._is_heard = False
        self._swallowed: BaseException | None = None
        self._heard: Callable[[str], None] = _nobody

    def begin(self, *, is_used: bool = False) -> None:
        """Mark it. It is `is_used` if rows were changed in it before the block."""
        if self._dialect == "postgresql":
            self._run(_POSTGRESQL[0])
        elif self._dialect in _MYSQLS:
            self._run(f"SAVEPOINT {_NAME}")
        elif self._dialect == "sqlite":
            self._changes = getattr(self._driver, "total_changes", 0)
            self._is_used = is_used and self._is_open()

    def trace(self, heard: Callable[[str], None]) -> None:
        """SQLite: look before each statement, whoever runs it; it is `heard`, too."""
        self._heard = heard
        trace = getattr(self._driver, "set_trace_callback", None)
        if self._dialect == "sqlite" and callable(trace):
            self._is_traced = True
            self._wait(trace(self._traced))

    def let_go(self) -> None:
        """The block has ended."""
        if self._is_traced:
            self._is_traced = False
            self._wait(self._driver.set_trace_callback(None))

    def _traced(self, statement: str) -> None:
        """sqlite3 swallows what is raised here, and a signal may come anywhere."""
        try:
            self._is_heard = True
            self.look()
            self._heard(statement)
            if not self._is_open() and _changes_rows_alone(statement):
                self._has_ended = True
        except BaseException as error:  # noqa: BLE001 - raised by `require`
            self._swallowed = error

    def look(self) -> None:
        """SQLite: before a statement. A rollback takes no change back from the count."""
        if not self._is_open() and (
            self._is_used or getattr(self._driver, "total_changes", 0) != self._changes
        ):
            self._has_ended = True

    def begin_before(self, statement: str) -> None:
        """SQLite: begin what the driver does not, or the release of a savepoint would commit.

        Not for a query: it would keep its view of the database.
        """
        if (
            not self._is_open()
            and not guards.commits_at_once(self._driver)
            and _UNBEGUN.match(statement)
        ):
            self._run("BEGIN")

    def require(self) -> None:
        """Raises InvalidRequest when it is another one now, or none. Once, before the record."""
        if self._dialect == "postgresql":
            self._has_ended = not self._ask(_POSTGRESQL[1])
        elif self._dialect in _MYSQLS:
            try:
                self._run(f"RELEASE SAVEPOINT {_NAME}")
            except Exception as error:
                if not is_no_savepoint(error):
                    raise
                raise ended() from error
        elif self._dialect == "sqlite":
            self.look()
            self._require_trace()
            if self._swallowed is not None:
                raise self._swallowed
        if self._has_ended:
            raise ended()

    def _require_trace(self) -> None:
        """SQLite has one callback, and does not say whose it is.

        Twice: what a signal's handler raises before the callback's first line, sqlite3 swallows.
        """
        self._is_heard = not self._is_traced
        for _ in range(2):
            if self._is_heard:
                return
            self._run(_PROBE)
        if not self._is_heard:
            raise untraced()

    def _is_open(self) -> bool:
        return bool(getattr(self._driver, "in_transaction", True))


def _nobody(_: str) -> None:
    """Hears it."""


def _changes_rows_alone(statement: str) -> bool:
    """Those of a table that comes or goes, which SQLite counts as no change."""
    found = _UNBEGUN.match(statement)
    return found is not None and found["table"] is not None


def is_no_savepoint(error: Exception) -> bool:
    """What a database says whose transaction, and so the savepoint in it, is over."""
    found = getattr(error, "orig", None) or error
    said = (getattr(found, "errno", None), *found.args[:1])
    return _NO_SAVEPOINT in said or _NO_SAVEPOINT_OF_SQLITE in str(found)


def ended() -> InvalidRequest:
    """To be raised when the transaction that a block began with is over before the block's end."""
    return InvalidRequest(
        "the local transaction of this block was ended inside it: by a commit, rollback or begin of"
        " the program's own, by a statement that commits (on MariaDB: DDL, LOCK TABLES; on a plain"
        " connection of SQLite's, before a BEGIN: DROP TABLE, ALTER TABLE, SAVEPOINT), or with"
        " its connection, which was opened anew. (On PostgreSQL RESET ALL or DISCARD ALL, too, for"
        " they take the barrier's mark away.) What came before is not in the transaction that"
        " the block's end would commit; so that is rolled back, and the messages are. What the"
        " program has committed itself stands: look for it. Leave begin, commit and rollback to"
        " the block, and run what may fail in a savepoint"
    )


def untraced() -> InvalidRequest:
    """To be raised when nobody knows what was done on a connection of SQLite's."""
    return InvalidRequest(
        "set_trace_callback was called inside this block: SQLite has one for a connection, and by"
        " it the block notices that its transaction is ended inside. So nothing is committed. Set"
        " a callback of your own behind the block, or trace over SQLAlchemy's events"
    )


def commits_inside() -> InvalidRequest:
    """To be raised before a commit inside a block is done."""
    return InvalidRequest(
        "a commit inside a block of a barrier: rows would stand whatever became of the rest and of"
        " the messages, so nothing was committed. The end of the block commits both; it needs no"
        " `with session.begin()`. What must stand by itself belongs in a session of its own"
    )


def begins_again() -> InvalidRequest:
    """To be raised when a session in a block begins a second transaction."""
    return InvalidRequest(
        "the local transaction of this block was ended inside it (a rollback or close of its"
        " session), and this would begin another one: what was done before is gone, and the"
        " messages would follow what comes now. Let what goes wrong leave the block, which rolls"
        " both back, or run what may fail in a savepoint (begin_nested)"
    )


def registry_changed() -> InvalidRequest:
    """To be raised when a `scoped_session` stands for another session than at the block's begin."""
    return InvalidRequest(
        "the scoped_session that this block was given stands for another session now: its remove()"
        " was called inside the block, which rolled back what was done before, and what came then"
        " is in a session that the block does not commit. Call remove() behind the block; of rows"
        " that the other session has made, none is committed here"
    )


def two_databases(first: object, second: object) -> InvalidRequest:
    """To be raised when one session has begun two transactions."""
    return InvalidRequest(
        f"this session works in two databases ({first} and {second}), or over two engines of one:"
        " those are two commits, and one may take place without the other. The record would be in"
        " one of them and know nothing of the rows in the other. Give a session that has one engine"
        " for all it does, and read from others in sessions of their own"
    )
