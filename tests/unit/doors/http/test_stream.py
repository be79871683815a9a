"""The check stream, over real sockets: what opens it, what it sends, and every way it ends."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.observability.lines import LineBudget
from halfhitch.service.checking.api import AT_ONCE_ELSE
from harness.deaf_socket import make_deaf
from harness.defaults import http_limits
from harness.fake_desk import FakeDesk, a_check
from harness.identities import access_with
from harness.raw_http import Client, raw_half, request, until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenDoors

TARGET = "/v1/checks?producer_group=g"
#: A header that no page can send; it says what is so anyway.
NAMED = [("Half-Checks-At-Once", "256")]
HEARTBEAT = {"type": "heartbeat"}


class Producer:
    """The other end of a stream: takes chunks apart strictly, knows nothing of the door's code."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.reader = client.reader
        self.head = b""

    async def open(self, *headers: tuple[str, str], target: str = TARGET) -> None:
        await self.client.send(request("GET", target, headers or NAMED))
        await self.read_head()

    async def read_head(self) -> None:
        async with asyncio.timeout(10):
            self.head = await self.reader.readuntil(b"\r\n\r\n")
        assert self.head.startswith(b"HTTP/1.1 200 OK\r\n"), self.head

    async def line(self) -> dict[str, Any]:
        """The next line, which must be exactly one chunk."""
        async with asyncio.timeout(10):
            size = int((await self.reader.readuntil(b"\r\n")), 16)
            chunk = await self.reader.readexactly(size + 2)
        assert chunk.endswith(b"\n\r\n"), chunk[-10:]
        assert chunk.count(b"\n") == 2
        decoded: dict[str, Any] = json.loads(chunk)
        return decoded

    async def check(self) -> dict[str, Any]:
        """The next line that is no heartbeat."""
        while (line := await self.line()) == HEARTBEAT:
            pass
        return line

    async def rest(self) -> bytes:
        """What comes until the connection ends, heartbeats left out."""
        async with asyncio.timeout(10):
            left = await self.reader.read()
        return left.replace(b'15\r\n{"type":"heartbeat"}\n\r\n', b"")


class Group:
    """A door with a desk behind it."""

    def __init__(self, doors: OpenDoors) -> None:
        self.doors = doors
        self.desk = FakeDesk()
        self.door: Any = None

    async def open(self, **settings: Any) -> None:
        self.door = await self.doors.open(checks=self.desk, **settings)

    async def producer(self, *headers: tuple[str, str], target: str = TARGET) -> Producer:
        count = self.desk.connected_count
        producer = Producer(await self.doors.client(self.door))
        await producer.open(*headers, target=target)
        await until(lambda: self.desk.connected_count > count)
        return producer

    async def until_gone(self) -> None:
        """Nobody is live any more, and each was told to go exactly once."""
        await until(lambda: self.desk.links == [] and self.door.connection_count == 0)
        assert self.desk.disconnected_count == self.desk.connected_count
        assert self.door._load.stream_count == 0


@pytest.fixture
def group(doors: OpenDoors) -> Group:
    return Group(doors)


async def test_streams_that_come_and_go_do_not_fill_the_log(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """Two lines each, for whoever has a right for any one group."""
    await group.open()
    group.door._load.stream_lines = LineBudget(count_max=5)
    with caplog.at_level(logging.INFO):
        for _ in range(8):
            producer = await group.producer()
            await producer.client.close()
            await group.until_gone()
    told = [line for line in caplog.messages if "check stream" in line]
    assert len(told) == 5


async def refused(group: Group, target: str, *headers: tuple[str, str]) -> tuple[int, str, str]:
    client = await group.doors.client(group.door)
    answer = await client.ask(request("GET", target, headers or NAMED))
    assert group.desk.connected_count == 0
    assert (await client.ask(raw_half())).status == 201  # an ordinary answer: nothing is lost
    return answer.status, answer.code, answer.json()["error"]["message"]


# -- opening -------------------------------------------------------------------------------------


async def test_a_stream_begins_with_a_heartbeat_and_brings_checks(group: Group) -> None:
    await group.open()
    producer = await group.producer()
    assert b"\r\nContent-Type: application/x-ndjson\r\n" in producer.head
    assert b"\r\nTransfer-Encoding: chunked\r\n" in producer.head
    assert await producer.line() == HEARTBEAT
    (link,) = group.desk.links
    assert link.producer_group == "g"
    assert link.offer(a_check(3))
    check = await producer.check()
    assert (check["type"], check["transaction_id"], check["check_number"]) == (
        "check",
        "order-1",
        3,
    )
    assert check["handle"] == "h.order-1"
    assert check["messages"][0]["headers"] == [["trace", {"base64": "/w=="}], ["null", None]]


async def test_checks_that_wait_come_right_behind_the_head(group: Group) -> None:
    """The desk may offer from within connect: the head must have been written by then."""
    group.desk.waiting = [a_check(n) for n in (1, 2, 3)]
    await group.open()
    producer = await group.producer()
    assert [(await producer.check())["check_number"] for _ in range(3)] == [1, 2, 3]


async def test_an_http_10_caller_gets_lines_until_the_connection_ends(group: Group) -> None:
    group.desk.waiting = [a_check()]
    await group.open()
    client = await group.doors.client(group.door)
    await client.send(f"GET {TARGET} HTTP/1.0\r\nHalf-Producer-Name: old\r\n\r\n".encode())
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head
    assert b"\r\nConnection: close\r\n" in head
    assert json.loads(await client.reader.readline()) == HEARTBEAT
    assert json.loads(await client.reader.readline())["type"] == "check"
    stopping = asyncio.create_task(group.door.stop(drain_s=20))
    assert (await client.reader.read()).replace(b'{"type":"heartbeat"}\n', b"") == b""
    await stopping
    await group.until_gone()


async def test_requests_before_it_are_answered_first(group: Group) -> None:
    await group.open()
    group.doors.service.hold()
    client = await group.doors.client(group.door)
    await client.send(raw_half() + raw_half() + request("GET", TARGET, NAMED))
    await group.doors.service.until_waiting(1)
    assert group.desk.links == []
    group.doors.service.release()
    async with asyncio.timeout(10):
        raw = await client.reader.readuntil(b'{"type":"heartbeat"}\n')
    assert re.findall(rb"HTTP/1.1 (\d+)", raw) == [b"201", b"201", b"200"]
    assert len(group.desk.links) == 1


@pytest.mark.parametrize("extra", [b"GET /v1/openapi.yaml HTTP/1.1\r\nHost: localhost\r\n\r\n"])
async def test_requests_behind_it_in_the_same_read_make_it_a_refusal(
    group: Group, extra: bytes
) -> None:
    await group.open()
    client = await group.doors.client(group.door)
    await client.send(request("GET", TARGET, NAMED) + extra)
    first, second = await client.answer(), await client.answer()
    assert (first.status, first.code) == (400, "malformed_request")
    assert second.status == 200
    assert group.desk.connected_count == 0


async def test_a_piece_of_a_request_behind_it_makes_it_a_refusal(group: Group) -> None:
    await group.open()
    client = await group.doors.client(group.door)
    await client.send(request("GET", TARGET, NAMED) + b"POST /v1/trans")
    assert (await client.answer()).status == 400
    assert group.desk.connected_count == 0


async def test_a_caller_that_has_closed_its_sending_side_gets_no_stream(group: Group) -> None:
    await group.open()
    client = await group.doors.client(group.door)
    group.doors.service.hold()
    await client.send(raw_half() + request("GET", TARGET, NAMED))
    await group.doors.service.until_waiting(1)
    client.writer.write_eof()
    await until(lambda: all(c._has_eof for c in group.door._load.connections))
    group.doors.service.release()
    assert [answer.status for answer in await client.rest()] == [201, 400]
    assert group.desk.connected_count == 0


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?",
        "?producer_group",
        "?producer_group=",
        "?producer_group=g&producer_group=g",
        "?producer_group=g&topic=t",
        "?group=g",
        "?producer_group=a%00b",
        "?producer_group=a%0Ab",
        "?producer_group=a%C2%9Bb",
        "?producer_group=a%E2%80%AEb",
        "?producer_group=a%E2%80%A8b",
        "?producer_group=a+b",
        "?producer_group=%ff",
        "?producer_group=%zz",
        "?producer_group=" + "x" * 256,
        "?producer_group=" + "%C3%A9" * 128,
    ],
)
async def test_a_group_that_cannot_be_is_refused_with_what_to_do(group: Group, query: str) -> None:
    await group.open()
    status, code, message = await refused(group, f"/v1/checks{query}")
    assert (status, code in ("invalid_request", "malformed_request")) == (400, True)
    assert re.search("producer_group|percent|UTF-8", message)


@pytest.mark.parametrize(
    ("query", "producer_group"),
    [
        ("producer_group=a%20b%2Bc", "a b+c"),
        ("producer_group=%C3%A9", "é"),
        ("producer%5Fgroup=g", "g"),
        ("producer_group=g&", "g"),
        ("producer_group=" + "x" * 255, "x" * 255),
    ],
)
async def test_a_group_is_taken_exactly_as_encoded(
    group: Group, query: str, producer_group: str
) -> None:
    await group.open()
    await group.producer(target=f"/v1/checks?{query}")
    assert group.desk.links[0].producer_group == producer_group


@pytest.mark.parametrize("at_once", ["0", "10001", "-1", "1.5", "x", "", "9" * 30])
async def test_a_number_of_checks_at_once_that_cannot_be_is_refused(
    group: Group, at_once: str
) -> None:
    await group.open()
    status, code, message = await refused(group, TARGET, ("Half-Checks-At-Once", at_once))
    assert (status, code) == (400, "invalid_request")
    assert "Half-Checks-At-Once" in message


async def test_a_producer_says_how_many_checks_it_wants_at_once(group: Group) -> None:
    await group.open()
    await group.producer(("Half-Checks-At-Once", "7"))
    await group.producer()
    assert [link.at_once for link in group.desk.links] == [7, AT_ONCE_ELSE]


@pytest.mark.parametrize("beat", ["0", "61", "-1", "1.5", "x", "", "9" * 30])
async def test_a_heartbeat_that_cannot_be_is_refused(group: Group, beat: str) -> None:
    await group.open()
    status, code, message = await refused(group, TARGET, ("Half-Heartbeat", beat))
    assert (status, code) == (400, "invalid_request")
    assert "Half-Heartbeat" in message


@pytest.mark.parametrize("name", ["", "x" * 101, "a\tb", "\u202egnp.exe"])
async def test_a_name_that_cannot_be_shown_is_refused(group: Group, name: str) -> None:
    await group.open()
    status, code, message = await refused(group, TARGET, ("Half-Producer-Name", name))
    assert (status, code) == (400, "invalid_request")
    assert "Half-Producer-Name" in message


async def test_a_link_has_a_name_for_people(group: Group, tmp_path: Path) -> None:
    await group.open(unix_path=tmp_path / "door.sock")
    await group.producer(("Half-Producer-Name", "orders-7 (Zürich)"))
    producer = await group.producer()
    port = producer.client.writer.get_extra_info("sockname")[1]
    over_unix = Producer(await Client.unix(str(tmp_path / "door.sock")))
    await over_unix.open()
    await until(lambda: len(group.desk.links) == 3)
    names = [link.name for link in group.desk.links]
    assert names == ["orders-7 (Zürich)", f"127.0.0.1:{port}", "unix socket"]
    await over_unix.client.close()


async def test_head_and_options_promise_and_open_nothing(group: Group) -> None:
    await group.open()
    client = await group.doors.client(group.door)
    head = await client.ask(request("HEAD", TARGET, NAMED))
    assert (head.status, head.header("content-type")) == (200, "application/x-ndjson")
    assert (await client.ask(request("HEAD", "/v1/checks"))).status == 400
    options = await client.ask(request("OPTIONS", "/v1/checks"))
    assert (options.status, options.header("allow")) == (204, "GET, HEAD, OPTIONS")
    assert (await client.ask(request("POST", TARGET))).status == 405
    assert group.desk.connected_count == 0


async def test_without_a_desk_there_are_no_streams(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open())
    answer = await client.ask(request("GET", TARGET, NAMED))
    assert (answer.status, answer.code) == (503, "checks_not_served")
    assert answer.header("retry-after") == "1"


async def test_the_token_is_asked_for(doors: OpenDoors) -> None:
    door = await doors.open(checks=(desk := FakeDesk()), access=access_with("s3cret"))
    client = await doors.client(door)
    assert (await client.ask(request("GET", TARGET, NAMED))).status == 401
    assert desk.connected_count == 0
    await Producer(client).open(("Half-Token", "s3cret"))
    await until(lambda: desk.links)


async def test_streams_are_bounded_and_places_come_free(group: Group) -> None:
    await group.open(limits=http_limits(stream_count_max=2))
    first = await group.producer()
    await group.producer()
    client = await group.doors.client(group.door)
    answer = await client.ask(request("GET", TARGET, NAMED))
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert (await client.ask(request("HEAD", TARGET, NAMED))).status == 503
    assert (await client.ask(raw_half())).status == 201  # other requests are served
    await first.client.close()
    await until(lambda: len(group.desk.links) == 1)
    await Producer(client).open()
    await until(lambda: len(group.desk.links) == 2)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("Accept", "*/*"), ("Sec-Fetch-Mode", "no-cors"), ("User-Agent", "Mozilla/5.0")),
    ],
)
async def test_what_a_page_can_send_never_becomes_a_live_producer(
    group: Group, method: str, headers: tuple[tuple[str, str], ...]
) -> None:
    """Old browsers, and proxies on the way, send no Sec-Fetch-Site."""
    await group.open()
    client = await group.doors.client(group.door)
    answer = await client.ask(request(method, TARGET, headers))
    assert answer.status == 400
    assert method == "HEAD" or "Half-Producer-Name" in answer.body.decode()
    assert not group.desk.links


async def test_one_group_cannot_take_all_streams(group: Group) -> None:
    refused: list[str] = []
    await group.open(limits=http_limits(stream_group_count_max=2), on_refused=refused.append)
    first = await group.producer()
    await group.producer()
    client = await group.doors.client(group.door)
    answer = await client.ask(request("GET", TARGET, NAMED))
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert "http.streams_group_max" in answer.body.decode()
    assert refused == ["group"]
    other = await group.doors.client(group.door)
    await other.send(request("GET", "/v1/checks?producer_group=bank", NAMED))
    assert (await other.reader.readline())[9:12] == b"200"
    await first.client.close()
    await until(lambda: len(group.desk.links) == 2)
    await Producer(client).open()
    await until(lambda: len(group.desk.links) == 3)


async def test_a_stream_counts_for_its_address_as_the_connection_did(group: Group) -> None:
    await group.open(limits=http_limits(connection_peer_count_max=1))
    stream = await group.producer()
    answer = await (await group.doors.client(group.door)).ask(raw_half())
    assert (answer.status, answer.code) == (503, "too_many_connections")
    await stream.client.close()
    await until(lambda: group.door.connection_count == 0)
    assert (await (await group.doors.client(group.door)).ask(raw_half())).status == 201
    assert len(group.door._load._peers) == 1


async def test_streams_that_ask_at_the_same_moment_are_bounded_too(group: Group) -> None:
    await group.open(limits=http_limits(stream_count_max=3))
    clients = [await group.doors.client(group.door) for _ in range(10)]
    await asyncio.gather(*(client.send(request("GET", TARGET, NAMED)) for client in clients))
    heads = await asyncio.gather(*(client.reader.readline() for client in clients))
    assert sorted(head[9:12] for head in heads) == [b"200"] * 3 + [b"503"] * 7
    assert len(group.desk.links) == 3


async def test_a_stream_is_counted_once_when_it_opens(doors: OpenDoors) -> None:
    counted: list[tuple[str, int]] = []

    def on_request(route: str, status: int, *_: object) -> None:
        counted.append((route, status))

    door = await doors.open(checks=(desk := FakeDesk()), on_request=on_request)
    await Producer(await doors.client(door)).open()
    await until(lambda: desk.links)
    await door.stop()
    assert counted == [("checks", 200)]


# -- beats and back-pressure ---------------------------------------------------------------------


async def test_heartbeats_come_without_end(group: Group) -> None:
    await group.open(limits=http_limits(heartbeat_s=0.02))
    producer = await group.producer()
    assert [await producer.line() for _ in range(10)] == [HEARTBEAT] * 10


def test_heartbeats_and_acknowledgements_fit_the_promises() -> None:
    limits = http_limits()
    sweep_s = 0.5
    assert limits.heartbeat_s + sweep_s <= 3
    assert limits.heartbeat_s + sweep_s + limits.unacknowledged_s <= 10


async def test_the_kernel_is_told_how_long_to_wait_for_acknowledgements(group: Group) -> None:
    await group.open()
    await group.producer()
    (stream,) = group.door._load.connections
    found = stream._transport.get_extra_info("socket")
    assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000


async def test_a_machine_that_is_gone_is_noticed_by_what_it_does_not_acknowledge(
    group: Group,
) -> None:
    await group.open(limits=http_limits(heartbeat_s=0.1, unacknowledged_s=0.5))
    producer = await group.producer()
    make_deaf(producer.client.writer.get_extra_info("socket"))
    await group.until_gone()


def let_pass(group: Group, silence_s: float) -> None:
    """Make it so that the last sign of the one producer was so long ago."""
    (stream,) = group.door._load.connections
    stream._heard_s -= silence_s


async def test_a_producer_that_stops_beating_is_dropped(group: Group) -> None:
    await group.open()
    producer = await group.producer(("Half-Heartbeat", "3"))
    let_pass(group, 9.1)
    await group.until_gone()
    assert b"check" not in await producer.rest()


async def test_a_producer_that_beats_stays(group: Group) -> None:
    await group.open(limits=http_limits(heartbeat_s=0.02))
    producer = await group.producer(("Half-Heartbeat", "1"))
    for beat in (b"\r\n", b"\r", b"\n", b"\r\n\r\n\r\n"):
        let_pass(group, 2.5)
        (stream,) = group.door._load.connections
        before_s = stream._heard_s
        await producer.client.send(beat)
        await until(lambda: stream._heard_s > before_s)  # noqa: B023 (awaited right here)
    assert group.desk.links[0].offer(a_check())
    assert (await producer.check())["type"] == "check"


async def test_a_producer_that_promised_nothing_may_be_silent(group: Group) -> None:
    await group.open(limits=http_limits(heartbeat_s=0.02, idle_s=0.05))
    producer = await group.producer()
    let_pass(group, 3600)
    assert [await producer.line() for _ in range(10)] == [HEARTBEAT] * 10
    assert len(group.desk.links) == 1


async def small_receiver(group: Group) -> Producer:
    """A producer whose kernel takes little, so that the door's side fills soon."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.setblocking(False)
    await asyncio.get_running_loop().sock_connect(plain, ("127.0.0.1", group.door.port))
    reader, writer = await asyncio.open_connection(sock=plain, limit=1024)
    group.doors._clients.append(client := Client(reader, writer))
    producer = Producer(client)
    await producer.open()
    await until(lambda: group.desk.links)
    return producer


async def test_a_producer_that_does_not_read_is_offered_no_more(group: Group) -> None:
    await group.open(limits=http_limits(write_stall_s=60))
    producer = await small_receiver(group)
    (link,), (stream,) = group.desk.links, group.door._load.connections
    check = a_check(value=b"x" * 30_000)
    taken_count = 0
    while link.offer(check):
        taken_count += 1
        assert taken_count < 1000
        await asyncio.sleep(0)
    assert taken_count > 1
    assert stream._transport.get_write_buffer_size() <= 64 * 1024 + 31_000
    for _ in range(100):
        assert not link.offer(check)
    stream.sweep(stream._loop.time() + 3)  # nor are heartbeats heaped up
    size = stream._transport.get_write_buffer_size()
    stream.sweep(stream._loop.time() + 6)
    assert stream._transport.get_write_buffer_size() == size
    # It gets all that was taken, and is offered again.
    for _ in range(taken_count):
        assert len((await producer.check())["messages"][0]["value"]) == 30_000
    await until(lambda: link.offer(a_check(2)))
    assert (await producer.check())["check_number"] == 2


async def test_offers_in_one_go_do_not_pass_the_write_buffer(group: Group) -> None:
    """Without a turn of the loop in between, as a burst of checks comes."""
    await group.open()
    await small_receiver(group)
    (link,), (stream,) = group.desk.links, group.door._load.connections
    check = a_check(value=b"x" * 30_000)
    taken_count = sum(link.offer(check) for _ in range(1000))
    assert taken_count < 300
    assert stream._transport.get_write_buffer_size() <= 64 * 1024 + 31_000


async def test_a_producer_that_does_not_read_for_long_is_dropped(group: Group) -> None:
    await group.open(limits=http_limits(write_stall_s=0.1))
    await small_receiver(group)
    (link,) = group.desk.links
    check = a_check(value=b"x" * 60_000)
    while link.offer(check):
        await asyncio.sleep(0)
    await group.until_gone()
    assert not link.offer(check)


# -- ends ----------------------------------------------------------------------------------------


async def test_a_producer_that_leaves_is_disconnected_once(group: Group) -> None:
    await group.open()
    producer = await group.producer()
    (link,) = group.desk.links
    await producer.client.close()
    await group.until_gone()
    assert not link.offer(a_check())


async def test_a_connection_that_is_reset_is_disconnected_once(group: Group) -> None:
    await group.open()
    producer = await group.producer()
    plain = producer.client.writer.get_extra_info("socket")
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    producer.client.writer.transport.abort()
    await group.until_gone()


async def test_closing_the_sending_side_ends_it_in_order(group: Group) -> None:
    await group.open()
    producer = await group.producer()
    producer.client.writer.write_eof()
    assert await producer.rest() == b"0\r\n\r\n"
    await group.until_gone()


@pytest.mark.parametrize(
    "sent", [b"x", b"\r\nGET / HTTP/1.1\r\n\r\n", b" ", b"\0", b"\r\n" * 10_000 + b"."]
)
async def test_anything_but_line_breaks_ends_it(group: Group, sent: bytes) -> None:
    await group.open()
    producer = await group.producer()
    (link,) = group.desk.links
    await producer.client.send(sent)
    await group.until_gone()
    assert not link.offer(a_check())


async def test_streams_end_at_once_when_draining_begins(group: Group) -> None:
    await group.open()
    producers = [await group.producer() for _ in range(3)]
    links = list(group.desk.links)
    async with asyncio.timeout(5):
        await group.door.stop(drain_s=60)
    for producer in producers:
        assert await producer.rest() == b"0\r\n\r\n"
    assert not any(link.offer(a_check()) for link in links)
    await group.until_gone()


async def test_streams_end_while_other_requests_are_still_answered(group: Group) -> None:
    await group.open()
    producer = await group.producer()
    group.doors.service.hold()
    busy = await group.doors.client(group.door)
    await busy.send(raw_half())
    await group.doors.service.until_waiting(1)
    stopping = asyncio.create_task(group.door.stop(drain_s=60))
    assert await producer.rest() == b"0\r\n\r\n"
    assert group.desk.links == []
    group.doors.service.release()
    assert (await busy.answer()).status == 201
    await stopping


async def test_no_stream_opens_while_draining(group: Group) -> None:
    await group.open()
    client = await group.doors.client(group.door)
    group.doors.service.hold()
    await client.send(raw_half() + request("GET", TARGET, NAMED))
    await group.doors.service.until_waiting(1)
    stopping = asyncio.create_task(group.door.stop(drain_s=60))
    await until(lambda: group.door._load.is_draining)
    group.doors.service.release()
    answers = await client.rest()
    assert [answer.status for answer in answers] == [201, 503]
    assert answers[1].code == "shutting_down"
    await stopping
    assert group.desk.connected_count == 0


async def test_a_reader_that_hangs_does_not_delay_the_stop_beyond_its_time(group: Group) -> None:
    await group.open()
    await small_receiver(group)
    (link,) = group.desk.links
    while link.offer(a_check(value=b"x" * 60_000)):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await group.door.stop(drain_s=0.1)
    await group.until_gone()


async def test_a_connection_lost_before_its_stream_opens_connects_nobody(group: Group) -> None:
    await group.open()
    client = await group.doors.client(group.door)
    group.doors.service.hold()
    await client.send(raw_half() + request("GET", TARGET, NAMED))
    await group.doors.service.until_waiting(1)
    for connection in list(group.door._load.connections):
        connection.abort()
    await until(lambda: group.door.connection_count == 0)
    group.doors.service.release()
    await until(lambda: group.door.in_flight_count == 0)
    assert group.desk.connected_count == 0


async def test_a_fault_of_the_desk_ends_the_stream_and_nothing_else(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    group.desk.fail_with = RuntimeError("a bug")
    await group.open()
    with caplog.at_level(logging.ERROR):
        producer = await group.producer()
        assert (await producer.rest()).endswith(b"0\r\n\r\n")
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    await group.until_gone()
    client = await group.doors.client(group.door)
    assert (await client.ask(raw_half())).status == 201
