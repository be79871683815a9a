"""Transactions by the time at which something is due: never early, never forgotten, never twice."""

import random

import pytest

from halfhitch.core import timers
from halfhitch.core.model import TimestampMs
from halfhitch.core.timers import Timers
from halfhitch.core.transaction import State, Transaction
from harness.ledger_script import identity_of

WIDTH_MS = 64
ALL = 1_000_000


def sleeper(name: str = "T1") -> Transaction:
    return Transaction(identity_of(name), State.PENDING, TimestampMs(0))


def woken(sleepers: Timers, now_ms: int, count_max: int = ALL) -> list[str]:
    return [transaction.identity[1] for transaction in sleepers.due(now_ms, count_max)]


@pytest.mark.parametrize("wake_ms", [0, 1, 63, 64, 65, 1_000_000_000_007])
def test_nobody_is_woken_early_and_nobody_late_by_more_than_a_bucket(wake_ms: int) -> None:
    sleepers, transaction = Timers(), sleeper()
    sleepers.add(transaction, wake_ms)
    assert woken(sleepers, wake_ms) == []
    assert transaction.wake_ms == wake_ms
    assert woken(sleepers, wake_ms + WIDTH_MS) == ["T1"]
    assert transaction.wake_ms == -1
    assert woken(sleepers, wake_ms + 10 * WIDTH_MS) == []


def test_a_time_before_the_beginning_is_the_beginning() -> None:
    sleepers, transaction = Timers(), sleeper()
    sleepers.add(transaction, -5_000)
    assert transaction.wake_ms == 0
    assert woken(sleepers, WIDTH_MS) == ["T1"]


def test_they_are_woken_in_the_order_of_their_times_whatever_order_they_came_in() -> None:
    sleepers = Timers()
    for wake_ms in (5_000, 1_000, 9_000, 3_000):
        sleepers.add(sleeper(f"T{wake_ms}"), wake_ms)
    assert woken(sleepers, 6_000) == ["T1000", "T3000", "T5000"]
    assert woken(sleepers, 10_000) == ["T9000"]


def test_no_more_are_woken_than_asked_for_and_the_rest_comes_next() -> None:
    sleepers = Timers()
    for number in range(5):
        sleepers.add(sleeper(f"T{number}"), 1_000)
    assert woken(sleepers, 5_000, 2) == ["T0", "T1"]
    assert sleepers.live == 3
    assert woken(sleepers, 5_000, 0) == []
    assert woken(sleepers, 5_000, 2) == ["T2", "T3"]
    assert woken(sleepers, 5_000, 2) == ["T4"]
    assert sleepers.live == 0


def test_what_is_dropped_is_not_woken_and_not_counted() -> None:
    sleepers, transaction = Timers(), sleeper()
    sleepers.add(transaction, 1_000)
    sleepers.drop(transaction)
    sleepers.drop(transaction)
    assert sleepers.live == 0
    assert woken(sleepers, 5_000) == []


@pytest.mark.parametrize("later_ms", [500, 1_000, 1_001, 9_000])
def test_a_new_time_replaces_the_old_one(later_ms: int) -> None:
    sleepers, transaction = Timers(), sleeper()
    sleepers.add(transaction, 1_000)
    sleepers.add(transaction, later_ms)
    assert sleepers.live == 1
    assert woken(sleepers, 20_000) == ["T1"]


def test_one_that_comes_back_to_a_time_it_had_left_is_woken_once() -> None:
    sleepers, transaction = Timers(), sleeper()
    for wake_ms in (1_000, 9_000, 1_000, 9_000, 1_000):
        sleepers.add(transaction, wake_ms)
    assert woken(sleepers, 2_000) == ["T1"]
    assert woken(sleepers, 20_000) == []
    assert sleepers.live == 0


def test_one_that_is_put_to_sleep_again_while_others_are_woken_is_not_woken_twice() -> None:
    sleepers = Timers()
    for number in range(3):
        sleepers.add(sleeper(f"T{number}"), 1_000)
    seen = []
    for transaction in sleepers.due(5_000, ALL):
        seen.append(transaction.identity[1])
        sleepers.add(transaction, 5_000)
    assert seen == ["T0", "T1", "T2"]
    assert sleepers.live == 3


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_the_dropped_ones_are_swept_away_when_they_are_many_and_the_majority(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timers, "_DROPPED_MAX", 100)
    sleepers = Timers()
    kept = [sleeper(f"K{number}") for number in range(50)]
    for transaction in kept:
        sleepers.add(transaction, 3_000)
        sleepers.add(transaction, 7_000)
        sleepers.add(transaction, 3_000)  # stands twice in its bucket
    for number in range(1_000):
        transaction = sleeper(f"D{number}")
        sleepers.add(transaction, 1_000 + number)
        sleepers.drop(transaction)
    assert sum(len(bucket) for bucket in sleepers._buckets.values()) <= 50 + 101
    assert sleepers.live == 50
    assert woken(sleepers, 20_000) == [transaction.identity[1] for transaction in kept]
    assert (sleepers._buckets, sleepers._keys) == ({}, [])


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_a_majority_of_living_ones_is_not_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "_DROPPED_MAX", 10)
    sleepers = Timers()
    for number in range(100):
        sleepers.add(sleeper(f"K{number}"), 1_000)
    gone = [sleeper(f"D{number}") for number in range(50)]
    for transaction in gone:
        sleepers.add(transaction, 1_000)
    for transaction in gone:
        sleepers.drop(transaction)
    assert sum(len(bucket) for bucket in sleepers._buckets.values()) == 150
    assert len(woken(sleepers, 5_000)) == 100


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_whatever_is_done_each_is_woken_once_and_not_before_its_last_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timers, "_DROPPED_MAX", 20)
    for seed in range(20):
        print(f"{seed=}")  # shown if it fails
        sleep_and_wake(random.Random(seed))


def sleep_and_wake(dice: random.Random) -> None:
    """Whatever the dice say; judged at every step."""
    sleepers, wanted = Timers(), dict[str, int]()
    transactions = [sleeper(f"T{number}") for number in range(30)]
    now_ms = 0
    for _ in range(2_000):
        transaction = dice.choice(transactions)
        name = transaction.identity[1]
        match dice.randrange(4):
            case 0 | 1:
                wanted[name] = now_ms + dice.randrange(3_000)
                sleepers.add(transaction, wanted[name])
            case 2:
                sleepers.drop(transaction)
                wanted.pop(name, None)
            case _:
                now_ms += dice.randrange(200)
                for found in woken(sleepers, now_ms, dice.choice([1, ALL])):
                    assert wanted.pop(found) <= now_ms
        assert sleepers.live == len(wanted)
    assert sorted(woken(sleepers, now_ms + 10_000)) == sorted(wanted)
