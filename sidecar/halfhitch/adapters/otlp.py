"""Spans to an OpenTelemetry collector: OTLP over HTTP, in JSON, in batches, from a thread.

The form is small and stable (OTLP 1.x), so nothing has to be installed for it. Whoever hands spans
over never waits. While the collector is away they wait here, as far as there is room, and the
oldest are lost; that is counted and logged. No redirect is followed. What cannot be sent at all, in
a way that nobody has thought of, is lost, counted and logged once with its traceback: the thread
goes on.
"""

import json
import logging
import threading
from collections import deque
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ssl import create_default_context
from typing import Any, Final
from urllib.parse import urlsplit

from halfhitch.service.owner.spans import Span

logger = logging.getLogger(__name__)

_WAITING_MAX: Final = 20_000
_TOGETHER_MAX: Final = 512
#: Spans of a moment go together.
_GATHER_S: Final = 0.5
_ANSWER_S: Final = 5.0
_PAUSE_S: Final = 1.0
_PAUSE_MAX_S: Final = 30.0
_STOP_S: Final = 2.0
_REPEATED: Final = frozenset({429, 502, 503, 504})
_PATH: Final = "/v1/traces"
#: Kinds of spans in OTLP; what is not here is internal.
_KINDS: Final = {"halfhitch prepare": 4, "halfhitch forward": 4, "halfhitch check": 3}
_INTERNAL: Final = 1


class OtlpExporter:
    """service.owner.spans.SpanSink."""

    def __init__(
        self, endpoint: str, *, instance: str, version: str, gather_s: float = _GATHER_S
    ) -> None:
        """`endpoint`: http://host:4318, or with the whole path of the traces."""
        parts = urlsplit(endpoint)
        self._endpoint = endpoint
        self._is_encrypted = parts.scheme == "https"
        self._place = parts.hostname or "", parts.port or (443 if self._is_encrypted else 80)
        self._path = parts.path if parts.path.strip("/") else _PATH
        self._resource = _attributes(
            {
                "service.name": "halfhitch",
                "service.instance.id": instance,
                "service.version": version,
            }
        )
        self._scope = {"name": "halfhitch", "version": version}
        self._gather_s = gather_s
        self._waiting: deque[Span] = deque(maxlen=_WAITING_MAX)
        self._lock = threading.Lock()
        self._has_some = threading.Event()
        self._is_stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_surprised = False
        self.sent_count = 0
        self.lost_count = 0

    def put(self, spans: Sequence[Span]) -> None:
        """See service.owner.spans.SpanSink."""
        with self._lock:
            self.lost_count += max(0, len(self._waiting) + len(spans) - _WAITING_MAX)
            self._waiting.extend(spans)
            if self._thread is None and not self._is_stopped.is_set():
                self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
                self._thread.start()
        self._has_some.set()

    def stop(self) -> None:
        """Send what waits, if that goes at once; then nothing more."""
        self._is_stopped.set()
        self._has_some.set()
        thread = self._thread
        if thread is not None:
            thread.join(_STOP_S + _ANSWER_S)

    # -- on the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        pause_s = _PAUSE_S
        while True:
            self._has_some.wait()
            self._is_stopped.wait(self._gather_s)
            self._has_some.clear()
            while batch := self._next():
                trouble = self._send(batch)
                if trouble is None:
                    self.sent_count += len(batch)
                    pause_s = _PAUSE_S
                    continue
                logger.warning(
                    "%d spans are not taken by %s: %s; %d are lost since the start",
                    len(batch), self._endpoint, trouble, self.lost_count,
                    extra={"action": "spans_not_sent"},
                )  # fmt: skip
                if self._is_stopped.is_set():
                    return
                self._is_stopped.wait(pause_s)
                pause_s = min(_PAUSE_MAX_S, pause_s * 2)
            if self._is_stopped.is_set():
                return

    def _next(self) -> list[Span]:
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), _TOGETHER_MAX))]

    def _send(self, batch: Sequence[Span]) -> str | None:
        """Why it was not taken; what may be taken later is put back."""
        try:
            status = self._post(self._body(batch))
        except (OSError, HTTPException) as error:
            self._put_back(batch)
            return f"{type(error).__name__}: {error}"
        except Exception as error:  # nobody else would hear of it, nor start the thread anew
            if not self._is_surprised:
                self._is_surprised = True
                logger.exception("spans cannot be sent", extra={"action": "spans_not_sent"})
            self.lost_count += len(batch)
            return f"{type(error).__name__}: {error}"
        if 200 <= status < 300:
            return None
        if status in _REPEATED:
            self._put_back(batch)
        else:
            self.lost_count += len(batch)
        return f"status {status}"

    def _body(self, batch: Sequence[Span]) -> bytes:
        scoped = {"scope": self._scope, "spans": [_span(span) for span in batch]}
        resource = {"resource": {"attributes": self._resource}, "scopeSpans": [scoped]}
        return json.dumps({"resourceSpans": [resource]}, separators=(",", ":")).encode()

    def _post(self, body: bytes) -> int:
        host, port = self._place
        connection = (
            HTTPSConnection(host, port, timeout=_ANSWER_S, context=create_default_context())
            if self._is_encrypted
            else HTTPConnection(host, port, timeout=_ANSWER_S)
        )
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    def _put_back(self, batch: Sequence[Span]) -> None:
        """Before those that came meanwhile, which are newer."""
        with self._lock:
            room = _WAITING_MAX - len(self._waiting)
            self.lost_count += max(0, len(batch) - room)
            self._waiting.extendleft(reversed(batch[max(0, len(batch) - room) :]))


def _span(span: Span) -> dict[str, Any]:
    """As OTLP's JSON has it: ids in hexadecimal digits, 64-bit numbers as text."""
    shown: dict[str, Any] = {
        "traceId": span.context.trace_id.hex(),
        "spanId": span.context.span_id.hex(),
        "name": span.name,
        "kind": _KINDS.get(span.name, _INTERNAL),
        "startTimeUnixNano": str(span.began_ms * 1_000_000),
        "endTimeUnixNano": str(span.ended_ms * 1_000_000),
        "attributes": _attributes(span.attributes),
        "links": [
            {"traceId": link.trace_id.hex(), "spanId": link.span_id.hex()} for link in span.links
        ],
    }
    if span.parent_id:
        shown["parentSpanId"] = span.parent_id.hex()
    return shown


def _attributes(values: dict[str, str] | dict[str, str | int]) -> list[dict[str, Any]]:
    return [
        {
            "key": key,
            "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value},
        }
        for key, value in values.items()
    ]
