"""Conflicts to be recorded: what lost against a winning decision, until an `x` record says so."""

from itertools import islice
from typing import Final

from halfhitch.core.model import ConflictKind, ConflictMark, HalfOffset, Identity, OpOffset

#: At most this many go into one step: a flood of them must not make a Kafka transaction too large.
CONFLICTS_MAX: Final = 1_000

Key = tuple[OpOffset, Identity, ConflictKind]


class Conflicts:
    """In the order in which they were found; found twice (by a replay) they are one."""

    def __init__(self) -> None:
        self._marks: dict[Key, ConflictMark] = {}

    def add(
        self,
        kind: ConflictKind,
        identity: Identity,
        losing_op_offset: OpOffset,
        half_offsets: list[HalfOffset],
    ) -> None:
        """Something lost."""
        mark = ConflictMark(identity, kind, losing_op_offset, half_offsets)
        self._marks[losing_op_offset, identity, kind] = mark

    def recorded(self, kind: ConflictKind, identity: Identity, losing_op_offset: OpOffset) -> None:
        """An `x` record says so."""
        self._marks.pop((losing_op_offset, identity, kind), None)

    def for_step(self) -> list[ConflictMark]:
        """Those that the next step records."""
        return list(islice(self._marks.values(), CONFLICTS_MAX))

    def left_from(self) -> OpOffset | None:
        """The lowest op offset among those that the next step leaves: a replay must find them."""
        left = islice(self._marks.values(), CONFLICTS_MAX, None)
        return min((mark.losing_op_offset for mark in left), default=None)

    def __bool__(self) -> bool:
        return bool(self._marks)
