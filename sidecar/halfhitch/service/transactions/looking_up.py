"""What the op log alone says of one transaction: for whoever has no owner to ask."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from halfhitch.core.early import EARLY_MS, is_meant_for
from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    DecisionRead,
    DoneRead,
    HalfOffset,
    HalfRead,
    Identity,
    Resolution,
    TimestampMs,
)
from halfhitch.errors import HalfHitchError
from halfhitch.service.transactions.end import reused
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage, Headers
from halfhitch.wire.op import OpRead

#: A stranger's half may name a time of nineteen digits.
_TIME_MAX_MS: Final = 1 << 62


class PutBack(NamedTuple):
    """An operator's note: from here on it lives again."""

    op_offset: int
    identity: Identity


#: What an op record says of a transaction.
Told = OpRead | PutBack


def told_in(
    op_offset: int, stored_ms: int, value: bytes | None, headers: Headers | None
) -> Sequence[Told]:
    """All that an op record says."""
    events = op_wire.read(op_offset, stored_ms, value, headers)
    if isinstance(events, Garbage):
        return ()
    return events or [
        PutBack(op_offset, (note.producer_group, note.transaction_id))
        for note in op_wire.read_notes(headers)
        if note.action == "resume"
    ]


class Look:
    """Of one transaction, event by event in the log's order.

    Each life of a transaction is a story of its own: it begins when it is prepared or put back, and
    a decision that comes after it was given up decides nothing. As what one is put back, its new
    halves say. So whoever knows an older half, and reads that it was put back, knows nothing until
    a done mark tells. Nor does who reads of a decision that came late and is not in those halves,
    for its owner may not have read it, or that its name stood for another one before.
    """

    __slots__ = (
        "_began_at", "_began_ms", "_fence", "_half_offset", "_is_hidden", "refusal", "told",
    )  # fmt: skip

    def __init__(self, half_offset: int) -> None:
        self._half_offset = half_offset
        self._began_at = HalfOffset(half_offset)
        self._began_ms = TimestampMs(0)
        self._fence = -1  # what lies up to here in the op log is of lives before
        self._is_hidden = False  # nothing is known of its decision
        #: The first decision, and whether it is carried out.
        self.told: tuple[Resolution | None, bool] = (None, False)
        self.refusal: HalfHitchError | None = None

    def begin(self, half: HalfRead) -> None:
        """The half that is asked about was read, or the copy of it that says most."""
        first_ms = half.first_stored_ms if half.first_stored_ms > 0 else half.stored_at_ms
        self._began_ms = TimestampMs(min(first_ms, _TIME_MAX_MS))
        is_first = half.first_half_offset < 0
        self._began_at = half.half_offset if is_first else HalfOffset(half.first_half_offset)
        self._fence = half.fence
        self.told = half.born, False

    @property
    def began_ms(self) -> int:
        """Broker time of its beginning."""
        return self._began_ms

    def take(self, event: Told) -> bool:
        """Whether nothing that comes later matters."""
        if event.op_offset <= self._fence:
            if isinstance(event, DecisionRead) and event.resolution is not Resolution.PARK:
                self._is_hidden = self._is_hidden or self.told[0] is None
        elif isinstance(event, DecisionRead):
            self._decided(event)
        elif isinstance(event, DoneRead):
            return self._done(event)
        elif isinstance(event, PutBack):
            self._hide()
        elif self._half_offset in event.half_offsets and event.kind is ConflictKind.REUSED:
            self.refusal = reused(event.identity)
            return True
        return False

    def _hide(self) -> None:
        self.told, self._is_hidden = (None, False), True

    def _decided(self, event: DecisionRead) -> None:
        if self._is_hidden or self.told[0] is not None:
            return
        if is_meant_for(event, self._began_at, self._began_ms):
            self.told = event.resolution, False
        else:
            self._hide()  # another one had this name

    def _done(self, event: DoneRead) -> bool:
        if event.ending == COPIED:
            return False
        if self._is_of_another(event):
            self._hide()
            return False
        if event.ending == GIVEN_UP:
            if self.told[0] is None:  # when that was decided lies before what is read
                self._hide()
            return False
        if event.ending == PARKED:
            if not self._is_hidden:
                self.told = Resolution.COMMIT, False
            return False
        rolled_back = event.ending == ROLLED_BACK
        self.told = Resolution.ROLLBACK if rolled_back else Resolution.COMMIT, True
        return True

    def _is_of_another(self, event: DoneRead) -> bool:
        """Of an older one of its name; that of a repeated end names no halves."""
        if self._half_offset in event.half_offsets:
            return False
        is_older = bool(event.half_offsets) and max(event.half_offsets) < self._half_offset
        return is_older or event.stored_at_ms + EARLY_MS < self._began_ms
