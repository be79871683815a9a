"""What the topics say of each transaction, kept small: millions of them are normal.

Owns `FactStore`. An entry is a few packed numbers and the transaction id, some 65 bytes; a finished
transaction of one message has two of them (its done mark and its forwarded record), so a million
takes about 140 MB. Entries lie in buckets by a checksum of the id: all that is said of one
transaction is in one bucket, and only one bucket at a time is unpacked into objects.

Pure: no clock, no I/O.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import Any, Final
from zlib import crc32

from halfhitch.core.model import Resolution

#: (group, transaction id).
Identity = tuple[str, str]

BUCKET_COUNT: Final = 1_024
_MASK: Final = BUCKET_COUNT - 1

_FORWARD, _DONE, _HALF, _PARKED, _DROPPED, _COMMITS, _REUSED = range(1, 8)
#: Flags of a forwarded record; what it says of how many there are stands above them.
BROKER_TIME, COMPARED, SPOILED = 1, 2, 4
COUNT_BITS: Final = 3
#: Every entry begins so: kind, length of the id, number of the group.
#: Of a record: what it is, and (as many bytes) when and where it was born.
DIGEST_BYTES: Final = 16
_BORN_DIGITS_MAX: Final = 14
_HEAD: Final = Struct("<BBI")
#: index, place, log offset, time, flags (see Forward), digest of the content
_FORWARD_BODY: Final = Struct("<HIQqH16s")
#: ending, half partition, op offset, time, lowest half offset it names (-1: none), before the cut,
#: number of messages there were (0: not known)
_DONE_BODY: Final = Struct("<hIQqq?H")
#: index, half partition, half offset, stored, topic, fixed partition or -1, fence, born, digest,
#: hash of the key or -1, digest of the key
_HALF_BODY: Final = Struct("<HIQqIiqc16si8s")
#: messages (below 0: so many were put back), partition, log offset, index, life, messages that
#: belong together (0: not known), whether it is not what its half said, half partition and offset,
#: whether it came late
_PARKED_BODY: Final = Struct("<hIQHHH?IQ?")
#: messages, half partition, op offset, lowest half offset
_DROPPED_BODY: Final = Struct("<HIQq")
#: covered count, half partition, op offset, time, whether it is about all, whether it came second
_COMMITS_BODY: Final = Struct("<HIQq??")
#: messages
_REUSED_BODY: Final = Struct("<H")


def birth_of(born: bytes, instance: bytes) -> bytes:
    """The moment first, so that the later one is the larger; 0 where it is none."""
    born_ms = int(born) if born.isdigit() and len(born) <= _BORN_DIGITS_MAX else 0
    return born_ms.to_bytes(6, "big") + blake2b(b"%b;%b" % (born, instance), digest_size=2).digest()


def is_repeat(half: bytes, forward: bytes) -> bool:
    """Whether a half is a caller's repeat of what was forwarded, by their digests: the same
    message, born later."""
    at = DIGEST_BYTES // 2
    nobody = bytes(6)
    return half[:at] == forward[:at] and half[at : at + 6] > forward[at : at + 6] > nobody


@dataclass(slots=True)
class Forward:
    """One record on a target topic; `place` numbers topic and partition.

    `flags`: whether its time is the broker's; whether it says which message it is; whether it is
    another one (what an older release took says nothing); how many messages its transaction has.
    """

    index: int
    place: int
    log_offset: int
    time_ms: int
    flags: int
    digest: bytes

    @property
    def is_broker_time(self) -> bool:
        """Whether `time_ms` is when it was appended; else when somebody says he sent it."""
        return bool(self.flags & BROKER_TIME)

    @property
    def message_count(self) -> int:
        """Of its transaction, as it says; 0 where an older release forwarded it."""
        return self.flags >> COUNT_BITS

    @property
    def is_spoiled(self) -> bool:
        """Whether it is not the message that it says it is."""
        return bool(self.flags & SPOILED)


@dataclass(slots=True)
class Done:
    """One done mark; `is_before_cut`: targets were read to their ends after it was read.

    `message_count`: that were in the half log; 0 where the mark does not tell.
    """

    ending: int
    half_partition: int
    op_offset: int
    stored_ms: int
    lowest_half_offset: int
    is_before_cut: bool
    message_count: int


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
    key_hash: int  # -1: it has no key
    key_digest: bytes


@dataclass(slots=True)
class Decided:
    """A decision behind which no done mark of its transaction was read."""

    resolution: Resolution
    half_partition: int
    op_offset: int
    stored_ms: int
    half_hint: int
    reason: str | None = None  # in words of whoever decided
    covered_count: int = 0
    is_about_all: bool = False  # whatever messages there are; else those that its handle counts
    source: str | None = None  # whose words those are: producer, check, operator or policy


@dataclass(slots=True)
class Commit:
    """A commit of a transaction that was carried out as one, where it says more than its mark."""

    covered_count: int
    half_partition: int
    op_offset: int
    stored_ms: int
    is_about_all: bool
    is_second: bool  # a roll back of these very halves lies before it


@dataclass(slots=True)
class ParkedPart:
    """One message on the parked topic."""

    index: int
    life: int
    together_count: int  # messages that belong together; 0: not known
    is_spoiled: bool  # it is not what its half said
    half: tuple[int, int]  # half partition, half offset
    partition: int
    log_offset: int
    is_late: bool = False  # added when it had been given up: it may stay when others are put back


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
    commits: list[Commit] = field(default_factory=list)
    parked: list[ParkedPart] = field(default_factory=list)  # all that ever were
    resumed_count: int = 0  # and how many of them were put back
    reused_count: int = 0  # other messages that came under its id

    @property
    def all_commits(self) -> list[Commit]:
        """Those behind the last done mark too."""
        late = [d for d in self.decisions if d.resolution is Resolution.COMMIT]
        return self.commits + [
            Commit(
                d.covered_count,
                d.half_partition,
                d.op_offset,
                d.stored_ms,
                d.is_about_all,
                is_second=False,
            )
            for d in late
        ]


#: By group and id, as they stand in the records.
Known = dict[tuple[bytes, bytes], Facts]


class FactStore:
    """Takes entries in any order, gives them back by transaction, as often as it is asked."""

    def __init__(self) -> None:
        self._buckets = [bytearray() for _ in range(BUCKET_COUNT)]
        self._groups: dict[bytes, int] = {}  # as many as there are producer groups
        #: Taken off when a done mark follows; what stays is unfinished, or a stranger's.
        self._decisions: dict[tuple[bytes, bytes], list[Decided]] = {}
        #: Of those that were appended anew and go on: the lowest half offset of an older copy.
        self._copied: dict[tuple[bytes, bytes], int] = {}

    @property
    def groups(self) -> list[str]:
        """All producer groups of which anything was read."""
        found = {*self._groups, *(group for group, _ in self._decisions)}
        return sorted(group.decode(errors="replace") for group in found)

    @property
    def size_bytes(self) -> int:
        """Of the entries."""
        return sum(len(bucket) for bucket in self._buckets)

    # -- given away in pieces (pieces.py) ---------------------------------------------------------

    @property
    def group_names(self) -> tuple[bytes, ...]:
        """By the numbers that entries have for them."""
        return tuple(self._groups)

    def drained(self) -> Iterator[tuple[int, bytes]]:
        """All entries, by the number of their bucket; the store is without them then."""
        for number, bucket in enumerate(self._buckets):
            if bucket:
                yield number, bytes(bucket)
                bucket.clear()

    def waiting(self) -> Iterator[tuple[int, tuple[bytes, bytes], list[Decided]]]:
        """Decisions behind which no done mark was read: bucket, group and id, and they."""
        for key, decisions in self._decisions.items():
            yield crc32(key[1]) & _MASK, key, decisions

    # -- entries ---------------------------------------------------------------------------------

    def add_forward(
        self,
        group: bytes,
        raw_id: bytes,
        numbers: tuple[int, int, int, int, int],
        digest: bytes,
    ) -> None:
        """`numbers`: index, place, log offset, time, flags."""
        self._add(_FORWARD, group, raw_id, _FORWARD_BODY.pack(*numbers, digest))

    def add_done(
        self,
        group: bytes,
        raw_id: bytes,
        numbers: tuple[int, int, int, int, int, bool, int],
    ) -> None:
        """`numbers`: as the fields of Done."""
        decisions = self._decisions.pop((group, raw_id), None)
        ending, lowest_half_offset = numbers[0], numbers[4]
        copied = self._copied.pop((group, raw_id), lowest_half_offset)
        if decisions is not None and ending > 0:
            for commit in _telling(decisions, ending, min(copied, lowest_half_offset)):
                self._add(_COMMITS, group, raw_id, _COMMITS_BODY.pack(*commit))
        self._add(_DONE, group, raw_id, _DONE_BODY.pack(*numbers))

    def add_reused(self, group: bytes, raw_id: bytes, message_count: int) -> None:
        """Other messages came under this id, and were dropped."""
        self._add(_REUSED, group, raw_id, _REUSED_BODY.pack(min(message_count, 0xFFFF)))

    def add_copied(self, group: bytes, raw_id: bytes, lowest_half_offset: int) -> None:
        """Older copies need nothing more; their transaction goes on."""
        known = self._copied.get((group, raw_id), lowest_half_offset)
        self._copied[group, raw_id] = min(known, lowest_half_offset)

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
            half.key_hash,
            half.key_digest,
        )
        self._add(_HALF, group, raw_id, body)

    def add_decision(self, group: bytes, raw_id: bytes, decided: Decided) -> None:
        """A decision, in the order of its op partition among the done marks."""
        self._decisions.setdefault((group, raw_id), []).append(decided)

    def add_parked(self, group: bytes, raw_id: bytes, part: ParkedPart) -> None:
        """A parked message."""
        body = _PARKED_BODY.pack(
            1,
            part.partition,
            part.log_offset,
            part.index,
            min(part.life, 0xFFFF),
            min(part.together_count, 0xFFFF),
            part.is_spoiled,
            *part.half,
            part.is_late,
        )
        self._add(_PARKED, group, raw_id, body)

    def add_resumed(self, group: bytes, raw_id: bytes, message_count: int) -> None:
        """A note that so many parked messages were put back."""
        body = _PARKED_BODY.pack(-min(message_count, 0x7FFF), 0, 0, 0, 0, 0, False, 0, 0, False)
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
        late: list[dict[tuple[bytes, bytes], list[Decided]]] = [{} for _ in range(BUCKET_COUNT)]
        for key, decisions in self._decisions.items():
            late[crc32(key[1]) & _MASK][key] = decisions
        for number, bucket in enumerate(self._buckets):
            known: Known = {}
            unpack(bytes(bucket), names, known)
            for key, decisions in late[number].items():
                facts_of(known, *key).decisions = decisions
            yield from known.values()


def facts_of(known: Known, group: bytes, raw_id: bytes) -> Facts:
    """Those of one transaction, made if there are none."""
    facts = known.get((group, raw_id))
    if facts is None:
        identity = group.decode(errors="replace"), raw_id.decode(errors="replace")
        facts = known[group, raw_id] = Facts(identity)
    return facts


def unpack(data: bytes, groups: Sequence[bytes], known: Known) -> None:
    """The entries of one bucket; `groups`: of the store they were taken by."""
    at, end = 0, len(data)
    while at < end:
        kind, id_bytes, number = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        body = _BODIES[kind]
        fields = body.unpack_from(data, at)
        at += body.size
        facts = facts_of(known, groups[number], data[at : at + id_bytes])
        at += id_bytes
        _note(facts, kind, fields)


def _note(facts: Facts, kind: int, fields: tuple[Any, ...]) -> None:
    if kind == _FORWARD:
        facts.forwards.append(Forward(*fields))
    elif kind == _DONE:
        facts.dones.append(Done(*fields))
    elif kind == _HALF:
        facts.halves.append(Half(*fields))
    elif kind == _DROPPED:
        facts.dropped.append(Dropped(*fields))
    elif kind == _COMMITS:
        facts.commits.append(Commit(*fields))
    elif kind == _REUSED:
        facts.reused_count += fields[0]
    else:
        message_count, partition, log_offset, *said = fields
        if message_count < 0:
            facts.resumed_count -= message_count
        else:
            index, life, together_count, is_spoiled, *half, is_late = said
            where = (half[0], half[1]), partition, log_offset
            facts.parked.append(
                ParkedPart(index, life, together_count, is_spoiled, *where, is_late)
            )


def _telling(
    decisions: Sequence[Decided], ending: int, lowest_half_offset: int
) -> Iterator[tuple[int, int, int, int, bool, bool]]:
    """Of the decisions before a mark: commits that say more than it, as the fields of Commit."""
    is_rolled_back = has_commit = False
    for decided in decisions:
        if decided.resolution is Resolution.COMMIT:
            has_commit = True
            if decided.covered_count > ending or decided.is_about_all or is_rolled_back:
                yield (
                    min(decided.covered_count, 0xFFFF),
                    decided.half_partition,
                    decided.op_offset,
                    decided.stored_ms,
                    decided.is_about_all,
                    is_rolled_back,
                )
        elif decided.resolution is Resolution.ROLLBACK:
            # Only one that names them: others may be meant for an earlier use of the id.
            is_named = 0 <= lowest_half_offset <= decided.half_hint
            is_rolled_back |= is_named and not has_commit


_BODIES: Final = {
    _FORWARD: _FORWARD_BODY,
    _DONE: _DONE_BODY,
    _HALF: _HALF_BODY,
    _PARKED: _PARKED_BODY,
    _DROPPED: _DROPPED_BODY,
    _COMMITS: _COMMITS_BODY,
    _REUSED: _REUSED_BODY,
}
