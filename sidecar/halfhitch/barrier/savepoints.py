"""Messages that were sent inside a savepoint.

A savepoint that is rolled back takes its rows along, and no message: of a transaction's messages
all are committed, or none. So the block that has sent inside of one cannot be committed any more.
How that is found out:

    over SQLAlchemy             by the statements that it runs, and by the session's own savepoints,
                                which need no statement (`sql_savepoints`)
    sqlite3                     by all statements, which its trace tells
    PostgreSQL's drivers        they tell nothing, so each message is counted in a setting of the
                                transaction, which a savepoint takes back with its rows
    MySQL's, MariaDB's, others  not: a savepoint's release leaves no trace to tell it by there

Nor is one that the driver's own cursor makes below SQLAlchemy, but for sqlite3's.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from halfhitch.barrier import guards
from halfhitch.errors import InvalidRequest

#: A word, or what quotes it.
_NAME: Final = r"""(?P<name>\w+|"[^"]*"|`[^`]*`|'[^']*'|\[[^\]]*\])"""
_BLANK: Final = r"(?:\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)"
_STATEMENT: Final = re.compile(
    rf"(?:{_BLANK}|;)*(?:(?P<begin>SAVEPOINT)|(?P<release>RELEASE)(?:{_BLANK}+SAVEPOINT\b)?"
    rf"|(?P<back>ROLLBACK)(?:{_BLANK}+(?:WORK|TRANSACTION))?{_BLANK}+TO\b"
    rf"(?:{_BLANK}+SAVEPOINT\b)?){_BLANK}*{_NAME}",
    re.IGNORECASE,
)
#: One more: the sum loses what was counted in a savepoint that is taken back.
_COUNT: Final = (
    "SELECT set_config('halfhitch.sent', CAST(1 + CAST(COALESCE(NULLIF("
    "current_setting('halfhitch.sent', true), ''), '0') AS INTEGER) AS TEXT), true)"
)
_COUNTED: Final = "SELECT current_setting('halfhitch.sent', true)"


class ByStatements:
    """Of one block; `count`: how often it has sent."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        #: Those that are open, from the outermost, with what `count` was when they began.
        self._open: list[tuple[str, int]] = []
        self._has_taken_back = False

    def heard(self, statement: str) -> None:
        """It is run on the block's connection."""
        found = _STATEMENT.match(statement)
        if found is None:
            return
        name = found["name"].strip("\"`'[]").lower()
        if found["begin"]:
            self._open.append((name, self._count()))
            return
        depth = next((at for at, one in _from_innermost(self._open) if one[0] == name), None)
        if depth is None:
            return
        if found["release"]:
            del self._open[depth:]
        else:
            self.look(self._open[depth][1])
            del self._open[depth + 1 :]  # it stays itself, and may be taken back once more

    def look(self, before: int | None) -> None:
        """One was taken back; `before` it so often was sent."""
        if before is not None and before != self._count():
            self._has_taken_back = True

    def require(self) -> None:
        """Before the record. Raises InvalidRequest when rows of a message were taken back."""
        if self._has_taken_back:
            raise taken_back()


class InSetting:
    """Of one block on a connection of PostgreSQL's, by a setting of its transaction."""

    def __init__(self, connection: Any, ask: Callable[[str], Any]) -> None:
        self._connection = connection
        self._ask = ask
        self._count = 0
        self._has_failed = False

    def sent(self) -> None:
        """Before a message is sent; a round trip."""
        if guards.is_busy(self._connection):
            return  # rows are being streamed, and a statement would wait for their end, for ever
        if guards.has_failed(self._connection):
            self._has_failed = True  # what comes now can only be a rollback, to a savepoint perhaps
            return
        self._ask(_COUNT)
        self._count += 1

    def require(self) -> None:
        """Before the record. Raises InvalidRequest when rows of a message were taken back."""
        if self._has_failed or (self._count and self._ask(_COUNTED) != str(self._count)):
            raise taken_back()


def _from_innermost(found: list[tuple[str, int]]) -> list[tuple[int, tuple[str, int]]]:
    return list(enumerate(found))[::-1]


def taken_back() -> InvalidRequest:
    """To be raised when messages would be committed whose rows a savepoint has taken back."""
    return InvalidRequest(
        "a savepoint (begin_nested, connection.transaction()) of this block was rolled back, and"
        " messages were sent inside it: its rows are gone, and the messages would be committed with"
        " the rest, for one of them cannot be taken back alone. So rows and messages of the whole"
        " block are rolled back. Send behind the savepoint, when it has ended well, or give what"
        " may fail a block of its own, on a session or connection of its own"
    )
