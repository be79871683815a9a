"""Whom dtm calls: one HTTP server that answers at once and keeps the id of every transaction.

It reads requests just far enough, as bench/load_http.py does, so that it takes as little as it can.
Prepared transactions that the load has left behind are asked about: they are to be rolled back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from bench.children import Order, obey, run

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_DONE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_ROLLED_BACK = (
    b"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: 24\r\n\r\n"
    b'{"dtm_result":"FAILURE"}'
)


class Connection(asyncio.Protocol):
    """Of dtm's; requests come one after the other."""

    def __init__(self, called: Callable[[str], None]) -> None:
        self._called = called
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        data, self._rest = self._rest + data, b""
        while data:
            end = _end_of_request(data)
            if end is None:
                self._rest = data
                return
            self._transport.write(answer(data, self._called))
            data = data[end:]


def _end_of_request(data: bytes) -> int | None:
    head_end = data.find(_HEAD_END)
    if head_end < 0:
        return None
    head = data[:head_end].lower()
    at = head.find(_LENGTH)
    length = int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
    end = head_end + len(_HEAD_END) + length
    return end if len(data) >= end else None


def answer(request: bytes, called: Callable[[str], None]) -> bytes:
    """To one request; tells of a branch that was called."""
    target = request.split(b" ", 2)[1]
    path, _, query = target.partition(b"?")
    if path != b"/branch":
        return _ROLLED_BACK
    gid = next(word[4:] for word in query.split(b"&") if word.startswith(b"gid="))
    called(gid.decode())
    return _DONE


async def main() -> None:
    """`count`: how many calls so far. `take`: the ids of all, and forget them. Else: the port."""
    gids: list[str] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(gids.append), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def carry_out(order: Order) -> Order:
        if "count" in order:
            return {"count": len(gids)}
        if "take" in order:
            taken = gids[:]
            gids.clear()
            return {"gids": taken}
        return {"port": port}

    await obey(carry_out)


if __name__ == "__main__":
    run(main)
