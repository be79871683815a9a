"""What MySQL and MariaDB need of their own: bounds that are put back."""

from typing import Any

import pytest

from halfhitch.barrier import mysql


class Connection:
    """A driver's, with what was set in it; rows come as tuples, dictionaries or bytes."""

    def __init__(self, form: str, **settings: str) -> None:
        self.form, self.settings = form, settings
        self.open_count = 0
        self.is_lost = False
        self.rows: list[Any] = []

    def cursor(self) -> "Connection":
        assert not self.is_lost  # as SQLAlchemy's, of an invalidated one
        self.open_count += 1
        return self

    def close(self) -> None:
        self.open_count -= 1

    def execute(self, statement: str) -> None:
        if statement.startswith("SHOW"):
            pairs = list(self.settings.items())
            if self.form == "dict":
                self.rows = [{"Variable_name": name, "Value": value} for name, value in pairs]
            elif self.form == "bytes":
                self.rows = [(name.encode(), value.encode()) for name, value in pairs]
            else:
                self.rows = pairs
            return
        for pair in statement.removeprefix("SET SESSION ").split(", "):
            name, _, value = pair.partition(" = ")
            assert name in self.settings, "MySQL does not know max_statement_time"
            self.settings[name] = value

    def fetchall(self) -> list[Any]:
        return self.rows


@pytest.mark.parametrize("form", ["tuple", "dict", "bytes"])
def test_a_check_waits_for_no_lock_for_long_and_all_is_put_back(form: str) -> None:
    before = {"innodb_lock_wait_timeout": "50", "lock_wait_timeout": "86400"}
    raw = Connection(form, **before, max_statement_time="0.000000")
    within: dict[str, str] = {}

    def check() -> None:
        with mysql.bounds(raw, 2_500):
            within.update(raw.settings)
            raise ValueError("of the check")

    with pytest.raises(ValueError, match="of the check"):
        check()
    assert within == {
        "innodb_lock_wait_timeout": "2",
        "lock_wait_timeout": "2",
        "max_statement_time": "2.500",
    }
    assert raw.settings == {**before, "max_statement_time": "0.000000"}
    assert raw.open_count == 0


def test_less_than_a_second_is_a_second_for_mysql_which_counts_in_seconds() -> None:
    raw = Connection("tuple", innodb_lock_wait_timeout="50")
    with mysql.bounds(raw, 20):
        assert raw.settings == {"innodb_lock_wait_timeout": "1"}


def test_a_connection_that_was_lost_was_told_as_an_assertion_without_a_word() -> None:
    raw = Connection("tuple", innodb_lock_wait_timeout="50", lock_wait_timeout="86400")

    def check() -> None:
        with mysql.bounds(raw, 2_500):
            raw.is_lost = True
            raise ConnectionError("Lost connection to MySQL server during query")

    with pytest.raises(ConnectionError, match="Lost connection"):
        check()
