"""What a step tells of its transactions: entries of the audit topic, and the marks of each.

Not here: when it is told, and where (stories.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from halfhitch.core.model import HalfOffset, Identity, Resolution
from halfhitch.core.step import Step
from halfhitch.core.transaction import Transaction
from halfhitch.ports import Payload
from halfhitch.service.owner.payloads import PayloadCache
from halfhitch.service.owner.spans import Spans
from halfhitch.wire import headers as names
from halfhitch.wire import story
from halfhitch.wire.half import DIGITS_MAX
from halfhitch.wire.story import Ended, Event, Target

#: Of one transaction so many messages are told of.
_TARGETS_MAX: Final = 100

#: Numbers beyond this do not fit everywhere. (Compiled, what is larger would be slow to compare.)
_NATIVE_MAX: Final = (1 << 62) - 1

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT

#: An encoded entry, and the marks by which indexes find it.
Piece = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a step's messages."""

    payload: Mapping[int, Payload]  # of all that it writes
    payloads: PayloadCache  # some of those that it drops are still here
    whys: Mapping[Identity, tuple[str, str]]  # why transactions are parked in it


def of_step(step: Step, known: Known, spans: Spans | None, now_ms: int) -> list[Piece]:
    """In the order of its transactions. `spans`: None where nobody wants to be told of traces."""
    pieces: list[Piece] = []
    for transaction, mark in zip(step.transactions, step.done, strict=True):
        identity = transaction.identity
        piece = None if spans is not None else _of_one(transaction, mark.ending, known)
        if piece is not None:
            pieces.append(piece)
        elif transaction.resolution is not None:
            ended, marks = _ended(transaction, mark.ending, known, spans)
            pieces.append((story.encode(ended), story.mark_of(identity[1]) + marks))
        elif transaction.parked:
            late = Event(*identity, story.LATE_MESSAGE, now_ms)
            pieces.append((story.encode(late), story.mark_of(identity[1])))
    if step.copies or step.conflicts or step.notes:
        events = _events(step, now_ms)
        pieces += [(story.encode(e), story.mark_of(e.transaction_id)) for e in events]
    return pieces


def _events(step: Step, now_ms: int) -> list[Event]:
    found = [
        Event(*order.transaction.identity, story.ASKED, now_ms, order.number)
        for order in step.copies
        if order.is_check
    ]
    found += [story.conflict(lost, now_ms) for lost in step.conflicts]
    found += [
        Event(
            *note.identity,
            story.LATE_DECISION,
            now_ms,
            note.op_offset,
            None if note.source is None else note.source.value,
            note.resolution.value,
            note.reason,
        )
        for note in step.notes
    ]
    return found


def _of_one(transaction: Transaction, ending: int, known: Known) -> Piece | None:
    """Of a transaction of one message, as nearly all are: written from where that one lies."""
    half_offset, source = transaction.first, transaction.source
    if transaction.further is not None or half_offset < 0 or transaction.resolution is None:
        return None
    if transaction.reason is not None or (known.whys and transaction.identity in known.whys):
        return None
    if (
        transaction.stored_at_ms > _NATIVE_MAX
        or transaction.began_at > _NATIVE_MAX
        or transaction.resumed_count > _NATIVE_MAX
    ):
        return None  # a stranger's half has said so: numbers of nineteen digits are read
    found = known.payload.get(half_offset)
    if found is None:
        found = known.payloads.get(half_offset)
    if found is None:
        return None
    return found.story(
        ending,
        transaction.resumed_count,
        transaction.stored_at_ms,
        transaction.decided_ms,
        transaction.decided_op_offset,
        source,  # a member is a text; to reach its `value` is slow
        transaction.check_count,
        ending if ending > 0 else 1,
        transaction.began_at,
    )


def _ended(
    transaction: Transaction, ending: int, known: Known, spans: Spans | None
) -> tuple[Ended, bytes]:
    """And the marks of its keys."""
    if transaction.further is None and transaction.first >= 0:
        halves = [transaction.first]
    else:
        halves = [half_offset for _, half_offset in transaction.messages()]
    found = known.payload
    if transaction.resolution is not _COMMIT:  # nothing is read back to be told of
        found = known.payloads.present(halves)
        found.update((o, known.payload[o]) for o in halves if o in known.payload)
    marker, targets, marks = _targets(halves[:_TARGETS_MAX], found)
    identity, source = transaction.identity, transaction.source
    ended = Ended(
        identity[0],
        identity[1],
        ending,
        transaction.resumed_count,
        marker,
        transaction.stored_at_ms,
        transaction.decided_ms,
        transaction.decided_op_offset,
        None if source is None else source.value,
        transaction.reason,
        transaction.check_count,
        ending if ending > 0 else len(halves),
        transaction.began_at,
        targets,
        ": ".join(known.whys[identity]) if known.whys and identity in known.whys else None,
    )
    if spans is not None:
        first = next((found[half] for half in halves if half in found), None)
        spans.ends(ended, None if first is None else first.headers)
    return ended, marks


def _targets(
    halves: Sequence[HalfOffset], known: Mapping[int, Payload]
) -> tuple[str, list[Target], bytes]:
    """The first message's marker; of all that are known, where they go, and the marks of keys."""
    marker = ""
    targets: list[Target] = []
    marks = b""
    for half_offset in halves:
        found = known.get(half_offset)
        if found is None:
            continue
        told = found.told()
        if told is not None:
            if not targets:
                marker = told[0]
            if told[3]:
                marks += story.mark_of_key(told[3])
            targets.append(Target(told[1], told[2], told[3]))
            continue
        headers = found.headers
        if not targets:
            marker = (headers[0][1] or b"").decode(errors="replace")
        topic = headers[3][1] or b""
        partition = None
        for name, value in headers[4:]:
            if name == names.REAL_QID and value and value.isdigit() and len(value) < DIGITS_MAX:
                partition = int(value)
            elif not names.is_reserved(name):
                break
        hashed = 0
        if found.key is not None:
            hashed = story.key_hash(topic, found.key)
            marks += story.mark_of_key(hashed)
        targets.append(Target(topic.decode(errors="replace"), partition, hashed))
    return marker, targets, marks
