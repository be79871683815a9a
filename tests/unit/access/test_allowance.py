"""Requests in a second: a second's worth at once, then as many as come in, and true words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.access import Allowance
from halfhitch.errors import TooManyRequests


def taken(allowance: Allowance, now_s: float) -> bool:
    try:
        allowance.take(now_s)
    except TooManyRequests:
        return False
    return True


def test_a_second_of_requests_is_taken_at_once_and_then_one_by_one() -> None:
    allowance = Allowance("shop", 10)
    assert [taken(allowance, 5.0) for _ in range(12)] == [True] * 10 + [False] * 2
    assert not taken(allowance, 5.05)
    assert [taken(allowance, 5.1) for _ in range(2)] == [True, False]
    assert [taken(allowance, 9.0) for _ in range(12)] == [True] * 10 + [False] * 2


def test_one_a_second_is_one_a_second() -> None:
    allowance = Allowance("shop", 1)
    assert [taken(allowance, moment) for moment in (0.0, 0.5, 1.0, 1.5, 2.0)] == [
        True,
        False,
        True,
        False,
        True,
    ]


def test_a_refusal_says_who_how_much_when_and_what_to_change() -> None:
    told: list[int] = []
    allowance = Allowance("shop", 2, lambda: told.append(1))
    allowance.take(0.0)
    allowance.take(0.0)
    with pytest.raises(TooManyRequests) as caught:
        allowance.take(0.0)
    assert caught.value.retry_after_s == 1
    assert caught.value.retryable
    for word in ("'shop'", "2 requests", "in 1 s", "limits.requests_s_identity_max", "Ends"):
        assert word in caught.value.message
    assert told == [1]


def test_ends_count_and_are_never_refused_and_leave_no_endless_debt() -> None:
    allowance = Allowance("shop", 10)
    for _ in range(10_000):
        allowance.spend(0.0)
    assert not taken(allowance, 1.0)
    with pytest.raises(TooManyRequests) as caught:
        allowance.take(0.0)
    assert caught.value.retry_after_s == 2
    assert taken(allowance, 1.1 + 1e-6)


def test_who_only_looks_has_used_nothing() -> None:
    allowance = Allowance("shop", 1)
    allowance.take(0.0, only_look=True)
    allowance.take(0.0)
    with pytest.raises(TooManyRequests):
        allowance.take(0.0, only_look=True)


def test_a_change_gives_nothing_back() -> None:
    allowance = Allowance("shop", 10)
    while taken(allowance, 0.0):
        pass
    allowance.change(1_000)
    assert not taken(allowance, 0.0)
    assert taken(allowance, 0.002)
    assert allowance.requests_s_max == 1_000


def held_back(allowance: Allowance, now_s: float) -> float:
    with pytest.raises(TooManyRequests) as caught:
        allowance.take(now_s)
    return round(caught.value.hold_back_s, 6)


def test_a_flood_of_refusals_was_quicker_than_what_it_was_refused() -> None:
    """Whoever did not wait had 34,000 refusals in the time of 1,500 prepares, and the processor."""
    allowance = Allowance("shop", 10)
    for _ in range(10):
        allowance.take(0.0)
    assert [held_back(allowance, 0.0) for _ in range(10)] == [0.0] * 10
    assert [held_back(allowance, 0.0) for _ in range(4)] == [0.1, 0.2, 0.3, 0.4]
    assert [held_back(allowance, 0.0) for _ in range(10)][-4:] == [1.0] * 4
    for moment_s, expected_s in ((0.5, 0.6), (3.0, 0.0)):
        for _ in range(1_000):
            allowance.spend(moment_s)
        assert held_back(allowance, moment_s) == expected_s, "time has passed"


@given(
    requests_s_max=st.integers(1, 50),
    steps=st.lists(st.floats(0, 0.3), max_size=200),
    first_s=st.floats(0, 1e7),
)
def test_no_stretch_of_time_has_more_than_its_seconds_and_one_more(
    requests_s_max: int, steps: list[float], first_s: float
) -> None:
    allowance, now_s, moments = Allowance("shop", requests_s_max), first_s, []
    for step_s in steps:
        now_s += step_s
        if taken(allowance, now_s):
            moments.append(now_s)
    for number, begin_s in enumerate(moments):
        for count, end_s in enumerate(moments[number:], 1):
            assert count <= requests_s_max * (end_s - begin_s + 1) + 1e-3


@given(
    requests_s_max=st.integers(1, 100),
    asked=st.lists(st.tuples(st.floats(0, 0.5), st.booleans()), min_size=1, max_size=100),
)
def test_who_waits_as_long_as_he_was_told_is_taken(
    requests_s_max: int, asked: list[tuple[float, bool]]
) -> None:
    allowance, now_s = Allowance("shop", requests_s_max), 0.0
    for step_s, is_end in asked:
        now_s += step_s
        if is_end:
            allowance.spend(now_s)
            continue
        try:
            allowance.take(now_s)
        except TooManyRequests as refused:
            now_s += refused.retry_after_s
            allowance.take(now_s)


@given(moments=st.lists(st.floats(0, 10), min_size=2, max_size=50))
def test_a_clock_that_steps_back_gives_nothing_away(moments: list[float]) -> None:
    """Requests that wait in line carry the moment at which they came."""
    allowance, count = Allowance("shop", 5), 0
    for moment_s in moments:
        count += taken(allowance, moment_s)
    forward_s = sum(max(0.0, after - before) for before, after in pairwise(sorted(moments)))
    assert count <= 5 * (forward_s + 1) + 1
