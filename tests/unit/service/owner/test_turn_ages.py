"""How old transactions are said to be: to people, to dashboards, and to the application's check.

The ledger's careful scale of time decides about checks; a quiet night does not count on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.memory import MemoryClock
from halfhitch.service.api import Filter
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.wire.half import HalfRecord, system_headers
from harness.defaults import check_rules, owner_limits
from harness.twin import GROUP, INSTANCE, TARGETS, Twin, identity, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.service.api import Undecided
    from halfhitch.service.owner.turn import PartitionOwner

NIGHT_S = 8 * 3_600
RULES = check_rules(immunity_ms=6_000, interval_ms=60_000, jitter=0.0)


def twin_with_producers(cache_bytes: int = 1_000_000) -> Twin:
    twin = Twin(limits=owner_limits(check_rules=RULES, payload_cache_bytes=cache_bytes))
    twin.gate.room = 10
    return twin


def after_a_night(twin: Twin, *transaction_ids: str) -> PartitionOwner:
    """An owner that takes over a partition in which nothing was written for long."""
    for transaction_id in transaction_ids:
        twin.half(transaction_id)
        twin.clock.advance(60)
    twin.clock.advance(NIGHT_S)
    owner = twin.working_owner()
    pass_time(twin, owner, 2)
    return owner


def pass_time(twin: Twin, owner: PartitionOwner, seconds: float) -> None:
    """In steps, as turns come."""
    while seconds > 0:
        part = min(seconds, 1.0)
        twin.clock.advance(part)
        seconds -= part
        turn_until_idle(owner)


def undecided(owner: PartitionOwner, wanted: Filter | None = None) -> list[Undecided]:
    asked = owner.checkback.undecided(wanted or Filter())
    owner.turn(0.0)
    return asked.result(0)[0]


@pytest.mark.parametrize("cache_bytes", [0, 1_000_000])
def test_a_restart_after_a_quiet_night_made_everything_young(cache_bytes: int) -> None:
    """With its payload in memory or not: the broker's time of the first copy is known anyway."""
    twin = twin_with_producers(cache_bytes)
    owner = after_a_night(twin, "T1")
    (shown,) = undecided(owner)
    assert shown.age_s == pytest.approx(NIGHT_S + 62)
    assert owner.checkback.numbers.oldest_age_s == pytest.approx(NIGHT_S + 62)
    assert len(undecided(owner, Filter(older_than_s=NIGHT_S))) == 1
    assert undecided(owner, Filter(older_than_s=NIGHT_S + 120)) == []


def test_what_redis_is_told_began_when_it_was_prepared() -> None:
    twin = twin_with_producers()
    born_ms = twin.clock.wall_ms()
    owner = after_a_night(twin, "T1")
    ledger = owner._ledger
    assert ledger is not None
    transaction = ledger.find(identity("T1"))
    assert transaction is not None
    assert owner.checkback.doubt(transaction).born_ms == born_ms


def test_the_age_that_a_check_tells_was_young_after_a_restart() -> None:
    """An application that has purged its rows by then would take a committed one for unknown."""
    twin = twin_with_producers()
    owner = after_a_night(twin, "T1")
    pass_time(twin, owner, 70)
    check = twin.gate.sent[0]
    assert check.age_ms >= NIGHT_S * 1_000


def test_a_check_is_never_told_an_age_below_the_ledgers_own() -> None:
    """This machine's clock was set back."""
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("T1")
    turn_until_idle(owner)
    twin.clock.jump(-3_600)
    pass_time(twin, owner, 7)
    assert twin.gate.sent[0].age_ms >= 6_000
    assert undecided(owner)[0].age_s == 0


def test_the_clock_of_whoever_took_the_prepare_makes_no_check_young() -> None:
    twin = twin_with_producers()
    ahead_ms = twin.clock.wall_ms() + 7_200_000
    record = HalfRecord("T1", GROUP, 0, ahead_ms, INSTANCE, TARGETS[0])
    stored_ms = twin.clock.wall_ms()
    twin.kafka.append(twin.kafka.half_topic, 0, None, b"v", system_headers(record))
    twin.clock.advance(NIGHT_S)
    owner = twin.working_owner()
    pass_time(twin, owner, 70)
    assert twin.gate.sent[0].age_ms >= NIGHT_S * 1_000
    assert twin.gate.sent[0].born_ms == stored_ms


def test_a_check_tells_when_its_transaction_was_born() -> None:
    """An application's database compares it with its own clock, by which rows were purged."""
    twin = twin_with_producers()
    born_ms = twin.clock.wall_ms()
    owner = after_a_night(twin, "T1")
    pass_time(twin, owner, 70)
    assert twin.gate.sent[0].born_ms == born_ms
    owner.close()
    successor = twin.working_owner()
    pass_time(twin, successor, 140)
    again = twin.gate.sent[-1]
    assert (again.number, again.born_ms) == (1, born_ms)  # of a copy, it is the first one's


def test_one_that_was_checked_stays_the_oldest_after_a_restart() -> None:
    """Its copy lies behind a younger one's first half."""
    twin = twin_with_producers()
    owner = twin.working_owner()
    twin.half("old")
    turn_until_idle(owner)
    pass_time(twin, owner, 5)
    twin.half("young")
    pass_time(twin, owner, 2)
    assert [check.identity for check in twin.gate.sent] == [identity("old")]
    owner.close()
    successor = twin.working_owner()
    pass_time(twin, successor, 3)
    assert [shown.transaction_id for shown in undecided(successor)] == ["old", "young"]
    assert successor.checkback.numbers.oldest_age_s == pytest.approx(10, abs=1.5)
    assert [shown.transaction_id for shown in undecided(successor, Filter(count_max=1))] == ["old"]


# -- too old ---------------------------------------------------------------------------------------

SLEEP_S = 8 * 86_400


class AheadClock(MemoryClock):
    """This machine's, beside a broker whose clock is right."""

    def __init__(self, true: MemoryClock, ahead_s: float) -> None:
        super().__init__()
        self._true, self._ahead_ms = true, round(ahead_s * 1000)

    def wall_ms(self) -> int:
        return self._true.wall_ms() + self._ahead_ms

    def monotonic_s(self) -> float:
        return self._true.monotonic_s()

    def advance(self, seconds: float) -> None:
        self._true.advance(seconds)


def told(twin: Twin, owner: PartitionOwner, outcome: CheckOutcome) -> None:
    """What became of the check that was sent last."""
    twin.gate.answer(owner.checkback, twin.gate.sent[-1], outcome)
    turn_until_idle(owner)


@pytest.mark.parametrize("outcome", [CheckOutcome.UNKNOWN, CheckOutcome.SILENT])
def test_what_slept_for_days_was_taken_for_seconds_old_and_not_given_up(
    outcome: CheckOutcome,
) -> None:
    twin = twin_with_producers()
    twin.half("T1")
    twin.clock.advance(SLEEP_S)
    owner = twin.working_owner()
    pass_time(twin, owner, 20)
    assert [check.number for check in twin.gate.sent] == [1]
    assert twin.gate.decided == []
    told(twin, owner, outcome)
    pass_time(twin, owner, 62)
    assert twin.observer.of("given_up") == [("park", "too_old", 1)]
    assert [check.number for check in twin.gate.sent] == [1]


def test_after_a_sleep_of_days_nobody_is_given_up_before_his_producers_are_there() -> None:
    """With the policy of rolling back, a message of a committed local transaction would be lost."""
    twin = twin_with_producers()
    twin.gate.room = 0
    twin.half("T1")
    twin.clock.advance(SLEEP_S)
    owner = twin.working_owner()
    pass_time(twin, owner, 7_200)
    assert twin.gate.decided == []
    twin.gate.room = 10
    pass_time(twin, owner, 2)
    assert [check.identity for check in twin.gate.sent] == [identity("T1")]
    twin.commit("T1", source="check")
    pass_time(twin, owner, 120)
    assert twin.values() == [b"value"]
    assert twin.gate.decided == []


def test_a_machine_whose_clock_is_days_ahead_gave_everything_up() -> None:
    twin = twin_with_producers()
    twin.clock = AheadClock(twin.clock, SLEEP_S)
    owner = twin.working_owner()
    twin.half("T1")
    pass_time(twin, owner, 9)
    told(twin, owner, CheckOutcome.UNKNOWN)
    pass_time(twin, owner, 62)
    assert [check.number for check in twin.gate.sent] == [1, 2]
    assert twin.gate.decided == []
    assert [text for text in owner.troubles if "8 days ahead" in text]
    assert owner.checkback.calendar.ahead_s == SLEEP_S


def test_what_was_put_back_is_not_too_old_by_the_calendar() -> None:
    """Its life begins with that, although its producer prepared it long ago."""
    twin = twin_with_producers()
    born_ms = twin.clock.wall_ms()
    twin.clock.advance(SLEEP_S)
    record = HalfRecord(
        "T1", GROUP, 0, born_ms, INSTANCE, TARGETS[0],
        first_half_offset=0, first_stored_ms=0, resumed_count=1,
    )  # fmt: skip
    twin.kafka.append(twin.kafka.half_topic, 0, None, b"v", system_headers(record))
    owner = twin.working_owner()
    pass_time(twin, owner, 8)
    told(twin, owner, CheckOutcome.UNKNOWN)
    pass_time(twin, owner, 62)
    assert [check.number for check in twin.gate.sent] == [1, 2]
    assert twin.gate.decided == []
