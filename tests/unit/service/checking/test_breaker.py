"""The circuit breaker: what each event does in each state."""

from __future__ import annotations

import pytest

from halfhitch.service.checking.breaker import Breaker, BreakerLimits, BreakerState

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
LIMITS = BreakerLimits(failure_count=3, pause_s=5.0, pause_s_max=60.0, jitter=0.2)


def bad(breaker: Breaker, count: int = 1, now_s: float = 100.0, dice: float = 0.0) -> None:
    for _ in range(count):
        breaker.bad(breaker.generation, now_s, dice)


def in_state(state: BreakerState) -> Breaker:
    """Opened at 100 s, until 105 s."""
    breaker = Breaker(LIMITS)
    if state is not CLOSED:
        bad(breaker, 3)
    if state is HALF_OPEN:
        assert breaker.take(1, 105.0) == 1
    assert breaker.state is state
    return breaker


@pytest.mark.parametrize(
    ("before", "event", "after"),
    [
        (CLOSED, "good", CLOSED),
        (CLOSED, "bad", CLOSED),
        (CLOSED, "newcomer", CLOSED),
        (CLOSED, "take", CLOSED),
        (CLOSED, "take later", CLOSED),
        (OPEN, "good", CLOSED),
        (OPEN, "bad", OPEN),
        (OPEN, "newcomer", HALF_OPEN),
        (OPEN, "take", OPEN),
        (OPEN, "take later", HALF_OPEN),
        (HALF_OPEN, "good", CLOSED),
        (HALF_OPEN, "bad", OPEN),
        (HALF_OPEN, "newcomer", HALF_OPEN),
        (HALF_OPEN, "take", HALF_OPEN),
        (HALF_OPEN, "take later", HALF_OPEN),
    ],
)
def test_every_event_in_every_state(before: BreakerState, event: str, after: BreakerState) -> None:
    breaker = in_state(before)
    match event:
        case "good":
            breaker.good()
        case "bad":
            bad(breaker)
        case "newcomer":
            breaker.newcomer()
        case "take":
            breaker.take(10, 104.9)
        case "take later":
            breaker.take(10, 105.0)
    assert breaker.state is after


def test_only_failures_in_a_row_open_it() -> None:
    breaker = Breaker(LIMITS)
    for _ in range(10):
        bad(breaker, 2)
        breaker.good()
    assert breaker.state is CLOSED
    bad(breaker, 3)
    assert breaker.state is OPEN


def test_open_lets_nothing_through_and_then_one_probe() -> None:
    breaker = in_state(OPEN)
    assert breaker.take(100, 104.9) == 0
    assert breaker.opens_in_s(104.0) == 1.0
    assert breaker.take(100, 105.0) == 1
    assert breaker.take(100, 105.0) == 0
    assert breaker.opens_in_s(105.0) is None


def test_a_probe_that_was_not_used_can_be_taken_again() -> None:
    breaker = in_state(HALF_OPEN)
    assert breaker.take(1, 106.0) == 0
    breaker.unused(1)
    assert breaker.take(1, 106.0) == 1


def test_each_opening_pauses_twice_as_long_up_to_the_maximum() -> None:
    breaker = in_state(OPEN)
    now_s, pauses = 100.0, []
    for _ in range(40):
        pause_s = breaker.opens_in_s(now_s)
        assert pause_s is not None
        pauses.append(pause_s)
        now_s += pause_s
        assert breaker.take(1, now_s) == 1
        bad(breaker, 1, now_s)
    assert pauses[:6] == pytest.approx([5, 10, 20, 40, 60, 60])
    assert pauses[-1] == pytest.approx(60)


def test_an_answer_makes_the_next_pause_short_again() -> None:
    breaker = in_state(HALF_OPEN)
    bad(breaker, 1, 105.0)
    assert breaker.opens_in_s(105.0) == 10.0
    breaker.good()
    bad(breaker, 3, 200.0)
    assert breaker.opens_in_s(200.0) == 5.0


def test_the_jitter_makes_a_pause_longer_never_shorter() -> None:
    for dice, pause_s in ((0.0, 5.0), (0.5, 5.5), (1.0, 6.0)):
        breaker = Breaker(LIMITS)
        bad(breaker, 3, 100.0, dice)
        assert breaker.opens_in_s(100.0) == pytest.approx(pause_s)


def test_checks_of_before_the_opening_neither_prolong_it_nor_fail_the_probe() -> None:
    breaker = Breaker(LIMITS)
    old = breaker.generation
    bad(breaker, 3)
    for _ in range(100):
        breaker.bad(old, 104.0, 0.0)
    assert breaker.take(1, 105.0) == 1
    for _ in range(100):
        breaker.bad(old, 106.0, 0.0)
    assert breaker.state is HALF_OPEN
    breaker.bad(breaker.generation, 107.0, 0.0)
    assert breaker.opens_in_s(107.0) == 10.0
