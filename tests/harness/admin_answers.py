"""An admin door that answers /readyz and nothing else, for what waits for a sidecar to be ready."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Answers:
    """`statuses` are given one after the other, the last for ever."""

    def __init__(self, port: int, statuses: list[int]) -> None:
        self.port = port
        self.statuses = statuses
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def readyz(*statuses: int) -> Iterator[Answers]:
    """On a free port, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.asked.append(self.path)
            many = len(answers.statuses) > 1
            self.send_response(answers.statuses.pop(0) if many else answers.statuses[0])
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        answers = Answers(server.server_port, [*statuses])
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield answers
        finally:
            server.shutdown()
            thread.join()
