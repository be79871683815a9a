"""The application's OpenTelemetry context goes along with the messages that it sends. No I/O.

Nothing is imported for it: a program that traces has imported `opentelemetry` itself, and one that
does not pays one look into `sys.modules`. Each message that has no `traceparent` of its own, or
one whose ids are all zeros, gets that of the span in which it is sent (W3C Trace Context), so
whoever consumes it goes on with the trace. An end tells its own, as requests do.
"""

import re
import sys
from collections.abc import Sequence
from typing import Any, Final

from halfhitch.client.given import PlainMessage

_TRACING: Final = "opentelemetry.trace"
_NAMES: Final = ("traceparent", "tracestate")
#: The standard's "none".
_NONE: Final = re.compile(rb"[0-9a-f]{2}-(?:0{32}-[0-9a-f]{16}|[0-9a-f]{32}-0{16})-.*")
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


def end_line() -> str:
    """A line for the head of an end's request, behind another one; empty without a span."""
    tracing = sys.modules.get(_TRACING)
    if tracing is None:
        return ""
    try:
        context = _current(tracing)
    except Exception:  # noqa: BLE001 - the same
        return ""
    return f"\r\n{_NAMES[0]}: {(context[0][1] or b'').decode()}" if context else ""


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
    if any(name.lower() in _NAMES for name, _ in own):
        if not any(n.lower() == _NAMES[0] and _NONE.fullmatch(value or b"") for n, value in own):
            return message
        own = [(name, value) for name, value in own if name.lower() not in _NAMES]
    return message if len(own) > _HEADERS_MAX else message._replace(headers=[*own, *context])
