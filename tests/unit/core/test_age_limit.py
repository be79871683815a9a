"""Whose age ends him: by the careful scale, and by the calendar only who was asked."""

import pytest

from halfhitch.core.age_limit import AgeLimit
from halfhitch.core.model import TimestampMs
from halfhitch.core.transaction import State, Transaction
from harness.ledger_script import identity_of

HOUR_MS = 3_600_000
LIMIT_MS = 72 * HOUR_MS
SLEEP_MS = 192 * HOUR_MS
BEGAN_MS = 1_000 * HOUR_MS


def limit(age_ms_max: int = LIMIT_MS, *, slept_ms: int | None = 0) -> AgeLimit:
    """Of an owner whose replay was over at BEGAN_MS of its scale."""
    made = AgeLimit(age_ms_max)
    made.begin(BEGAN_MS)
    made.calendar_ms = None if slept_ms is None else BEGAN_MS + slept_ms
    return made


def transaction(*, age_ms: int = 0, asked: bool = False) -> Transaction:
    """At BEGAN_MS it is so old by the owner's scale."""
    stored_ms = TimestampMs(BEGAN_MS - age_ms)
    made = Transaction(identity_of("T1"), State.PENDING, stored_ms)
    made.aged_from_ms, made.due_ms = stored_ms, BEGAN_MS
    made.check_count, made.is_delivered = (1, True) if asked else (0, True)
    return made


def test_after_a_sleep_one_that_was_asked_in_vain_was_taken_for_young() -> None:
    assert limit(slept_ms=SLEEP_MS).is_reached(transaction(asked=True), BEGAN_MS)


@pytest.mark.parametrize("hours", [0, 1, 71])
def test_the_calendar_alone_ends_nobody(hours: int) -> None:
    """Sidecars are back before their producers; and a clock may be days ahead."""
    now_ms = BEGAN_MS + hours * HOUR_MS
    assert not limit(slept_ms=SLEEP_MS).is_reached(transaction(), now_ms)


def test_an_answer_that_counts_for_a_former_owner_is_none() -> None:
    """A replay finds the number in the log, and does not know whether anybody was asked."""
    found = transaction(asked=True)
    found.is_delivered = False
    assert not limit(slept_ms=SLEEP_MS).is_reached(found, BEGAN_MS)


def test_who_was_asked_has_until_his_next_check() -> None:
    found = transaction(asked=True)
    found.due_ms = BEGAN_MS + 60_000
    age_limit = limit(slept_ms=SLEEP_MS)
    assert not age_limit.is_reached(found, BEGAN_MS + 59_999)
    assert age_limit.is_reached(found, BEGAN_MS + 60_000)


@pytest.mark.parametrize("slept_ms", [None, -SLEEP_MS, 0, LIMIT_MS - 1])
def test_who_is_young_by_both_is_asked_again(slept_ms: int | None) -> None:
    """Among them one whom a calendar that is behind makes younger than the owner's own scale."""
    assert not limit(slept_ms=slept_ms).is_reached(transaction(asked=True), BEGAN_MS)


@pytest.mark.parametrize("slept_ms", [None, -SLEEP_MS, 0])
def test_a_calendar_that_is_behind_makes_nobody_young(slept_ms: int | None) -> None:
    found = transaction(age_ms=LIMIT_MS, asked=True)
    assert limit(slept_ms=slept_ms).is_reached(found, BEGAN_MS)


def test_a_new_owner_gave_up_at_once_who_was_old_by_its_scale() -> None:
    """Its scale begins where the log ends: anything that was written last made the rest old."""
    age_limit, found = limit(), transaction(age_ms=SLEEP_MS)
    assert not age_limit.is_reached(found, BEGAN_MS + HOUR_MS - 1)
    assert age_limit.is_reached(found, BEGAN_MS + HOUR_MS)
    assert age_limit.unasked_ms(found) == BEGAN_MS + HOUR_MS


def test_who_lived_under_one_owner_ends_at_the_limit() -> None:
    age_limit, found = limit(), transaction()
    assert age_limit.unasked_ms(found) == BEGAN_MS + LIMIT_MS
    assert not age_limit.is_reached(found, BEGAN_MS + LIMIT_MS - 1)
    assert age_limit.is_reached(found, BEGAN_MS + LIMIT_MS)


def test_a_limit_below_an_hour_is_waited_for_no_longer_than_itself() -> None:
    age_limit = limit(60_000)
    assert age_limit.unasked_ms(transaction(age_ms=HOUR_MS)) == BEGAN_MS + 60_000
