"""Op records: decisions (tags c, r, p), done marks (d), conflicts (x) and operators' notes (o).

One record may carry many entries: decisions of the same moment share a record, a Kafka transaction
writes one done mark for all it did. Header TAGS holds the tag; the value holds half offsets as
decimal text with trailing commas (`17,18,`), RocketMQ's own form; header HALFHITCH holds the
version digit and a JSON array with one entry each, in the order of the offsets:

    c, r, p [group, id, covered count, number of offsets, source, reason or null]
    d       [group, id, ending, number of offsets]   ending: messages committed, 0: rolled back,
                                                     -1: committed, undeliverable and parked,
                                                     -2: given up undecided, and parked,
                                                     -3: none: appended anew, it goes on
    x       [group, id, "contrary", "uncovered" or "reused", losing op offset, number of offsets]
    o       [group, id, action, operator, reason]    for people: who did what, and why;
                                                     without entries: a proof (see proof.py)

The number says how many of the value's offsets belong to the entry. In a decision they are hints,
in a done mark they are the fact. Reading is strict and total: any record gives entries or
`Garbage`.

The key of a `d` record says what the messages of its transactions were: for each entry how many
digests follow (16 bits), and the digests (64 bits each), by index, big-endian. Releases that know
nothing of digests do not look at keys, and take such a record for what it is to them. For the same
reason "reused" is never in one record with other conflicts: they would pass over all of it.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from halfhitch.core.model import (
    ConflictKind,
    ConflictMark,
    ConflictRead,
    DecisionRead,
    DoneMark,
    DoneRead,
    HalfOffset,
    Identity,
    OpOffset,
    Resolution,
    TimestampMs,
)
from halfhitch.wire import headers as names
from halfhitch.wire.half import DIGITS_MAX, Garbage, Headers, unknown_version
from halfhitch.wire.op_entries import (
    ConflictEntry,
    DecisionEntry,
    DoneEntry,
    NoteEntry,
    decode_conflicts,
    decode_decisions,
    decode_done,
    decode_notes,
    encode,
)

#: What one record takes at most; Kafka's own limit is a little above a million bytes.
MARKS_MAX: Final = 1_000
OFFSETS_MAX: Final = 20_000
RECORD_BYTES_MAX: Final = 700_000
#: Of an entry besides ids and offsets.
_ENTRY_REST_BYTES: Final = 80
#: Of a reason no more is read: ours are shorter, and a stranger's would be kept in memory.
REASON_CHARS_MAX: Final = 320
#: A longer value is not ours.
VALUE_BYTES_MAX: Final = 900_000

__all__ = [
    "ConflictEntry",
    "DecisionEntry",
    "DoneEntry",
    "Entry",
    "MarksRecord",
    "NoteEntry",
    "OpRead",
    "StepRecord",
    "read",
    "tag_of",
    "with_conflicts",
    "write",
    "write_marks",
    "write_note",
    "write_step",
]


class StepRecord(NamedTuple):
    """An op record that an owner writes with a step."""

    value: bytes
    headers: Headers
    key: bytes | None = None


class MarksRecord(NamedTuple):
    """A record with done marks, and what it says."""

    record: StepRecord
    marks: Sequence[DoneMark]

    def read_back(self, op_offset: int, stored_at_ms: int) -> list[DoneRead]:
        """What `read` gives of it, by whoever has written it."""
        at, stored_ms = OpOffset(op_offset), TimestampMs(stored_at_ms)
        return [
            DoneRead(
                at, stored_ms, mark.identity, mark.ending, tuple(mark.half_offsets), mark.digests
            )
            for mark in self.marks
        ]


Entry = DecisionEntry | DoneEntry | ConflictEntry | NoteEntry
OpRead = DecisionRead | DoneRead | ConflictRead

TAG_DONE: Final = b"d"
TAG_CONFLICT: Final = b"x"
TAG_NOTE: Final = b"o"
_RESOLUTION_OF_TAG: Final = {resolution.value.encode(): resolution for resolution in Resolution}
_VERSION: Final = str(names.RECORD_VERSION).encode()
_REUSED: Final = ConflictKind.REUSED
_COUNT: Final = Struct(">H")
_DIGEST: Final = Struct(">Q")
_ONE_DIGEST: Final = Struct(">HQ")
_ONE: Final = _COUNT.pack(1)
#: No note is as short as this: `1[]` is a proof's.
_NOTE_BYTES_MIN: Final = 4


def tag_of(resolution: Resolution) -> bytes:
    """The tag of the op record that says a transaction ended so."""
    return resolution.value.encode()


def write(
    tag: bytes, entries: Sequence[Entry], half_offsets: Iterable[int]
) -> tuple[bytes, Headers]:
    """Value and headers of one op record; `half_offsets` of all entries in their order."""
    value = b"".join([b"%d," % half_offset for half_offset in half_offsets])
    return value, [(names.TAGS, tag), (names.HALFHITCH, _VERSION + encode(entries))]


def write_note(
    identity: Identity, *, action: str, operator: str, reason: str
) -> tuple[bytes, Headers]:
    """An operator's note: nothing follows from it."""
    return write(TAG_NOTE, [NoteEntry(*identity, action, operator, reason)], ())


def write_marks(done: Sequence[DoneMark]) -> list[MarksRecord]:
    """Records with these done marks, cut so that none is too large."""
    records: list[MarksRecord] = []
    for marks in _cut(done):
        entries = [DoneEntry(*mark.identity, mark.ending, len(mark.half_offsets)) for mark in marks]
        half_offsets = [o for mark in marks for o in mark.half_offsets]
        record = StepRecord(*write(TAG_DONE, entries, half_offsets), _key(marks))
        records.append(MarksRecord(record, marks))
    return records


def write_step(done: Sequence[DoneMark], conflicts: Sequence[ConflictMark]) -> list[StepRecord]:
    """The op records of one step, cut so that none is too large."""
    return with_conflicts(write_marks(done), conflicts)


def with_conflicts(
    marks: Sequence[MarksRecord], conflicts: Sequence[ConflictMark]
) -> list[StepRecord]:
    """All op records of a step, in their order.

    First what was reused, so that whoever reads the done mark knows whether it speaks of him; then
    done marks, then the other conflicts.
    """
    done = [written.record for written in marks]
    if not conflicts:
        return done
    reused = [mark for mark in conflicts if mark.kind is _REUSED]
    others = [mark for mark in conflicts if mark.kind is not _REUSED]
    return _write_conflicts(reused) + done + _write_conflicts(others)


def _write_conflicts(conflicts: Sequence[ConflictMark]) -> list[StepRecord]:
    records: list[StepRecord] = []
    for marks in _cut(conflicts):
        entries = [
            ConflictEntry(*mark.identity, mark.kind, mark.losing_op_offset, len(mark.half_offsets))
            for mark in marks
        ]
        half_offsets = [o for mark in marks for o in mark.half_offsets]
        records.append(StepRecord(*write(TAG_CONFLICT, entries, half_offsets)))
    return records


def _key(marks: Sequence[DoneMark]) -> bytes | None:
    if not any(mark.digests for mark in marks):
        return None
    pieces: list[bytes] = []
    for mark in marks:
        digests = mark.digests
        if len(digests) == 1:  # as nearly all are
            pieces.append(_ONE_DIGEST.pack(1, digests[0]))
        else:
            pieces.append(_COUNT.pack(len(digests)))
            pieces.extend([_DIGEST.pack(digest) for digest in digests])
    return b"".join(pieces)


def _read_key(key: bytes, entry_count: int) -> list[tuple[int, ...]]:
    """The digests of each entry; of a key that does not fit, none."""
    found: list[tuple[int, ...]] = []
    position = 0
    try:
        for _ in range(entry_count):
            if key[position : position + 2] == _ONE:  # as nearly all are
                found.append(_DIGEST.unpack_from(key, position + 2))
                position += 10
                continue
            (count,) = _COUNT.unpack_from(key, position)
            found.append(struct.unpack_from(f">{count}Q", key, position + 2))
            position += 2 + 8 * count
    except struct.error:
        return []
    return found if position == len(key) else []


_Mark = TypeVar("_Mark", DoneMark, ConflictMark)


def _cut(marks: Sequence[_Mark]) -> Iterator[Sequence[_Mark]]:
    """Runs of marks that fit into one record. A mark with very many offsets becomes several."""
    run: list[_Mark] = []
    size_bytes = 0
    for mark in marks:
        for piece in _pieces(mark) if len(mark.half_offsets) > OFFSETS_MAX else (mark,):
            # No entry takes more: JSON writes some characters with six bytes, an offset twenty.
            group, transaction_id = piece.identity
            piece_bytes = 6 * (len(group) + len(transaction_id)) + _ENTRY_REST_BYTES
            piece_bytes += 20 * len(piece.half_offsets)
            if isinstance(piece, DoneMark):
                piece_bytes += 8 * len(piece.digests)
            if run and (len(run) >= MARKS_MAX or size_bytes + piece_bytes > RECORD_BYTES_MAX):
                yield run
                run, size_bytes = [], 0
            run.append(piece)
            size_bytes += piece_bytes
    if run:
        yield run


def _pieces(mark: _Mark) -> Iterator[_Mark]:
    for begin in range(0, len(mark.half_offsets), OFFSETS_MAX):
        yield replace(mark, half_offsets=mark.half_offsets[begin : begin + OFFSETS_MAX])


def read(
    op_offset: int,
    stored_at_ms: int,
    value: bytes | None,
    headers: Headers | None,
    key: bytes | None = None,
) -> Sequence[OpRead] | Garbage:
    """All entries of an op record as the ledger's events, or why there are none.

    A note has no events, and is not garbage. Without the key, done marks say no digests.
    """
    if not headers or len(headers) != 2 or headers[0][0] != names.TAGS:
        return Garbage(op_offset, "not exactly the headers TAGS and HALFHITCH")
    tag, body = headers[0][1], headers[1][1]
    if headers[1][0] != names.HALFHITCH or not body:
        return Garbage(op_offset, "no HALFHITCH header")
    if body[:1] != _VERSION:
        return unknown_version(op_offset, body[:1])
    if len(value or b"") > VALUE_BYTES_MAX:
        return Garbage(op_offset, "value too long")
    try:
        half_offsets = _read_offsets(value or b"")
        return _read_entries(
            OpOffset(op_offset), TimestampMs(stored_at_ms), tag, body[1:], half_offsets, key
        )
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return Garbage(op_offset, f"does not parse: {str(error)[:120]}")


def read_notes(headers: Headers | None) -> list[NoteEntry]:
    """What operators' notes this op record has; of any other record, none."""
    if not headers or len(headers) != 2 or headers[0][1] != TAG_NOTE:
        return []
    body = headers[1][1] or b""
    if body[:1] != _VERSION or len(body) < _NOTE_BYTES_MIN:
        return []  # a proof, mostly
    try:
        return decode_notes(body[1:])
    except (ValueError, RecursionError):
        return []


def _read_entries(
    op_offset: OpOffset,
    stored_at_ms: TimestampMs,
    tag: bytes | None,
    body: bytes,
    half_offsets: list[HalfOffset],
    key: bytes | None,
) -> Sequence[OpRead]:
    result: list[OpRead] = []
    position = 0
    resolution = _RESOLUTION_OF_TAG.get(tag or b"")
    if resolution is not None:
        for decision in decode_decisions(body):
            count = decision.offset_count
            hints = half_offsets[position : position + count]
            position += count
            result.append(
                DecisionRead(
                    op_offset,
                    stored_at_ms,
                    (decision.producer_group, decision.transaction_id),
                    resolution,
                    decision.covered_count,
                    decision.source,
                    hints[0] if len(hints) == 1 else max(hints, default=-1),
                    decision.reason and decision.reason[:REASON_CHARS_MAX],
                    () if len(hints) < 2 else tuple(hints),
                )
            )
    elif tag == TAG_DONE:
        marks = decode_done(body)
        digests = _read_key(key, len(marks)) if key else []
        for place, done in enumerate(marks):
            count = done.offset_count
            taken = tuple(half_offsets[position : position + count])
            position += count
            identity = (done.producer_group, done.transaction_id)
            known = digests[place] if digests else ()
            result.append(DoneRead(op_offset, stored_at_ms, identity, done.ending, taken, known))
    elif tag == TAG_CONFLICT:
        for lost in decode_conflicts(body):
            taken = tuple(half_offsets[position : position + lost.offset_count])
            position += lost.offset_count
            identity = (lost.producer_group, lost.transaction_id)
            losing = OpOffset(lost.losing_op_offset)
            result.append(ConflictRead(op_offset, stored_at_ms, identity, lost.kind, losing, taken))
    elif tag == TAG_NOTE:
        decode_notes(body)
    else:
        raise ValueError(f"unknown tag {tag!r}")
    if position != len(half_offsets):
        raise ValueError(f"entries speak of {position} offsets, the value has {len(half_offsets)}")
    return result


def _read_offsets(value: bytes) -> list[HalfOffset]:
    """`17,18,` strictly: digits and trailing commas, nothing else."""
    if not value:
        return []
    parts = value.split(b",")
    if parts.pop():
        raise ValueError("the offsets do not end with a comma")
    for part in parts:
        if not part.isdigit() or len(part) > DIGITS_MAX:
            raise ValueError(f"not a half offset: {part[:DIGITS_MAX]!r}")
    return list(map(int, parts))  # type: ignore[arg-type]  # a NewType is a call at run time
