"""A data door for producers that answer checks: its streams do what a test tells them.

Owns `ChecksDoor` (a `ScriptedServer` whose `GET /v1/checks` opens a `Stream`, unless `refusals`
are left) and `Stream` (one connection: what is sent on it, and the heartbeats that come back).
`transactions` answered are read from the paths of the ends; the handle `h-t1` is that of `t1`.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.scripted_http import Received, ScriptedServer, Step, TakeOver, like_the_door

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S = 10
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
)
HEARTBEAT = b'{"type":"heartbeat"}\n'


def check_of(transaction_id: str, **changes: Any) -> dict[str, Any]:
    """A check as the door sends it."""
    check = {
        "type": "check",
        "transaction_id": transaction_id,
        "producer_group": "orders",
        "handle": f"h-{transaction_id}",
        "check_number": 1,
        "check_max": 15,
        "age_ms": 6500,
        "messages": [{"topic": "orders", "key": "k", "value": "v", "headers": []}],
    }
    return check | changes


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Stream:
    """One connection of a producer that waits for checks."""

    def __init__(self, request: Received) -> None:
        self.request = request
        self._changed = threading.Condition()
        self._connection: socket.socket | None = None
        self._beat_count = 0
        self._is_over = False
        self._strange = b""

    def serve(self, connection: socket.socket, reader: BinaryIO) -> None:
        """Listen to the producer until either side hangs up."""
        with self._changed:
            self._connection = connection
            self._changed.notify_all()
        try:
            while line := reader.readline(1024):
                with self._changed:
                    self._beat_count += line == b"\r\n"
                    self._strange += b"" if line == b"\r\n" else line
                    self._changed.notify_all()
        except OSError:
            pass  # as good as a proper end
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
        assert self._strange == b"", self._strange

    def head(self) -> None:
        self.raw(HEAD)

    def check(self, transaction_id: str, **changes: Any) -> None:
        self.line(check_of(transaction_id, **changes))

    def line(self, content: Any) -> None:
        self.bytes(json.dumps(content).encode() + b"\n")

    def heartbeat(self) -> None:
        self.bytes(HEARTBEAT)

    def bytes(self, data: bytes) -> None:
        """In one chunk."""
        self.raw(chunk(data))

    def raw(self, data: bytes) -> None:
        """As they are."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._connection is not None, DEADLINE_S)
        assert self._connection is not None
        self._connection.sendall(data)

    def end(self) -> None:
        """The proper end."""
        self.raw(b"0\r\n\r\n")
        self.cut()

    def cut(self) -> None:
        """Hang up."""
        assert self._connection is not None
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the producer was faster

    def until_beats(self, count: int) -> None:
        self._until(lambda: self._beat_count >= count, f"{count} heartbeats")

    def until_over(self) -> None:
        self._until(lambda: self._is_over, "the end")

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def beat_count(self) -> int:
        return self._beat_count

    def _until(self, happened: Callable[[], bool], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(happened, DEADLINE_S), f"{what} did not come"


class ChecksDoor(ScriptedServer):
    """Use it in a `with` block."""

    def __init__(
        self, *refusals: Step, unix: bool = False, ends: Callable[[Received], Step] = like_the_door
    ) -> None:
        super().__init__(unix=unix, otherwise=self._answered)
        self.streams: list[Stream] = []
        self._refusals = deque(refusals)
        self._ends = ends
        self._came = threading.Condition()

    def _answered(self, request: Received) -> Step:
        if not request.target.startswith("/v1/checks"):
            with self._came:
                self._came.notify_all()
            return self._ends(request)
        with self._came:
            if self._refusals:
                return self._refusals.popleft()
            stream = Stream(request)
            self.streams.append(stream)
            self._came.notify_all()
        return TakeOver(stream.serve)

    def refuse(self, *steps: Step) -> None:
        """The next streams."""
        with self._came:
            self._refusals.extend(steps)

    def stream(self, number: int = 1, *, with_head: bool = True) -> Stream:
        """The stream with this number, once it has been asked for."""
        with self._came:
            came = self._came.wait_for(lambda: len(self.streams) >= number, DEADLINE_S)
        assert came, f"{len(self.streams)} of {number} streams were asked for"
        stream = self.streams[number - 1]
        if with_head:
            stream.head()
        return stream

    def ends(self) -> list[tuple[str, str]]:
        """What was answered, as (transaction id, word with its query), in the order of arrival."""
        paths = [r.target.split("/") for r in self.requests if r.method == "POST"]
        return [(path[3].removeprefix("h-"), path[4]) for path in paths if len(path) == 5]

    def until_ends(self, count: int) -> list[tuple[str, str]]:
        """The answers, once so many have come."""
        self.until(lambda: len(self.ends()) >= count)
        return self.ends()

    def until(self, happened: Callable[[], bool]) -> None:
        """Return once that is so; looked at whenever a request has come."""
        with self._came:
            assert self._came.wait_for(happened, DEADLINE_S), f"answers: {self.ends()}"

    def checks_requests(self) -> list[Received]:
        return [r for r in self.requests if r.target.startswith("/v1/checks")]
