"""Which decision of a transaction counts, as native threads remember it."""

from __future__ import annotations

import pytest

from harness.native import native, needs_native

pytestmark = needs_native

QUEUE_FULL, TIMED_OUT = -184, -192
COMMIT, ROLLBACK = ("commit", 0, 0), ("rollback", 0, 0)
IS_COMMIT, IS_ROLLBACK = (True, None), (False, None)  # on its way
MAYBE_COMMIT = (True, False)
WAS_COMMIT, WAS_ROLLBACK = (True, True), (False, True)


def lands(number: int, err: int = 0) -> tuple[str, int, int]:
    return ("lands", number, err)


def test_what_is_stored_first_counts() -> None:
    happened = [COMMIT, ROLLBACK, lands(1), lands(2)]
    assert native.first_decisions(happened) == [IS_COMMIT, IS_COMMIT, WAS_COMMIT, WAS_COMMIT]


def test_a_decision_behind_one_that_surely_failed_is_the_first() -> None:
    happened = [COMMIT, ROLLBACK, COMMIT, lands(1, QUEUE_FULL), lands(2, QUEUE_FULL), lands(3)]
    told = [*[IS_COMMIT] * 3, IS_ROLLBACK, IS_COMMIT, WAS_COMMIT]
    assert native.first_decisions(happened) == told
    assert native.first_decisions([*happened, ROLLBACK, lands(4)])[-2:] == [WAS_COMMIT] * 2


def test_behind_one_of_unknown_fate_none_is_the_first() -> None:
    """It was forgotten at once, so a contrary one was told that it counts."""
    happened = [COMMIT, ROLLBACK, lands(1, TIMED_OUT), lands(2), ROLLBACK, lands(3)]
    assert native.first_decisions(happened) == [IS_COMMIT] * 2 + [MAYBE_COMMIT] * 4


def test_what_was_refused_at_once_behind_one_on_its_way_never_becomes_the_first() -> None:
    """Nothing of it would land again: it would have stood there until the process ended."""
    happened = [COMMIT, ROLLBACK, lands(2, QUEUE_FULL), lands(1, QUEUE_FULL)]
    assert native.first_decisions(happened) == [*[IS_COMMIT] * 3, None]
    happened = [COMMIT, ROLLBACK, ROLLBACK, lands(2, QUEUE_FULL), lands(1, QUEUE_FULL), lands(3)]
    assert native.first_decisions(happened)[-2:] == [IS_ROLLBACK, WAS_ROLLBACK]


@pytest.mark.parametrize(
    ("after_s", "others", "is_known"),
    [(59, 0, True), (119, 0, True), (121, 0, False), (1, 18, True), (1, 19, False)],
)
def test_what_was_rolled_back_is_refused_for_two_minutes_at_most(
    after_s: int, others: int, is_known: bool
) -> None:
    """Where nothing happened in between it was refused a day later, too."""
    assert native.known_lately(after_s, others) is is_known
