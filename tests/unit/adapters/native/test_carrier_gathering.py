"""Halves that go out together: what comes while others are on their way, and what is waited for.

And for how long it is known that the loop has looked at a transaction.
"""

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
    began += came(340)  # the one that has landed comes back
    assert gone(began) == [(0, 1), (340, 6)]
    began += [(640, "landed"), *came(740, 750, 760, 770, 780, 790)]
    assert gone(began) == [(0, 1), (340, 6), (790, 6)]


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


def waits_us(callers: int, thinking_us: int, batches: int) -> list[int]:
    """Callers in a closed loop, a batch on its way for 300 us: how long after each landing the
    next one went out."""
    happened = came(*range(callers))
    asked_us: list[int] = []
    landed_us = 0
    for _ in range(batches):
        while len(found := gone(happened)) <= len(asked_us):
            happened += [(max(at_us for at_us, _ in happened) + 10, "look")]
        at_us, count = found[len(asked_us)]
        asked_us.append(at_us - landed_us)
        landed_us = at_us + 300
        happened = [one for one in happened if one[0] <= landed_us or one[1] == "came"]
        happened += [(landed_us, "landed")]
        happened += came(*(landed_us + thinking_us + 20 * n for n in range(count)))
    return asked_us


def test_callers_who_come_back_at_once_are_waited_for() -> None:
    waits = waits_us(8, 50, 40)
    assert sum(100 < each < 400 for each in waits) > 30, waits


def test_callers_who_were_busy_for_as_long_as_a_batch_were_waited_for_all_the_time() -> None:
    """All were later, and as many went together as without: two thirds of the rate."""
    waits = waits_us(8, 900, 60)
    assert sum(each >= 590 for each in waits) < 20, waits


def test_who_has_been_looked_at_is_known_for_half_a_minute_at_least() -> None:
    happened = [(0.0, "look", "A"), (29.0, "look", "B"), (31.0, "look", "C"), (59.0, "", "A")]
    assert native.looked_at([*happened, (59.0, "", "B"), (59.0, "", "X")]) == [True, True, False]
    assert native.looked_at([*happened, (62.0, "look", "D"), (62.0, "", "A")]) == [True, False]


def test_very_many_that_were_looked_at_long_ago_came_back_with_the_next_one() -> None:
    """All ends were the loop's again, an hour later."""
    full = [(0.0, "fill", "g"), (1.0, "", "X")]
    assert native.looked_at(full) == [True]
    assert native.looked_at([*full, (62.0, "", "X")]) == [True, False]
    later = [(3_600.0, "look", "A"), (3_600.0, "", "X"), (3_600.0, "", "A")]
    assert native.looked_at([*full, *later]) == [True, False, True]
