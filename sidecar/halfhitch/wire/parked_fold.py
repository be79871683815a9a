"""What the parked topic says as a whole: which transactions are parked now, and with what decision.

Records are taken one by one, in the order of each partition; partitions may interleave in any way.
The messages of one transaction lie on several partitions (each goes by its key), and so do the
notes about it: a note may be read before the message it speaks of.

Pure: no clock, no I/O. Content is not kept, only where it lies; see `ParkedFold.kept_max` for what
bounds the memory.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from halfhitch.core.model import Identity, ProducerGroup, TransactionId
from halfhitch.wire.half import Garbage, Headers, read_forward, read_identity
from halfhitch.wire.parked import LATE, LateDecision, Parked, Resumed, read_parked

#: (partition, offset) on the parked topic.
ParkedAt = tuple[int, int]

#: Messages that are kept at most; some hundred bytes each.
KEPT_MAX: Final = 200_000
#: Notes of records that have not been read yet: there are as many as partitions are read apart.
_AHEAD_MAX: Final = 1_000_000
#: Decisions of one transaction; the first one counts, and there are hardly ever two.
_LATE_MAX: Final = 100


@dataclass(slots=True)
class ParkedHalf:
    """One parked message without its content."""

    place: ParkedAt
    parked_ms: int  # time of the record
    size_bytes: int  # key and value
    identity: Identity
    index: int
    topic: str
    partition: int | None  # fixed by the producer
    resumed_count: int
    why: Parked


@dataclass(slots=True)
class Parking:
    """One transaction that was parked once and has not been put back. Messages by their index."""

    identity: Identity
    half_partition: int
    messages: list[ParkedHalf]
    #: c or r: to be applied when it is put back; why, in words of whoever decided; and who that is.
    decision: str | None
    decision_reason: str | None = None
    decision_source: str | None = None

    @property
    def first(self) -> ParkedHalf:
        """Speaks for all of them: reason, counts and times are the transaction's."""
        return self.messages[0]

    @property
    def topics(self) -> tuple[str, ...]:
        """Where the messages were to go, each topic once."""
        return tuple(dict.fromkeys(message.topic for message in self.messages))

    @property
    def resumed_count(self) -> int:
        """How often it was put back before."""
        return max(message.resumed_count for message in self.messages)

    @property
    def parked_ms(self) -> int:
        """When it was parked."""
        return min(message.parked_ms for message in self.messages)

    @property
    def stored_ms(self) -> int:
        """When it was prepared, or put back for the last time; 0 when the record does not say."""
        return min(message.why.stored_ms for message in self.messages)

    @property
    def size_bytes(self) -> int:
        """Of all keys and values."""
        return sum(message.size_bytes for message in self.messages)


class ParkedFold:
    """The state of the parked topic up to some position in each of its partitions.

    With `only` every message but those of one transaction is passed over.
    """

    def __init__(self, *, kept_max: int = KEPT_MAX, only: Identity | None = None) -> None:
        self.kept_max = kept_max
        self._only = only
        self._messages: dict[ParkedAt, ParkedHalf] = {}
        self._by_identity: dict[Identity, set[ParkedAt]] = {}
        #: All of them: which one counts is known when the note of the life before has been read.
        self._late: dict[Identity, list[LateDecision]] = {}
        self._ahead: set[ParkedAt] = set()  # put back, and not read yet; bounded by _AHEAD_MAX
        self._fences: dict[Identity, int] = {}  # of those put back; bounded by _AHEAD_MAX
        self._read_to: dict[int, int] = {}
        #: Parked messages that are not kept: there were too many.
        self.left_out_count = 0
        self.garbage_count = 0

    def __len__(self) -> int:
        """Messages that are kept."""
        return len(self._messages)

    def take(
        self, place: ParkedAt, stored_ms: int, size_bytes: int, headers: Headers | None
    ) -> None:
        """The next record of its partition."""
        partition, log_offset = place
        self._read_to[partition] = log_offset + 1
        found = read_parked(log_offset, headers)
        if isinstance(found, Parked):
            self._parked(place, stored_ms, size_bytes, headers, found)
        elif isinstance(found, Resumed):
            self._resumed(found)
        elif isinstance(found, LateDecision):
            self._decided(found)
        else:
            self.garbage_count += 1

    def caught_up(self) -> None:
        """All partitions were read to their ends: no note of a former life is still to come."""
        self._fences.clear()

    def forget_below(self, partition: int, log_offset: int) -> None:
        """These records are gone from the topic."""
        self._read_to[partition] = max(self._read_to.get(partition, 0), log_offset)
        gone = [p for p in self._messages if p[0] == partition and p[1] < log_offset]
        for place in gone:
            self._drop(place)
        self._ahead = {p for p in self._ahead if p[0] != partition or p[1] >= log_offset}

    def places(self, identity: Identity) -> frozenset[ParkedAt]:
        """Where messages of the transaction lie that were not put back."""
        return frozenset(self._by_identity.get(identity, ()))

    def parkings(self, identity: Identity | None = None) -> list[Parking]:
        """All that is parked, or one transaction's; oldest first.

        One id may have been parked twice without being put back in between, when it was used anew
        long after: those are two.
        """
        wanted = self._by_identity if identity is None else [identity]
        found = [
            Parking(known, partition, messages, *self._decision(known, partition, messages))
            for known in wanted
            for partition, messages in self._parted(known)
        ]
        return sorted(found, key=lambda parking: (parking.parked_ms, parking.identity))

    # -- records ---------------------------------------------------------------------------------

    def _parked(
        self, place: ParkedAt, stored_ms: int, size_bytes: int, headers: Headers | None, why: Parked
    ) -> None:
        if place in self._ahead:
            self._ahead.discard(place)
            return
        half = read_identity(place[1], stored_ms, size_bytes, headers)
        if isinstance(half, Garbage) or headers is None:
            self.garbage_count += 1
            return
        identity = half.identity
        if self._only not in (None, identity):
            return
        if len(self._messages) >= self.kept_max:
            self.left_out_count += 1
            return
        topic, target_partition = _target(place[1], headers)
        self._messages[place] = ParkedHalf(
            place,
            stored_ms,
            size_bytes,
            identity,
            half.index,
            topic,
            target_partition,
            half.resumed_count,
            why,
        )
        self._by_identity.setdefault(identity, set()).add(place)

    def _resumed(self, note: Resumed) -> None:
        identity = ProducerGroup(note.producer_group), TransactionId(note.transaction_id)
        if len(self._fences) < _AHEAD_MAX:
            self._fences[identity] = max(note.fence, self._fences.get(identity, 0))
        late = self._late.pop(identity, [])
        kept = [decision for decision in late if decision.op_offset >= note.fence]
        if kept:
            self._late[identity] = kept
        for partition, log_offset in note.parked_at:
            place = (partition, log_offset)
            if place in self._messages:
                self._drop(place)
            elif log_offset >= self._read_to.get(partition, 0):
                if len(self._ahead) >= _AHEAD_MAX:
                    # To forget one would mean to put its message back a second time.
                    raise OverflowError("more notes than can be kept speak of unread records")
                self._ahead.add(place)
            elif self.left_out_count > 0 and self._only is None:
                self.left_out_count -= 1

    def _decided(self, note: LateDecision) -> None:
        identity = ProducerGroup(note.producer_group), TransactionId(note.transaction_id)
        if self._only not in (None, identity) or note.op_offset < self._fences.get(identity, 0):
            return
        if identity not in self._late and len(self._late) >= self.kept_max:
            self.left_out_count += 1
            return
        known = self._late.setdefault(identity, [])
        known.append(note)
        if len(known) > _LATE_MAX:
            known.remove(max(known, key=lambda decision: decision.op_offset))

    def _drop(self, place: ParkedAt) -> None:
        identity = self._messages.pop(place).identity
        places = self._by_identity[identity]
        places.discard(place)
        if not places:
            del self._by_identity[identity]

    # -- transactions ----------------------------------------------------------------------------

    def _parted(self, identity: Identity) -> Iterator[tuple[int, list[ParkedHalf]]]:
        """Half partition and messages of each parking."""
        by_partition: dict[int, list[ParkedHalf]] = {}
        for place in self._by_identity.get(identity, ()):
            message = self._messages[place]
            by_partition.setdefault(message.why.half_partition, []).append(message)
        for half_partition in sorted(by_partition):
            for messages in _generations(by_partition[half_partition]):
                yield half_partition, sorted(messages, key=lambda message: message.index)

    def _decision(
        self, identity: Identity, half_partition: int, messages: Iterable[ParkedHalf]
    ) -> tuple[str | None, str | None, str | None]:
        """Its reason, and who gave it. What it was parked with comes before what was said later."""
        for message in messages:
            why = message.why
            if why.decision is not None:
                return why.decision, why.decision_reason, why.decision_source
        late = (
            note for note in self._late.get(identity, ()) if note.half_partition == half_partition
        )
        first = min(late, key=lambda note: note.op_offset, default=None)
        if first is None:
            return None, None, None
        return first.decision, first.reason, first.source


def _target(log_offset: int, headers: Headers) -> tuple[str, int | None]:
    """Where it was to go. It may lie here because just that could not be read."""
    forward = read_forward(log_offset, headers)
    if isinstance(forward, Garbage):
        return (headers[3][1] or b"").decode(errors="replace"), None
    return forward.target_topic, forward.target_partition


def _generations(messages: list[ParkedHalf]) -> Iterator[list[ParkedHalf]]:
    """An id that is used anew gets later halves: where an index comes again, a new life begins.

    So it does with another reason; but what came late belongs to what it came too late for.
    """
    life: list[ParkedHalf] = []
    indexes: set[int] = set()
    reasons: set[str] = set()
    for message in sorted(messages, key=lambda message: (message.why.half_offset, message.place)):
        its_reasons = {message.why.reason} - {LATE}
        if message.index in indexes or (reasons and its_reasons - reasons):
            yield life
            life, indexes, reasons = [], set(), set()
        life.append(message)
        reasons |= its_reasons
        indexes.add(message.index)
    yield life
