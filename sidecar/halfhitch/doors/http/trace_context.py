"""W3C Trace Context of a request: it goes along with the messages that the request brings.

The headers `traceparent` and `tracestate` become headers of each message that has none of the two,
or one whose ids are all zeros (the standard's "none"), and so reach the target's record: whoever
consumes it goes on with the caller's trace. What is not
well-formed is left out and never refused, as the standard asks: tracing must not break what it
looks at. A repeated prepare has another context and is the same prepare (see wire/digest.py).
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from halfhitch.service.api import OutgoingMessage, UserHeaders
from halfhitch.wire.trace_parent import TRACE_PARENT

STATE: Final = "tracestate"

_PARENT: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-[ -~]*)?")
_NONE: Final = re.compile(rb"[0-9a-f]{2}-(?:0{32}-[0-9a-f]{16}|[0-9a-f]{32}-0{16})-.*")
_STATE: Final = re.compile(rb"[ -~]+")
#: Later versions may be longer; the standard asks to pass on a state of 512 characters.
_PARENT_BYTES_MAX: Final = 256
_STATE_BYTES_MAX: Final = 512
#: A message takes 200 headers (service/transactions/admission.py): no trace may be the last straw.
_HEADERS_MAX: Final = 198


def traced(
    messages: Sequence[OutgoingMessage], given: Sequence[tuple[bytes, bytes]]
) -> Sequence[OutgoingMessage]:
    """The messages with the context of their request; `given`: its headers of these names."""
    found = _context(given)
    return [_with(message, found) for message in messages] if found else messages


def _with(message: OutgoingMessage, context: UserHeaders) -> OutgoingMessage:
    own = message.headers
    if any(name.lower() in (TRACE_PARENT, STATE) for name, _ in own):
        parents = (value or b"" for name, value in own if name.lower() == TRACE_PARENT)
        if not any(_NONE.fullmatch(value) for value in parents):
            return message
        own = [(name, value) for name, value in own if name.lower() not in (TRACE_PARENT, STATE)]
    return message if len(own) > _HEADERS_MAX else replace(message, headers=[*own, *context])


def _context(given: Sequence[tuple[bytes, bytes]]) -> UserHeaders:
    parents = [value for name, value in given if name == b"traceparent"]
    if len(parents) != 1 or not _is_parent(parents[0]):
        return []
    found: UserHeaders = [(TRACE_PARENT, parents[0])]
    state = b",".join(value for name, value in given if name == b"tracestate" and value)
    if len(state) <= _STATE_BYTES_MAX and _STATE.fullmatch(state):
        found.append((STATE, state))
    return found


def _is_parent(value: bytes) -> bool:
    parts = _PARENT.fullmatch(value) if len(value) <= _PARENT_BYTES_MAX else None
    if parts is None:
        return False
    version, trace, span, more = parts.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return False
    return bool(trace.strip(b"0") and span.strip(b"0"))
