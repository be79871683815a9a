"""What MySQL and MariaDB need of their own before a barrier relies on a connection.

Works on drivers' connections; knows no statement of the table's.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

NAMES: Final = ("mysql", "mariadb")

#: Run first in each transaction of a check, and it holds for that one only. Whatever the connection
#: is set to: never what is uncommitted, and each transaction sees all that was committed before it.
#: Not READ COMMITTED: with binlog_format=STATEMENT nothing can be written at that level.
LEVEL: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"

_SHOW: Final = (
    "SHOW SESSION VARIABLES WHERE Variable_name IN"
    " ('innodb_lock_wait_timeout', 'lock_wait_timeout', 'max_statement_time')"
)


@contextmanager
def bounds(raw: Any, wait_ms: int) -> Iterator[None]:
    """No lock, of a row or of the table, may hold a check for long; then all is put back.

    MariaDB ends a statement after `wait_ms`; MySQL, which counts in seconds, after one at least.
    """
    before = _settings(raw)
    whole_s = max(1, int(wait_ms) // 1000)
    of_ours = {"max_statement_time": f"{int(wait_ms) / 1000:.3f}"}
    _set(raw, {name: of_ours.get(name, str(whole_s)) for name in before})
    try:
        yield
    except BaseException:
        # A connection that was lost has nothing to be put back, and the loss is what is told.
        with suppress(Exception):
            _set(raw, before)
        raise
    _set(raw, before)


def _settings(raw: Any) -> dict[str, str]:
    cursor = raw.cursor()
    try:
        cursor.execute(_SHOW)
        rows = [row.values() if isinstance(row, dict) else row for row in cursor.fetchall()]
        return {_text(name): _text(value) for name, value in rows}
    finally:
        cursor.close()


def _set(raw: Any, values: dict[str, str]) -> None:
    cursor = raw.cursor()
    try:
        cursor.execute(
            "SET SESSION " + ", ".join(f"{name} = {value}" for name, value in values.items())
        )
    finally:
        cursor.close()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes | bytearray) else str(value)
