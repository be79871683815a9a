"""Connections: kept, broken, and what is read from them."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import Resolution
from halfhitch.service.checking.api import CheckOutcome
from harness.callback_server import Asked, ok
from harness.callback_world import CHUNKED, COMMIT, SHORT_S, World
from harness.raw_http import until

if TYPE_CHECKING:
    pass


async def pour(writer: asyncio.StreamWriter, head: bytes, piece: bytes) -> int:
    """Write without end; how much was taken until the other side broke it off."""
    writer.write(head)
    sent_bytes = 0
    try:
        while True:
            writer.write(piece)
            await writer.drain()
            sent_bytes += len(piece)
            await asyncio.sleep(0)
    except OSError:
        return sent_bytes


@pytest.mark.parametrize(
    "answer",
    [
        ok({"state": "COMMIT"}, b"Connection: close"),
        b'HTTP/1.0 200 OK\r\n\r\n{"state":"COMMIT"}',
        b'HTTP/1.1 200 OK\r\n\r\n{"state":"COMMIT"}',
        CHUNKED + b'8\r\n{"state"\r\na\r\n:"COMMIT"}\r\n0\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + COMMIT,
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + COMMIT,
        ok({"state": "COMMIT"}, b"Content-Type: text/plain", b"Set-Cookie: a=b"),
    ],
    ids=["close", "1.0", "to-the-end", "chunked", "continue", "early-hints", "odd-headers"],
)
async def test_all_forms_of_a_response_are_read(world: World, answer: bytes) -> None:
    world.server.closes = True
    world.server.answer = answer
    await world.start()
    for _ in range(2):
        assert await world.ask() is CheckOutcome.COMMIT
    assert "cookie" not in {name.lower() for name, _ in world.server.asked[1].headers}


async def test_a_response_may_come_byte_by_byte(world: World) -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        for byte in COMMIT:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    world.server.answer = answer
    await world.start()
    assert await world.ask() is CheckOutcome.COMMIT


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n", b" " * 65536),
        (b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536),
        (CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b"X: " + b"x" * 1000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED + b"0\r\n", b"X: x\r\n"),
    ],
    ids=["1-GB", "to-the-end", "chunks", "headers", "one-header", "interim", "trailers"],
)
async def test_an_answer_without_end_is_cut_off(world: World, head: bytes, piece: bytes) -> None:
    poured: list[int] = []

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        poured.append(await pour(writer, head, piece))

    world.server.answer = answer
    await world.start()
    assert await world.ask() is CheckOutcome.NO_ANSWER
    await until(lambda: poured)
    assert poured[0] < 20_000_000  # the connection was closed; the rest lay in kernel buffers


@pytest.mark.parametrize(
    ("head", "drop"),
    [(b"", b"H"), (b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n", b'{"state":"COMMIT"')],
    ids=["head", "body"],
)
async def test_a_response_that_stalls_is_no_answer_in_time(
    world: World, head: bytes, drop: bytes
) -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(head + drop)
        await asyncio.sleep(60)

    world.server.answer = answer
    await world.start(answer_s=SHORT_S)
    started_s = time.monotonic()
    assert await world.ask() is CheckOutcome.NO_ANSWER
    assert time.monotonic() - started_s >= SHORT_S * 0.8
    assert world.ended == []


@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
async def test_a_connection_that_breaks_without_a_response_is_lost(
    world: World, is_reset: bool
) -> None:
    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        if is_reset:
            plain = writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    world.server.answer = answer
    await world.start()
    assert await world.ask() is CheckOutcome.LOST
    assert len(world.server.asked) == 1  # a new connection: not tried twice


async def test_what_comes_unasked_ends_a_kept_connection(world: World) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def answer(_: Asked, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(COMMIT)

    world.server.answer = answer
    await world.start()
    await world.ask()
    writers[0].write(ok({"state": "ROLLBACK"}))
    await until(lambda: not any(kept.is_open for kept, _ in world.links._client._idle))
    assert await world.ask() is CheckOutcome.COMMIT
    assert world.server.connection_count == 2
    assert [resolution for _, resolution in world.ended] == [Resolution.COMMIT] * 2
