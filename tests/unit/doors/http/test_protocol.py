"""A connection's life, over real sockets: order, limits, back-pressure, ends."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import InvariantViolation, KafkaUnavailable
from harness.defaults import http_limits
from harness.raw_http import Client, raw_half, request, until

if TYPE_CHECKING:
    from conftest import OpenDoors
    from halfhitch.service.api import Prepared

HEAD = b"POST /v1/topics/orders/half HTTP/1.1\r\nHost: localhost\r\nHalf-Producer-Group: g\r\n"


def numbered(number: int, body: bytes = b"v") -> bytes:
    return raw_half(body, ("Half-Transaction-Id", f"n{number}"))


async def test_a_connection_serves_many_requests(client: Client) -> None:
    for number in range(5):
        answer = await client.ask(numbered(number))
        assert answer.status == 201
        assert answer.header("connection") is None


async def test_connection_close_is_honoured(client: Client) -> None:
    answer = await client.ask(raw_half(b"v", ("Connection", "close")))
    assert (answer.status, answer.header("connection")) == (201, "close")
    await client.ended()


async def test_an_http_10_caller_is_answered_and_the_connection_closed(client: Client) -> None:
    answer = await client.ask(b"GET /v1/openapi.yaml HTTP/1.0\r\n\r\n")
    assert (answer.status, answer.header("connection")) == (200, "close")
    await client.ended()


async def test_an_http_10_caller_may_keep_the_connection(client: Client) -> None:
    asked = b"GET /v1/openapi.yaml HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    for _ in range(2):
        answer = await client.ask(asked)
        assert (answer.status, answer.header("connection")) == (200, "keep-alive")


async def test_a_hundred_pipelined_requests_are_answered_in_order(client: Client) -> None:
    await client.send(b"".join(numbered(number) for number in range(100)))
    ids = [(await client.answer()).header("half-transaction-id") for _ in range(100)]
    assert ids == [f"n{number}" for number in range(100)]


async def test_pipelined_requests_are_carried_out_one_at_a_time(
    doors: OpenDoors, client: Client
) -> None:
    doors.service.hold()
    await client.send(numbered(0) + numbered(1))
    await doors.service.until_waiting(1)
    # A further connection is served meanwhile: only requests of one connection wait.
    assert doors.service.calls == ["prepare"]
    doors.service.release()
    await client.answer()
    await client.answer()
    assert doors.service.calls == ["prepare", "prepare"]


async def test_a_refusal_waits_for_the_answers_before_it(doors: OpenDoors, client: Client) -> None:
    doors.service.hold()
    await client.send(numbered(0) + request("GET", "/nowhere") + numbered(1) + b"\x00garbage")
    await doors.service.until_waiting(1)
    doors.service.release()
    answers = await client.rest()
    assert [answer.status for answer in answers] == [201, 404, 201, 400]
    assert answers[-1].header("connection") == "close"


async def test_many_refusals_in_one_read_are_all_answered(client: Client) -> None:
    count = 3000
    await client.send(request("GET", "/nowhere") * count)
    for _ in range(count):
        assert (await client.answer()).status == 404


async def test_reading_stops_while_too_many_requests_wait(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(pipelined_count_max=4))
    client = await doors.client(door)
    doors.service.hold()
    body = b"x" * 200_000
    sending = asyncio.create_task(client.send(b"".join(numbered(n, body) for n in range(200))))
    await doors.service.until_waiting(1)
    (connection,) = door._load.connections
    await until(lambda: connection._is_reading_paused)
    # 40 MB are on their way; held are the four queued, the one at work, and one read.
    assert door._load.buffered_bytes < 2_000_000
    assert not sending.done()
    doors.service.release()
    for number in range(200):
        assert (await client.answer()).header("half-transaction-id") == f"n{number}"
    await sending
    assert door._load.buffered_bytes == 0


async def test_a_caller_that_does_not_read_gets_no_more_work_done(doors: OpenDoors) -> None:
    door = await doors.open()
    client = await doors.client(door)
    client.writer.write(request("GET", "/v1/openapi.yaml") * 1000)  # 25 MB of answers
    await until(lambda: any(c._is_write_paused for c in door._load.connections))
    (connection,) = door._load.connections
    assert len(connection._queue) > 0
    # Once it reads, it gets everything.
    for _ in range(1000):
        assert (await client.answer()).status == 200


async def test_a_caller_that_never_reads_is_cut_off(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(write_stall_s=0.1))
    client = await doors.client(door)
    client.writer.write(request("GET", "/v1/openapi.yaml") * 1000)
    await until(lambda: any(c._is_write_paused for c in door._load.connections))
    await until(lambda: door.connection_count == 0)


@pytest.mark.parametrize("who_closes", ["door", "caller"])
async def test_a_caller_that_leaves_its_last_answers_unread_is_cut_off(
    doors: OpenDoors, who_closes: str
) -> None:
    """A transport that is closing sends what is left first, and would wait for ever to do so."""
    limits = http_limits(write_stall_s=0.1, write_buffer_bytes=1_000_000_000)
    door = await doors.open(limits=limits)
    client = await doors.client(door)
    asked = request("GET", "/v1/openapi.yaml") * 1000
    if who_closes == "door":
        asked += request("GET", "/v1/openapi.yaml", [("Connection", "close")])
        await client.send(asked)
    else:
        await client.send(asked + raw_half())
        (connection,) = door._load.connections
        await until(lambda: doors.service.calls and connection._is_unoccupied())
        assert connection._transport.get_write_buffer_size() > 0
        client.writer.write_eof()
    await until(lambda: any(c._closing_since_s for c in door._load.connections))
    await until(lambda: door.connection_count == 0)


async def test_chunked_bodies_are_joined_and_trailers_dropped(
    doors: OpenDoors, client: Client
) -> None:
    await client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await client.send(b"3;extension=1\r\nabc\r\n2\r\nde\r\n0\r\nHalf-Header-x: late\r\n\r\n")
    assert (await client.answer()).status == 201
    (transaction,) = doors.service.transactions.values()
    assert transaction.messages[0].value == b"abcde"
    assert transaction.messages[0].headers == []
    # The trailer did not leak into the next request either.
    await client.ask(raw_half())
    assert list(doors.service.transactions.values())[1].messages[0].headers == []


async def test_a_body_in_many_small_chunks_is_the_same_body(
    doors: OpenDoors, client: Client
) -> None:
    body = bytes(range(256)) * 40
    await client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await client.send(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
    assert (await client.answer()).status == 201
    (transaction,) = doors.service.transactions.values()
    assert transaction.messages[0].value == body


async def test_a_request_may_come_byte_by_byte(doors: OpenDoors, client: Client) -> None:
    asked = raw_half(b"hello", ("Half-Key", "k")) + request("GET", "/v1/transactions/h.0")
    for byte in asked:
        await client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer()).status == 201
    assert (await client.answer()).json()["message_count"] == 1
    assert doors.service.transactions["h.0"].messages[0].value == b"hello"


# Expect


async def test_a_caller_that_expects_it_is_told_to_go_on(doors: OpenDoors, client: Client) -> None:
    await client.send(HEAD + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    assert (await client.continue_then_answer_after(b"hello")).status == 201
    assert doors.service.transactions["h.0"].messages[0].value == b"hello"


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n", 404),
        (b"PUT /v1/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n", 405),
        (HEAD + b"Content-Length: 2000000\r\n", 413),
        (HEAD + b"Half-Colour: red\r\nContent-Length: 5\r\n", 400),
    ],
)
async def test_a_body_that_would_be_refused_is_not_asked_for(
    client: Client, head: bytes, status: int
) -> None:
    await client.send(head + b"Expect: 100-continue\r\n\r\n")
    answer = await client.answer()
    assert (answer.status, answer.header("connection")) == (status, "close")
    await client.ended()


async def test_go_on_is_not_said_before_earlier_answers(doors: OpenDoors, client: Client) -> None:
    doors.service.hold()
    await client.send(numbered(0) + HEAD + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n")
    await doors.service.until_waiting(1)
    doors.service.release()
    assert (await client.answer()).header("half-transaction-id") == "n0"
    assert (await client.continue_then_answer_after(b"v")).status == 201


async def test_an_unknown_expectation_is_refused(client: Client) -> None:
    answer = await client.ask(raw_half(b"v", ("Expect", "a-miracle")))
    assert (answer.status, answer.code) == (417, "expectation_failed")
    await client.ended()


async def test_an_http_10_caller_is_not_told_to_go_on(client: Client) -> None:
    asked = HEAD.replace(b"1.1", b"1.0") + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nv"
    assert (await client.ask(asked)).status == 201


# What is no request


@pytest.mark.parametrize(
    "garbage",
    [
        HEAD + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\nv",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nv",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: identity\r\n\r\n",
        HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
        HEAD.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1e3\r\n\r\n",
        HEAD + b"Content-Length: 99999999999999999999\r\n\r\n",
        HEAD + b"X: folded\r\n line\r\n\r\n",
        HEAD + b"Half-Header-x: a\rb\r\n\r\n",
        HEAD + b"Half-Header-x: a\nHost: b\r\n\r\n",
        HEAD + b"Half-Header-x: a\0b\r\n\r\n",
        HEAD + b"Half-Header-\0: a\r\n\r\n",
        HEAD + b": nameless\r\n\r\n",
        HEAD + b"no colon\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\nHost: localhost\n\n",
        b"BREW / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / FTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_badly_framed_is_refused_and_nothing_behind_it_read(
    doors: OpenDoors, client: Client, garbage: bytes
) -> None:
    answer = await client.ask(garbage + raw_half())
    assert (answer.status, answer.code) == (400, "malformed_request")
    assert answer.header("connection") == "close"
    client.writer.write(raw_half())
    assert await client.rest() == []
    assert doors.service.calls == []


@pytest.mark.parametrize(
    "preface",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
    ],
)
async def test_other_versions_of_http_are_refused(client: Client, preface: bytes) -> None:
    answer = await client.ask(preface)
    assert (answer.status, answer.code) == (505, "http_version_not_supported")
    await client.ended()


@pytest.mark.parametrize("framing", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: "])
async def test_a_wish_for_another_protocol_is_passed_over(
    doors: OpenDoors, client: Client, framing: bytes
) -> None:
    """Java's HttpClient asks for HTTP/2 with its first request; its body is no second request."""
    if framing.startswith(b"Transfer"):
        framing += b"chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    wish = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEA\r\n"
    asked = HEAD + wish + framing
    await client.send(asked + asked + request("GET", "/v1/transactions/h.0"))
    assert [(await client.answer()).status for _ in range(3)] == [201, 201, 200]
    assert [t.messages[0].value for t in doors.service.transactions.values()] == [b"hello"] * 2
    without_body = b"GET /v1/transactions/h.0 HTTP/1.1\r\nHost: localhost\r\n" + wish + b"\r\n"
    assert (await client.ask(without_body)).status == 200
    for byte in asked:
        await client.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await client.answer()).status == 201


@pytest.mark.parametrize("last", ["close", "close, Upgrade"])
async def test_bytes_behind_the_last_request_are_nobodys_business(
    doors: OpenDoors, client: Client, last: str
) -> None:
    asked = raw_half(b"v", ("Connection", last), ("Upgrade", "h2c"))
    await client.send(asked + raw_half() + b"\x00")
    assert [answer.status for answer in await client.rest()] == [201]
    assert doors.service.calls == ["prepare"]


# Callers that leave


async def test_a_caller_that_leaves_in_the_middle_of_a_request_costs_nothing(
    doors: OpenDoors,
) -> None:
    door = await doors.open()
    for part in (b"", b"PO", HEAD, HEAD + b"Content-Length: 100\r\n\r\nabc"):
        client = await doors.client(door)
        await client.send(part)
        await client.close()
    await until(lambda: door.connection_count == 0)
    assert door._load.buffered_bytes == 0
    assert doors.service.calls == []


async def test_what_was_begun_is_carried_out_though_its_caller_is_gone(doors: OpenDoors) -> None:
    door = await doors.open()
    client = await doors.client(door)
    doors.service.hold()
    await client.send(raw_half() + raw_half())
    await doors.service.until_waiting(1)
    # A reset, not an orderly end: behind that a caller might still be waiting for its answer.
    connected = client.writer.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()
    await until(lambda: door.connection_count == 0)
    assert door.in_flight_count == 1
    doors.service.release()
    await until(lambda: door.in_flight_count == 0)
    assert len(doors.service.transactions) == 1
    assert door._load.buffered_bytes == 0


async def test_answers_to_a_connection_that_is_just_ending_are_dropped(
    doors: OpenDoors,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Between the end of a transport and the news of it, writing to it would only fill the log."""
    (door,) = doors.opened
    prepare = doors.service.prepare

    async def prepare_and_lose_the_caller(**arguments: Any) -> Prepared:
        prepared = await prepare(**arguments)
        for connection in door._load.connections:
            connection._transport.abort()
        return prepared

    monkeypatch.setattr(doors.service, "prepare", prepare_and_lose_the_caller)
    await client.send(raw_half() + request("GET", "/nowhere") * 20)
    await until(lambda: door.connection_count == 0 and door.in_flight_count == 0)
    assert door._load.buffered_bytes == 0
    assert caplog.records == []


async def test_a_caller_that_has_finished_sending_still_gets_its_answers(
    doors: OpenDoors, client: Client
) -> None:
    doors.service.hold()
    await client.send(numbered(0) + numbered(1) + HEAD)
    client.writer.write_eof()
    await doors.service.until_waiting(1)
    doors.service.release()
    answers = await client.rest()
    assert [answer.header("half-transaction-id") for answer in answers] == ["n0", "n1"]
    assert [answer.header("connection") for answer in answers] == [None, "close"]


# Faults of ours


@pytest.mark.parametrize(
    "fault", [RuntimeError("secret 10.0.0.7"), InvariantViolation("secret 10.0.0.7")]
)
async def test_a_fault_of_ours_is_admitted_logged_and_not_shown(
    doors: OpenDoors, client: Client, fault: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    doors.service.fail_with = fault
    with caplog.at_level(logging.ERROR):
        answer = await client.ask(raw_half())
    assert (answer.status, answer.code) == (500, "internal_error")
    assert b"secret" not in answer.body
    assert "secret 10.0.0.7" in caplog.text
    assert caplog.records[0].action == "http_request_failed"
    assert (await client.ask(raw_half())).status == 201


async def test_backend_trouble_says_when_to_come_back(doors: OpenDoors, client: Client) -> None:
    doors.service.fail_with = KafkaUnavailable("Kafka is away; try again.", retry_after_s=3)
    answer = await client.ask(raw_half())
    assert (answer.status, answer.code) == (503, "kafka_unavailable")
    assert answer.header("retry-after") == "3"
    error = json.loads(answer.body)["error"]
    assert error == {
        "code": "kafka_unavailable",
        "message": "Kafka is away; try again.",
        "retryable": True,
    }


async def test_every_answer_is_told_to_who_counts(doors: OpenDoors) -> None:
    told: list[tuple[str, int]] = []

    def count(route_name: str, status: int, elapsed_s: float, trace: object) -> None:
        assert 0 <= elapsed_s < 60
        assert trace == (((b"traceparent", b"x"),) if route_name == "commit" else ())
        told.append((route_name, status))

    client = await doors.client(await doors.open(on_request=count))
    await client.ask(raw_half())
    await client.ask(request("POST", "/v1/transactions/h.0/commit", [("traceparent", "x")]))
    await client.ask(request("GET", "/nowhere"))
    await client.ask(b"\x00\r\n")
    assert told == [("half", 201), ("commit", 200), ("unmatched", 404), ("unmatched", 400)]


async def test_who_counts_cannot_stop_what_is_counted(
    doors: OpenDoors, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the counter is broken")

    client = await doors.client(await doors.open(on_request=fail))
    await client.send(raw_half() + raw_half())
    assert (await client.answer()).status == 201
    assert (await client.answer()).status == 201
    assert re.search("the counter is broken", caplog.text)
