"""Connections: hostile bytes, a reader that does not read, TLS, signatures."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.frame import encode, request
from halfhitch.wire.remoting.requests import Form
from harness.defaults import rocketmq_limits
from harness.redis_servers import certificate
from harness.remoting_client import DEADLINE_S
from harness.rocketmq_doors import GROUP, is_closed, server_tls, trusting

if TYPE_CHECKING:
    from harness.remoting_client import RemotingClient


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00\x00\x00\x00",
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x08\x05\x00\x00\x00abcd",
        b"\x00\x00\x00\x08\x00\x00\x00\x04{{{{",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
    ],
)
async def test_bytes_that_are_no_frame_end_the_connection_with_one_line(
    stage: Any, client: RemotingClient, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    client.raw(data)
    await is_closed(client)
    assert caplog.text.count("the connection of RocketMQ client 127.0.0.1") == 1
    other = await stage.client(stage.doors[0])
    assert (await other.heartbeat()).code == 0


async def test_frames_before_the_broken_one_are_still_carried_out(
    stage: Any, client: RemotingClient
) -> None:
    fields = {"clientID": "x", "producerGroup": "g"}
    good = encode(request(codes.UNREGISTER_CLIENT, 1, fields, form=Form.BINARY))
    client.raw(good + b"\xff\xff\xff\xff")
    await is_closed(client)
    assert stage.doors[0].snapshot().requests == {("unregister", 0): 1}


async def test_fields_that_do_not_parse_are_answered_and_the_connection_lives(
    stage: Any, client: RemotingClient
) -> None:
    frame = request(codes.SEND_MESSAGE_V2, 77, form=Form.BINARY)
    frame.known_fields, frame.raw_fields = None, b"\x00\x01a\xff\xff\xff\xff"
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    client._waiting[77] = future
    client.raw(encode(frame))
    answer = await asyncio.wait_for(future, DEADLINE_S)
    assert answer.code == codes.INVALID_PARAMETER
    assert (await client.heartbeat("g")).code == 0


async def test_answers_of_a_client_to_nothing_are_passed_over(
    stage: Any, client: RemotingClient
) -> None:
    client.raw(encode(request(0, 5, flag=codes.RESPONSE_FLAG, form=Form.BINARY)))
    client.raw(encode(request(codes.HEART_BEAT, 6, flag=codes.ONE_WAY_FLAG)))
    assert (await client.heartbeat("g")).code == 0


async def test_a_heartbeat_that_is_no_json_is_answered(stage: Any, client: RemotingClient) -> None:
    assert (await client.ask(codes.HEART_BEAT, {}, b"{")).code == codes.INVALID_PARAMETER


async def test_a_frame_may_come_byte_by_byte(stage: Any, client: RemotingClient) -> None:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    client._waiting[9] = future
    for byte in encode(request(codes.GET_BROKER_CLUSTER_INFO, 9)):
        client.raw(bytes((byte,)))
        await client._writer.drain()
    assert (await asyncio.wait_for(future, DEADLINE_S)).code == 0


async def test_many_requests_of_a_connection_are_worked_on_at_once(stage: Any) -> None:
    client = await stage.client(await stage.open(limits={"pipelined_count_max": 4}))
    sent = await asyncio.gather(
        *(client.half(GROUP, "orders", b"%d" % n, unique=f"U{n}") for n in range(100))
    )
    assert {each.code for each in sent} == {0}
    assert len(stage.it.halves()) == 100


async def test_a_bug_is_an_answer_and_a_line_with_its_trace(
    stage: Any, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    stage.it.service.prepare = None
    sent = await client.half(GROUP, "orders", b"x", unique="U1")
    assert sent.code == codes.SYSTEM_ERROR
    assert "please report this" in caplog.text
    assert stage.doors[0].snapshot().in_flight_count == 0


async def test_a_bug_that_a_client_brings_about_again_and_again_filled_the_log(
    stage: Any, client: RemotingClient, caplog: pytest.LogCaptureFixture
) -> None:
    stage.it.service.prepare = None
    for number in range(15):
        sent = await client.half(GROUP, "orders", b"x", unique=f"U{number}")
        assert sent.code == codes.SYSTEM_ERROR
    assert sum("please report this" in message for message in caplog.messages) == 10


async def test_a_request_that_is_cancelled_before_it_began_is_in_flight_no_more(
    stage: Any, client: RemotingClient
) -> None:
    """Its coroutine was left behind, never awaited."""
    assert (await client.heartbeat("g")).code == 0
    (door,) = stage.doors
    (connection,) = door._load.connections
    connection.data_received(encode(request(codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, 7)))
    (task,) = door._load.tasks
    assert door.snapshot().in_flight_count == 1
    task.cancel()
    await stage.until(lambda: not door._load.tasks, "its end")
    gc.collect()
    assert door.snapshot().in_flight_count == 0
    assert (await client.heartbeat("g")).code == 0


async def test_strangers_do_not_fill_the_log(stage: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Each bad frame was a line: 0.9 MB in three seconds."""
    door = await stage.open()
    for _ in range(30):
        client = await stage.client(door)
        client.raw(b"\xff" * 64)
        await asyncio.wait_for(client.closed.wait(), DEADLINE_S)
    said = [text for text in caplog.messages if "is closed: what it sends cannot be read" in text]
    assert len(said) == 10


# -- time and number -----------------------------------------------------------------------------


async def test_who_does_not_read_gets_no_more_work_done_and_is_closed(stage: Any) -> None:
    door = await stage.open(limits={"write_buffer_bytes": 1_000, "write_stall_s": 0.5})
    client = await stage.client(door)
    client._task.cancel()
    client._reader._transport.pause_reading()
    receiver = client._writer.get_extra_info("socket")
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    for n in range(200):
        stage.kafka.create_topic(f"{n}-{'t' * 200}")
    padding = bytes(20_000)  # all of them are more than one turn of a loop reads
    for _ in range(2_000):
        client.send(codes.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER, {}, padding)
    await stage.until(lambda: door.snapshot().connection_count == 0, "the end")
    assert door.snapshot().requests["topic_list", 0] < 2_000


# -- TLS -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key."""
    return certificate(tmp_path_factory.mktemp("tls"))


async def test_tls_and_plain_clients_share_the_port(stage: Any, pair: tuple[Path, Path]) -> None:
    tls = server_tls(pair)
    door = await stage.open(tls=tls)
    for options in ({"tls": trusting(pair)}, {}):
        client = await stage.client(door, **options)
        assert (await client.half(GROUP, "orders", b"x", unique="U1")).code == 0
        assert (await client.route("orders"))[0] == 0


async def test_where_tls_is_required_plain_clients_are_turned_away(
    stage: Any, pair: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    tls = server_tls(pair)
    door = await stage.open(tls=tls, tls_required=True)
    plain = await stage.client(door)
    plain.send(codes.HEART_BEAT)
    await is_closed(plain)
    assert "rocketmq.tls_required" in caplog.text
    assert (await (await stage.client(door, tls=trusting(pair))).heartbeat("g")).code == 0


async def test_without_a_certificate_a_tls_client_is_told_at_once(
    stage: Any,
    client: RemotingClient,
    pair: tuple[Path, Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await stage.client(stage.doors[0], tls=trusting(pair))
    assert "rocketmq.tls_cert" in caplog.text


async def test_a_handshake_that_never_comes_is_not_waited_for(
    stage: Any, pair: tuple[Path, Path]
) -> None:
    tls = server_tls(pair)
    door = await stage.open(tls=tls, limits={"handshake_s": 0.3})
    client = await stage.client(door)
    await is_closed(client)
    broken = await stage.client(door)
    broken.raw(b"\x16\x03\x01\x00\x05hello")
    await is_closed(broken)


# -- signatures ----------------------------------------------------------------------------------

SECRETS = {"shop": "a-long-secret", "points": "another-secret"}


async def test_with_access_keys_every_request_must_be_signed(stage: Any) -> None:
    door = await stage.open(access_secrets=SECRETS)
    for key, secret in SECRETS.items():
        client = await stage.client(door, access_key=key, secret_key=secret)
        sent = await client.half(GROUP, "orders", b"x", unique=f"U-{key}")
        assert sent.code == 0, sent.remark
        assert (await client.end_sync(GROUP, sent, 8)).code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "AclClientRPCHook"),
        ({"access_key": "shop", "secret_key": "wrong"}, "signature is wrong"),
        ({"access_key": "nobody", "secret_key": "x"}, "'nobody' is not known"),
    ],
)
async def test_who_has_no_right_is_told_why(
    stage: Any, options: dict[str, str], words: str
) -> None:
    client = await stage.client(await stage.open(access_secrets=SECRETS), **options)
    sent = await client.half(GROUP, "orders", b"x", unique="U1")
    assert sent.code == codes.NO_PERMISSION
    assert words in (sent.remark or "")
    assert (await client.route("orders"))[0] == codes.NO_PERMISSION
    assert stage.it.halves() == []
    assert stage.desk.links == []


# -- the way out ---------------------------------------------------------------------------------


def test_limits_are_positive() -> None:
    with pytest.raises(ConfigurationError, match="idle_s must be positive"):
        rocketmq_limits(idle_s=0)
