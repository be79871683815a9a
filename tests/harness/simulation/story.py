"""What the logs say of one transaction, life by life; account.py reads it from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from halfhitch.wire.parked import LATE

if TYPE_CHECKING:
    from halfhitch.core.model import DecisionRead, DoneRead, HalfRead, Identity, Resolution
    from halfhitch.wire.parked import Parked, Resumed

_EVER = 1 << 60


@dataclass
class OneLife:
    """A transaction between its first half (or a resume) and its end. Offsets within the logs."""

    count: int  # how often it had been put back
    halves: list[HalfRead] = field(default_factory=list)
    fence: int = -1
    until: int = _EVER  # the fence of the next life
    born: Resolution | None = None

    @property
    def indexes(self) -> set[int]:
        return {half.index for half in self.halves}


@dataclass
class Story:
    """All that the logs say of one transaction."""

    identity: Identity
    lives: list[OneLife] = field(default_factory=list)
    decisions: list[DecisionRead] = field(default_factory=list)
    done: list[DoneRead] = field(default_factory=list)
    forwarded: list[tuple[int, Any]] = field(default_factory=list)  # (index, record)
    parked: list[tuple[int, Any, Parked]] = field(default_factory=list)
    resumed: list[Resumed] = field(default_factory=list)
    reused: set[int] = field(default_factory=set)  # halves of other messages, as on record
    uncovered: set[int] = field(default_factory=set)  # halves that came too late for a commit

    def life_of(self, half_offset: int) -> OneLife:
        """To which life a message that was parked belonged."""
        for life in self.lives:
            if any(half.half_offset == half_offset for half in life.halves):
                return life
        raise AssertionError(f"I3: {self.identity[1]} parked from {half_offset}, not in its log")

    @property
    def left_behind(self) -> set[int]:
        """Messages that were added when it had been given up, and not put back with the others.

        They were parked just then, so they stay parked; or they were put back when the others had
        ended already.
        """
        put_back = {tuple(place) for note in self.resumed for place in note.parked_at}
        left = {
            index
            for index, record, why in self.parked
            if why.reason == LATE and (record.partition, record.offset()) not in put_back
        }
        return left | {
            half.index
            for half in self.lives[-1].halves
            if half.resumed_count and half.half_offset in self.uncovered
        }
