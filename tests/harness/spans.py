"""A collector of spans on loopback, as an OpenTelemetry collector takes them; and a list as one."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from halfhitch.service.owner.spans import Span

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{CALLER}-01".encode()


@dataclass
class SpanList:
    """service.owner.spans.SpanSink."""

    spans: list[Span] = field(default_factory=list)

    def put(self, spans: Sequence[Span]) -> None:
        self.spans += spans


@dataclass
class Collector:
    """What came, and what is answered: the last of `statuses` for ever."""

    port: int = 0
    statuses: list[int] = field(default_factory=lambda: [200])
    paths: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    came: threading.Event = field(default_factory=threading.Event)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [
            span
            for body in self.bodies
            for resource in body["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]

    def take(self, path: str, body: bytes) -> int:
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        self.paths.append(path)
        if status == 200:
            self.bodies.append(json.loads(body))
        self.came.set()
        return status


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/json"
            self.send_response(collector.take(self.path, body))
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
