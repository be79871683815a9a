"""What the op log alone says of one transaction: for whoever has no owner to ask."""

from collections.abc import Iterator
from typing import Final

from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    Identity,
    Resolution,
)
from halfhitch.errors import HalfHitchError
from halfhitch.service.transactions.end import reused
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage, Headers
from halfhitch.wire.op import NoteEntry, OpRead

#: A decision, a done mark, a conflict; or what an operator did.
Told = OpRead | NoteEntry

#: Committed and undeliverable is told as committed and not visible.
_PARKED_AS: Final = {GIVEN_UP: Resolution.PARK, PARKED: Resolution.COMMIT}


def told_in(
    op_offset: int, value: bytes | None, headers: Headers | None
) -> Iterator[tuple[Identity, Told]]:
    """All that an op record says, and of whom."""
    events = op_wire.read(op_offset, 0, value, headers)
    if isinstance(events, Garbage):
        return
    for event in events:
        yield event.identity, event
    if not events:
        for note in op_wire.read_notes(headers):
            yield (note.producer_group, note.transaction_id), note


class Look:
    """Of one transaction, event by event in the log's order.

    A decision that comes after it was given up decides nothing: it is on record, and counts when
    the transaction is put back. The halves that are appended then say so, and not the op log; so
    how such a one is decided is not known here until a done mark tells.
    """

    __slots__ = ("_half_offset", "_has_late", "_is_committed", "_is_hidden", "refusal", "told")

    def __init__(self, half_offset: int) -> None:
        self._half_offset = half_offset
        self._has_late = False  # since it was given up
        self._is_committed = False  # and undeliverable: put back as what it is
        self._is_hidden = False  # only its halves say how it is decided
        #: The first decision, and whether it is carried out.
        self.told: tuple[Resolution | None, bool] = (None, False)
        self.refusal: HalfHitchError | None = None

    def take(self, event: Told) -> bool:
        """Whether nothing that comes later matters."""
        if isinstance(event, DecisionRead):
            self._decided(event.resolution)
        elif isinstance(event, DoneRead):
            return self._done(event.ending)
        elif isinstance(event, ConflictRead):
            is_ours = self._half_offset in event.half_offsets
            if is_ours and event.kind is ConflictKind.REUSED:
                self.refusal = reused(event.identity)
                return True
        elif event.action == "resume" and not self._is_committed:
            # What was said before this reading began is not known either.
            was_undecided = self.told[0] is Resolution.PARK and not self._has_late
            self.told, self._is_hidden = (None, False), not was_undecided
            self._has_late = False
        return False

    def _decided(self, resolution: Resolution) -> None:
        decided = self.told[0]
        if decided is Resolution.PARK:
            self._has_late = self._has_late or resolution is not Resolution.PARK
        elif decided is None and not self._is_hidden:
            self.told = resolution, False

    def _done(self, ending: int) -> bool:
        if ending == COPIED:
            return False
        if ending in _PARKED_AS:  # not for good: it may be put back
            self.told = _PARKED_AS[ending], False
            self._is_hidden, self._is_committed = False, ending == PARKED
            return False
        self.told = Resolution.ROLLBACK if ending == ROLLED_BACK else Resolution.COMMIT, True
        return True
