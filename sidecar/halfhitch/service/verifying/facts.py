"""What the topics say of each transaction, kept small: millions of them are normal.

Owns `FactStore`. An entry is a few packed numbers and the transaction id, some 65 bytes; a finished
transaction of one message has two of them (its done mark and its forwarded record), so a million
takes about 140 MB. Entries lie in buckets by a checksum of the id: all that is said of one
transaction is in one bucket, and only one bucket at a time is unpacked into objects.

Pure: no clock, no I/O.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final
from zlib import crc32

from halfhitch.core.model import Resolution

#: (group, transaction id).
Identity = tuple[str, str]

_BUCKET_COUNT: Final = 1_024
_MASK: Final = _BUCKET_COUNT - 1

_FORWARD, _DONE, _HALF, _PARKED, _DROPPED = 1, 2, 3, 4, 5
#: Every entry begins so: kind, length of the id, number of the group.
_HEAD: Final = Struct("<BBI")
#: index, place, log offset, time, whether it is the broker's, digest of the content
_FORWARD_BODY: Final = Struct("<HIQq?8s")
#: ending, half partition, op offset, time, lowest half offset it names (-1: none), before the cut
_DONE_BODY: Final = Struct("<hIQqq?")
#: index, half partition, half offset, stored, topic, fixed partition or -1, fence, born, digest
_HALF_BODY: Final = Struct("<HIQqIiqc8s")
#: messages (below 0: so many were put back), partition, log offset
_PARKED_BODY: Final = Struct("<hIQ")
#: messages, half partition, op offset, lowest half offset
_DROPPED_BODY: Final = Struct("<HIQq")


@dataclass(slots=True)
class Forward:
    """One record on a target topic; `place` numbers topic and partition."""

    index: int
    place: int
    log_offset: int
    time_ms: int
    is_broker_time: bool
    digest: bytes


@dataclass(slots=True)
class Done:
    """One done mark; `is_before_cut`: targets were read to their ends after it was read."""

    ending: int
    half_partition: int
    op_offset: int
    stored_ms: int
    lowest_half_offset: int
    is_before_cut: bool


@dataclass(slots=True)
class Half:
    """One half record. `stored_ms` is the first copy's, `topic` a number."""

    index: int
    half_partition: int
    half_offset: int
    stored_ms: int
    topic: int
    fixed_partition: int
    fence: int
    born: bytes
    digest: bytes


@dataclass(slots=True)
class Decided:
    """A decision behind which no done mark of its transaction was read."""

    resolution: Resolution
    half_partition: int
    op_offset: int
    stored_ms: int
    half_hint: int
    reason: str | None = None  # in words of whoever decided


@dataclass(slots=True)
class Dropped:
    """Messages that lay in the half log, and that the commit of their transaction left out."""

    message_count: int
    half_partition: int
    op_offset: int
    lowest_half_offset: int


@dataclass(slots=True)
class Facts:
    """All that was read of one transaction."""

    identity: Identity
    forwards: list[Forward] = field(default_factory=list)
    dones: list[Done] = field(default_factory=list)
    halves: list[Half] = field(default_factory=list)
    decisions: list[Decided] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    parked_count: int = 0  # messages that were ever parked
    resumed_count: int = 0  # and how many of them were put back
    parked_at: tuple[int, int] | None = None  # partition and log offset of the last of them


class FactStore:
    """Takes entries in any order, gives them back by transaction, as often as it is asked."""

    def __init__(self) -> None:
        self._buckets = [bytearray() for _ in range(_BUCKET_COUNT)]
        self._groups: dict[bytes, int] = {}  # as many as there are producer groups
        #: Taken off when a done mark follows; what stays is unfinished, or a stranger's.
        self._decisions: dict[tuple[bytes, bytes], list[Decided]] = {}

    @property
    def size_bytes(self) -> int:
        """Of the entries."""
        return sum(len(bucket) for bucket in self._buckets)

    def add_forward(
        self,
        group: bytes,
        raw_id: bytes,
        numbers: tuple[int, int, int, int, bool],
        digest: bytes,
    ) -> None:
        """`numbers`: index, place, log offset, time, whether the time is the broker's."""
        self._add(_FORWARD, group, raw_id, _FORWARD_BODY.pack(*numbers, digest))

    def add_done(
        self, group: bytes, raw_id: bytes, numbers: tuple[int, int, int, int, int, bool]
    ) -> None:
        """`numbers`: as the fields of Done."""
        self._decisions.pop((group, raw_id), None)
        self._add(_DONE, group, raw_id, _DONE_BODY.pack(*numbers))

    def add_half(self, group: bytes, raw_id: bytes, half: Half) -> None:
        """A half record."""
        body = _HALF_BODY.pack(
            half.index,
            half.half_partition,
            half.half_offset,
            half.stored_ms,
            half.topic,
            half.fixed_partition,
            half.fence,
            half.born,
            half.digest,
        )
        self._add(_HALF, group, raw_id, body)

    def add_decision(self, group: bytes, raw_id: bytes, decided: Decided) -> None:
        """A decision, in the order of its op partition among the done marks."""
        self._decisions.setdefault((group, raw_id), []).append(decided)

    def add_parked(
        self, group: bytes, raw_id: bytes, message_count: int, partition: int, log_offset: int
    ) -> None:
        """A parked message (1), or a note that so many were put back (below 0)."""
        body = _PARKED_BODY.pack(message_count, partition, log_offset)
        self._add(_PARKED, group, raw_id, body)

    def add_dropped(self, group: bytes, raw_id: bytes, dropped: Dropped) -> None:
        """What the op log says was left out of a commit."""
        body = _DROPPED_BODY.pack(
            min(dropped.message_count, 0xFFFF),
            dropped.half_partition,
            dropped.op_offset,
            dropped.lowest_half_offset,
        )
        self._add(_DROPPED, group, raw_id, body)

    def _add(self, kind: int, group: bytes, raw_id: bytes, body: bytes) -> None:
        number = self._groups.get(group)
        if number is None:
            number = self._groups[group] = len(self._groups)
        bucket = self._buckets[crc32(raw_id) & _MASK]
        bucket += _HEAD.pack(kind, len(raw_id), number) + body + raw_id

    def transactions(self) -> Iterator[Facts]:
        """Every transaction that anything was read of, once."""
        names = list(self._groups)
        late: list[dict[tuple[bytes, bytes], list[Decided]]] = [{} for _ in range(_BUCKET_COUNT)]
        for key, decisions in self._decisions.items():
            late[crc32(key[1]) & _MASK][key] = decisions
        for number, bucket in enumerate(self._buckets):
            known: dict[tuple[bytes, bytes], Facts] = {}
            _unpack(bytes(bucket), names, known)
            for key, decisions in late[number].items():
                _of(known, *key).decisions = decisions
            yield from known.values()


def _of(known: dict[tuple[bytes, bytes], Facts], group: bytes, raw_id: bytes) -> Facts:
    facts = known.get((group, raw_id))
    if facts is None:
        identity = group.decode(errors="replace"), raw_id.decode(errors="replace")
        facts = known[group, raw_id] = Facts(identity)
    return facts


def _unpack(data: bytes, groups: list[bytes], known: dict[tuple[bytes, bytes], Facts]) -> None:
    at, end = 0, len(data)
    while at < end:
        kind, id_bytes, number = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        body = _BODIES[kind]
        fields = body.unpack_from(data, at)
        at += body.size
        facts = _of(known, groups[number], data[at : at + id_bytes])
        at += id_bytes
        if kind == _FORWARD:
            facts.forwards.append(Forward(*fields))
        elif kind == _DONE:
            facts.dones.append(Done(*fields))
        elif kind == _HALF:
            facts.halves.append(Half(*fields))
        elif kind == _DROPPED:
            facts.dropped.append(Dropped(*fields))
        else:
            message_count, partition, log_offset = fields
            facts.parked_at = partition, log_offset
            if message_count < 0:
                facts.resumed_count -= message_count
            else:
                facts.parked_count += message_count


_BODIES: Final = {
    _FORWARD: _FORWARD_BODY,
    _DONE: _DONE_BODY,
    _HALF: _HALF_BODY,
    _PARKED: _PARKED_BODY,
    _DROPPED: _DROPPED_BODY,
}
