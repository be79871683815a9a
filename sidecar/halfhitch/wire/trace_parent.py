"""Which trace somebody goes on with, if he records it: `traceparent` of W3C Trace Context.

Read from headers of messages and of requests, which are looked at for each transaction: what is not
there costs a look at the names. Not here: how a context gets from a request into its messages
(doors/http/trace_context.py), what is told of a trace (service/owner/spans.py).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from halfhitch.wire.half import Headers

TRACE_PARENT: Final = "traceparent"
_NAME_CHARACTERS: Final = len(TRACE_PARENT)
_VALUE: Final = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_SAMPLED: Final = 1


@dataclass(frozen=True, slots=True)
class SpanContext:
    """Which span of which trace."""

    trace_id: bytes  # 16
    span_id: bytes  # 8


def read_sampled(value: bytes | None) -> SpanContext | None:
    """The span that this value names, if it is well-formed and recorded."""
    found = _VALUE.fullmatch(value or b"")
    if found is None or not int(found[3], 16) & _SAMPLED:
        return None
    if not found[1].strip(b"0") or not found[2].strip(b"0"):
        return None  # the standard's word for "none"
    return SpanContext(bytes.fromhex(found[1].decode()), bytes.fromhex(found[2].decode()))


def sampled_parent(headers: Headers | None) -> SpanContext | None:
    """The caller's span, if a message has it and it is recorded."""
    for name, value in headers or ():
        if len(name) == _NAME_CHARACTERS and name.lower() == TRACE_PARENT:
            return read_sampled(value)
    return None


def sampled_trace(headers: Headers | None) -> str | None:
    """The id of that trace, as people and tracing systems write it."""
    if not headers:
        return None
    parent = sampled_parent(headers)
    return None if parent is None else parent.trace_id.hex()


def sampled_request(given: Sequence[tuple[bytes, bytes]]) -> str | None:
    """The same of a request; `given`: its headers of a trace's context, names in lower case."""
    parents = [value for name, value in given if name == b"traceparent"]
    parent = read_sampled(parents[0]) if len(parents) == 1 else None
    return None if parent is None else parent.trace_id.hex()
