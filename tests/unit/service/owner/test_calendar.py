"""What day it is, of two clocks that may both be wrong; and when that is said."""

import logging
from typing import Any

import pytest

from halfhitch.adapters.memory import MemoryClock
from halfhitch.service.owner.calendar import Calendar

DAY_S = 86_400
WALL_MS = 1_700_000_000_000


class Half:
    """A stored record, as far as its time goes."""

    def __init__(self, stored_ms: int) -> None:
        self._stored_ms = stored_ms

    def timestamp(self) -> tuple[int, int]:
        return 2, self._stored_ms


class World:
    """A broker whose clock is so far ahead of the truth, and an owner whose is right at first."""

    def __init__(self, broker_ahead_s: float = 0) -> None:
        self.clock = MemoryClock(WALL_MS)
        self.true = MemoryClock(WALL_MS)
        self.broker_ahead_s = broker_ahead_s
        self.calendar = Calendar(3, self.clock)

    def read(self, *, late_s: float = 0) -> None:
        """A half is read that was stored a moment ago, or before that."""
        stored_ms = self.true.wall_ms() + int((self.broker_ahead_s - late_s) * 1000)
        halves: list[Any] = [Half(0), Half(stored_ms)]
        self.calendar.read(halves)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.true.advance(seconds)
        self.calendar.look()

    @property
    def wrong_s(self) -> float:
        """How far the calendar is from the truth."""
        now_ms = self.calendar.now_ms()
        assert now_ms is not None
        return (now_ms - self.true.wall_ms()) / 1000


def test_without_any_half_it_is_not_known() -> None:
    world = World()
    world.calendar.read([])
    world.pass_time(DAY_S)
    assert world.calendar.now_ms() is None
    assert (world.calendar.trouble, world.calendar.ahead_s) == (None, 0.0)


def test_it_goes_on_with_the_time_that_passes() -> None:
    world = World()
    world.read()
    world.pass_time(3 * DAY_S)
    assert world.wrong_s == 0


@pytest.mark.parametrize(("wall_s", "broker_s"), [(8 * DAY_S, 0), (0, 8 * DAY_S)])
def test_a_clock_that_was_days_ahead_made_everything_old(wall_s: float, broker_s: float) -> None:
    world = World(broker_s)
    world.clock.jump(wall_s)
    world.read()
    assert world.wrong_s == 0


@pytest.mark.parametrize(("wall_s", "broker_s"), [(-8 * DAY_S, 0), (0, -8 * DAY_S)])
def test_a_clock_that_is_days_behind_makes_things_younger_only(
    wall_s: float, broker_s: float
) -> None:
    world = World(broker_s)
    world.clock.jump(wall_s)
    world.read()
    assert world.wrong_s == -8 * DAY_S


def test_a_broker_that_was_set_back_made_what_was_stored_since_old() -> None:
    """What a reading of a moment ago said of it is over with the next one."""
    world = World()
    world.read()
    world.broker_ahead_s = -8 * DAY_S
    world.pass_time(1)
    world.read()
    assert world.wrong_s == -8 * DAY_S


def test_a_takeover_forgets_what_was_read() -> None:
    world = World()
    world.read()
    world.calendar.clear()
    assert world.calendar.now_ms() is None


# -- what is said of it --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wall_s", "words"),
    [
        (8 * DAY_S, "clock is 8 days ahead of that of the broker of half partition 3"),
        (-3 * 3_600, "clock is 3 hours behind that of the broker of half partition 3"),
        (-20 * 60, "clock is 20 minutes behind"),
    ],
)
def test_clocks_that_differ_are_said_once_with_what_to_do(
    wall_s: float, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.clock.jump(wall_s)
    world.read()
    for _ in range(200):
        world.pass_time(1)
        world.read()
    calendar = world.calendar
    assert calendar.trouble is not None
    assert words in calendar.trouble
    assert "NTP" in calendar.trouble
    assert calendar.ahead_s == wall_s
    assert caplog.text.count(words) == 1
    world.clock.jump(-wall_s)
    world.pass_time(1)
    assert calendar.trouble is None
    assert calendar.ahead_s == 0
    assert caplog.text.count("agree again") == 1


def test_a_wall_clock_that_jumps_later_is_seen_though_nothing_is_read() -> None:
    world = World()
    world.read()
    world.pass_time(61)
    assert world.calendar.trouble is None
    world.clock.jump(DAY_S)
    world.pass_time(1)
    assert world.calendar.trouble is not None


def test_who_reads_late_does_not_take_the_clocks_for_different() -> None:
    """A takeover reads what lay there; then somebody's Kafka transaction hides the log for long."""
    world = World()
    world.read(late_s=DAY_S)
    assert world.calendar.trouble is None
    world.pass_time(1)
    world.read()
    for _ in range(59):
        world.pass_time(1)
        world.read(late_s=1_000)
        assert world.calendar.trouble is None
    for _ in range(10):
        world.read(late_s=899)
        world.pass_time(100)
        assert world.calendar.trouble is None


def test_a_broker_that_is_right_again_is_believed() -> None:
    world = World(broker_ahead_s=DAY_S)
    for _ in range(3):
        world.read()
        world.pass_time(61)
    assert world.calendar.ahead_s == -DAY_S
    world.broker_ahead_s = 0
    for _ in range(3):
        world.read()
        world.pass_time(61)
    assert (world.calendar.trouble, world.calendar.ahead_s) == (None, 0.0)
