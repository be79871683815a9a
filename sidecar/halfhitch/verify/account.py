"""Taking the records of all topics, one by one, into what is known of each transaction.

Owns `Account` and the layout it is told. Records of one partition come in their order; topics may
interleave as they like, but for the order of cuts that run.py keeps. A record that was read before
is passed over, so a reader may begin again somewhere.

Content is not kept, only a digest of it. Pure: no clock, no I/O.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import Final, Protocol

from halfhitch.core.model import COPIED, ConflictKind, ConflictRead, DecisionRead, DoneRead
from halfhitch.errors import TopologyError
from halfhitch.ports import KafkaHeaders, StoredRecord
from halfhitch.verify.facts import (
    BROKER_TIME,
    COMPARED,
    COUNT_BITS,
    DIGEST_BYTES,
    SPOILED,
    Decided,
    Dropped,
    FactStore,
    Half,
    ParkedPart,
    birth_of,
)
from halfhitch.verify.keys import key_hash
from halfhitch.verify.report import Unjudged
from halfhitch.wire import half as half_wire
from halfhitch.wire import headers as names
from halfhitch.wire import op as op_wire
from halfhitch.wire.count import count_in, without_count
from halfhitch.wire.digest import UNKNOWN, digest_of
from halfhitch.wire.forwarded import read_marker
from halfhitch.wire.half import INDEX_MAX, Garbage
from halfhitch.wire.parked import INCOMPLETE, LATE, Parked, Resumed, read_parked

#: Topic and partition.
Place = tuple[str, int]

#: What Kafka's clients call the broker's own time.
_BROKER_TIME: Final = 2
_DIGEST_BYTES: Final = 8
_CHUNK_BITS: Final = 12  # done half offsets are kept as bits, 512 bytes at a time
_FORWARDED: Final = (names.UNIQ_KEY, names.PGROUP, names.HALFHITCH)
#: A clock that went back by more than this is no clock to go by.
_BACK_MS: Final = 3_600_000
_KEY: Final = Struct("<8sq")


class LogRecord(StoredRecord, Protocol):
    """A record of any topic, as a Kafka client's message has it."""

    def partition(self) -> int:
        """Partition number."""
        ...


@dataclass(frozen=True, slots=True)
class Layout:
    """What there is, as it was found before anything was read."""

    half_topic: str
    op_topic: str
    parked_topic: str
    #: The targets that are read: how many partitions each has.
    targets: Mapping[str, int]
    #: Whether no message can have gone to any other topic, as far as was known then.
    has_all_targets: bool = True
    #: Of the targets: the compacted ones, and how long each keeps the note that a key is gone.
    compacted: Mapping[str, int] = field(default_factory=dict)
    #: Of the targets: those of which this user may not learn whether they are.
    unclear: frozenset[str] = frozenset()
    #: Would be targets, but this user may not read them.
    unreadable: frozenset[str] = frozenset()
    #: Stored half watermarks, by half partition; one that is missing is not known.
    watermarks: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class PlaceAccount:
    """How far one partition was read, and since when nothing of it is missing."""

    place: Place
    first_log_offset: int = 0  # that was read
    is_trimmed: bool = False  # something below it was deleted
    next_log_offset: int = 0
    records: int = 0
    ours: int = 0  # forwarded, where it is a target
    first_ms: int | None = None  # of the first record of ours since it was trimmed
    is_broker_time: bool = False
    is_open: bool = False  # an open Kafka transaction hides its end
    #: Of a target, whoever wrote it: times of the first record since it was trimmed, and of the
    #: newest one; whether times went back so far that they tell nothing.
    first_of_any_ms: int | None = None
    newest_of_any_ms: int = 0
    is_muddled: bool = False

    def trimmed(self) -> None:
        """What lay below is gone."""
        self.is_trimmed, self.first_ms, self.first_of_any_ms = True, None, None

    def timed(self, time_ms: int) -> None:
        """Anybody's record."""
        if self.first_of_any_ms is None:
            self.first_of_any_ms = time_ms
        if time_ms > self.newest_of_any_ms:
            self.newest_of_any_ms = time_ms
        elif time_ms < self.newest_of_any_ms - _BACK_MS:
            self.is_muddled = True


class Account:
    """See the module's text. `since_ms`: older transactions are not judged."""

    def __init__(self, layout: Layout, *, since_ms: int = 0) -> None:
        self.layout = layout
        self.since_ms = since_ms
        self.facts = FactStore()
        self.places: list[PlaceAccount] = []
        self._numbers: dict[Place, int] = {}  # place -> its number
        self.topics: list[str] = []  # by number, those that halves name included
        self._topic_numbers: dict[str, int] = {}
        #: Of those that are no targets: why they were not read.
        self.unread: Mapping[str, Unjudged] = {}
        self.garbage: Counter[str] = Counter()  # by topic
        self.is_cut = False
        self.contrary_count = 0  # decisions that came after another one had won
        self.reused_count = 0  # messages whose id and index stood for another one
        self.compared = 0  # forwarded records that say which message they are
        #: Of compacted targets, all records with keys: digest of the key, and time.
        self._keys = {topic: bytearray() for topic in layout.compacted}
        self.gone_count = 0  # half records that were deleted before they had ended
        self.op_gap = False  # records of the op log were deleted before they could be read
        self.newest_ms = 0  # of the op and half log, by the broker
        self._done: dict[tuple[int, int], bytearray] = {}
        self._takers: dict[str, Callable[[PlaceAccount, LogRecord], None]] = {
            layout.half_topic: self._half,
            layout.op_topic: self._op,
            layout.parked_topic: self._parked,
        }

    # -- where the reading is --------------------------------------------------------------------

    def begins(self, place: Place, log_offset: int, *, is_trimmed: bool) -> None:
        """Reading of this partition begins here."""
        account = self.place(place)
        account.first_log_offset = account.next_log_offset = log_offset
        account.is_trimmed = is_trimmed

    def skipped(self, place: Place, log_offset: int) -> None:
        """What lay below was deleted while it was being read."""
        account = self.place(place)
        if log_offset <= account.next_log_offset:
            return
        account.next_log_offset = log_offset
        account.trimmed()
        if not account.records:
            account.first_log_offset = log_offset
        elif place[0] == self.layout.op_topic:
            self.op_gap = True

    def cut(self) -> None:
        """The op log was read to its end; the ends of the targets are taken after this."""
        self.is_cut = True

    def hides(self, places: frozenset[Place]) -> None:
        """These could not be read to their ends: a Kafka transaction is open there."""
        for account in self.places:
            account.is_open = account.place in places

    def place(self, place: Place) -> PlaceAccount:
        """The account of a partition."""
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self.places)
            self.places.append(PlaceAccount(place))
        return self.places[number]

    def join(self, other: "Account") -> None:
        """All but the facts of another one that has read other partitions of the same layout."""
        for theirs in other.places:
            if theirs.records:
                self.place(theirs.place)
                self.places[self._numbers[theirs.place]] = theirs
        for key, chunk in other._done.items():
            mine = self._done.setdefault(key, bytearray(len(chunk)))
            self._done[key] = bytearray(a | b for a, b in zip(mine, chunk, strict=True))
        for topic, keys in other._keys.items():
            self._keys[topic] += keys
        for topic in other.topics:
            self._topic(topic)
        self.garbage += other.garbage
        self.contrary_count += other.contrary_count
        self.reused_count += other.reused_count
        self.compared += other.compared
        self.op_gap |= other.op_gap
        self.newest_ms = max(self.newest_ms, other.newest_ms)

    def number_of(self, topic: str) -> int:
        """Of a topic that halves name."""
        return self._topic(topic)

    def of_topic(self, topic: str) -> list[PlaceAccount]:
        """All partitions of a topic that are read."""
        return [account for account in self.places if account.place[0] == topic]

    def has_later(self, topic: str, key_digest: bytes, since_ms: int) -> bool:
        """Whether a compacted topic has a record with this key of this time or later."""
        keys = self._keys[topic]
        at = keys.find(key_digest)
        while at >= 0:
            if at % _KEY.size == 0 and _KEY.unpack_from(keys, at)[1] >= since_ms:
                return True
            at = keys.find(key_digest, at + 1)
        return False

    def is_done(self, half_partition: int, half_offset: int) -> bool:
        """Whether any done mark names this half."""
        chunk = self._done.get((half_partition, half_offset >> _CHUNK_BITS))
        bit = half_offset & ((1 << _CHUNK_BITS) - 1)
        return chunk is not None and bool(chunk[bit >> 3] & (1 << (bit & 7)))

    def done_count(self, half_partition: int, begin: int, end: int | None) -> int:
        """How many halves from here to there done marks name; None: to the last one."""
        count = 0
        for (partition, number), chunk in self._done.items():
            first = number << _CHUNK_BITS
            if partition != half_partition or (end is not None and first >= end):
                continue
            bits = int.from_bytes(chunk, "little")
            if end is not None:
                bits &= (1 << min(end - first, 1 << _CHUNK_BITS)) - 1
            count += (bits >> max(0, begin - first)).bit_count()
        return count

    # -- records ---------------------------------------------------------------------------------

    def take(self, records: Sequence[LogRecord]) -> None:
        """The next records of any partitions. Raises TopologyError for what is too new for us."""
        for record in records:
            topic = record.topic()
            account = self.place((topic, record.partition()))
            log_offset = record.offset()
            if log_offset < account.next_log_offset:
                continue
            account.next_log_offset = log_offset + 1
            account.records += 1
            self._takers.get(topic, self._target)(account, record)

    def _op(self, account: PlaceAccount, record: LogRecord) -> None:
        stored_ms, op_offset = record.timestamp()[1], record.offset()
        self._noted(account, stored_ms)
        events = op_wire.read(op_offset, stored_ms, record.value(), record.headers(), record.key())
        if isinstance(events, Garbage):
            self._pass(account, events)
            return
        is_before_cut = not self.is_cut and stored_ms >= self.since_ms
        partition = account.place[1]
        for event in events:
            group, raw_id = event.identity[0].encode(), event.identity[1].encode()
            if isinstance(event, DoneRead):
                for half_offset in event.half_offsets:
                    self._mark(partition, half_offset)
                lowest = min(event.half_offsets, default=-1)
                if event.ending == COPIED:  # it goes on; its decision, if there is one, still waits
                    self.facts.add_copied(group, raw_id, lowest)
                    continue
                numbers = (event.ending, partition, op_offset, stored_ms, lowest, is_before_cut)
                count = min(len(event.digests), 0xFFFF) if all(event.digests) else 0
                self.facts.add_done(group, raw_id, (*numbers, count))
            elif isinstance(event, DecisionRead):
                decided = Decided(
                    event.resolution,
                    partition,
                    op_offset,
                    stored_ms,
                    event.half_hint,
                    event.reason,
                    event.covered_count,
                    event.is_about_all,
                    event.source,
                )
                self.facts.add_decision(group, raw_id, decided)
            else:
                self.conflict(partition, event)

    def conflict(self, partition: int, event: ConflictRead) -> None:
        """Something lost against the winning decision."""
        group, raw_id = event.identity[0].encode(), event.identity[1].encode()
        if event.kind is ConflictKind.UNCOVERED:
            lowest = min(event.half_offsets, default=-1)
            dropped = Dropped(len(event.half_offsets), partition, event.op_offset, lowest)
            self.facts.add_dropped(group, raw_id, dropped)
        elif event.kind is ConflictKind.REUSED:
            self.reused_count += len(event.half_offsets)
            self.facts.add_reused(group, raw_id, len(event.half_offsets))
        else:
            self.contrary_count += 1

    def _mark(self, partition: int, half_offset: int) -> None:
        key = partition, half_offset >> _CHUNK_BITS
        chunk = self._done.get(key)
        if chunk is None:
            chunk = self._done[key] = bytearray(1 << (_CHUNK_BITS - 3))
        bit = half_offset & ((1 << _CHUNK_BITS) - 1)
        chunk[bit >> 3] |= 1 << (bit & 7)

    def _half(self, account: PlaceAccount, record: LogRecord) -> None:
        stored_ms, half_offset, headers = record.timestamp()[1], record.offset(), record.headers()
        self._noted(account, stored_ms)
        event = half_wire.read_identity(half_offset, stored_ms, 0, headers)
        if isinstance(event, Garbage):
            self._pass(account, event)
            return
        forward = half_wire.read_forward(half_offset, headers)
        if isinstance(forward, Garbage):
            topic, fixed_partition, digest = -1, -1, bytes(DIGEST_BYTES)
        else:
            topic = self._topic(forward.target_topic)
            fixed = forward.target_partition
            fixed_partition = -1 if fixed is None else fixed
            digest = _digest(record.key(), record.value(), forward.headers)
        half = Half(
            event.index,
            account.place[1],
            half_offset,
            event.first_stored_ms if event.first_stored_ms > 0 else stored_ms,
            topic,
            fixed_partition,
            event.fence,
            b" " if event.born is None else event.born.value.encode(),
            digest,
            -1 if (key := record.key()) is None else key_hash(key),
            _key_digest(key),
        )
        group, transaction_id = event.identity
        self.facts.add_half(group.encode(), transaction_id.encode(), half)

    def _topic(self, topic: str) -> int:
        number = self._topic_numbers.get(topic)
        if number is None:
            number = self._topic_numbers[topic] = len(self.topics)
            self.topics.append(topic)
        return number

    def _target(self, account: PlaceAccount, record: LogRecord) -> None:
        headers = record.headers()
        kind, time_ms = record.timestamp()
        account.is_broker_time = kind == _BROKER_TIME
        account.timed(time_ms)
        keys = self._keys.get(account.place[0])
        if keys is not None and (key := record.key()) is not None:
            keys += _KEY.pack(_key_digest(key), time_ms)
        if not headers or len(headers) < 3 or headers[-1][0] != names.HALFHITCH:
            return  # not ours: anybody may write to a target
        (id_name, raw_id), (group_name, group), (_, marker) = headers[-3:]
        marker = marker or b""
        read = read_marker(marker)
        if (id_name, group_name) != _FORWARDED[:2] or not raw_id or not group:
            self.garbage[account.place[0]] += 1
            return
        if read is None or len(raw_id) > 255 or len(group) > 255:
            self.garbage[account.place[0]] += 1
            return
        index, _ = read
        account.ours += 1
        if account.first_ms is None:
            account.first_ms = time_ms
        number = self._numbers[account.place]
        flags = min(count_in(marker), INDEX_MAX + 1) << COUNT_BITS
        flags |= BROKER_TIME if account.is_broker_time else 0
        said = half_wire.digest_in(marker)
        if said != UNKNOWN:
            self.compared += 1
            key, value = record.key(), record.value()
            is_like = _is_message(said, account.place, key, value, headers[:-3])
            flags |= COMPARED if is_like else COMPARED | SPOILED
        self.facts.add_forward(
            group,
            raw_id,
            (index, number, record.offset(), time_ms, flags),
            _digest(record.key(), record.value(), _as_its_half(headers)),
        )

    def _parked(self, account: PlaceAccount, record: LogRecord) -> None:
        headers, log_offset = record.headers(), record.offset()
        found = read_parked(log_offset, headers)
        partition = account.place[1]
        if isinstance(found, Parked):
            event = half_wire.read_identity(log_offset, 0, 0, headers)
            if isinstance(event, Garbage):
                self._pass(account, event)
                return
            group, transaction_id = event.identity
            is_counted = found.reason != INCOMPLETE
            part = ParkedPart(
                event.index,
                event.resumed_count,
                found.covered_count if is_counted else 0,
                _is_spoiled(record, event.digest),
                (found.half_partition & 0xFFFFFFFF, max(0, found.half_offset)),
                partition,
                log_offset,
                is_late=found.reason == LATE,
            )
            self.facts.add_parked(group.encode(), transaction_id.encode(), part)
        elif isinstance(found, Resumed):
            group_name, id_name = found.producer_group.encode(), found.transaction_id.encode()
            if found.parked_at:
                self.facts.add_resumed(group_name, id_name, len(found.parked_at))
        elif isinstance(found, Garbage):
            self._pass(account, found)

    def _noted(self, account: PlaceAccount, stored_ms: int) -> None:
        if account.first_ms is None:
            account.first_ms = stored_ms
        self.newest_ms = max(self.newest_ms, stored_ms)

    def _pass(self, account: PlaceAccount, garbage: Garbage) -> None:
        topic, partition = account.place
        if garbage.is_newer:
            raise TopologyError(
                f"Record {garbage.log_offset} of {topic}-{partition} was written by a newer "
                f"release ({garbage.reason}): run that release's `halfhitch verify`."
            )
        self.garbage[topic] += 1


def _digest(key: bytes | None, value: bytes | None, headers: KafkaHeaders) -> bytes:
    """Of everything a reader of the target sees: of the message, and of when and where it was born.

    A caller's repeat has the first of the two, and another birth. Lengths go in too: nothing may
    change places.
    """
    *users, (name, marker) = headers
    said = (marker or b"").split(b";", 3)
    birth = b"", b""
    if len(said) == 4:
        version, index, born, rest = said
        instance, _, more = rest.partition(b";")
        birth, marker = (born, instance), b";".join((version, index, more))
    digest = blake2b(digest_size=_DIGEST_BYTES)
    parts = [b"-" if key is None else b"%d" % len(key), b"-" if value is None else b""]
    for header, content in (*users, (name, marker)):
        size = b"-" if content is None else b"%d" % len(content)
        parts += (header.encode(), size, content or b"")
    digest.update(b"\0".join(parts))
    digest.update(key or b"")
    digest.update(value or b"")
    return digest.digest() + birth_of(*birth)


def _as_its_half(headers: KafkaHeaders) -> KafkaHeaders:
    """Of a forwarded record: what its half knew, which is all but the count."""
    name, marker = headers[-1]
    return [*headers[:-1], (name, without_count(marker or b""))]


def _is_message(
    said: int,
    place: tuple[str, int | None],
    key: bytes | None,
    value: bytes | None,
    headers: KafkaHeaders,
) -> bool:
    """Whether this is the message of that digest, had its producer left the partition open or not.

    RocketMQ's clients choose one anew at each try, so theirs never counts.
    """
    topic, partition = place
    return said == digest_of(topic, None, key, value, headers) or (
        partition is not None and said == digest_of(topic, partition, key, value, headers)
    )


def _is_spoiled(record: LogRecord, said: int) -> bool:
    """Whether a parked half is another message than it says itself."""
    headers = (record.headers() or [])[:-1]
    forward = half_wire.read_forward(record.offset(), headers)
    if said == UNKNOWN or isinstance(forward, Garbage):
        return False
    place = forward.target_topic, forward.target_partition
    users = half_wire.user_headers(headers)
    return not _is_message(said, place, record.key(), record.value(), users)


def _key_digest(key: bytes | None) -> bytes:
    return blake2b(key or b"", digest_size=_DIGEST_BYTES).digest()
