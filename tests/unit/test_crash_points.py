"""The places at which a test may end the process are all reached in a normal life, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch import crash_points
from harness.defaults import check_rules, owner_limits
from harness.twin import Twin, turn_until_idle

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def visits() -> Iterator[list[str]]:
    """Every name, as often as it is reached."""
    reached: list[str] = []
    crash_points.arm(reached.append)
    yield reached
    crash_points.arm(crash_points._nothing)


def a_life(twin: Twin) -> None:
    """A takeover, a commit, a check, and what is finished is deleted."""
    twin.half("T1")
    twin.commit("T1")
    owner = twin.working_owner()
    turn_until_idle(owner)
    twin.half("T2")
    turn_until_idle(owner)
    for _ in range(8):
        twin.clock.advance(1)
        turn_until_idle(owner)
    twin.clock.advance(20)
    twin.commit("T2")
    turn_until_idle(owner)
    twin.clock.advance(20)
    twin.half("T3")
    twin.roll_back("T3")
    turn_until_idle(owner)
    assert len(twin.gate.sent) == 1
    assert any(call.startswith("delete_below") for call in twin.calls)


def twin_with_a_producer() -> Twin:
    rules = check_rules(immunity_ms=6_000, interval_ms=60_000, jitter=0.0)
    twin = Twin(limits=owner_limits(check_rules=rules))
    twin.gate.room = 10
    return twin


def test_every_crash_point_is_reached_and_no_other_name_is(visits: list[str]) -> None:
    a_life(twin_with_a_producer())
    assert set(visits) == set(crash_points.NAMES)
    assert len(set(crash_points.NAMES)) == len(crash_points.NAMES)


def test_their_order_is_that_in_which_a_takeover_and_a_turn_reach_them(visits: list[str]) -> None:
    twin = twin_with_a_producer()
    a_life(twin)
    names = crash_points.NAMES
    first_turn = visits.index("after_read")
    takeover = visits[:first_turn]
    assert takeover == sorted(takeover, key=names.index)
    assert set(takeover) == set(names[: names.index("after_read")])
    turns: list[list[str]] = []
    for name in visits[first_turn:]:
        if name == "after_read":
            turns.append([])
        turns[-1].append(name)
    for turn in turns:
        assert turn == sorted(turn, key=names.index)


@pytest.mark.parametrize("message_count", [1, 500])
def test_they_are_reached_once_in_a_step_however_many_messages_it_has(
    visits: list[str], message_count: int
) -> None:
    twin = Twin()
    owner = twin.working_owner()
    for n in range(message_count):
        twin.half(f"T{n}")
    twin.commit(*[f"T{n}" for n in range(message_count)])
    visits.clear()
    assert owner.turn(0.0)
    assert len(visits) == len(set(visits))


def test_nothing_happens_at_a_crash_point_that_nobody_has_armed() -> None:
    for name in crash_points.NAMES:
        crash_points.reached(name)
