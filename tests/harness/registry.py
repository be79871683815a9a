"""A schema registry of our own, as far as readers and writers ask it.

GET /schemas/ids/<number>, POST /subjects/<subject>/versions.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Iterator


class Registry:
    """`schemas` by number, and what was asked; `statuses` are given first, one a request."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any] | bytes] = {}
        self.statuses: list[int] = []
        self.asked: list[tuple[str, str | None]] = []
        #: What was registered: subject -> number.
        self.subjects: dict[str, int] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers.get("Authorization")))
                number = self.path.partition("?")[0].rpartition("/")[2]
                # Confluent's writers ask for associations too, which old registries have not.
                found = registry.schemas.get(int(number)) if number.isdecimal() else None
                status = 200 if found is not None else 404
                if registry.statuses:
                    status = registry.statuses.pop(0)
                self.say(status, found if status == 200 else {"error_code": status})

            def do_POST(self) -> None:
                given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                subject = self.path.split("/")[2]
                number = registry.subjects.setdefault(subject, len(registry.subjects) + 1)
                registry.schemas[number] = {"schema": given["schema"]}
                self.say(200, {"id": number, "guid": str(UUID(int=number)), **given})

            def say(self, status: int, answer: Any) -> None:
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def keep(self, number: int, schema: dict[str, Any]) -> None:
        """An Avro schema, as registries give it: text within JSON."""
        self.schemas[number] = {"schema": json.dumps(schema)}


@contextmanager
def registry_server() -> Iterator[Registry]:
    """It answers meanwhile."""
    registry = Registry()
    thread = threading.Thread(target=registry.server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield registry
    finally:
        registry.server.shutdown()
        thread.join()
        registry.server.server_close()
