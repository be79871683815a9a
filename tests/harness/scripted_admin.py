"""A scripted admin door: answers by path."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer

TOKEN = "t" * 16
PARTITION = {
    "partition": 2, "phase": "working", "pending_count": 7, "decided_count": 0, "early_count": 0,
    "finished_count": 5, "half_watermark": 10, "half_position": 12, "op_watermark": 20,
    "op_position": 25, "trouble": None, "oldest_age_s": 65.0, "due_count": 3, "checking_count": 2,
}  # fmt: skip
STATUS = {
    "ready": True, "reasons": [], "info": {"instance": "shop-1", "uptime_s": 1.25, "owner": True},
    "partitions": [PARTITION],
}  # fmt: skip


class Door:
    """A scripted admin door: answers by path."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.tokens: list[str | None] = []
        self.bodies: list[tuple[str | None, object]] = []
        self.location: str | None = None
        #: Status and JSON, whatever is asked.
        self.says_always: tuple[int, object] | None = None
        door = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                door.tokens.append(self.headers.get("Half-Token"))
                status, body = door.answers.get(self.path, (404, b"{}"))
                if door.says_always is not None:
                    status, body = door.says_always[0], json.dumps(door.says_always[1]).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if door.location is not None:
                    self.send_header("Location", door.location)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                door.bodies.append((self.headers.get("Content-Type"), json.loads(body)))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self.server.server_address[1]

    def say(self, path: str, status: int, answer: object) -> None:
        self.answers[path] = (status, json.dumps(answer).encode() if answer is not None else b"")
