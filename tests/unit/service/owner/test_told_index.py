"""What an owner tells the index of the undecided, and when it says that it has told all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.defaults import owner_limits
from harness.twin import Twin, turn_until_idle

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from halfhitch.core.model import Identity
    from halfhitch.ports import Doubt


class Index:
    """Takes `room` at once, and notes what it is told."""

    def __init__(self) -> None:
        self.is_wanted = False
        self.room = 1_000_000
        self.told: list[str] = []

    def doubtful(self, _: int, doubts: Sequence[Doubt]) -> None:
        self.told += [doubt.identity[1] for doubt in doubts]

    def settled(self, _: int, identities: Sequence[Identity]) -> None:
        self.told += [f"-{identity[1]}" for identity in identities]

    def owns(self, _: int, *, is_owned: bool, by: object = None) -> None:
        self.is_wanted = is_owned

    def wants_all(self, _: int) -> bool:
        is_wanted, self.is_wanted = self.is_wanted, False
        return is_wanted

    def has_room(self, count: int) -> bool:
        return count <= self.room

    def told_all(self, _: int) -> None:
        self.told.append("all")


def pass_time(twin: Twin, owner: object, turns: int = 3) -> None:
    turn_until_idle(owner)  # type: ignore[arg-type]
    twin.clock.advance(3)
    for _ in range(turns):
        turn_until_idle(owner)  # type: ignore[arg-type]
        owner.turn(0.0)  # type: ignore[attr-defined]


def test_a_new_owner_has_told_all_once_the_old_ones_are_told_a_part_in_each_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What Redis held before that was taken for all that is undecided."""
    monkeypatch.setattr("halfhitch.core.checks._TURN_MAX", 2)
    monkeypatch.setattr("halfhitch.service.owner.told_index.TURN_MAX", 3)
    twin, index = Twin(limits=owner_limits()), Index()
    names = [f"T{n}" for n in range(7)]
    for name in names:
        twin.half(name)
    twin.clock.advance(10)
    owner = twin.working_owner(index=index)
    pass_time(twin, owner, turns=8)
    assert index.told == [*names, "all"]
    twin.half("young")
    pass_time(twin, owner)
    assert index.told == [*names, "all", "young"], "it is said once"
    index.is_wanted = True
    pass_time(twin, owner, turns=8)
    assert index.told[9:] == [*names, "young", "all"]


def test_where_nothing_is_undecided_all_is_told_soon_and_without_room_not_yet() -> None:
    twin, index = Twin(limits=owner_limits()), Index()
    owner = twin.working_owner(index=index)
    owner.turn(0.0)
    assert index.told == [], "somebody young may be among the stored ones"
    pass_time(twin, owner)
    assert index.told == ["all"]
    twin.half("T1")
    pass_time(twin, owner)
    index.is_wanted, index.room = True, 0
    pass_time(twin, owner)
    assert index.told == ["all", "T1"]
    index.room = 1_000
    pass_time(twin, owner)
    assert index.told == ["all", "T1", "T1", "all"]


def test_those_that_grew_old_last_are_told_before_it_is_said_that_all_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More of them than go into one turn: the rest was missing in a list that was called whole."""
    monkeypatch.setattr("halfhitch.service.owner.told_index.TURN_MAX", 3)
    twin, index = Twin(limits=owner_limits()), Index()
    names = [f"T{n}" for n in range(8)]
    for name in names:
        twin.half(name)
    owner = twin.working_owner(index=index)
    owner.turn(0.0)
    assert index.told == [], "all are young"
    twin.clock.advance(3)
    for _ in range(9):
        owner.turn(0.0)
    assert index.told == [*names, "all"]
