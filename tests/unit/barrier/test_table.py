"""The table's definition and statements, for every dialect and paramstyle."""

from __future__ import annotations

import sqlite3

import pytest

from halfhitch.barrier import ddl, table
from halfhitch.errors import ConfigurationError


@pytest.mark.parametrize("dialect", ["postgresql", "sqlite", "mysql", "mariadb"])
def test_every_definition_has_what_the_promises_need(dialect: str) -> None:
    text = ddl(dialect, "my_barrier")
    assert "PRIMARY KEY (producer_group, transaction_id)" in text
    assert "DEFAULT CURRENT_TIMESTAMP" in text
    assert "CHECK (outcome IN ('committed', 'fenced'))" in text
    assert "my_barrier_at" in text
    assert text.endswith(";\n")
    assert "{" not in text


def test_ids_are_bytes_in_mysql_and_of_no_collation_in_postgresql() -> None:
    assert ddl("mysql").count("VARBINARY(255) NOT NULL") == 2
    assert ddl("postgresql").count('COLLATE "C"') == 2


def test_a_schema_names_the_table_and_not_its_index() -> None:
    text = ddl("postgresql", "shop.barrier")
    assert "CREATE TABLE IF NOT EXISTS shop.barrier (" in text
    assert "CREATE INDEX IF NOT EXISTS barrier_at ON shop.barrier" in text


def test_sqlite_has_no_schemas() -> None:
    with pytest.raises(ConfigurationError, match="SQLite has no schemas; leave 'barrier'"):
        ddl("sqlite", "shop.barrier")


def test_an_unknown_dialect_is_told_what_matters() -> None:
    with pytest.raises(ConfigurationError, match="what matters is the primary key"):
        ddl("oracle")


def test_an_id_means_the_same_bytes_whatever_charset_a_mysql_connection_has() -> None:
    # A recorder with latin1 and a checker with utf8 would ask about different bytes.
    for dialect in ("mysql", "mariadb"):
        assert table.key_values(dialect, ("g", "\u00e4")) == ("67", "c3a4")
        fence = table.insert_young_fence(dialect, "b", 10)
        others = (table.select_outcome(dialect, "b"), table.insert(dialect, "b", table.COMMITTED))
        for statement in (fence, *others):
            assert statement is not None
            assert statement.count("UNHEX(?)") == 2
    assert table.key_values("postgresql", ("g", "\u00e4")) == ("g", "\u00e4")


def test_a_database_of_which_nothing_is_known_is_not_asked_for_its_clock() -> None:
    assert table.insert_young_fence("oracle", "b", 10) is None


@pytest.mark.parametrize(
    "name", ["", "a b", "a;drop", "1a", "a.b.c", ".a", "a.", "ä", "a" * 61, 'a"b', "a-b", "a\n"]
)
def test_a_table_is_a_plain_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match="not a plain name"):
        ddl("postgresql", name)


@pytest.mark.parametrize(
    ("style", "text", "values"),
    [
        ("qmark", "g = ? AND i = ?", ("g", "i")),
        ("format", "g = %s AND i = %s", ("g", "i")),
        ("pyformat", "g = %(p1)s AND i = %(p2)s", {"p1": "g", "p2": "i"}),
        ("named", "g = :p1 AND i = :p2", {"p1": "g", "p2": "i"}),
        ("numeric", "g = :1 AND i = :2", ("g", "i")),
        ("numeric_dollar", "g = $1 AND i = $2", ("g", "i")),
    ],
)
def test_parameters_are_written_as_each_driver_wants_them(
    style: str, text: str, values: object
) -> None:
    assert table.styled("g = ? AND i = ?", ("g", "i"), style) == (text, values)


def test_an_unknown_paramstyle_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="paramstyle 'dollar' is none of qmark"):
        table.styled("?", ("a",), "dollar")


def test_no_statement_has_what_a_paramstyle_would_take_for_a_marker() -> None:
    for dialect in ("postgresql", "sqlite"):
        statement, count = table.delete_old(dialect, "b", 10, 5)
        assert statement.count("?") == count
        assert not set("%:$") & set(statement.replace("?", ""))
        fence = table.insert_young_fence(dialect, "b", 10)
        assert fence is not None
        assert fence.count("?") == 3
        assert not set("%:$") & set(fence)


def test_mysql_looks_for_old_rows_first_and_deletes_them_by_their_key() -> None:
    select = table.select_old_of_mysql("b", 86_410, 5)
    old = "at < CURRENT_TIMESTAMP - INTERVAL 10 SECOND"
    assert f"{old} AND UNIX_TIMESTAMP(at) < UNIX_TIMESTAMP() - 86410 ORDER BY at" in select
    delete = table.delete_of_mysql("b", ["61", b"C3A4"])
    assert "(SELECT X'61' AS id UNION ALL SELECT X'c3a4') AS old STRAIGHT_JOIN b" in delete
    assert "FORCE INDEX (PRIMARY)" in delete
    for statement in (select, delete):
        assert statement.count("UNHEX(?)") == statement.count("?") == 1
        assert not set("%:$") & set(statement)


def test_what_mysql_gave_for_an_id_is_not_believed_to_be_one() -> None:
    with pytest.raises(ValueError, match="non-hexadecimal"):
        table.delete_of_mysql("b", ["61') OR 1=1 --"])


def test_an_outcome_is_found_in_rows_of_any_kind() -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    select = "SELECT 'fenced' AS outcome, 'g' AS producer_group, 'i' AS transaction_id"
    row = connection.execute(select).fetchone()
    connection.close()
    kinds = (None, ("fenced", "g", "i"), ("fenced", b"g", bytearray(b"i")), dict(row), row)
    found = [table.outcome_in(one, ("g", "i")) for one in kinds]
    assert found == [None, "fenced", "fenced", "fenced", "fenced"]


def test_a_row_of_another_transaction_is_no_answer() -> None:
    # Two processes that share a connection since a fork read one another's rows.
    for row in (("committed", "g", "j"), ("committed", "h", "i")):
        with pytest.raises(table.UnfitConnection, match="two processes are using one connection"):
            table.outcome_in(row, ("g", "i"))
