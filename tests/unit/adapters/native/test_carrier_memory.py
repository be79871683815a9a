"""Which decision of a transaction counts, as native threads remember it."""

from __future__ import annotations

import pytest

from harness.native import native, needs_native

pytestmark = needs_native

QUEUE_FULL, TIMED_OUT = -184, -192
COMMIT, ROLLBACK = ("commit", 0, 0, 0), ("rollback", 0, 0, 0)
COMES, COMES_BACK = (True, None), (False, None)  # on their way
MAYBE_COMMIT, MAYBE_ROLLBACK = (True, False), (False, False)
IS_COMMIT, IS_ROLLBACK = (True, True), (False, True)

Happened = tuple[str, int, int, int]


def lands(number: int, err: int = 0, at: int = 7) -> Happened:
    return ("lands", number, err, at)


def stores(at: int, *, read_to: int, after_s: int = 0) -> Happened:
    """Something else is stored there."""
    return ("stores", read_to, after_s, at)


def told(*happened: Happened) -> list[tuple[bool, bool | None]] | None:
    """What may count at the end."""
    chain, *_ = native.decisions_after(list(happened))[-1]
    return None if chain is None else [(one[1], one[2]) for one in chain]


def test_what_is_stored_first_counts_and_where_it_lies_is_told() -> None:
    assert told(COMMIT, ROLLBACK) == [COMES, COMES_BACK]
    assert told(COMMIT, ROLLBACK, lands(1)) == [IS_COMMIT]
    happened = [COMMIT, ROLLBACK, lands(1, at=17), lands(2, at=18), COMMIT, lands(3, at=19)]
    chain, was_rolled_back, _ = native.decisions_after(happened)[-1]
    assert chain == [(1, True, True, 17)]
    assert not was_rolled_back


def test_a_place_that_kafka_does_not_remember_is_not_told() -> None:
    chain, *_ = native.decisions_after([COMMIT, lands(1, at=-1)])[-1]
    assert chain == [(1, True, True, None)]


def test_a_decision_behind_one_that_surely_failed_is_the_first() -> None:
    happened = [COMMIT, ROLLBACK, COMMIT, lands(1, QUEUE_FULL)]
    assert told(*happened) == [COMES_BACK, COMES]
    happened += [lands(2, QUEUE_FULL), lands(3)]
    assert told(*happened) == [IS_COMMIT]
    assert told(*happened, ROLLBACK, lands(4)) == [IS_COMMIT]


def test_what_all_failed_is_remembered_as_that() -> None:
    """Else it could not be told from what was forgotten, and nobody knew of what surely failed."""
    assert told(COMMIT, lands(1, QUEUE_FULL)) == []
    assert told(COMMIT, lands(1, QUEUE_FULL), ROLLBACK) == [COMES_BACK]


def test_behind_one_of_unknown_fate_none_is_the_first_and_all_are_told() -> None:
    """It was forgotten at once, so a contrary one was told that it counts; then what lay behind it
    was, so a retry was told so though the contrary one had been stored."""
    happened = [COMMIT, ROLLBACK, lands(1, TIMED_OUT)]
    assert told(*happened) == [MAYBE_COMMIT, COMES_BACK]
    happened += [lands(2)]
    assert told(*happened) == [MAYBE_COMMIT, IS_ROLLBACK]
    assert told(*happened, COMMIT, lands(3)) == [MAYBE_COMMIT, IS_ROLLBACK]
    happened = [COMMIT, lands(1, TIMED_OUT), ROLLBACK]
    assert told(*happened) == [MAYBE_COMMIT, COMES_BACK], "asked for when the first had landed"
    assert told(*happened, lands(2, TIMED_OUT)) == [MAYBE_COMMIT, MAYBE_ROLLBACK]


def test_what_repeats_a_doubt_is_not_kept() -> None:
    happened = [COMMIT, lands(1, TIMED_OUT)]
    for number in range(2, 100):
        happened += [COMMIT, lands(number, TIMED_OUT)]
    assert told(*happened) == [MAYBE_COMMIT]


def test_what_was_refused_at_once_behind_one_on_its_way_never_becomes_the_first() -> None:
    """Nothing of it would land again: it would have stood there until the process ended."""
    happened = [COMMIT, ROLLBACK, lands(2, QUEUE_FULL), lands(1, QUEUE_FULL)]
    assert told(*happened) == []
    happened = [COMMIT, ROLLBACK, ROLLBACK, lands(2, QUEUE_FULL), lands(1, QUEUE_FULL), lands(3)]
    assert told(*happened) == [IS_ROLLBACK]


def test_a_roll_back_that_may_count_is_remembered_as_one() -> None:
    def was_rolled_back(*happened: Happened) -> bool:
        return bool(native.decisions_after(list(happened))[-1][1])

    assert was_rolled_back(ROLLBACK)
    assert was_rolled_back(COMMIT, ROLLBACK)
    assert was_rolled_back(COMMIT, lands(1, TIMED_OUT), ROLLBACK, lands(2))
    assert was_rolled_back(ROLLBACK, lands(1, TIMED_OUT))
    assert not was_rolled_back(COMMIT, ROLLBACK, lands(1))
    assert not was_rolled_back(COMMIT, ROLLBACK, lands(1), lands(2))
    assert not was_rolled_back(ROLLBACK, lands(1, QUEUE_FULL))


@pytest.mark.parametrize(
    ("later", "is_known"),
    [
        ([stores(8, read_to=8, after_s=2), stores(9, read_to=8, after_s=1)], True),
        ([stores(8, read_to=8, after_s=2), stores(9, read_to=8, after_s=2)], False),
        ([stores(8, read_to=7, after_s=2), stores(9, read_to=7, after_s=2)], True),
        ([stores(8, read_to=-1, after_s=9), stores(9, read_to=-1, after_s=9)], True),
        ([stores(8, read_to=-1, after_s=11), stores(9, read_to=-1, after_s=11)], False),
        ([("passes", 0, 599, 0)], True),
        ([("passes", 0, 601, 0)], False),
    ],
)
def test_it_is_forgotten_when_its_owner_has_read_it_and_kafka_has_gone_on_storing(
    later: list[Happened], is_known: bool
) -> None:
    assert (told(COMMIT, lands(1), *later) is not None) is is_known


@pytest.mark.parametrize(
    ("later", "forgotten"),
    [
        ([stores(8, read_to=8, after_s=2), stores(9, read_to=8, after_s=1)], (0, 0)),
        ([stores(8, read_to=8, after_s=2), stores(9, read_to=8, after_s=2)], (1, 8)),
        ([("passes", 0, 599, 0)], (0, 0)),
        ([stores(8, read_to=7), ("passes", 0, 601, 0)], (1, 9)),
    ],
)
def test_of_what_is_forgotten_it_is_known_where_it_lay(
    later: list[Happened], forgotten: tuple[int, int]
) -> None:
    assert native.decisions_after([COMMIT, lands(1), *later])[-1][2] == forgotten


@pytest.mark.parametrize(
    ("after_s", "others", "is_known"),
    [(59, 0, True), (119, 0, True), (121, 0, False), (1, 18, True), (1, 19, False)],
)
def test_what_was_rolled_back_is_refused_for_two_minutes_at_most(
    after_s: int, others: int, is_known: bool
) -> None:
    """Where nothing happened in between it was refused a day later, too."""
    assert native.known_lately(after_s, others) is is_known
