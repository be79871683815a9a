"""Records of the parked topic: half messages that were given up, and what became of them since.

Header HALFHITCH_PARKED is the version digit and a JSON object; its `kind` says what the record is:

    message     a half message, kept whole: key, value and all headers are those of the half record;
                the object says why it was given up, and where the half lay
    decision    a decision that came after its transaction was parked: no key, no value
    resumed     an operator has put these parked messages back: no key, no value

Nothing is ever changed or deleted here. A message is parked as long as no `resumed` names it; of
several decisions the first in the op log counts.
"""

from typing import Final

import msgspec

from halfhitch.wire import headers as names
from halfhitch.wire.half import Garbage, Headers

_VERSION: Final = str(names.RECORD_VERSION).encode()
#: A reason may quote Kafka; it must not make the record too large.
_DETAIL_MAX: Final = 500


class Parked(msgspec.Struct, frozen=True, omit_defaults=True, tag="message", tag_field="kind"):
    """Why and from where. `reason` is one word; `detail` is a sentence for people."""

    reason: str
    detail: str
    half_partition: int
    half_offset: int
    decision: str | None = None  # c: it was committed and could not be delivered
    check_count: int = 0
    stored_ms: int = 0  # broker time of the first copy of the half
    last_answer: str | None = None  # to the last check: a CheckOutcome
    asked: str | None = None  # who was asked last
    covered_count: int = 0  # of a committed one: how many messages belong together
    decision_reason: str | None = None  # why it was decided, in words of whoever decided
    last_reason: str | None = None  # of the last answer, in the words of who was asked
    decision_source: str | None = None  # who decided: a ResolutionSource; nobody else can say so


class LateDecision(
    msgspec.Struct, frozen=True, omit_defaults=True, tag="decision", tag_field="kind"
):
    """A decision for a transaction that was parked undecided; applied when it is resumed."""

    producer_group: str
    transaction_id: str
    decision: str  # c or r
    half_partition: int
    op_offset: int  # of the decision: the lowest one counts
    reason: str | None = None  # in words of whoever decided
    source: str | None = None  # who that is: a ResolutionSource


class Resumed(msgspec.Struct, frozen=True, omit_defaults=True, tag="resumed", tag_field="kind"):
    """These parked messages were put back into their half partition, once."""

    producer_group: str
    transaction_id: str
    half_partition: int
    parked_at: list[tuple[int, int]]  # (partition, offset) on the parked topic
    resumed_count: int  # 1 for the first time
    reason: str
    operator: str
    decision: str | None = None  # applied with it: c or r
    #: Op offset of the operator's note: decisions that lie below it spoke of the life before.
    fence: int = 0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Parked | LateDecision | Resumed).decode

#: The target does not take the message: it is gone, forbidden, or the message is too large for it.
UNDELIVERABLE: Final = "undeliverable"
#: As many checks as allowed were delivered, and none of them brought a decision.
CHECKS_EXHAUSTED: Final = "checks_exhausted"
#: Older than the age limit, whatever its count.
TOO_OLD: Final = "too_old"
#: The decision covers messages that never arrived.
INCOMPLETE: Final = "incomplete"
#: It was added when its transaction had been given up: it belongs to what is parked already.
LATE: Final = "late"


def parked_headers(half_headers: Headers, why: Parked) -> Headers:
    """The headers of a parked message."""
    short = msgspec.structs.replace(why, detail=why.detail[:_DETAIL_MAX])
    return [*half_headers, (names.HALFHITCH_PARKED, _VERSION + _encode(short))]


def note_headers(note: LateDecision | Resumed) -> Headers:
    """The headers of a note; it has no key and no value."""
    return [(names.HALFHITCH_PARKED, _VERSION + _encode(note))]


def read_parked(
    log_offset: int, headers: Headers | None
) -> Parked | LateDecision | Resumed | Garbage:
    """What the record is. The last header of the name counts: ours is always the last."""
    for name, value in reversed(headers or []):
        if name == names.HALFHITCH_PARKED:
            if not value or value[:1] != _VERSION:
                return Garbage(log_offset, "the version is not known to this release")
            try:
                found: Parked | LateDecision | Resumed = _decode(value[1:])
                return found
            except (ValueError, RecursionError) as error:
                return Garbage(log_offset, f"does not parse: {str(error)[:120]}")
    return Garbage(log_offset, "no HALFHITCH_PARKED header")
