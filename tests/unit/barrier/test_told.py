"""What the table tells, and what is left of it when making sure of it has failed."""

from __future__ import annotations

import pytest

from halfhitch.barrier.deadline import Watch
from halfhitch.barrier.told import Look, Told, refused
from halfhitch.client.recorded import Local


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        ("committed", Told.COMMITTED),
        ("fenced", Told.FENCED),
        (None, Told.NOTHING),
        ("something else", Told.UNSURE),
    ],
)
def test_what_is_sure_is_told(outcome: str | None, told: Told) -> None:
    assert Look().told(outcome, lambda _: True) is told


@pytest.mark.parametrize("is_own", [True, False])
def test_a_row_is_told_apart_by_the_number_of_its_transaction(*, is_own: bool) -> None:
    asked: list[str] = []

    def ask(number: str) -> bool:
        asked.append(number)
        return is_own

    look = Look("7")
    assert look.told("committed", ask) is (Told.OWN if is_own else Told.COMMITTED)
    assert look.told("fenced", ask) is Told.FENCED
    assert asked == ["7"]


def test_a_row_that_was_seen_and_is_not_sure_was_taken_for_a_table_that_cannot_be_read() -> None:
    """So a rollback went out behind a commit, and a commit behind a fence."""
    look, watch = Look(), Watch(1.0)
    assert look.failed(OSError("used up")) is Told.UNREAD
    look.begin(watch)
    assert look.failed(OSError("used\nup")) is Told.UNREAD
    watch.has_seen = True
    assert look.failed(OSError("Checks take\nDELETE")) is Told.UNSURE
    assert look.reason() == "Checks take DELETE"
    look.begin(Watch(1.0))
    assert (look.failed(OSError("away")), look.reason()) == (Told.UNREAD, "away")


def test_a_record_that_was_refused_says_what_stands_all_the_same() -> None:
    found = {told: refused(told, is_known=False) for told in Told}
    stands = {told for told, state in found.items() if state is Local.COMMITTED_BEFORE}
    assert stands == {Told.OWN, Told.COMMITTED}
    assert set(found.values()) == {Local.COMMITTED_BEFORE, Local.REFUSED}
    assert refused(Told.UNREAD, is_known=True) is Local.COMMITTED_BEFORE
