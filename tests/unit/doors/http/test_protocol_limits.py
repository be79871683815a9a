"""What one caller may take from a connection and from the door: bytes, time, places."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from harness.defaults import http_limits
from harness.raw_http import Client, json_post, raw_half, request, until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenDoors

HEAD = b"POST /v1/topics/orders/half HTTP/1.1\r\nHost: localhost\r\nHalf-Producer-Group: g\r\n"


@pytest.mark.parametrize(("size", "status"), [(99, 201), (100, 201), (101, 413)])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_the_body_limit_is_exact(
    doors: OpenDoors, size: int, status: int, is_chunked: bool
) -> None:
    client = await doors.client(await doors.open(limits=http_limits(body_bytes_max=100)))
    body = b"x" * size
    if is_chunked:
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (body[:50], body[50:]))
        asked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    else:
        asked = raw_half(body)
    answer = await client.ask(asked)
    assert answer.status == status
    if status == 413:
        assert answer.code == "message_too_large"
        await client.ended()


@pytest.mark.parametrize(
    ("length", "status"),
    [
        (b"0" * 5_000, 201),  # llhttp takes it, and its value is 0
        (b"0" * 5_000 + b"100", 201),
        (b"0" * 5_000 + b"101", 413),
        (b"18446744073709551615", 413),
        (b"9" * 5_000, 400),  # more than llhttp counts
    ],
    ids=["zeros", "fits", "does not fit", "most", "nines"],
)
async def test_a_content_length_of_thousands_of_digits_is_no_fault_of_ours(
    doors: OpenDoors, length: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each one was answered with 500 and put a traceback into the log."""
    client = await doors.client(await doors.open(limits=http_limits(body_bytes_max=100)))
    await client.send(HEAD + b"Content-Length: " + length + b"\r\n\r\n")
    if status == 201:
        await client.send(b"x" * int(length[-5:]))
    assert (await client.answer()).status == status
    assert caplog.text == ""


@pytest.mark.parametrize(("count", "status"), [(126, 201), (127, 201), (128, 431)])
async def test_the_limit_on_the_number_of_headers_is_exact(
    doors: OpenDoors, count: int, status: int
) -> None:
    client = await doors.client(await doors.open(limits=http_limits(header_count_max=130)))
    answer = await client.ask(raw_half(b"v", *[("X", "1")] * count))
    assert answer.status == status


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize(("size", "status"), [(1800, 201), (2100, 431)])
async def test_the_limit_on_the_size_of_headers_holds_however_they_come(
    doors: OpenDoors, size: int, status: int, is_slow: bool
) -> None:
    client = await doors.client(await doors.open(limits=http_limits(header_bytes_max=2000)))
    asked = raw_half(b"v", ("X", "x" * size))
    for start in range(0, len(asked), 40 if is_slow else len(asked)):
        await client.send(asked[start : start + (40 if is_slow else len(asked))])
        await asyncio.sleep(0)
    answer = await client.answer()
    assert answer.status == status
    if status == 431:
        assert answer.code == "headers_too_large"
        await client.ended()


async def test_a_hundred_thousand_headers_are_refused(client: Client) -> None:
    client.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 100_000)
    answer = await client.answer()
    assert (answer.status, answer.code) == (431, "headers_too_large")


async def test_one_endless_header_line_is_refused(client: Client) -> None:
    client.writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 1_000_000)
    assert (await client.answer()).status == 431


async def test_an_endless_header_name_is_refused(client: Client) -> None:
    client.writer.write(b"GET / HTTP/1.1\r\n" + b"x" * 1_000_000)
    assert (await client.answer()).status == 431


async def test_an_endless_target_is_refused(client: Client) -> None:
    client.writer.write(b"GET /" + b"x" * 1_000_000)
    assert (await client.answer()).status == 431


@pytest.mark.parametrize("endless", [b"5;" + b"x" * 500_000, b"0\r\nTrailer: " + b"x" * 500_000])
async def test_endless_bytes_around_a_chunked_body_are_refused(
    client: Client, endless: bytes
) -> None:
    client.writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + endless)
    assert (await client.answer()).status == 431


@pytest.mark.parametrize(
    "part",
    [b"POST /v1/topics", HEAD, HEAD + b"Content-Length: 10\r\n\r\nhalf"],
    ids=["target", "head", "body"],
)
async def test_a_request_that_does_not_arrive_in_time_is_given_up(
    doors: OpenDoors, part: bytes
) -> None:
    door = await doors.open(limits=http_limits(receive_s=0.1))
    client = await doors.client(door)
    await client.send(part)
    answer = await client.answer()
    assert (answer.status, answer.code) == (408, "request_too_slow")
    assert answer.json()["error"]["retryable"] is True
    await client.ended()
    assert door._load.buffered_bytes == 0
    assert doors.service.calls == []


async def test_trickling_bytes_do_not_gain_time(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open(limits=http_limits(receive_s=0.2)))
    await client.send(HEAD + b"Content-Length: 100000\r\n\r\n")

    async def trickle() -> None:
        while True:
            await client.send(b"x")
            await asyncio.sleep(0.005)

    trickling = asyncio.create_task(trickle())
    assert (await client.answer()).status == 408
    trickling.cancel()
    await asyncio.gather(trickling, return_exceptions=True)


async def test_a_steady_caller_whose_requests_straddle_reads_is_not_slow(doors: OpenDoors) -> None:
    """The clock starts anew with each request, not with the first unfinished read."""
    door = await doors.open()
    client = await doors.client(door)
    asked = raw_half()
    await client.send(asked + asked[:20])
    assert (await client.answer()).status == 201
    (connection,) = door._load.connections
    connection._receiving_since_s = -1e9  # as if the second had been on its way for ages
    await client.send(asked[20:] + asked[:20])
    assert (await client.answer()).status == 201
    connection.sweep(asyncio.get_running_loop().time() + 1)
    await client.send(asked[20:])
    assert (await client.answer()).status == 201


async def test_an_idle_connection_is_closed_without_a_word(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(idle_s=0.1))
    silent = await doors.client(door)
    served = await doors.client(door)
    assert (await served.ask(raw_half())).status == 201
    await silent.ended()
    await served.ended()
    await until(lambda: door.connection_count == 0)


async def test_a_connection_in_use_is_not_idle_however_old_it_is(doors: OpenDoors) -> None:
    door = await doors.open()
    client = await doors.client(door)
    await client.ask(raw_half())
    (connection,) = door._load.connections
    connection._idle_since_s = -1e9
    connection.sweep(asyncio.get_running_loop().time())
    assert (await client.ask(raw_half())).status == 201
    connection.sweep(asyncio.get_running_loop().time())
    connection.sweep(asyncio.get_running_loop().time() + 1e6)
    await client.ended()


async def test_a_request_whose_rest_the_door_does_not_read_is_not_slow(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(pipelined_count_max=2))
    client = await doors.client(door)
    doors.service.hold()
    asked = raw_half()
    await client.send(asked * 3 + asked[:-1])
    await doors.service.until_waiting(1)
    (connection,) = door._load.connections
    assert connection._is_reading_paused
    assert connection._receiving_since_s is not None
    connection.sweep(asyncio.get_running_loop().time() + 1e6)
    doors.service.release()
    await client.send(asked[-1:])
    assert [(await client.answer()).status for _ in range(4)] == [201] * 4


async def test_a_request_at_work_is_not_idle(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(idle_s=0.05, receive_s=0.05))
    client = await doors.client(door)
    doors.service.hold()
    await client.send(raw_half())
    await doors.service.until_waiting(1)
    other = await doors.client(door)
    await other.ended()  # at least one sweep has found an idle connection since
    doors.service.release()
    assert (await client.answer()).status == 201


async def test_connections_beyond_the_limit_are_told_so(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(connection_count_max=2, linger_silence_s=0.1))
    first, second = await doors.client(door), await doors.client(door)
    assert (await first.ask(raw_half())).status == 201
    assert (await second.ask(raw_half())).status == 201
    third = await doors.client(door)
    answer = await third.ask(raw_half())
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert answer.header("retry-after") == "1"
    await third.ended()
    assert (await first.ask(raw_half())).status == 201
    await second.close()
    await until(lambda: door.connection_count == 1)
    assert (await (await doors.client(door)).ask(raw_half())).status == 201


async def test_one_address_cannot_take_all_connections(doors: OpenDoors, tmp_path: Path) -> None:
    refused: list[str] = []
    door = await doors.open(
        limits=http_limits(connection_peer_count_max=3, linger_silence_s=0.1),
        unix_path=tmp_path / "door.sock",
        on_refused=refused.append,
    )
    held = [await doors.client(door) for _ in range(3)]
    for one in held:
        assert (await one.ask(raw_half())).status == 201
    answer = await (turned_away := await doors.client(door)).ask(raw_half())
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert "http.connections_peer_max" in answer.body.decode()
    await turned_away.ended()
    assert refused == ["peer"]
    assert door.unix_path is not None
    other = await Client.unix(door.unix_path)
    assert (await other.ask(raw_half())).status == 201, "another address is let in"
    await other.close()
    await held[0].close()
    await until(lambda: door.connection_count == 2)
    assert (await (await doors.client(door)).ask(raw_half())).status == 201


async def test_a_flood_of_connections_is_dropped_without_a_word(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(connection_count_max=1, linger_silence_s=60))
    kept = await doors.client(door)
    assert (await kept.ask(raw_half())).status == 201
    flood = [await doors.client(door) for _ in range(80)]
    await until(lambda: door.connection_count <= 65)
    assert (await kept.ask(raw_half())).status == 201
    with pytest.raises((AssertionError, OSError)):
        await flood[-1].answer()


async def test_under_overload_prepares_are_refused_and_ends_pass(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(in_flight_count_max=2, retry_after_s=7))
    clients = [await doors.client(door) for _ in range(4)]
    await clients[0].ask(raw_half())
    doors.service.hold()
    await clients[0].send(raw_half())
    await clients[1].send(raw_half())
    await doors.service.until_waiting(2)
    body = {"producer_group": "g", "messages": [{"topic": "t", "value": "v"}]}
    for asked in (raw_half(), json_post("/v1/transactions", body)):
        answer = await clients[2].ask(asked)
        assert (answer.status, answer.code) == (429, "overloaded")
        assert answer.header("retry-after") == "7"
        assert answer.json()["error"]["retryable"] is True
    await clients[3].send(request("POST", "/v1/transactions/h.0/commit"))
    await doors.service.until_waiting(3)
    assert door.in_flight_count == 3
    doors.service.release()
    assert (await clients[3].answer()).json()["state"] == "committed"


async def test_bodies_held_at_once_are_bounded(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(buffered_bytes_max=1000, body_bytes_max=900))
    slow, fast = await doors.client(door), await doors.client(door)
    await slow.send(HEAD + b"Content-Length: 800\r\n\r\n" + b"x" * 700)
    await until(lambda: door._load.buffered_bytes == 700)
    refused = await fast.ask(raw_half(b"x" * 400))
    assert (refused.status, refused.code) == (429, "overloaded")
    await slow.send(b"x" * 100)
    assert (await slow.answer()).status == 201
    assert (await (await doors.client(door)).ask(raw_half(b"x" * 400))).status == 201
    assert door._load.buffered_bytes == 0
