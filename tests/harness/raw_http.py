"""HTTP/1.1 from the outside: bytes over a real socket, answers taken apart with h11.

Nothing here knows the door's code; h11 judges whether an answer is well-formed.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DEADLINE_S = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete answer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The value of a header that is there at most once."""
        values = [value for key, value in self.headers if key == name.lower()]
        assert len(values) <= 1, f"{name} is there {len(values)} times"
        return values[0] if values else None

    def json(self) -> Any:
        """The body, which must say that it is JSON."""
        assert self.header("content-type") == "application/json", self
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The stable code of an error."""
        return self.json()["error"]["code"]


def request(
    method: str,
    target: str,
    headers: Iterable[tuple[str, str | bytes]] = (),
    body: bytes = b"",
    *,
    host: str | None = "localhost",
) -> bytes:
    """A request as bytes; Content-Length is added when there is a body or the method is POST."""
    lines = [f"{method} {target} HTTP/1.1".encode()]
    if host is not None:
        lines.append(b"Host: " + host.encode())
    for name, value in headers:
        encoded = value if isinstance(value, bytes) else value.encode()
        lines.append(name.encode() + b": " + encoded)
    names = {name.lower() for name, _ in headers}
    if (body or method == "POST") and not names & {"content-length", "transfer-encoding"}:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])


def raw_half(body: bytes = b"v", *headers: tuple[str, str | bytes], topic: str = "orders") -> bytes:
    """A prepare on the raw route."""
    named = (("Half-Producer-Group", "g"), *headers)
    return request("POST", f"/v1/topics/{topic}/half", named, body)


def json_post(target: str, body: object, *headers: tuple[str, str | bytes]) -> bytes:
    """A POST of JSON; `body` may be bytes that are sent as they are."""
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request("POST", target, (("Content-Type", "application/json"), *headers), encoded)


class Client:
    """One connection to a door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.deadline_s = DEADLINE_S  # for an answer
        self._parser = _new_parser("GET")

    @classmethod
    async def tcp(cls, port: int, host: str = "127.0.0.1") -> Client:
        return cls(*await asyncio.open_connection(host, port))

    @classmethod
    async def unix(cls, path: str) -> Client:
        return cls(*await asyncio.open_unix_connection(path))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(DEADLINE_S):
            await self.writer.drain()

    async def ask(self, data: bytes) -> Answer:
        """Send one request and read its answer."""
        await self.send(data)
        return await self.answer(data.split(b" ", 1)[0].decode("latin-1"))

    async def answer(self, method: str = "GET") -> Answer:
        """The next final answer; fails if the connection ends before it is complete."""
        interim, answer = await self._next(method)
        assert not interim, f"unasked interim answers: {interim}"
        assert answer is not None, "the connection was closed without an answer"
        return answer

    async def continue_then_answer_after(self, body: bytes) -> Answer:
        """Wait for 100 Continue, then send the body and read the answer."""
        await self.told_to_go_on()
        await self.send(body)
        return await self.answer("POST")

    async def told_to_go_on(self) -> None:
        """Read 100 Continue, which must be all there is."""
        parser = self._parser_of_next_answer("POST")
        async with asyncio.timeout(DEADLINE_S):
            while (event := parser.next_event()) is h11.NEED_DATA:
                parser.receive_data(await self.reader.read(65536))
        assert isinstance(event, h11.InformationalResponse), event
        assert event.status_code == 100
        assert parser.next_event() is h11.NEED_DATA

    @property
    def left_over(self) -> bytes:
        """What was read behind the last answer."""
        return self._parser.trailing_data[0]

    async def rest(self, method: str = "GET") -> list[Answer]:
        """All further answers until the connection ends, each of them well-formed."""
        answers = []
        while (answer := (await self._next(method))[1]) is not None:
            answers.append(answer)
        return answers

    async def ended(self) -> None:
        """Return once the door has closed the connection; it must not have said anything more."""
        async with asyncio.timeout(DEADLINE_S):
            data = await self.reader.read()
        assert data == b"", data
        assert self.left_over == b"", self.left_over

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass  # the other side was faster

    def _parser_of_next_answer(self, method: str) -> h11.Connection:
        left_over = self.left_over
        self._parser = _new_parser(method)
        if left_over:
            self._parser.receive_data(left_over)
        return self._parser

    async def _next(self, method: str) -> tuple[list[int], Answer | None]:
        has_begun = bool(self.left_over)
        parser = self._parser_of_next_answer(method)
        interim: list[int] = []
        head: h11.Response | None = None
        body = b""
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                async with asyncio.timeout(self.deadline_s):
                    data = await self.reader.read(65536)
                if not data and not has_begun:
                    return interim, None
                has_begun = True
                parser.receive_data(data)
            elif isinstance(event, h11.InformationalResponse):
                interim.append(event.status_code)
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                assert isinstance(event, h11.EndOfMessage), event
                assert head is not None
                headers = tuple((n.decode(), v.decode("latin-1")) for n, v in head.headers)
                return interim, Answer(head.status_code, headers, body)


def _new_parser(method: str) -> h11.Connection:
    """A parser for one answer to `method`."""
    parser = h11.Connection(h11.CLIENT)
    valid = method if method.isascii() and method.isalpha() else "GET"
    parser.send(h11.Request(method=valid, target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    return parser


async def until(condition: Callable[[], object]) -> None:
    """Return once the condition holds; fails after the deadline."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.002)
