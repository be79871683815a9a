"""How many messages a transaction has, as each of its forwarded records says it.

A reader of the targets knows by it when it has seen all of a transaction. The number stands in the
HALFHITCH header, `1;<index>;<born_ms>;<instance>;n=<count>;d=<digest>`, between what readers of
earlier releases look for at the beginning and at the end. A half record has none: until its
transaction is decided nobody knows the number. It is missing on what an earlier release forwarded.
"""

from typing import Final

from halfhitch.wire.half import INDEX_MAX, Garbage, Headers, read_forward

_COUNT: Final = b";n="
_ONE: Final = b";n=1"  # as nearly all are
_DIGEST: Final = b";d="
#: Of the digest with its sign.
_DIGEST_BYTES: Final = 19
_DIGITS_MAX: Final = len(str(INDEX_MAX + 1))


def with_count(marker: bytes, message_count: int) -> bytes:
    """The marker of a half as its forwarded record carries it."""
    at = _digest_at(marker)
    count = _ONE if message_count == 1 else b"%b%d" % (_COUNT, message_count)
    return marker[:at] + count + marker[at:]


def forwarded(headers: Headers, message_count: int) -> Headers:
    """The headers of the record that a half of the usual form becomes."""
    forward = read_forward(0, headers)
    if isinstance(forward, Garbage):
        raise ValueError(forward.reason)
    name, marker = forward.headers[-1]
    forward.headers[-1] = name, with_count(marker or b"", message_count)
    return forward.headers


def count_in(marker: bytes) -> int:
    """How many messages the transaction of this forwarded record has; 0: it does not say."""
    _, sign, digits = marker[: _digest_at(marker)].rpartition(_COUNT)
    if not sign or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        return 0
    return int(digits)


def without_count(marker: bytes) -> bytes:
    """The marker that its half had."""
    if not count_in(marker):
        return marker
    at = _digest_at(marker)
    return marker[:at].rpartition(_COUNT)[0] + marker[at:]


def _digest_at(marker: bytes) -> int:
    """Where the digest begins, or the end."""
    at = len(marker) - _DIGEST_BYTES
    return at if at >= 0 and marker.startswith(_DIGEST, at) else len(marker)
