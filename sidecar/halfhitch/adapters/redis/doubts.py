"""A doubt as the fields of a Redis hash, and back.

Owns the hash `tx:...`: FIELDS, `write` and `read`. Every field is text; an absent value is empty.
What is read is garbage unless every field has exactly the form that `write` gives it: then the
whole doubt counts as absent, never as an error.

`delivered` is written only when it equals the check count. A new owner does not know yet whether
the number in the log was delivered; if it wrote its lower figure, it would wipe out the answer that
its predecessor left for it. Nor does it know what was answered to that check, and by whom: of one
that was checked, these fields are written only once there is an answer, and may be missing.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from halfhitch.core.model import Identity
from halfhitch.ports import Doubt

FIELDS: Final = (
    *("group", "id", "topics", "messages", "offsets", "born", "immune_until", "due"),
    *("check_count", "delivered", "last_check", "last_answer", "last_instance"),
    "last_reason",
)
DELIVERED_FIELDS: Final = ("group", "id", "offsets", "check_count", "delivered")

_NUMBER: Final = re.compile(rb"-?[0-9]{1,18}")
_OFFSETS: Final = re.compile(rb"(?:[0-9]{1,19},)*")
_FIELD_BYTES_MAX: Final = 1_048_576
_encode_topics = msgspec.json.Encoder().encode
_decode_topics = msgspec.json.Decoder(tuple[str, ...]).decode


def write(doubt: Doubt) -> list[str | bytes | int]:
    """Names and values in turn, as HSET takes them."""
    group, transaction_id = doubt.identity
    fields: list[str | bytes | int] = [
        *("group", group.encode(errors="surrogatepass")),
        *("id", transaction_id.encode(errors="surrogatepass")),
        *("topics", _encode_topics(doubt.topics)),
        *("messages", doubt.message_count),
        *("offsets", "".join([f"{half_offset}," for half_offset in doubt.half_offsets])),
        *("born", doubt.born_ms),
        *("immune_until", doubt.immune_until_ms),
        *("due", doubt.due_ms),
        *("check_count", doubt.check_count),
        *("last_check", "" if doubt.last_check_ms is None else doubt.last_check_ms),
    ]
    if doubt.last_answer is not None or not doubt.check_count:
        fields += ("last_answer", doubt.last_answer or "")
        fields += ("last_instance", doubt.last_instance or "")
        fields += ("last_reason", doubt.last_reason or "")
    if doubt.delivered == doubt.check_count:
        fields += ("delivered", doubt.delivered)
    return fields


def read(identity: Identity, values: object) -> Doubt | None:
    """From the values of FIELDS in their order; None unless all are what `write` writes."""
    if not isinstance(values, Sequence) or len(values) != len(FIELDS):
        return None
    named = dict(zip(FIELDS, values, strict=True))
    try:
        if not _is_of(identity, named["group"], named["id"]):
            return None
        check_count = _number(named["check_count"])
        return Doubt(
            identity,
            _decode_topics(_bounded(named["topics"])),
            _number(named["messages"]),
            _offsets(named["offsets"]),
            _number(named["born"]),
            _number(named["immune_until"]),
            _number(named["due"]),
            check_count,
            _delivered(check_count, named["delivered"]),
            _number(named["last_check"]) if named["last_check"] != b"" else None,
            _text(named["last_answer"]),
            _text(named["last_instance"]),
            _text(named["last_reason"]),
        )
    except ValueError:  # msgspec's and UnicodeDecodeError are of its kind
        return None


def read_delivered(identity: Identity, half_offsets: tuple[int, ...], values: object) -> int:
    """From the values of DELIVERED_FIELDS; 0 when they do not say, or speak of other copies."""
    if not isinstance(values, Sequence) or len(values) != len(DELIVERED_FIELDS):
        return 0
    group, transaction_id, offsets, check_count, delivered = values
    try:
        if not _is_of(identity, group, transaction_id) or _offsets(offsets) != half_offsets:
            return 0
        return _delivered(_number(check_count), delivered)
    except ValueError:
        return 0


def _is_of(identity: Identity, group: object, transaction_id: object) -> bool:
    return (group, transaction_id) == tuple(
        name.encode(errors="surrogatepass") for name in identity
    )


def _delivered(check_count: int, raw: object) -> int:
    """A number that was never written cannot have been delivered: then nothing is known."""
    delivered = 0 if raw is None else _number(raw)
    return delivered if 0 <= delivered <= check_count else 0


def _bounded(raw: object) -> bytes:
    if not isinstance(raw, bytes) or len(raw) > _FIELD_BYTES_MAX:
        raise ValueError("no field of ours")
    return raw


def _number(raw: object) -> int:
    text = _bounded(raw)
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("no number of ours")
    return int(text)


def _offsets(raw: object) -> tuple[int, ...]:
    text = _bounded(raw)
    if _OFFSETS.fullmatch(text) is None:
        raise ValueError("no offsets of ours")
    return tuple(int(part) for part in text.split(b",")[:-1])


def _text(raw: object) -> str | None:
    return None if raw is None else _bounded(raw).decode() or None
