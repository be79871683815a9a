"""Savepoints by text, as every database spells them."""

from __future__ import annotations

import pytest

from halfhitch.barrier.savepoints import ByStatements
from halfhitch.errors import InvalidRequest


class Block:
    """What was sent and run in one block."""

    def __init__(self) -> None:
        self.sent = 0
        self.savepoints = ByStatements(lambda: self.sent)

    def run(self, *steps: str) -> Block:
        for step in steps:
            if step == "send":
                self.sent += 1
            else:
                self.savepoints.heard(step)
        return self

    def is_refused(self) -> bool:
        try:
            self.savepoints.require()
        except InvalidRequest as error:
            return "messages were sent inside it" in str(error)
        return False


@pytest.mark.parametrize(
    "back",
    [
        "ROLLBACK TO a",
        "rollback to savepoint a",
        "ROLLBACK WORK TO SAVEPOINT A;",
        "ROLLBACK TRANSACTION TO a",
        'rollback to "a"',
        "ROLLBACK TO `a`",
        "/* undo */ ROLLBACK -- it\n TO /* the */ SAVEPOINT\na",
    ],
)
@pytest.mark.parametrize("begin", ["SAVEPOINT a", 'savepoint "A"', " ;-- one\nSAVEPOINT  `a`"])
def test_a_message_inside_a_savepoint_by_text_that_was_rolled_back_is_noticed(
    begin: str, back: str
) -> None:
    assert Block().run(begin, "send", back).is_refused()
    assert not Block().run("send", begin, back, "send").is_refused()


def test_what_was_released_belongs_to_the_savepoint_around_it() -> None:
    within = ("SAVEPOINT a", "SAVEPOINT b", "send", "RELEASE SAVEPOINT b")
    assert not Block().run(*within, "RELEASE a").is_refused()
    assert Block().run(*within, "ROLLBACK TO a").is_refused()


def test_a_savepoint_that_was_rolled_back_is_still_open() -> None:
    assert Block().run("SAVEPOINT a", "ROLLBACK TO a", "send", "ROLLBACK TO a").is_refused()
    assert Block().run("SAVEPOINT a", "SAVEPOINT b", "ROLLBACK TO a", "send").sent == 1
    kept = ("SAVEPOINT a", "ROLLBACK TO a", "send", "RELEASE a")
    assert not Block().run(*kept).is_refused()


def test_the_innermost_of_one_name_is_meant() -> None:
    twice = ("SAVEPOINT a", "send", "SAVEPOINT a", "ROLLBACK TO a")
    assert not Block().run(*twice).is_refused()
    assert Block().run(*twice, "RELEASE a", "ROLLBACK TO a").is_refused()


@pytest.mark.parametrize(
    "other",
    [
        "ROLLBACK",
        "ROLLBACK TO nobody",
        "RELEASE nobody",
        "SELECT 'ROLLBACK TO a'",
        "INSERT INTO savepoint VALUES (1)",
        "ROLLBACK PREPARED 'a'",
    ],
)
def test_other_statements_take_nothing_back(other: str) -> None:
    assert not Block().run("SAVEPOINT a", "send", other).is_refused()
