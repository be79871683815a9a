"""What was prepared at a door a moment ago and was not ended there."""

from __future__ import annotations

import pytest

from halfhitch.doors.http import unended
from halfhitch.doors.http.unended import Unended

PATIENCE_S = 6.0


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def known(clock: Clock) -> Unended:
    return Unended(PATIENCE_S, clock)


def test_what_is_prepared_is_waited_for_until_it_is_ended(known: Unended) -> None:
    assert not known.any()
    known.prepared("a")
    known.prepared("b")
    known.ended("a")
    assert known.any()
    known.ended("b")
    assert not known.any()


def test_an_end_of_what_was_prepared_elsewhere_changes_nothing(known: Unended) -> None:
    known.prepared("a")
    known.ended("of another instance")
    assert known.any()


def test_what_checks_ask_about_is_not_waited_for(known: Unended, clock: Clock) -> None:
    known.prepared("a")
    clock.now_s += PATIENCE_S + 0.1
    assert not known.any()


def test_one_that_was_prepared_long_before_others_is_found_when_it_is_ended(
    known: Unended, clock: Clock
) -> None:
    clock.now_s += PATIENCE_S - 0.2
    known.prepared("a")
    clock.now_s += 0.4
    known.prepared("b")  # of the next generation
    known.ended("b")
    assert known.any()
    known.ended("a")
    assert not known.any()


def test_after_a_long_silence_nothing_old_is_kept(known: Unended, clock: Clock) -> None:
    known.prepared("a")
    clock.now_s += 10 * PATIENCE_S
    known.prepared("b")
    known.ended("b")
    assert not known.any()
    assert not known._older


def test_what_is_never_ended_does_not_pile_up(
    known: Unended, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unended, "_COUNT_MAX", 10)
    for number in range(95):
        known.prepared(f"T{number}")
    assert len(known._recent) + len(known._older) <= 20
