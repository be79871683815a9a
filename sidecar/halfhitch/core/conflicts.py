"""Contrary decisions to be recorded: what lost against a winner, until an `x` record says so.

Only later decisions are kept here. A message that the winner does not cover is known from its
transaction and recorded in the very step that finishes it.
"""

from itertools import islice
from typing import Final

from halfhitch.core.model import ConflictKind, ConflictMark, Identity, OpOffset

#: At most this many go into one step: a flood of them must not make a Kafka transaction too large.
CONFLICTS_MAX: Final = 1_000


class Conflicts:
    """By transaction; one found twice (by a replay) is one."""

    def __init__(self) -> None:
        self._losers: dict[Identity, dict[OpOffset, None]] = {}

    def add(self, identity: Identity, losing_op_offset: OpOffset) -> None:
        """This decision lost."""
        self._losers.setdefault(identity, {})[losing_op_offset] = None

    def recorded(self, identity: Identity, losing_op_offset: OpOffset) -> None:
        """An `x` record says so."""
        losers = self._losers.get(identity)
        if losers is not None:
            losers.pop(losing_op_offset, None)
            if not losers:
                del self._losers[identity]

    def withdraw(self, identity: Identity) -> None:
        """What seemed to be the winner was not: those that lost against it did not lose."""
        self._losers.pop(identity, None)

    def for_step(self) -> list[ConflictMark]:
        """Those that the next step records."""
        marks = (
            ConflictMark(identity, ConflictKind.CONTRARY, losing_op_offset, [])
            for identity, losers in self._losers.items()
            for losing_op_offset in losers
        )
        return list(islice(marks, CONFLICTS_MAX))

    def left_from(self) -> OpOffset | None:
        """The lowest op offset among those that the next step leaves: a replay must find them."""
        offsets = (op_offset for losers in self._losers.values() for op_offset in losers)
        return min(islice(offsets, CONFLICTS_MAX, None), default=None)

    def __bool__(self) -> bool:
        return bool(self._losers)
