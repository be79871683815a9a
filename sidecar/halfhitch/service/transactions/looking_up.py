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

#: Committed and undeliverable is told as committed and not visible.
_PARKED_AS: Final = {GIVEN_UP: Resolution.PARK, PARKED: Resolution.COMMIT}


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
    halves say and not the op log. So whoever knows an older half, and reads that it was put back,
    knows nothing until a done mark tells; unless he has seen that nobody had decided it.
    """

    __slots__ = (
        "_began_at", "_began_ms", "_fence", "_half_offset", "_has_late", "_is_given_up",
        "_is_hidden", "_is_later", "refusal", "told",
    )  # fmt: skip

    def __init__(self, half_offset: int) -> None:
        self._half_offset = half_offset
        self._began_at = HalfOffset(half_offset)
        self._began_ms = TimestampMs(0)
        self._is_later = False  # than the first life
        self._fence = -1  # what lies up to here in the op log is of lives before
        self._is_given_up = False  # by a decision that was read, the first of its life
        self._has_late = False  # decisions behind that
        self._is_hidden = False  # of a life that nothing is known of
        #: The first decision, and whether it is carried out.
        self.told: tuple[Resolution | None, bool] = (None, False)
        self.refusal: HalfHitchError | None = None

    def begin(self, half: HalfRead) -> None:
        """The half that is asked about was read, or the first copy of it that is left."""
        is_first = half.first_stored_ms <= 0
        self._began_ms = half.stored_at_ms if is_first else TimestampMs(half.first_stored_ms)
        is_first = half.first_half_offset < 0
        self._began_at = half.half_offset if is_first else HalfOffset(half.first_half_offset)
        self._is_later, self._fence = half.resumed_count > 0, half.fence
        self.told = half.born, False

    @property
    def began_ms(self) -> int:
        """Broker time of its beginning."""
        return self._began_ms

    def take(self, event: Told) -> bool:
        """Whether nothing that comes later matters."""
        if event.op_offset <= self._fence:
            return False
        if isinstance(event, DecisionRead):
            self._decided(event)
        elif isinstance(event, DoneRead):
            return self._done(event)
        elif isinstance(event, PutBack):
            self._put_back()
        elif self._half_offset in event.half_offsets and event.kind is ConflictKind.REUSED:
            self.refusal = reused(event.identity)
            return True
        return False

    def _decided(self, event: DecisionRead) -> None:
        if self._is_hidden or not is_meant_for(event, self._began_at, self._began_ms):
            return
        if self.told[0] is None:
            self.told = event.resolution, False
            self._is_given_up = event.resolution is Resolution.PARK
        elif event.resolution is not Resolution.PARK:
            self._has_late = True

    def _put_back(self) -> None:
        self._is_hidden = self._is_hidden or self._has_late or not self._is_given_up
        self._is_later, self._is_given_up = True, False
        self.told = None, False

    def _done(self, event: DoneRead) -> bool:
        if event.ending == COPIED or event.stored_at_ms + EARLY_MS < self._began_ms:
            return False  # or it is that of an older one of this name
        if event.ending in _PARKED_AS:
            if not self._is_later:  # else it may be a copy's, of a life before
                self.told = _PARKED_AS[event.ending], False
            return False
        rolled_back = event.ending == ROLLED_BACK
        self.told = Resolution.ROLLBACK if rolled_back else Resolution.COMMIT, True
        return True
