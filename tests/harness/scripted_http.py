"""A real HTTP server that does what a test tells it, over TCP or a unix socket.

Owns `ScriptedServer`: each request takes the next step of the script (an answer, or a misdeed);
when the script is over, `otherwise` answers. What was received is in `requests`, recorded before
the step is taken, so a test that has its answer can look. One thread per connection. It is strict
about what it reads (a request that is not one fails the test at `close`) and knows nothing of
transactions beyond `like_the_door`.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


_DEADLINE_S = 10


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int  # numbered from 1 in the order of arrival
    head: bytes

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(found) < 2, f"{name} was sent {len(found)} times"
        return found[0] if found else None

    def json(self) -> dict[str, object]:
        assert self.header("Content-Type") == "application/json"
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, sent whole or in single bytes; `close` ends the connection after it."""

    status: int = 200
    body: bytes | dict[str, object] = b""
    headers: dict[str, str] = field(default_factory=dict)
    close: bool = False
    byte_by_byte: bool = False

    def render(self) -> bytes:
        body = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        lines = [f"HTTP/1.1 {self.status} Scripted", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.close:
            lines.append("Connection: close")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass(frozen=True, slots=True)
class Bytes:
    """These bytes instead of an answer, then the end of the connection (unless `keep`)."""

    data: bytes
    keep: bool = False


class Misdeed:
    """Something a server should not do."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


#: Close the connection instead of reading (more) from it.
CUT_BEFORE = Misdeed("CUT_BEFORE")
#: Read the request, then close without an answer.
CUT_AFTER = Misdeed("CUT_AFTER")
#: Read the request, then neither answer nor close.
HANG = Misdeed("HANG")


@dataclass(frozen=True, slots=True)
class TakeOver:
    """Hands the connection to the test: the work may read and write, and it ends with the work."""

    work: Callable[[socket.socket, BinaryIO], None]


Step = Answer | Bytes | Misdeed | TakeOver


def refusal(status: int, code: str, message: str = "told to", **more: str) -> Answer:
    """An error as the door gives it; `retry_after` becomes the header."""
    headers = {"Retry-After": more.pop("retry_after")} if "retry_after" in more else {}
    error: dict[str, object] = {"code": code, "message": message, "retryable": status >= 429}
    return Answer(status, {"error": error | more}, headers)


def like_the_door(request: Received) -> Answer:
    """What the data door says when all is well; the handle counts the messages: `h1`, `h2`."""
    path = request.target.partition("?")[0].split("/")
    if path[-1] == "half":
        transaction_id = request.header("Half-Transaction-Id") or "chosen-by-door"
        return Answer(201, headers={"Half-Handle": "h1", "Half-Transaction-Id": transaction_id})
    if path[-1] == "transactions":
        body = request.json()
        answer = {"transaction_id": body["transaction_id"], "state": "pending"}
        return Answer(201, {**answer, "handle": f"h{len(body['messages'])}"})
    if path[-1] == "messages":
        count = int(path[-2].removeprefix("h")) + len(request.json()["messages"])
        return Answer(201, {"transaction_id": "t", "handle": f"h{count}", "state": "pending"})
    if path[-1] == "unknown":
        return Answer(200, {"transaction_id": "t", "state": "pending"})
    if path[-1] in ("commit", "rollback"):
        state = "committed" if path[-1] == "commit" else "rolled_back"
        answer = {"transaction_id": "t", "state": state}
        return Answer(200, answer | ({"visible": True} if "wait=" in request.target else {}))
    view = {"transaction_id": "t", "producer_group": "g", "state": "pending"}
    return Answer(200, {**view, "message_count": 1, "visible": False, "check_count": 0})


class ScriptedServer:
    """Use it in a `with` block; leaving it ends its threads and tells of malformed requests."""

    def __init__(
        self,
        *script: Step,
        unix: bool = False,
        otherwise: Callable[[Received], Step] = like_the_door,
        greets: bool = True,
    ) -> None:
        #: A client's greeting is answered, and is no step of the script.
        self.greets = greets
        self.requests: list[Received] = []
        self.connection_count = 0
        self._script = deque(script)
        self._otherwise = otherwise
        self._lock = threading.Condition()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sockets: set[socket.socket] = set()
        self._bad_requests: list[str] = []
        self._folder = tempfile.TemporaryDirectory(prefix="hh-") if unix else None
        self._listener = self._listen()

    def _listen(self) -> socket.socket:
        if self._folder is None:
            listener = socket.create_server(("127.0.0.1", 0))
            self.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        else:
            path = os.path.join(self._folder.name, "s")  # noqa: PTH118 - a socket's name is text
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(path)
            listener.listen(128)
            self.address = f"unix:{path}"
        return listener

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        assert not self._bad_requests, self._bad_requests

    def then(self, *steps: Step) -> None:
        """Append to the script."""
        with self._lock:
            self._script.extend(steps)

    def targets(self) -> list[str]:
        return [request.target for request in self.requests]

    def until_received(self, count: int) -> None:
        """Return once so many requests have come."""
        with self._lock:
            came = self._lock.wait_for(lambda: len(self.requests) >= count, _DEADLINE_S)
        assert came, f"{len(self.requests)} of {count} requests came within {_DEADLINE_S} s"

    def close(self) -> None:
        """Stop listening and cut every connection."""
        self._over.set()
        _shut(self._listener)
        self.cut_connections()
        for thread in self._threads:
            thread.join(_DEADLINE_S)
            assert not thread.is_alive(), "a thread of the scripted server hangs"
        if self._folder is not None:
            self._folder.cleanup()

    def cut_connections(self) -> None:
        """End every connection, as a restart does."""
        with self._lock:
            for connection in self._sockets:
                _shut(connection, close=False)

    def _spawn(self, work: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._over.is_set():
                    connection.close()
                    return
                self.connection_count += 1
                self._sockets.add(connection)
                number = self.connection_count
            self._spawn(self._serve, connection, number)

    def _serve(self, connection: socket.socket, number: int) -> None:
        reader = connection.makefile("rb")
        try:
            while self._serve_one(connection, reader, number):
                pass
        except (ConnectionError, ValueError):
            pass  # the client went away, or we were closed: both are what tests do
        finally:
            reader.close()
            with self._lock:
                self._sockets.discard(connection)
            _shut(connection)

    def _serve_one(self, connection: socket.socket, reader: object, number: int) -> bool:
        with self._lock:
            if self._script and self._script[0] is CUT_BEFORE:
                self._script.popleft()
                return False
        request = self._read(reader, number)
        if request is None:
            return False
        if request.method == "OPTIONS" and self.greets:
            connection.sendall(Answer(204).render())
            return True
        with self._lock:
            self.requests.append(request)
            self._lock.notify_all()
            step = self._script.popleft() if self._script else None
        step = self._otherwise(request) if step is None else step
        if step is HANG:
            self._over.wait()
        if isinstance(step, Misdeed):
            return False
        if isinstance(step, TakeOver):
            step.work(connection, reader)
            return False
        if isinstance(step, Bytes):
            connection.sendall(step.data)
            return step.keep
        data = step.render()
        pieces: Iterable[bytes] = (
            (data[at : at + 1] for at in range(len(data))) if step.byte_by_byte else (data,)
        )
        for piece in pieces:
            connection.sendall(piece)
        return not step.close

    def _read(self, reader, number: int) -> Received | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = reader.readline(1 << 20)
            if not line:
                if head:
                    self._bad_requests.append(f"cut head {head[:200]!r}")
                return None
            head += line
        lines = head.decode("latin-1").split("\r\n")[:-2]
        method, target, version = lines[0].split(" ")
        headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
        received = Received(method, target, headers, b"", number, head)
        if version != "HTTP/1.1" or received.header("Host") is None:
            self._bad_requests.append(f"not HTTP/1.1: {head[:200]!r}")
        length = int(received.header("Content-Length") or 0)
        body = reader.read(length)
        return Received(method, target, headers, body, number, head)


def _shut(connection: socket.socket, *, close: bool = True) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    if close:
        connection.close()
