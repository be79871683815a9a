"""Halves that go out together: what comes while others are on their way, and what is waited for."""

from __future__ import annotations

import pytest

from harness.native import native, needs_native

pytestmark = needs_native

Happened = list[tuple[int, str]]


def came(*at_us: int) -> Happened:
    return [(each, "came") for each in at_us]


def gone(*happened: Happened) -> list[tuple[int, int]]:
    """When, and how many."""
    return native.half_batches(sorted(one for some in happened for one in some))


def test_the_first_goes_out_at_once_and_those_behind_it_together() -> None:
    assert gone(came(0, 10, 20), [(300, "landed")]) == [(0, 1), (300, 2)]


def test_callers_stayed_in_two_groups_of_which_one_waited_for_the_other() -> None:
    """Six were two batches of three for ever."""
    began = [*came(0, 10, 20, 30, 40, 50), (300, "landed")]
    assert gone(began) == [(0, 1)], "the first has one more to come"
    began += came(400)  # the one that has landed comes back
    assert gone(began) == [(0, 1), (400, 6)]
    began += [(700, "landed"), *came(800, 810, 820, 830, 840, 850)]
    assert gone(began) == [(0, 1), (400, 6), (850, 6)]


def test_those_that_came_wait_no_longer_than_twice_as_long_as_the_last_were_on_their_way() -> None:
    began = [*came(0, 10, 20, 30), (300, "landed")]
    assert gone(began, [(899, "look"), (900, "look")]) == [(0, 1), (900, 3)]


def test_nor_longer_than_a_millisecond() -> None:
    began = [*came(0, 10, 20, 30), (90000, "landed")]
    assert gone(began, [(90_999, "look"), (91_000, "look")]) == [(0, 1), (91_000, 3)]


@pytest.mark.parametrize("callers", [1, 2, 3])
def test_few_callers_wait_for_nobody(callers: int) -> None:
    began = [*came(*range(callers)), (300, "landed")]
    rest = [(300, callers - 1)] if callers > 1 else []
    assert gone(began) == [(0, 1), *rest]


def test_where_nobody_comes_in_time_fewer_and_fewer_batches_wait() -> None:
    """Eight at a time, each of which comes back ten milliseconds later."""
    happened: Happened = []
    for turn in range(40):
        at_us = turn * 10_000
        happened += came(*range(at_us, at_us + 8))
        happened += [(at_us + 300 + n * 100, "landed") for n in range(2)]
        happened += [(at_us + 5_000, "look"), (at_us + 5_500, "landed")]
    found = gone(happened)
    assert sum(count for _, count in found) == 320
    late = [at_us for at_us, _ in found if at_us % 10_000 == 5_000]
    assert 1 <= len(late) <= 7, late
