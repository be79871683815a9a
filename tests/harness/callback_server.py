"""A callback's server that answers byte for byte as it is told, for tests of the calling side.

Requests are taken apart with h11, which also judges whether they are well-formed.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import h11

if TYPE_CHECKING:
    import ssl


@dataclass
class Asked:
    """One request as it came."""

    target: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def check(self) -> dict[str, Any]:
        decoded: dict[str, Any] = json.loads(self.body)
        return decoded


def ok(body: bytes | object, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A response with a length; `body` that is no bytes is sent as JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(raw), *headers]
    return b"\r\n".join([*head, b"", raw])


@dataclass
class CallbackServer:
    """Answers every request with `answer`: bytes, or something that writes as it likes.

    `closes` ends the connection behind each answer.
    """

    answer: Any = b""
    closes: bool = False
    asked: list[Asked] = field(default_factory=list)
    connection_count: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def start(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self._server = await asyncio.start_server(self._serve, host, self.port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse connections from now on, and break those that are open."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/checks?of=me"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connection_count += 1
        try:
            await self._converse(reader, writer)
        except (OSError, asyncio.CancelledError, h11.RemoteProtocolError):
            pass  # the other side has gone, or speaks something else, or the test is over
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left_over = b""
        while True:
            parser = h11.Connection(h11.SERVER)
            if left_over:
                parser.receive_data(left_over)
            asked = await _request(parser, reader)
            if asked is None:
                return
            left_over = parser.trailing_data[0]
            self.asked.append(asked)
            if callable(self.answer):
                await self.answer(asked, writer)
            else:
                writer.write(self.answer)
                await writer.drain()
            if self.closes:
                writer.close()
                return


async def _request(parser: h11.Connection, reader: asyncio.StreamReader) -> Asked | None:
    head: h11.Request | None = None
    body = b""
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            data = await reader.read(65536)
            if not data and head is None:
                return None
            parser.receive_data(data)
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            headers = [(name.decode(), value.decode()) for name, value in head.headers.raw_items()]
            return Asked(head.target.decode(), headers, body)
        else:
            return None
