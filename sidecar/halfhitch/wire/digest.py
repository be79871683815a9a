"""What a message says, in 64 bits: two halves of one id and index are the same message, or not.

BLAKE2b over, in this order (numbers are 32 bits, big-endian and signed; -1 is null):

    partition fixed by the caller, or -1 | length of topic | of key, or -1 | of value, or -1
    | topic | key | for each header: length of name | of value, or -1 | name | value | value

Lengths come before what they measure, so nothing can move from one field to its neighbour, and null
is not empty. Headers are sorted by name; those of one name keep their order. Two things are left
out, because an honest repeat has others: the order of headers with different names (clients that
keep them in an unordered map send it anew each time), and what tracing puts there (each try has a
span of its own). Nor does it matter when, where and with which immunity a message was prepared.

It tells repeats from mistakes. It is no defence: whoever may prepare under an id may do so first.
The native carrier computes the same (native/src/digest.rs).
"""

from collections.abc import Iterable
from hashlib import blake2b
from operator import itemgetter
from struct import Struct
from typing import Final

#: A record of an older release carries none; neither can such a message be compared. Of 2**64
#: messages one has this digest, and then any other passes for its repeat.
UNKNOWN: Final = 0

_DIGEST_BYTES: Final = 8
_HEAD: Final = Struct(">iiii")
_HEADER_HEAD: Final = Struct(">ii")
_by_name: Final = itemgetter(0)

#: Names under which tracing hands its context on, in small letters.
TRACING: Final = frozenset(
    {
        "traceparent", "tracestate", "baggage",  # W3C
        "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags",
        "uber-trace-id", "sw8", "sw8-correlation", "sw8-x", "elastic-apm-traceparent",
        "x-datadog-trace-id", "x-datadog-parent-id", "x-datadog-sampling-priority",
        "x-datadog-origin", "x-datadog-tags", "x-amzn-trace-id", "x-cloud-trace-context",
    }
)  # fmt: skip


def digest_of(
    topic: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
) -> int:
    """Of one message as its producer gave it; `partition` only where the producer chose it."""
    name = topic.encode()
    parts = [
        _HEAD.pack(
            -1 if partition is None else partition,
            len(name),
            -1 if key is None else len(key),
            -1 if value is None else len(value),
        ),
        name,
    ]
    if key:
        parts.append(key)
    if headers:
        _add_headers(parts, headers)
    if value:
        parts.append(value)
    return int.from_bytes(blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).digest(), "big")


def _add_headers(parts: list[bytes], headers: Iterable[tuple[str, bytes | None]]) -> None:
    for name, value in sorted(headers, key=_by_name):
        if name.lower() in TRACING:
            continue
        raw = name.encode()
        parts.append(_HEADER_HEAD.pack(len(raw), -1 if value is None else len(value)))
        parts.append(raw)
        if value:
            parts.append(value)
