"""The barrier's table: its form on each database, and every statement that is ever run on it.

Invariants:
- the primary key is (producer group, transaction id), compared byte by byte: it alone decides who
  came first;
- `at` is the database's own time, so that no application's clock can make a note look old, and a
  fence is only inserted while the database's clock says that no note of that age was purged;
- a row says whose it is, and is compared with what was asked for;
- statements carry `?` where parameters go; the shells write them as their drivers want.

It runs nothing.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from halfhitch.errors import ConfigurationError, InvalidRequest

Values = Sequence[str | int]

DEFAULT_TABLE: Final = "halfhitch_barrier"
COMMITTED: Final = "committed"
FENCED: Final = "fenced"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,59}")  # `_at` still fits into PostgreSQL's 63
_DIALECTS: Final = ("postgresql", "sqlite", "mysql", "mariadb")
_MYSQLS: Final = ("mysql", "mariadb")
#: No zone has ever put its clocks back or forward by more.
_ZONES_CHANGE_S_MAX: Final = 86_400

#: How a driver wants the n-th parameter marked.
_MARKERS: Final = {
    "qmark": "?",
    "format": "%s",
    "pyformat": "%(p{0})s",
    "named": ":p{0}",
    "numeric": ":{0}",
    "numeric_dollar": "${0}",
}

# Ids are compared as they are: no collation of the database's may find two of them equal.
_POSTGRESQL = (
    """\
CREATE TABLE IF NOT EXISTS {table} (
    producer_group VARCHAR(255) COLLATE "C" NOT NULL,
    transaction_id VARCHAR(255) COLLATE "C" NOT NULL,
    outcome VARCHAR(9) NOT NULL CHECK (outcome IN ('committed', 'fenced')),
    at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (producer_group, transaction_id)
)""",
    "CREATE INDEX IF NOT EXISTS {bare}_at ON {table} (producer_group, at)",
)
_SQLITE = (
    """\
CREATE TABLE IF NOT EXISTS {table} (
    producer_group TEXT NOT NULL,
    transaction_id TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('committed', 'fenced')),
    at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (producer_group, transaction_id)
) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS {bare}_at ON {table} (producer_group, at)",
)
_MYSQL = (
    """\
CREATE TABLE IF NOT EXISTS {table} (
    producer_group VARBINARY(255) NOT NULL,
    transaction_id VARBINARY(255) NOT NULL,
    outcome VARCHAR(9) NOT NULL CHECK (outcome IN ('committed', 'fenced')),
    at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (producer_group, transaction_id),
    INDEX {bare}_at (producer_group, at)
) ENGINE=InnoDB""",
)


class UnfitConnection(InvalidRequest):
    """What it reads or writes could not be relied on; says why."""


def ddl(dialect: str, table: str = DEFAULT_TABLE) -> str:
    """The statements that create the table, for migrations; they may be run again.

    `dialect` is postgresql, sqlite, mysql or mariadb.
    """
    return "".join(f"{statement};\n" for statement in ddl_statements(dialect, table))


def ddl_statements(dialect: str, table: str) -> tuple[str, ...]:
    """`ddl`, one statement each. Raises ConfigurationError."""
    check_table(table)
    if dialect not in _DIALECTS:
        raise ConfigurationError(
            f"there is no definition of the barrier's table for {dialect!r}, only for"
            f" {', '.join(_DIALECTS)}. Take one of them (halfhitch.barrier.ddl) as a pattern: what"
            " matters is the primary key, and that the database gives `at` its value"
        )
    bare = table.rpartition(".")[2]
    if dialect == "sqlite" and bare != table:
        raise ConfigurationError(f"table {table!r}: SQLite has no schemas; leave {bare!r}")
    forms = {"postgresql": _POSTGRESQL, "sqlite": _SQLITE}.get(dialect, _MYSQL)
    return tuple(form.format(table=table, bare=bare) for form in forms)


def check_table(table: str) -> None:
    """It becomes part of statements: nothing but plain names. Raises ConfigurationError."""
    parts = table.split(".")
    if len(parts) > 2 or not all(_NAME.fullmatch(part) for part in parts):
        raise ConfigurationError(
            f"table {table!r} is not a plain name: letters, digits and _, at most 60 characters,"
            " such as halfhitch_barrier or my_schema.halfhitch_barrier"
        )


# The table's name has been checked by whoever calls these: S608 sees only that it is put together.


def key_values(dialect: str, key: tuple[str, str]) -> tuple[str, str]:
    """The primary key as parameters.

    For MySQL in hexadecimal, so that the same bytes are meant whatever charset a connection has.
    """
    group, transaction_id = key
    if dialect in _MYSQLS:
        return group.encode().hex(), transaction_id.encode().hex()
    return key


def marker_values(dialect: str, group: str, name: str) -> tuple[str, str]:
    """`key_values` of a row that is deleted again by the transaction that has written it.

    It is never committed, so it may be of the very group: the table may have conditions of its own,
    and to Oracle an empty group is none. `name` is like an id that was made, and nobody's. MySQL's
    locks are on the space before a row, too, where others wait for it, so there its row comes
    behind all others: no text has this byte.
    """
    return ("ff", name.encode().hex()) if dialect in _MYSQLS else (group, name)


def _marker(dialect: str) -> str:
    """Of a part of the primary key."""
    return "UNHEX(?)" if dialect in _MYSQLS else "?"


def select_outcome(dialect: str, table: str) -> str:
    """Parameters: group, id."""
    one = _marker(dialect)
    return (
        f"SELECT outcome, producer_group, transaction_id FROM {table}"  # noqa: S608
        f" WHERE producer_group = {one} AND transaction_id = {one}"
    )


def select_is_of(dialect: str, table: str) -> str | None:
    """Parameters: a transaction's number, group, id. Whether that one has written the row.

    None where the database does not tell.
    """
    if dialect != "postgresql":
        return None
    return (
        "SELECT CAST(CAST(xmin AS TEXT) AS BIGINT) = MOD(CAST(CAST(? AS TEXT) AS BIGINT),"  # noqa: S608
        f" 4294967296) FROM {table} WHERE producer_group = ? AND transaction_id = ?"
    )


def insert(dialect: str, table: str, outcome: str) -> str:
    """Parameters: group, id. A second row of the same id is refused by the primary key."""
    one = _marker(dialect)
    return (
        f"INSERT INTO {table} (producer_group, transaction_id, outcome)"  # noqa: S608
        f" VALUES ({one}, {one}, '{outcome}')"
    )


def insert_young_fence(dialect: str, table: str, age_ms_max: int) -> str | None:
    """Parameters: group, id, when its first message was stored, in milliseconds since 1970.

    No row, and no error, once the database's clock says that it is `age_ms_max` old: the row that
    is not there may have been purged by the same clock. None where it is not known how to ask.
    """
    if dialect not in _DIALECTS:
        return None
    one, born, source = _marker(dialect), "?", ""
    if dialect == "sqlite":
        now_ms = "(julianday('now') - 2440587.5) * 86400000"
    elif dialect == "postgresql":
        # Not CURRENT_TIMESTAMP: the transaction may have been open before the fence was thought of.
        now_ms, born = "EXTRACT(EPOCH FROM clock_timestamp()) * 1000", "CAST(? AS BIGINT)"
    else:
        now_ms, source = "UNIX_TIMESTAMP() * 1000", " FROM DUAL"
    return (
        f"INSERT INTO {table} (producer_group, transaction_id, outcome)"
        f" SELECT {one}, {one}, '{FENCED}'{source} WHERE {born} > {now_ms} - {int(age_ms_max)}"
    )


def delete_one(dialect: str, table: str) -> str:
    """Parameters: group, id."""
    one = _marker(dialect)
    return (
        f"DELETE FROM {table}"  # noqa: S608
        f" WHERE producer_group = {one} AND transaction_id = {one}"
    )


def delete_old(dialect: str, table: str, older_than_s: int, count_max: int) -> tuple[str, int]:
    """One batch of a group's old rows, and how often the group is a parameter. Not of MySQL's."""
    age_s = int(older_than_s)
    if dialect == "sqlite":
        before = f"datetime('now', '-{age_s} seconds')"
    else:
        before = f"CURRENT_TIMESTAMP - INTERVAL '{age_s} seconds'"
    return (
        f"DELETE FROM {table} WHERE producer_group = ? AND transaction_id IN"  # noqa: S608
        f" (SELECT transaction_id FROM {table} WHERE producer_group = ? AND at < {before}"
        f" ORDER BY at LIMIT {int(count_max)})"
    ), 2


def select_old_of_mysql(table: str, older_than_s: int, count_max: int) -> str:
    """One batch of a group's old ids, in hexadecimal. Parameter: group.

    There a DELETE locks all it looks at, and waits for it, running local transactions included;
    reading locks nothing.

    Times of day are those of the connection's time zone, whose days may have 23 hours, or 25: they
    only tell where to look in the index, and seconds since 1970 which rows are old.
    """
    age_s = int(older_than_s)
    nearly_s = age_s - _ZONES_CHANGE_S_MAX
    return (
        f"SELECT HEX(transaction_id) FROM {table} WHERE producer_group = UNHEX(?)"  # noqa: S608
        f" AND at < CURRENT_TIMESTAMP - INTERVAL {nearly_s} SECOND"
        f" AND UNIX_TIMESTAMP(at) < UNIX_TIMESTAMP() - {age_s}"
        f" ORDER BY at LIMIT {int(count_max)}"
    )


def delete_of_mysql(table: str, ids: Sequence[str | bytes]) -> str:
    """What was found. Parameter: group.

    In this form each row is looked up by its key. Of a list, in IN (...), the database may think
    that it is quicker to look at all rows.
    """
    digits = (one.decode() if isinstance(one, bytes) else one for one in ids)
    first, *others = (f"SELECT X'{bytes.fromhex(one).hex()}'" for one in digits)
    old = " UNION ALL ".join((f"{first} AS id", *others))
    return (
        f"DELETE row FROM ({old}) AS old STRAIGHT_JOIN {table} AS row FORCE INDEX (PRIMARY)"
        " ON row.producer_group = UNHEX(?) AND row.transaction_id = old.id"
    )


def check_style(style: str) -> None:
    """Raises ConfigurationError."""
    if style not in _MARKERS:
        raise ConfigurationError(f"paramstyle {style!r} is none of {', '.join(_MARKERS)} (PEP 249)")


def styled(statement: str, values: Values, style: str) -> tuple[str, Values | dict[str, Any]]:
    """The statement and its parameters as a driver of this paramstyle (PEP 249) wants them."""
    check_style(style)
    pieces = statement.split("?")
    text = pieces[0]
    for number, piece in enumerate(pieces[1:], 1):
        text += _MARKERS[style].format(number) + piece
    if style in ("pyformat", "named"):
        return text, {f"p{number}": value for number, value in enumerate(values, 1)}
    return text, tuple(values)


def outcome_in(row: Any, key: tuple[str, str]) -> str | None:
    """What the row of this key says. Raises UnfitConnection when it is another's row.

    Rows are tuples, or what the application told its driver to make of them.
    """
    if row is None:
        return None
    names = ("outcome", "producer_group", "transaction_id")
    values = [row[name] for name in names] if isinstance(row, dict) else list(row)[:3]
    outcome, *found = [
        bytes(value).decode() if isinstance(value, bytes | bytearray | memoryview) else str(value)
        for value in values
    ]
    if tuple(found) != key:
        raise UnfitConnection(
            f"asked about {key[1]!r} of group {key[0]!r}, the database answered about"
            f" {found[1]!r} of group {found[0]!r}: two processes are using one connection. It was"
            " opened before a fork: open connections and pools in each worker process"
        )
    return outcome
