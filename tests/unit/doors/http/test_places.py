"""Who is let in when all places are taken, and who makes room."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from harness.defaults import http_limits
from harness.identities import BANK, SHOP, access, access_with
from harness.raw_http import (
    DEADLINE_S,
    Answer,
    Client,
    json_post,
    raw_half,
    request,
    until,
)

if TYPE_CHECKING:
    from conftest import OpenDoors
    from halfhitch.doors.http import HttpDoor

TOKEN = "s3cret"
ASKED = raw_half(b"v", ("Half-Token", TOKEN))


async def from_address(door: HttpDoor, source: str) -> Client:
    """The caller closes it."""
    assert door.port is not None
    opened = await asyncio.open_connection("127.0.0.1", door.port, local_addr=(source, 0))
    return Client(*opened)


async def proven(door: HttpDoor, source: str) -> Client:
    client = await from_address(door, source)
    assert (await client.ask(ASKED)).status == 201
    return client


async def turned_away(door: HttpDoor, source: str, asked: bytes = ASKED) -> Answer:
    client = await from_address(door, source)
    answer = await client.ask(asked)
    await client.close()
    return answer


async def closed(client: Client) -> None:
    async with asyncio.timeout(DEADLINE_S):
        try:
            await client.reader.read()
        except ConnectionError:
            pass
    await client.close()


@pytest.mark.parametrize(
    "words",
    [b"", b"POST /v1/", raw_half(), request("GET", "/v1/openapi.yaml", [("Half-Token", "guess")])],
    ids=["nothing", "half a line", "no token", "a wrong token"],
)
async def test_strangers_of_two_addresses_do_not_keep_out_who_has_a_token(
    doors: OpenDoors, words: bytes
) -> None:
    """Each had half of the places, and everybody else was told that there are none."""
    limits = http_limits(connection_count_max=6, connection_peer_count_max=3)
    door = await doors.open(access=access_with(TOKEN), limits=limits)
    strangers = [await from_address(door, f"127.0.0.{2 + n % 2}") for n in range(6)]
    for stranger in strangers:
        await stranger.send(words)
    await until(lambda: door.connection_count == 6)
    clients = [await proven(door, "127.0.0.4") for _ in range(3)]
    assert door.connection_count == 6
    for stranger in strangers[:3]:
        await closed(stranger)  # who came first
    for client in clients:
        assert (await client.ask(ASKED)).status == 201
    for client in (*clients, *strangers[3:]):
        client.writer.transport.abort()


async def test_strangers_of_the_own_address_do_not_keep_out_who_has_a_token(
    doors: OpenDoors,
) -> None:
    """Behind one proxy, or on one machine, everybody has the address of everybody."""
    limits = http_limits(connection_count_max=6, connection_peer_count_max=3)
    door = await doors.open(access=access_with(TOKEN), limits=limits)
    strangers = [await doors.client(door) for _ in range(3)]
    await until(lambda: door.connection_count == 3)
    clients = [await proven(door, "127.0.0.1") for _ in range(3)]
    for stranger in strangers:
        await closed(stranger)
    answer = await turned_away(door, "127.0.0.1")
    assert (answer.status, answer.code) == (503, "too_many_connections")
    assert "http.connections_peer_max" in answer.json()["error"]["message"]
    await until(lambda: door._load.placeless_count == 0)
    assert door._load.count_of("127.0.0.1") == 3
    for client in clients:
        assert (await client.ask(ASKED)).status == 201
        await client.close()


async def test_who_sends_a_body_with_his_token_makes_no_room(doors: OpenDoors) -> None:
    """His request is not complete yet; his head was."""
    door = await doors.open(access=access_with(TOKEN), limits=http_limits(connection_count_max=2))
    slow = await doors.client(door)
    head = request("POST", "/v1/topics/o/half", [("Half-Token", TOKEN), ("Content-Length", "2")])
    await slow.send(head + b"x")
    await until(lambda: door._load.buffered_bytes == 1)
    strangers = [await from_address(door, "127.0.0.2") for _ in range(5)]
    await closed(strangers[0])
    assert (await slow.ask(b"x")).status == 400, "it is answered: its group was missing"
    for stranger in strangers:
        stranger.writer.transport.abort()


async def test_one_address_that_comes_again_and_again_pushes_out_itself(doors: OpenDoors) -> None:
    """And not who is just coming, though the others are all here to stay."""
    limits = http_limits(connection_count_max=6, connection_peer_count_max=5)
    door = await doors.open(access=access_with(TOKEN), limits=limits)
    kept = [await proven(door, "127.0.0.4") for _ in range(3)]
    coming = await from_address(door, "127.0.0.5")
    strangers = [await from_address(door, "127.0.0.2") for _ in range(10)]
    for stranger in strangers[:-2]:
        await closed(stranger)
    assert (await coming.ask(ASKED)).status == 201
    for client in (*kept, coming, *strangers[-2:]):
        client.writer.transport.abort()


async def test_a_door_full_of_those_who_may_be_there_says_so(doors: OpenDoors) -> None:
    limits = http_limits(connection_count_max=2, linger_silence_s=0.1)
    door = await doors.open(access=access_with(TOKEN), limits=limits)
    kept = [await proven(door, "127.0.0.4") for _ in range(2)]
    for _ in range(3):
        answer = await turned_away(door, "127.0.0.5")
        assert (answer.status, answer.code) == (503, "too_many_connections")
    await kept.pop().close()
    # Those who are still being told so have no place that anybody else would need.
    await until(lambda: door.connection_count - door._load.placeless_count == 1)
    kept.append(await proven(door, "127.0.0.5"))
    for client in kept:
        await client.close()


async def test_one_identity_of_several_addresses_cannot_take_all_connections(
    doors: OpenDoors,
) -> None:
    """Its requests made them places of those who may be here, and there were none for others."""
    limits = http_limits(connection_count_max=6, connection_identity_count_max=3)
    door = await doors.open(access=access(), limits=limits)
    theirs, ours = [
        request("GET", "/v1/openapi.yaml", [("Half-Token", token)]) for token in (BANK, SHOP)
    ]
    clients = [await from_address(door, f"127.0.0.{2 + n}") for n in range(6)]
    told = [await client.ask(theirs) for client in clients]
    assert [answer.status for answer in told] == [200] * 3 + [503] * 3
    assert told[3].code == "too_many_connections"
    assert "Your identity has 3 connections" in told[3].json()["error"]["message"]
    for _ in range(3):
        clients.append(await from_address(door, "127.0.0.9"))
        assert (await clients[-1].ask(ours)).status == 200
    for client in clients[3:6]:
        await closed(client)  # these stayed as good as strangers'
    with_body = json_post("/v1/transactions", {}, ("Half-Token", SHOP))
    assert (await turned_away(door, "127.0.0.9", with_body)).status == 503, "it is full, now"
    for client in clients:
        client.writer.transport.abort()


async def test_an_identity_that_has_closed_connections_may_have_others(doors: OpenDoors) -> None:
    limits = http_limits(connection_count_max=6, connection_identity_count_max=1)
    door = await doors.open(access=access(), limits=limits)
    body = raw_half(b"v", ("Half-Token", SHOP), ("Half-Producer-Group", "shop"))[:-1]
    first, second = await doors.client(door), await doors.client(door)
    asked = request("GET", "/v1/openapi.yaml", [("Half-Token", SHOP)])
    assert (await first.ask(asked)).status == 200
    refused = await second.ask(body)
    assert (refused.status, refused.code) == (503, "too_many_connections"), "by its head"
    await second.ended()
    await first.close()
    await until(lambda: door.connection_count == 0)
    for _ in range(2):
        stream = await doors.client(door)
        assert (await stream.ask(asked)).status == 200
        await stream.close()
        await until(lambda: door.connection_count == 0)
