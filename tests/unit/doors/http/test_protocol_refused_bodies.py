"""Who sends a body that is too long learns so: ordinary clients send it all before they read."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from harness.defaults import http_limits
from harness.raw_http import DEADLINE_S, Client, raw_half, request, until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenDoors

HEAD = b"POST /v1/topics/orders/half HTTP/1.1\r\nHost: localhost\r\nHalf-Producer-Group: g\r\n"
MIB = 1024 * 1024
HALF = "/v1/topics/orders/half"


class UnixConnection(http.client.HTTPConnection):
    """http.client over a unix socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.host)


def posted(connection: http.client.HTTPConnection, *, is_chunked: bool) -> tuple[int, str | None]:
    """Status and code of a prepare of 20 MiB."""
    body = b"x" * (20 * MIB)
    headers = {"Half-Producer-Group": "g"}
    try:
        if is_chunked:
            pieces = [body[start : start + MIB] for start in range(0, len(body), MIB)]
            connection.request("POST", HALF, iter(pieces), headers, encode_chunked=True)
        else:
            connection.request("POST", HALF, body, headers)
        response = connection.getresponse()
        assert response.getheader("connection") == "close"
        return response.status, json.loads(response.read())["error"]["code"]
    finally:
        connection.close()


@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_an_ordinary_client_reads_the_413_of_a_body_twenty_times_too_long(
    doors: OpenDoors, is_chunked: bool
) -> None:
    """http.client saw a broken pipe: the door had closed while it was still sending."""
    door = await doors.open(limits=http_limits(body_bytes_max=MIB))
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=DEADLINE_S)
    refused = await asyncio.to_thread(posted, connection, is_chunked=is_chunked)
    assert refused == (413, "message_too_large")
    await until(lambda: door.connection_count == 0)
    assert door._load.buffered_bytes == 0


async def test_over_the_unix_socket_it_is_the_same(doors: OpenDoors, tmp_path: Path) -> None:
    await doors.open(host=None, unix_path=tmp_path / "s", limits=http_limits(body_bytes_max=MIB))
    connection = UnixConnection(str(tmp_path / "s"), timeout=DEADLINE_S)
    refused = await asyncio.to_thread(posted, connection, is_chunked=False)
    assert refused == (413, "message_too_large")


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
@pytest.mark.parametrize("expects", ["100-continue", ""], ids=["waits", "sends at once"])
async def test_curl_reads_it_too(doors: OpenDoors, tmp_path: Path, expects: str) -> None:
    door = await doors.open(limits=http_limits(body_bytes_max=MIB))
    body = tmp_path / "body"
    body.write_bytes(b"x" * (20 * MIB))
    curl = await asyncio.create_subprocess_exec(
        *("curl", "-sS", "-w", "%{http_code}", "-o", str(tmp_path / "answer")),
        *("-H", f"Expect: {expects}", "-H", "Half-Producer-Group: g", "-m", str(DEADLINE_S)),
        *("--data-binary", f"@{body}", f"http://127.0.0.1:{door.port}{HALF}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await curl.communicate()
    assert (out, err) == (b"413", b"")
    assert b"message_too_large" in (tmp_path / "answer").read_bytes()


async def test_the_answer_is_there_before_the_body_has_been_sent(client: Client) -> None:
    await client.send(HEAD + b"Content-Length: %d\r\n\r\n" % (20 * MIB))
    answer = await client.answer()
    assert (answer.status, answer.code) == (413, "message_too_large")


@pytest.mark.parametrize(
    ("expects", "status"), [("100-continue", 413), ("a miracle", 413), ("a miracle ", 417)]
)
async def test_who_waits_with_a_body_that_is_too_long_is_told_at_once(
    doors: OpenDoors, client: Client, expects: str, status: int
) -> None:
    length = 20 * MIB if status == 413 else 1
    asked = request("POST", HALF, [("Expect", expects), ("Content-Length", str(length))])
    answer = await client.ask(asked)
    assert (answer.status, answer.header("connection")) == (status, "close")
    await client.ended()
    assert doors.service.calls == []


async def test_a_refused_caller_that_sends_on_and_on_is_cut_off(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(linger_bytes_max=MIB))
    client = await doors.client(door)
    await client.send(HEAD + b"Content-Length: 100000000\r\n\r\n")
    assert (await client.answer()).status == 413
    sent_bytes = 0

    async def send_for_ever() -> None:
        nonlocal sent_bytes
        while True:
            await client.send(b"x" * 100_000)
            sent_bytes += 100_000

    with pytest.raises(OSError, match=r"reset|Broken pipe|lost"):
        await send_for_ever()
    assert sent_bytes >= MIB
    await until(lambda: door.connection_count == 0)


async def test_a_refused_caller_that_trickles_is_cut_off(doors: OpenDoors) -> None:
    """Each byte shows that it is alive, and gains it no time beyond the whole."""
    door = await doors.open(limits=http_limits(linger_s=0.5, linger_silence_s=60))
    client = await doors.client(door)
    await client.send(HEAD + b"Content-Length: 100000000\r\n\r\n")
    assert (await client.answer()).status == 413

    async def trickle() -> None:
        while True:
            await client.send(b"x")
            await asyncio.sleep(0.01)

    with pytest.raises(OSError, match=r"reset|Broken pipe|lost"):
        await trickle()
    await until(lambda: door.connection_count == 0)


async def test_a_refused_caller_that_stays_and_is_silent_is_cut_off(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(linger_silence_s=0.05))
    client = await doors.client(door)
    assert (await client.ask(b"\x00\r\n\r\n")).status == 400
    await until(lambda: door.connection_count == 0)


async def test_a_refused_caller_that_sends_steadily_is_not_silent(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(linger_silence_s=60, linger_s=1e6))
    client = await doors.client(door)
    await client.send(HEAD + b"Content-Length: 100000000\r\n\r\n")
    assert (await client.answer()).status == 413
    (connection,) = door._load.connections
    connection._heard_s = -1e9  # as if nothing had come for ages
    await client.send(b"x")
    await until(lambda: connection._heard_s > 0)
    connection.sweep(connection._heard_s + 59)
    assert not connection._transport.is_closing()
    connection.sweep(connection._heard_s + 61)
    await until(lambda: door.connection_count == 0)


async def test_what_is_read_to_no_use_is_not_kept_and_others_are_served(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(body_bytes_max=MIB))
    refused, other = await doors.client(door), await doors.client(door)
    await refused.send(HEAD + b"Content-Length: %d\r\n\r\n" % (20 * MIB))
    sending = asyncio.create_task(refused.send(b"x" * (20 * MIB)))
    while not sending.done():
        assert (await other.ask(raw_half())).status == 201
        assert door._load.buffered_bytes == 0
    await sending
    assert (await refused.answer()).status == 413
