"""The door's life: opening, refusing to open, draining."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from halfhitch.doors.http import HttpDoor, server
from halfhitch.errors import ConfigurationError
from harness.defaults import http_limits
from harness.identities import access_with
from harness.raw_http import Client, json_post, raw_half, request, until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenDoors


async def test_port_zero_gives_a_free_port_and_tells_it(doors: OpenDoors) -> None:
    door = await doors.open(port=0)
    assert door.port is not None
    assert door.port > 0
    assert (await (await doors.client(door)).ask(raw_half())).status == 201
    await door.stop(drain_s=0)
    assert door.port is None


async def test_the_same_routes_are_on_the_unix_socket(doors: OpenDoors, tmp_path: Path) -> None:
    door = await doors.open(unix_path=tmp_path / "door.sock")
    assert door.unix_path == str(tmp_path / "door.sock")
    over_unix = await Client.unix(door.unix_path)
    assert (await over_unix.ask(raw_half())).status == 201
    over_tcp = await doors.client(door)
    assert (await over_tcp.ask(request("GET", "/v1/transactions/h.0"))).status == 200
    await over_unix.close()


async def test_the_unix_socket_takes_any_host(doors: OpenDoors, tmp_path: Path) -> None:
    door = await doors.open(host=None, unix_path=tmp_path / "door.sock")
    assert door.port is None
    client = await doors.client(door)
    asked = request("GET", "/v1/openapi.yaml", host="whatever.example")
    assert (await client.ask(asked)).status == 200


async def test_the_unix_socket_is_private_and_gone_afterwards(
    doors: OpenDoors, tmp_path: Path
) -> None:
    path = tmp_path / "door.sock"
    door = await doors.open(host=None, unix_path=path)
    assert path.stat().st_mode & 0o777 == 0o660
    await door.stop(drain_s=0)
    assert not path.exists()


async def test_a_second_door_does_not_take_the_socket_of_a_living_one(
    doors: OpenDoors, tmp_path: Path
) -> None:
    path = tmp_path / "door.sock"
    first = await doors.open(host=None, unix_path=path)
    second = HttpDoor(
        doors.service, port=0, unix_path=path, access=access_with(), limits=http_limits()
    )
    with pytest.raises(ConfigurationError, match="Another process listens"):
        await second.start()
    assert second.port is None  # its TCP listener was closed again
    assert (await (await doors.client(first)).ask(raw_half())).status == 201


async def test_a_taken_port_is_a_clear_error(doors: OpenDoors) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        door = HttpDoor(doors.service, port=port, access=access_with(), limits=http_limits())
        with pytest.raises(ConfigurationError, match=r"Choose another http\.port") as told:
            await door.start()
    assert f"http.port {port}: Address already in use." in str(told.value)


async def test_a_door_is_started_once(doors: OpenDoors) -> None:
    door = await doors.open()
    with pytest.raises(RuntimeError):
        await door.start()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"host": None}, "needs a TCP host"),
        ({"port": 70_000}, "between 0 and 65535"),
        ({"port": -1}, "between 0 and 65535"),
        ({"host": "0.0.0.0"}, "set a token"),
        ({"host": "::"}, "set a token"),
        ({"host": "sidecar.example"}, "set a token"),
    ],
)
def test_a_door_that_would_not_be_safe_is_not_made(
    settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        HttpDoor(None, access=access_with(), limits=http_limits(), **settings)  # type: ignore[arg-type]


async def test_with_a_token_other_machines_may_reach_it(doors: OpenDoors) -> None:
    door = await doors.open(host="0.0.0.0", access=access_with("s3cret"))
    client = await doors.client(door)
    asked = request("GET", "/v1/openapi.yaml", [("Half-Token", "s3cret")], host="sidecar.example")
    assert (await client.ask(asked)).status == 200


async def test_a_stopping_door_answers_what_was_begun_and_closes(doors: OpenDoors) -> None:
    door = await doors.open()
    busy, idle = await doors.client(door), await doors.client(door)
    await idle.ask(raw_half())
    doors.service.hold()
    await busy.send(raw_half() + raw_half())
    await doors.service.until_waiting(1)
    port = door.port
    stopping = asyncio.create_task(door.stop(drain_s=20))
    await idle.ended()
    with pytest.raises(ConnectionRefusedError):
        await Client.tcp(port or 0)
    doors.service.release()
    answers = await busy.rest()
    assert [answer.status for answer in answers] == [201, 503]  # the second had not been begun
    assert [answer.header("connection") for answer in answers] == [None, "close"]
    await stopping
    assert (door.connection_count, door.in_flight_count) == (0, 0)


async def test_a_request_on_its_way_is_answered_while_draining(doors: OpenDoors) -> None:
    door = await doors.open()
    client = await doors.client(door)
    handle = (await client.ask(raw_half(b"hello"))).header("half-handle")
    asked = json_post(f"/v1/transactions/{handle}/commit", {})
    await client.send(asked[:-1])
    await until(lambda: any(c._reader.phase for c in door._load.connections))
    stopping = asyncio.create_task(door.stop(drain_s=20))
    await until(lambda: door._load.is_draining)
    answer = await client.ask(asked[-1:])
    assert (answer.status, answer.header("connection")) == (200, "close")
    await client.ended()
    await stopping


async def test_a_stopping_door_cut_an_application_off_between_its_prepare_and_its_commit(
    doors: OpenDoors,
) -> None:
    """Idle connections were closed and new ones refused at once: only a check could end it."""
    door = await doors.open(limits=http_limits(unended_s=60))
    client, port = await doors.client(door), door.port
    await doors.client(door)  # somebody is there all the time
    handle = (await client.ask(raw_half())).header("half-handle")
    stopping = asyncio.create_task(door.stop(drain_s=60))
    await until(lambda: door._load.is_leaving)
    refused = await client.ask(raw_half())
    assert (refused.status, refused.code, refused.header("retry-after")) == (
        503,
        "shutting_down",
        "1",
    )
    assert refused.header("connection") == "close"
    assert refused.json()["error"]["retryable"]
    assert doors.service.calls == ["prepare"]
    another = await doors.client(door)  # new connections are taken too
    added = await another.ask(
        json_post(
            f"/v1/transactions/{handle}/messages", {"messages": [{"topic": "o", "value": "w"}]}
        )
    )
    assert added.status == 201
    assert not stopping.done()
    another = await doors.client(door)
    end = json_post(f"/v1/transactions/{added.json()['handle']}/commit?source=check", {})
    assert (await another.ask(end)).status == 200
    async with asyncio.timeout(10):
        await stopping
    with pytest.raises(ConnectionRefusedError):
        await Client.tcp(port or 0)


async def test_a_stop_waits_for_no_end_longer_than_until_checks_ask(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(unended_s=0.2))
    await (await doors.client(door)).ask(raw_half())
    async with asyncio.timeout(10):
        await door.stop(drain_s=60)


async def test_a_stop_waits_for_no_end_longer_than_it_may(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(unended_s=60))
    await (await doors.client(door)).ask(raw_half())
    async with asyncio.timeout(10):
        await door.stop(drain_s=0.1)


async def test_a_stop_does_not_wait_for_an_application_that_is_gone(
    doors: OpenDoors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a pod, whose sidecar is told to stop when the application has ended."""
    monkeypatch.setattr(server, "_ALONE_S", 0.3)
    door = await doors.open(limits=http_limits(unended_s=60))
    client = await doors.client(door)
    await client.ask(raw_half())
    stopping = asyncio.create_task(door.stop(drain_s=60))
    await asyncio.sleep(0.5)
    assert not stopping.done()
    await client.close()
    async with asyncio.timeout(10):
        await stopping


async def test_a_stop_that_is_told_again_waits_for_nobody(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(unended_s=60))
    client = await doors.client(door)
    await client.ask(raw_half())
    doors.service.hold()
    await client.send(raw_half())
    await doors.service.until_waiting(1)
    stopping = asyncio.create_task(door.stop(drain_s=60))
    await until(lambda: door._load.is_leaving)
    door.hurry()
    async with asyncio.timeout(10):
        await stopping
    assert (door.connection_count, door.in_flight_count) == (0, 0)


async def test_what_is_not_answered_in_time_is_cut_off(doors: OpenDoors) -> None:
    door = await doors.open()
    client = await doors.client(door)
    doors.service.hold()
    await client.send(raw_half())
    await doors.service.until_waiting(1)
    await door.stop(drain_s=0.05)
    assert (door.connection_count, door.in_flight_count) == (0, 0)
    assert doors.service.waiting_count == 0  # the call was cancelled, nothing dangles
    assert await client.rest() == []


async def test_a_connection_that_comes_in_while_draining_is_dropped(doors: OpenDoors) -> None:
    """It may have been accepted just before the listener was closed."""
    door = await doors.open()
    door._load.is_draining = True
    client = await doors.client(door)
    await client.ended()


async def test_draining_waits_for_work_whose_caller_is_gone(doors: OpenDoors) -> None:
    door = await doors.open()
    client = await doors.client(door)
    doors.service.hold()
    await client.send(raw_half())
    await doors.service.until_waiting(1)
    for connection in list(door._load.connections):
        connection.abort()
    await until(lambda: door.connection_count == 0)
    stopping = asyncio.create_task(door.stop(drain_s=60))
    await until(lambda: door._load.is_draining)
    assert not stopping.done()
    doors.service.release()
    async with asyncio.timeout(5):
        await stopping
    assert len(doors.service.transactions) == 1


async def test_draining_does_not_wait_for_callers_that_do_not_send(doors: OpenDoors) -> None:
    door = await doors.open()
    clients = [await doors.client(door) for _ in range(3)]
    await until(lambda: door.connection_count == 3)
    async with asyncio.timeout(5):
        await door.stop(drain_s=60)
    for client in clients:
        await client.ended()


@pytest.mark.parametrize("turn_count", range(5))
async def test_a_connection_that_came_as_the_door_closed_was_never_closed(
    doors: OpenDoors, turn_count: int
) -> None:
    """Its socket was taken, and asyncio's server was gone before it was made a connection."""
    door = await doors.open()
    assert door.port is not None
    with socket.create_connection(("127.0.0.1", door.port)) as came:
        came.setblocking(False)
        for _ in range(turn_count):
            await asyncio.sleep(0)
        await door.stop(drain_s=0)
        gc.collect()  # which warns of what was not closed
        with suppress(ConnectionResetError):
            assert await asyncio.get_running_loop().sock_recv(came, 1) == b""


async def test_stopping_twice_or_unstarted_is_harmless(doors: OpenDoors) -> None:
    door = await doors.open()
    await door.stop(drain_s=0)
    await door.stop(drain_s=0)
    await HttpDoor(doors.service, port=0, access=access_with(), limits=http_limits()).stop(
        drain_s=0
    )


async def test_one_slow_caller_does_not_disturb_the_others(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(receive_s=0.1))
    slow, fast = await doors.client(door), await doors.client(door)
    await slow.send(b"POST /v1/transactions HTTP/1.1\r\n")
    for _ in range(20):
        assert (await fast.ask(raw_half())).status == 201
    assert (await slow.answer()).status == 408
    assert (await fast.ask(raw_half())).status == 201
