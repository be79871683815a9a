"""The application's OpenTelemetry context goes along with the messages that it sends. No I/O.

Nothing is imported for it: a program that traces has imported `opentelemetry` itself, and one that
does not pays one look into `sys.modules`. Each message that has no `traceparent` of its own gets
that of the span in which it is sent (W3C Trace Context), so whoever consumes it goes on with the
trace.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final

from halfhitch.client.given import PlainMessage

_TRACING: Final = "opentelemetry.trace"
_NAMES: Final = ("traceparent", "tracestate")
#: A message takes 200 headers: no trace may be the last straw.
_HEADERS_MAX: Final = 198


def traced(messages: Sequence[PlainMessage]) -> Sequence[PlainMessage]:
    """The messages with the context of the current span, if there is one. Raises nothing."""
    tracing = sys.modules.get(_TRACING)
    if tracing is None:
        return messages
    try:
        context = _current(tracing)
    except Exception:  # noqa: BLE001 - whatever a tracing library does: the message is what counts
        return messages
    return [_with(message, context) for message in messages] if context else messages


def _current(tracing: Any) -> list[tuple[str, bytes | None]]:
    span = tracing.get_current_span().get_span_context()
    if not span.is_valid:
        return []
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    found: list[tuple[str, bytes | None]] = [(_NAMES[0], parent.encode("ascii"))]
    state = span.trace_state.to_header() if span.trace_state else ""
    if state:
        found.append((_NAMES[1], state.encode("ascii")))
    return found


def _with(message: PlainMessage, context: list[tuple[str, bytes | None]]) -> PlainMessage:
    own = message.headers
    if len(own) > _HEADERS_MAX or any(name.lower() in _NAMES for name, _ in own):
        return message
    return message._replace(headers=[*own, *context])
