"""Conflicts to be recorded: what lost against a winner, until an `x` record says so.

Contrary decisions, and what came under an id that stands for another message: its half, and any
decision that names it. A message that the winner does not cover is known from its transaction and
recorded in the very step that finishes it.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from halfhitch.core.model import (
    ConflictKind,
    ConflictMark,
    ConflictRead,
    DecisionRead,
    HalfOffset,
    Identity,
    OpOffset,
)

#: At most this many go into one step: a flood of them must not make a Kafka transaction too large.
CONFLICTS_MAX: Final = 1_000
#: So many halves of reused ids are known by their places; then the oldest are forgotten.
REUSED_MAX: Final = 10_000


class Conflicts:
    """By transaction; one found twice (by a replay) is one."""

    def __init__(self) -> None:
        self._losers: dict[Identity, dict[OpOffset, DecisionRead | None]] = {}
        self._reused: dict[HalfOffset, Identity] = {}
        #: Decisions that name one of those; many transactions' lie in one record.
        self._named: dict[tuple[OpOffset, Identity], None] = {}
        # Replaced by nothing, only added to and shortened: other threads look into it.
        self._known: dict[int, None] = {}

    def add(
        self, identity: Identity, losing_op_offset: OpOffset, lost: DecisionRead | None = None
    ) -> None:
        """This decision lost; `lost`: what it said, where that is known."""
        self._losers.setdefault(identity, {})[losing_op_offset] = lost

    def recorded(self, conflict: ConflictRead | ConflictMark) -> None:
        """An `x` record says so."""
        if conflict.kind is ConflictKind.REUSED:
            for half_offset in conflict.half_offsets:
                self._reused.pop(half_offset, None)
                self._know(half_offset)
            if not conflict.half_offsets:
                self._named.pop((conflict.losing_op_offset, conflict.identity), None)
        elif conflict.kind is ConflictKind.CONTRARY:
            losers = self._losers.get(conflict.identity)
            if losers is not None:
                losers.pop(conflict.losing_op_offset, None)
                if not losers:
                    del self._losers[conflict.identity]

    def withdraw(self, identity: Identity) -> None:
        """What seemed to be the winner was not: those that lost against it did not lose."""
        self._losers.pop(identity, None)

    def reused(self, identity: Identity, half_offset: HalfOffset) -> None:
        """This half says another thing than the first one of its id and index."""
        self._reused[half_offset] = identity
        self._know(half_offset)

    def decided(self, event: DecisionRead) -> None:
        """Was this decision said of another message than its id stands for?"""
        if self._known and self.is_reused(event.half_hints or (event.half_hint,)):
            self._named[event.op_offset, event.identity] = None

    def same_after_all(self, identity: Identity) -> None:
        """What seemed to be the first message of this id was not: judge its halves anew."""
        for half_offset in [h for h, named in self._reused.items() if named == identity]:
            del self._reused[half_offset]
            self._known.pop(half_offset, None)

    def is_reused(self, half_offsets: Iterable[int]) -> bool:
        """Whether one of these halves says another thing than its id. For other threads too."""
        known = self._known
        return bool(known) and any(half_offset in known for half_offset in half_offsets)

    def _know(self, half_offset: HalfOffset) -> None:
        self._known[half_offset] = None
        if len(self._known) > REUSED_MAX:
            del self._known[next(iter(self._known))]

    def for_step(self) -> list[ConflictMark]:
        """Those that the next step records."""
        return list(islice(self._marks(), CONFLICTS_MAX))

    def _marks(self) -> Iterator[ConflictMark]:
        reused = ConflictKind.REUSED
        for half_offset, identity in self._reused.items():
            yield ConflictMark(identity, reused, OpOffset(0), [half_offset])
        for op_offset, identity in self._named:
            yield ConflictMark(identity, reused, op_offset, [])
        for identity, losers in self._losers.items():
            for losing_op_offset, lost in losers.items():
                yield ConflictMark(identity, ConflictKind.CONTRARY, losing_op_offset, [], lost)

    def left_from(self) -> OpOffset | None:
        """The lowest op offset among those that the next step leaves: a replay must find them."""
        left = islice(self._marks(), CONFLICTS_MAX, None)
        return min((mark.losing_op_offset for mark in left if not mark.half_offsets), default=None)

    def __bool__(self) -> bool:
        return bool(self._losers or self._reused or self._named)
