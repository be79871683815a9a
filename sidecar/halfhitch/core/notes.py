"""Late decisions: what was decided of a transaction after it was given up undecided.

They change nothing now, but count when it is put back: so each of them is written beside what is
parked. Until then a replay must find the decision again.
"""

from itertools import islice
from typing import Final

from halfhitch.core.model import DecisionRead, Identity, LateNote, OpOffset, Resolution

#: At most this many go into one step.
NOTES_MAX: Final = 1_000


class LateNotes:
    """In the order of the op log; one found twice is one."""

    def __init__(self) -> None:
        self._notes: dict[tuple[Identity, OpOffset], LateNote] = {}

    def add(self, decision: DecisionRead) -> None:
        """This was decided too late. That it is given up need not be said again."""
        if decision.resolution is not Resolution.PARK:
            identity, op_offset = decision.identity, decision.op_offset
            what = identity, decision.resolution, op_offset, decision.reason, decision.source
            note = LateNote(*what)
            self._notes[identity, op_offset] = note

    def written(self, note: LateNote) -> None:
        """It lies beside what is parked."""
        self._notes.pop((note.identity, note.op_offset), None)

    def for_step(self) -> list[LateNote]:
        """Those that the next step writes."""
        return list(islice(self._notes.values(), NOTES_MAX))

    def left_from(self, written_count: int | None = None) -> OpOffset | None:
        """The lowest op offset among those that the next step leaves: a replay must find them."""
        written_count = NOTES_MAX if written_count is None else written_count
        left = islice(self._notes.values(), written_count, None)
        return min((note.op_offset for note in left), default=None)

    def __bool__(self) -> bool:
        return bool(self._notes)
