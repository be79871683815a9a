"""Permits: never more than allowed, and all of them come back."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from halfhitch.service.checking.api import CheckOutcome
from halfhitch.service.checking.breaker import BreakerLimits, BreakerState
from halfhitch.service.checking.permits import Permits
from harness.desks import GROUP, check

if TYPE_CHECKING:
    import random


def permits(in_flight_max: int = 10, failure_count: int = 3) -> Permits:
    limits = BreakerLimits(failure_count=failure_count)
    return Permits(in_flight_max=in_flight_max, answer_s=10.0, breaker=limits, dice=lambda: 0.0)


def test_granted_and_outstanding_together_never_exceed_the_bound() -> None:
    counts = permits()
    assert counts.take(GROUP, 4, 0.0) == 4
    assert counts.take(GROUP, 100, 0.0) == 6
    assert counts.take(GROUP, 1, 0.0) == 0
    counts.hand_over([check(str(number)) for number in range(10)], 0.0)
    assert counts.take(GROUP, 1, 0.0) == 0
    counts.settled(GROUP, 0, 0.0, CheckOutcome.UNKNOWN)
    assert counts.take(GROUP, 5, 0.0) == 1
    counts.give_back(GROUP, 1)
    assert counts.take(GROUP, 5, 0.0) == 1


def test_one_groups_permits_are_not_anothers() -> None:
    counts = permits()
    assert counts.take("hung", 10, 0.0) == 10
    assert counts.take("well", 10, 0.0) == 10


def test_nonsense_counts_change_nothing() -> None:
    counts = permits()
    assert counts.take(GROUP, 0, 0.0) == 0
    assert counts.take(GROUP, -5, 0.0) == 0
    counts.give_back(GROUP, -5)
    counts.give_back(GROUP, 100)
    counts.give_back("unheard-of", 1)
    counts.settled(GROUP, 0, 0.0, CheckOutcome.UNKNOWN)
    assert counts.take(GROUP, 100, 0.0) == 10


def test_what_says_nothing_of_the_group_leaves_its_breaker_alone() -> None:
    counts = permits()
    for _ in range(100):
        assert counts.take(GROUP, 1, 0.0) == 1
        [generation] = counts.hand_over([check()], 0.0)
        counts.settled(GROUP, generation, 0.0, None)
    assert counts.state(GROUP, 0.0).breaker is BreakerState.CLOSED


def opened(now_s: float = 0.0) -> Permits:
    """Three failures: the breaker is open for five seconds."""
    counts = permits()
    assert counts.take(GROUP, 3, now_s) == 3
    for generation in counts.hand_over([check()] * 3, now_s):
        counts.settled(GROUP, generation, now_s, CheckOutcome.NO_ANSWER)
    assert counts.take(GROUP, 1, now_s) == 0
    return counts


def test_a_probe_that_was_given_back_or_said_nothing_is_taken_again() -> None:
    counts = opened()
    assert counts.take(GROUP, 9, 6.0) == 1
    counts.give_back(GROUP, 1)
    assert counts.take(GROUP, 9, 6.0) == 1
    [generation] = counts.hand_over([check()], 6.0)
    assert counts.take(GROUP, 9, 6.0) == 0
    counts.settled(GROUP, generation, 6.0, None)
    assert counts.take(GROUP, 9, 6.0) == 1


def settle_all(counts: Permits, count: int, now_s: float, outcome: CheckOutcome) -> None:
    for generation in counts.hand_over([check()] * count, now_s):
        counts.settled(GROUP, generation, now_s, outcome)


def test_silence_halves_the_window_once_in_the_time_for_an_answer_and_answers_widen_it() -> None:
    counts = permits(in_flight_max=256, failure_count=1_000)
    windows = []
    for now_s in (0.0, 5.0, 11.0, 22.0, 33.0, 44.0, 55.0, 66.0, 77.0):
        settle_all(counts, 20, now_s, CheckOutcome.SILENT)
        windows.append(counts.take(GROUP, 1_000, now_s))
        counts.give_back(GROUP, 1_000)
    assert windows == [128, 128, 64, 32, 16, 8, 4, 4, 4]
    settle_all(counts, 4, 78.0, CheckOutcome.UNKNOWN)
    assert counts.take(GROUP, 1_000, 78.0) == 7
    counts.give_back(GROUP, 1_000)
    settle_all(counts, 10_000, 78.0, CheckOutcome.UNKNOWN)
    assert counts.take(GROUP, 1_000, 78.0) == 256


def test_only_silence_narrows_the_window() -> None:
    counts = permits(in_flight_max=256, failure_count=1_000)
    for outcome in CheckOutcome:
        if outcome is not CheckOutcome.SILENT:
            settle_all(counts, 10, 0.0, outcome)
    assert counts.state(GROUP, 0.0).window_count == 256


def test_a_slow_producer_soon_gets_no_more_than_it_answers_in_time() -> None:
    """It answers 4 checks a second; 256 at a time would leave 216 without an answer."""
    counts = permits(in_flight_max=256, failure_count=20)
    under_way: list[tuple[float, int]] = []
    answered = silent = 0
    for tenth in range(6_000):
        now_s = tenth / 10
        granted = counts.take(GROUP, 1_000, now_s)
        generations = counts.hand_over([check()] * granted, now_s)
        under_way += [(now_s, generation) for generation in generations]
        if tenth == 3_000:
            answered = silent = 0  # after five minutes
        if under_way and now_s - under_way[0][0] > 10.0:
            late = [item for item in under_way if now_s - item[0] > 10.0]
            under_way = under_way[len(late) :]
            silent += len(late)
            for _, generation in late:
                counts.settled(GROUP, generation, now_s, CheckOutcome.SILENT)
        elif under_way and tenth % 5 in (0, 2):
            answered += 1
            counts.settled(GROUP, under_way.pop(0)[1], now_s, CheckOutcome.UNKNOWN)
    print(f"{answered} answered in time, {silent} not")
    assert answered > 10 * silent


def test_a_group_without_room_gets_nothing_until_there_is() -> None:
    counts = permits()
    counts.hold_back(GROUP, 0.0, is_held_back=True)
    assert counts.take(GROUP, 1, 0.0) == 0
    counts.hold_back(GROUP, 0.0, is_held_back=False)
    assert counts.take(GROUP, 1, 0.0) == 1


def test_groups_that_nobody_speaks_of_are_forgotten() -> None:
    counts = permits()
    for number in range(5_000):
        group = f"group-{number}"
        assert counts.take(group, 1, 0.0) == 1
        counts.give_back(group, 1)
    counts.came("live", 0.0)
    counts.forget_idle(599.0, idle_s=600.0, grant_s=300.0)
    assert len(counts.groups()) == 5_001
    counts.forget_idle(601.0, idle_s=600.0, grant_s=300.0)
    assert counts.groups() == ["live"]


def test_permits_that_a_bug_has_lost_come_back_after_a_while() -> None:
    counts = permits()
    counts.came(GROUP, 0.0)
    assert counts.take(GROUP, 10, 0.0) == 10
    assert counts.forget_idle(299.0, idle_s=600.0, grant_s=300.0) == []
    assert counts.take(GROUP, 10, 299.0) == 0
    assert counts.forget_idle(601.0, idle_s=600.0, grant_s=300.0) == [GROUP]
    assert counts.take(GROUP, 10, 601.0) == 10


def test_threads_that_take_send_and_give_back_never_exceed_the_bound(rng: random.Random) -> None:
    counts = permits(in_flight_max=50, failure_count=1_000_000)
    lock = threading.Lock()
    held, held_most = 0, 0
    seeds = [rng.random() for _ in range(6)]

    def work(seed: float) -> None:
        nonlocal held, held_most
        for step in range(2_000):
            granted = counts.take(GROUP, 1 + int(seed * 1_000 + step) % 9, 0.0)
            with lock:
                held += granted
                held_most = max(held_most, held)
            used = granted // 2
            generations = counts.hand_over([check()] * used, 0.0)
            with lock:
                held -= granted
            counts.give_back(GROUP, granted - used)
            for generation in generations:
                counts.settled(GROUP, generation, 0.0, CheckOutcome.SILENT)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    state = counts.state(GROUP, 0.0)
    assert (state.granted_count, state.outstanding_count) == (0, 0)
    assert 0 < held_most <= 50
