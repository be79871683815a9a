"""Records of the audit topic: what became of transactions, for when their logs have forgotten it.

An owner writes one record with each step, in the step's own Kafka transaction. Header TAGS is `s`,
header HALFHITCH the version digit, and the value a JSON array:

    [milliseconds, instance, [entry, ...]]     by the clock of the instance that owned it

    ["e", group, id, ending, life, marker, stored, decided, op offset, source, reason, check count,
     message count, half offset, targets, why]
                                    it has ended; endings are those of done marks (see op.py), the
                                    marker is the HALFHITCH header of its first message
    ["v", group, id, what, milliseconds, number, by, outcome, reason, took]
                                    something happened on the way, or after it

Neither keys nor values are kept: of a key, 64 bits of a hash with its topic. Later releases may add
entries of other kinds, and fields at the end of these; both are passed over here.

The last partition of the topic has indexes. Header TAGS is `i`, header HALFHITCH
`1;partition;first;end;first ms;last ms`: all audit records of that partition from `first` to below
`end`. The value has 32 bits for each transaction and each key of which they speak. An index is only
ever believed where it says no: a mark may be that of another name, and what no index names is read.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple
from zlib import crc32

from halfhitch.core.model import ConflictMark
from halfhitch.wire import headers as names
from halfhitch.wire.half import DIGITS_MAX, Garbage, Headers, unknown_version
from halfhitch.wire.story_entries import (
    Ended,
    Entry,
    Event,
    Target,
    decode_entry,
    decode_record,
    encode,
)

TAG_STORY: Final = b"s"
TAG_INDEX: Final = b"i"
_VERSION: Final = str(names.RECORD_VERSION).encode()
#: Of each mark in an index.
MARK_BYTES: Final = 4
#: What a record takes at most; Kafka's own limit is a little above a million bytes.
RECORD_BYTES_MAX: Final = 700_000
_STORY_HEADERS: Final[Headers] = [(names.TAGS, TAG_STORY), (names.HALFHITCH, _VERSION)]

__all__ = ["Ended", "Entry", "Event", "Index", "StoryRecord", "Target", "encode"]

#: Check `number` is in the log: its producers are asked.
ASKED: Final = "asked"
#: What became of check `number`: `by` was asked, `took_ms` ago.
ANSWERED: Final = "answered"
#: Something lost against the winning decision. `outcome`: the kind, `number`: its op offset. Of a
#: decision `by`: whose it was, `reason`: what it wanted, and why.
CONFLICT: Final = "conflict"
#: A decision that came after it was given up. `outcome`: its tag, `number`: its op offset.
LATE_DECISION: Final = "late_decision"
#: A message that came after it was given up, and is parked with it.
LATE_MESSAGE: Final = "late_message"
#: An operator has put it back, where it was parked. `by` and why; `number`: the note's op offset.
PUT_BACK: Final = "put_back"
#: Of no transaction (group and id are empty): a record of a newer release's form was passed over,
#: by the order of `by`. `outcome`: its log and half partition (half-3), `number`: its offset.
SKIPPED: Final = "skipped"
#: `number` entries could not be written.
LOST: Final = "lost"


class StoryRecord(NamedTuple):
    """What one step has told."""

    log_offset: int
    written_ms: int
    instance: str
    entries: list[Entry]
    unknown_count: int  # of kinds that this release does not know


def conflict(mark: ConflictMark, at_ms: int) -> Event:
    """What lost, and what it had wanted where that is known."""
    lost = mark.lost
    by = reason = None
    if lost is not None:
        by, wanted = lost.source.value, f"wanted {lost.resolution.name.lower()}"
        reason = wanted if lost.reason is None else f"{wanted}: {lost.reason}"
    number, kind = mark.losing_op_offset, mark.kind.value
    return Event(*mark.identity, CONFLICT, at_ms, number, by, kind, reason)


def write(written_ms: int, instance: str, pieces: Sequence[bytes]) -> Iterator[bytes]:
    """Values of records that have these encoded entries."""
    head = b"[%d,%b,[" % (written_ms, encode(instance))
    start = size_bytes = 0
    for place, piece in enumerate(pieces):
        if place > start and size_bytes + len(piece) > RECORD_BYTES_MAX:
            yield head + b",".join(pieces[start:place]) + b"]]"
            start, size_bytes = place, 0
        size_bytes += len(piece) + 1
    if start < len(pieces):
        yield head + b",".join(pieces[start:]) + b"]]"


def story_headers() -> Headers:
    """The headers of an audit record."""
    return _STORY_HEADERS


def read(log_offset: int, value: bytes | None, headers: Headers | None) -> StoryRecord | Garbage:
    """An audit record; total, for anybody may have written it."""
    version = _version(headers, TAG_STORY)
    if version is None:
        return Garbage(log_offset, "not the headers of an audit record")
    if version != _VERSION:
        return unknown_version(log_offset, version)
    try:
        record = decode_record(value or b"")
    except (ValueError, RecursionError) as error:
        return Garbage(log_offset, f"does not parse: {str(error)[:120]}")
    entries: list[Entry] = []
    for raw in record.entries:
        try:
            entries.append(decode_entry(raw))
        except (ValueError, RecursionError):
            continue
    unknown_count = len(record.entries) - len(entries)
    return StoryRecord(log_offset, record.written_ms, record.instance, entries, unknown_count)


def _version(headers: Headers | None, tag: bytes) -> bytes | None:
    if not headers or len(headers) < 2 or tuple(headers[0]) != (names.TAGS, tag):
        return None
    name, value = headers[1]
    return value if name == names.HALFHITCH else None


def needle(text: str) -> bytes:
    """What the value of each record has that names this group or id: quick to look for."""
    return encode(text)


def key_hash(topic: bytes, key: bytes) -> int:
    """Of a key and its topic, never 0."""
    digest = blake2b(topic + b"\0" + key, digest_size=8).digest()
    return int.from_bytes(digest, "big") or 1


# -- indexes -------------------------------------------------------------------------------------


class Index(NamedTuple):
    """Of which transactions and keys these records of one partition speak."""

    partition: int
    first: int
    end: int
    first_ms: int
    last_ms: int
    marks: bytes

    def may_name(self, marks: Sequence[bytes]) -> bool:
        """Whether one of these marks is here; if not, the records surely do not speak of it."""
        return any(_has(self.marks, mark) for mark in marks)


def mark_of(transaction_id: str) -> bytes:
    """Of a transaction, whichever group it is of."""
    return crc32(transaction_id.encode()).to_bytes(MARK_BYTES, "big")


def mark_of_key(hashed: int) -> bytes:
    """Of a key, by its `key_hash`."""
    return (hashed & 0xFFFFFFFF).to_bytes(MARK_BYTES, "big")


def write_index(index: Index) -> tuple[bytes, Headers]:
    """Value and headers of an index."""
    where = b";%d;%d;%d;%d;%d" % index[:5]
    return index.marks, [(names.TAGS, TAG_INDEX), (names.HALFHITCH, _VERSION + where)]


def read_index(log_offset: int, value: bytes | None, headers: Headers | None) -> Index | Garbage:
    """An index; of another version, or garbage: what it names is read as if there were none."""
    found = _version(headers, TAG_INDEX)
    if found is None:
        return Garbage(log_offset, "not the headers of an index")
    version, *numbers = found.split(b";")
    if version != _VERSION:
        return unknown_version(log_offset, version)
    if len(numbers) != 5 or not all(n.isdigit() and len(n) <= DIGITS_MAX for n in numbers):
        return Garbage(log_offset, "an index names five numbers")
    partition, first, end, first_ms, last_ms = map(int, numbers)
    return Index(partition, first, end, first_ms, last_ms, value or b"")


def to_read(
    first: int, end: int, indexes: Sequence[Index], marks: Sequence[bytes]
) -> list[tuple[int, int]]:
    """Where one partition's records from `first` to below `end` may speak of one of these marks.

    Runs in their order, start and end. `indexes`: of this partition, in any order.
    """
    wanted = [(index.first, index.end) for index in indexes if index.may_name(marks)]
    known_to = first
    for index in sorted(indexes, key=lambda index: index.first):
        if index.first > known_to:
            wanted.append((known_to, index.first))  # no index speaks of these
        known_to = max(known_to, index.end)
    wanted.append((known_to, end))
    runs: list[tuple[int, int]] = []
    for start, until in sorted((max(start, first), min(until, end)) for start, until in wanted):
        if runs and start <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(until, runs[-1][1])
        elif start < until:
            runs.append((start, until))
    return runs


def _has(marks: bytes, mark: bytes) -> bool:
    at = marks.find(mark)
    while at >= 0 and at % MARK_BYTES:
        at = marks.find(mark, at + 1)
    return at >= 0
