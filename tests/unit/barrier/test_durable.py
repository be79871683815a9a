"""What makes sure of a row: which statements, in which order, and what is said where they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from halfhitch.barrier.deadline import Overdue
from halfhitch.barrier.durable import Behind, is_needed
from halfhitch.barrier.rules import Undecidable

if TYPE_CHECKING:
    from halfhitch.barrier.table import Values


class Database:
    """Remembers what it is told; `refuses` is the word of a statement."""

    def __init__(self, dialect: str, *, refuses: str = "", deleted: int = 1) -> None:
        self.said: list[str] = []
        self.values: list[Values] = []
        self._refuses = refuses
        self._deleted = deleted
        self._behind = Behind(dialect, "b", "shop", lambda: self._note("bounds"), self._run)

    def sure(self) -> str | None:
        return self._behind.sure(self._read, lambda: self._note("COMMIT"))

    def _note(self, word: str) -> None:
        self.said.append(word)
        if word == self._refuses:
            raise OSError("the server\nis away")

    def _run(self, statement: str, values: Values) -> int:
        words = statement.split()
        self._note(" ".join(words[: 1 if values else 2]))
        if values:
            self.values.append(values)
        return self._deleted if words[0] == "DELETE" else 1

    def _read(self) -> str:
        self._note("SELECT")
        return "committed"


@pytest.mark.parametrize(
    ("dialect", "before"),
    [
        ("postgresql", ["SET TRANSACTION", "bounds", "SET LOCAL"]),
        ("mariadb", ["bounds", "START TRANSACTION"]),
        ("mysql", ["bounds", "START TRANSACTION"]),
        ("oracle", ["bounds"]),
    ],
)
def test_a_row_is_read_in_the_transaction_that_writes_behind_it(
    dialect: str, before: list[str]
) -> None:
    database = Database(dialect)
    assert database.sure() == "committed"
    assert database.said == [*before, "SELECT", "INSERT", "DELETE", "COMMIT"]


@pytest.mark.parametrize("dialect", ["postgresql", "mariadb", "oracle"])
def test_a_table_with_conditions_of_its_own_refused_the_row_for_its_empty_group(
    dialect: str,
) -> None:
    """And on Oracle each table: an empty group is none there. So no check was ever answered."""
    first, second = Database(dialect), Database(dialect)
    first.sure()
    second.sure()
    assert first.values[0] == first.values[1]  # what was inserted is deleted
    assert first.values[0][1] != second.values[0][1]
    group, name = map(str, first.values[0])
    if dialect == "mariadb":  # behind all others, for its locks
        with pytest.raises(UnicodeDecodeError):
            bytes.fromhex(group).decode()
    else:
        assert group == "shop"
        assert UUID(name).hex == name  # like an id that was made


@pytest.mark.parametrize("word", ["SET TRANSACTION", "SELECT", "INSERT", "DELETE", "COMMIT"])
def test_a_row_that_could_not_be_made_sure_of_is_none(word: str) -> None:
    with pytest.raises(Undecidable, match=r"committed \(OSError: the server is away\).* SELECT"):
        Database("postgresql", refuses=word).sure()


@pytest.mark.parametrize("word", ["INSERT", "DELETE", "COMMIT"])
def test_what_autocommit_users_of_a_pool_wrote_was_in_a_transaction_that_nobody_ended(
    word: str,
) -> None:
    """MariaDB: the next one's row was unseen, and gone when the connection was closed."""
    database = Database("mariadb", refuses=word)
    with pytest.raises(Undecidable):
        database.sure()
    assert database.said[-1] == "ROLLBACK"


def test_a_row_that_a_trigger_took_away_has_made_sure_of_nothing() -> None:
    """Nothing was written to the log then, and the commit waits for nothing."""
    database = Database("mariadb", deleted=0)
    with pytest.raises(Undecidable, match="taken away, by a trigger"):
        database.sure()
    assert "COMMIT" not in database.said


def test_a_check_s_time_that_is_over_stays_that() -> None:
    def begin() -> None:
        raise Overdue("no answer within 2 s (wait_s)")

    with pytest.raises(Overdue):
        Behind("mariadb", "b", "shop", begin, lambda *_: 1).sure(lambda: "fenced", lambda: None)


def test_sqlite_shows_nothing_that_is_not_safe() -> None:
    assert not is_needed("sqlite")
    assert is_needed("postgresql")
