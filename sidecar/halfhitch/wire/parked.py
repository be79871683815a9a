"""Parked records: half messages that were given up, kept whole, with the reason.

Key, value and all headers are those of the half record; header HALFHITCH_PARKED is the version
digit and a JSON object that says why, and where the half lay.
"""

from typing import Final

import msgspec

from halfhitch.wire import headers as names
from halfhitch.wire.half import Garbage, Headers

_VERSION: Final = str(names.RECORD_VERSION).encode()
#: A reason may quote Kafka; it must not make the record too large.
_DETAIL_MAX: Final = 500


class Parked(msgspec.Struct, frozen=True):
    """Why and from where. `reason` is one word; `detail` is a sentence for people."""

    reason: str
    detail: str
    half_partition: int
    half_offset: int
    decision: str | None = None  # c: it was committed and could not be delivered


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Parked).decode

#: The target does not take the message: it is gone, forbidden, or the message is too large for it.
UNDELIVERABLE: Final = "undeliverable"


def parked_headers(half_headers: Headers, why: Parked) -> Headers:
    """The headers of the parked record."""
    short = msgspec.structs.replace(why, detail=why.detail[:_DETAIL_MAX])
    return [*half_headers, (names.HALFHITCH_PARKED, _VERSION + _encode(short))]


def read_parked(log_offset: int, headers: Headers | None) -> Parked | Garbage:
    """Why a record was parked. The last header of the name counts: ours is always the last."""
    for name, value in reversed(headers or []):
        if name == names.HALFHITCH_PARKED:
            if not value or value[:1] != _VERSION:
                return Garbage(log_offset, "the version is not known to this release")
            try:
                return _decode(value[1:])
            except (ValueError, RecursionError) as error:
                return Garbage(log_offset, f"does not parse: {str(error)[:120]}")
    return Garbage(log_offset, "no HALFHITCH_PARKED header")
