"""Decisions that are read before any half: kept in log order, judged by log times, bounded."""

from dataclasses import replace

import pytest

from halfhitch.core import early
from halfhitch.core.early import EARLY_MS, KEPT_MS, EarlyDecisions, is_meant_for
from halfhitch.core.model import (
    PARKED,
    ROLLED_BACK,
    DecisionRead,
    HalfOffset,
    OpOffset,
    Resolution,
    ResolutionSource,
    TimestampMs,
)
from harness.ledger_script import identity_of

COMMIT, ROLLBACK = Resolution.COMMIT, Resolution.ROLLBACK


def decision(
    name: str, op_offset: int, resolution: Resolution = COMMIT, at_ms: int = 0
) -> DecisionRead:
    return DecisionRead(
        OpOffset(op_offset),
        TimestampMs(at_ms),
        identity_of(name),
        resolution,
        1,
        ResolutionSource.PRODUCER,
    )


def waiting(*decisions: DecisionRead) -> EarlyDecisions:
    early_decisions = EarlyDecisions()
    for one in decisions:
        early_decisions.add(one)
    return early_decisions


def test_decisions_are_handed_out_once_in_the_order_of_the_log() -> None:
    first, second, other = decision("T1", 1), decision("T1", 3, ROLLBACK), decision("T2", 2)
    decisions = waiting(first, other, second)
    assert decisions.count == 3
    assert list(decisions.take(identity_of("T1"))) == [first, second]
    assert list(decisions.take(identity_of("T1"))) == []
    assert decisions.count == 1
    assert decisions.has(identity_of("T2"))
    assert not decisions.has(identity_of("T1"))


def test_of_two_in_one_record_the_first_says_it_all() -> None:
    first = decision("T1", 1, COMMIT)
    decisions = waiting(first, decision("T1", 1, ROLLBACK))
    assert decisions.count == 1
    assert list(decisions.take(identity_of("T1"))) == [first]


def test_the_first_op_offset_is_that_of_the_oldest_that_waits() -> None:
    decisions = waiting(decision("T1", 1), decision("T2", 2), decision("T3", 3))
    assert decisions.first_op_offset == 1
    decisions.take(identity_of("T1"))
    assert decisions.first_op_offset == 2
    decisions.take(identity_of("T3"))
    assert decisions.first_op_offset == 2
    decisions.take(identity_of("T2"))
    assert decisions.first_op_offset is None


def test_a_decision_counts_for_a_half_stored_up_to_a_minute_after_it() -> None:
    one, began_at = decision("T1", 1, at_ms=5_000), HalfOffset(7)
    assert is_meant_for(one, began_at, TimestampMs(0))
    assert is_meant_for(one, began_at, TimestampMs(5_000 + EARLY_MS))
    assert not is_meant_for(one, began_at, TimestampMs(5_000 + EARLY_MS + 1))


@pytest.mark.parametrize(("half_hint", "is_meant"), [(-1, False), (6, False), (7, True), (9, True)])
def test_who_names_a_half_has_seen_it_whatever_the_clocks_say(
    half_hint: int, is_meant: bool
) -> None:
    """The broker of the half log is hours ahead."""
    one = replace(decision("T1", 1, at_ms=5_000), half_hint=half_hint)
    assert is_meant_for(one, HalfOffset(7), TimestampMs(10_000_000)) is is_meant


def test_an_early_decision_is_kept_until_no_half_can_come_for_which_it_counts() -> None:
    decisions = waiting(decision("T1", 1, at_ms=0), decision("T2", 2, at_ms=10))
    assert decisions.expire(KEPT_MS - 1) == 0
    assert decisions.has(identity_of("T1"))
    assert decisions.expire(KEPT_MS) == 1
    assert not decisions.has(identity_of("T1"))
    assert decisions.count == 1
    assert decisions.expire(KEPT_MS + 10) == 1
    assert decisions.count == 0
    assert decisions.expire(10 * KEPT_MS) == 0


def test_of_a_transaction_with_two_decisions_the_older_expires_alone() -> None:
    later = decision("T1", 2, ROLLBACK, at_ms=10)
    decisions = waiting(decision("T1", 1, at_ms=0), later)
    assert decisions.expire(KEPT_MS) == 1
    assert list(decisions.take(identity_of("T1"))) == [later]


def test_what_was_taken_does_not_expire_and_a_new_one_after_it_does() -> None:
    decisions = waiting(decision("T1", 1, at_ms=0))
    decisions.take(identity_of("T1"))
    decisions.add(decision("T1", 2, at_ms=5))
    assert decisions.expire(KEPT_MS) == 0
    assert decisions.expire(KEPT_MS + 5) == 1


@pytest.mark.parametrize(
    ("resolutions", "ending", "losers"),
    [
        ((COMMIT,), 1, []),
        ((COMMIT, ROLLBACK), 1, [2]),
        ((COMMIT, ROLLBACK, COMMIT, ROLLBACK), 1, [2, 4]),
        ((ROLLBACK, COMMIT, ROLLBACK), 1, [3]),  # the first one was not meant for it
        ((ROLLBACK, ROLLBACK), 1, [1, 2]),  # the winner lies below where the replay began
        ((COMMIT, ROLLBACK), PARKED, [2]),
        ((ROLLBACK, COMMIT), ROLLED_BACK, [2]),
        ((), 1, []),
    ],
)
def test_who_lost_against_an_ending_seen_only_by_its_mark(
    resolutions: tuple[Resolution, ...], ending: int, losers: list[int]
) -> None:
    decisions = waiting(*(decision("T1", n, r) for n, r in enumerate(resolutions, start=1)))
    assert decisions.losers(identity_of("T1"), ending) == losers
    assert decisions.count == 0


def test_a_loser_on_record_can_win_no_more() -> None:
    decisions = waiting(decision("T1", 1, ROLLBACK), decision("T1", 2, COMMIT))
    decisions.lost(identity_of("T1"), OpOffset(1))
    assert [one.op_offset for one in decisions.take(identity_of("T1"))] == [2]
    assert decisions.count == 0


def test_a_loser_that_does_not_wait_here_changes_nothing() -> None:
    decisions = waiting(decision("T1", 1))
    decisions.lost(identity_of("T1"), OpOffset(7))
    decisions.lost(identity_of("T2"), OpOffset(1))
    assert decisions.count == 1
    assert decisions.first_op_offset == 1


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_a_flood_is_noticed_and_nothing_of_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "EARLY_MAX", 2)
    decisions = waiting(decision("T1", 1))
    assert not decisions.is_full
    decisions.add(decision("T2", 2))
    assert decisions.is_full
    decisions.add(decision("T3", 3))
    assert [decisions.has(identity_of(name)) for name in ("T1", "T2", "T3")] == [True] * 3
    decisions.take(identity_of("T1"))
    decisions.take(identity_of("T2"))
    assert not decisions.is_full


def test_the_queue_does_not_grow_behind_one_that_waits_for_long() -> None:
    decisions = waiting(decision("slow", 0))
    for op_offset in range(1, 5_000):
        decisions.add(decision("T", op_offset))
        decisions.take(identity_of("T"))
    assert len(decisions._queue) < 1_100
    assert decisions.first_op_offset == 0
    assert decisions.count == 1
