"""Bodies: whose are taken, and how much of them anybody may have at once."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.access import Access, Right
from harness.defaults import http_limits
from harness.identities import access_with, identity
from harness.raw_http import Client, raw_half, request, until

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import OpenDoors
    from halfhitch.doors.http import HttpDoor

TOKEN = "s3cret"
SHOP, BANK = "shop-token-shop-token", "bank-token-bank-token"
LIMITS = {"buffered_bytes_max": 1000, "buffered_share_bytes_max": 500, "body_bytes_max": 900}


def head(length: int, *headers: tuple[str, str]) -> bytes:
    named = (("Half-Producer-Group", "g"), ("Content-Length", str(length)), *headers)
    return request("POST", "/v1/topics/orders/half", named)


def known() -> list[Any]:
    rights = (Right.PRODUCE,)
    return [
        identity("shop", SHOP, *rights, groups=("g",), topics=("orders",)),
        identity("bank", BANK, *rights, groups=("g",), topics=("orders",)),
    ]


def reset(client: Client) -> None:
    """End the connection at once, with no goodbye that would leave its answers awaited."""
    connected = client.writer.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.writer.transport.abort()


async def sent_some(doors: OpenDoors, door: HttpDoor, *headers: tuple[str, str]) -> Client:
    """A client with 499 bytes at the door, and one more to come."""
    client = await doors.client(door)
    before = door._load.buffered_bytes
    await client.send(head(500, *headers) + b"x" * 499)
    await until(lambda: door._load.buffered_bytes == before + 499)
    return client


@pytest.mark.parametrize("headers", [(), (("Half-Token", "guess"),)], ids=["none", "wrong"])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["length", "chunked"])
async def test_no_byte_of_a_strangers_body_is_taken(
    doors: OpenDoors, headers: tuple[tuple[str, str], ...], is_chunked: bool
) -> None:
    """The token was looked at when the body was there: strangers filled the bound of all."""
    door = await doors.open(access=access_with(TOKEN), limits=http_limits(**LIMITS))
    strangers = []
    for _ in range(3):
        stranger = await doors.client(door)
        if is_chunked:
            named = (("Transfer-Encoding", "chunked"), *headers)
            asked = request("POST", "/v1/topics/orders/half", named) + b"1f4\r\n" + b"x" * 500
        else:
            asked = head(501, *headers) + b"x" * 500
        await stranger.send(asked)
        strangers.append(stranger)
    for stranger in strangers:
        answer = await stranger.answer()
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.header("connection") == "close"
    assert door._load.buffered_bytes == 0
    owner = await doors.client(door)
    assert (await owner.ask(raw_half(b"x" * 400, ("Half-Token", TOKEN)))).status == 201
    assert len(doors.service.transactions) == 1


async def test_a_page_of_a_browser_brings_no_body_in(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(**LIMITS))
    client = await doors.client(door)
    answer = await client.ask(head(501, ("Origin", "https://evil.example")) + b"x" * 500)
    assert (answer.status, answer.code) == (403, "origin_not_allowed")
    assert door._load.buffered_bytes == 0


async def test_a_refusal_without_a_body_leaves_the_connection_open(doors: OpenDoors) -> None:
    client = await doors.client(await doors.open(access=access_with(TOKEN)))
    for asked in (request("POST", "/v1/transactions/h.0/commit"), request("GET", "/v1/x")):
        answer = await client.ask(asked)
        assert (answer.status, answer.header("connection")) == (401, None)
    assert (await client.ask(raw_half(b"v", ("Half-Token", TOKEN)))).status == 201


async def test_one_address_has_half_of_the_bodies_where_nobody_is_told_apart(
    doors: OpenDoors, tmp_path: Path
) -> None:
    door = await doors.open(limits=http_limits(**LIMITS), unix_path=tmp_path / "door.sock")
    await sent_some(doors, door)
    refused = await (await doors.client(door)).ask(raw_half(b"x" * 10))
    assert (refused.status, refused.code) == (429, "overloaded")
    assert "request bodies of yours" in refused.json()["error"]["message"]
    other = await Client.unix(str(tmp_path / "door.sock"))
    assert (await other.ask(raw_half(b"x" * 400))).status == 201
    await other.close()


async def test_one_identity_has_half_of_the_bodies_from_wherever_it_calls(
    doors: OpenDoors, tmp_path: Path
) -> None:
    """It filled the bound of all, and the other team got 429."""
    door = await doors.open(
        access=Access(identities=known()),
        limits=http_limits(**LIMITS),
        unix_path=tmp_path / "door.sock",
    )
    await sent_some(doors, door, ("Half-Token", SHOP))
    elsewhere = await Client.unix(str(tmp_path / "door.sock"))
    refused = await elsewhere.ask(raw_half(b"x" * 10, ("Half-Token", SHOP)))
    assert refused.status == 429
    await elsewhere.close()
    bank = await doors.client(door)
    assert (await bank.ask(raw_half(b"x" * 400, ("Half-Token", BANK)))).status == 201


async def test_a_share_is_given_back_whatever_became_of_the_body(doors: OpenDoors) -> None:
    door = await doors.open(limits=http_limits(**LIMITS))
    load = door._load
    client = await sent_some(doors, door)
    assert (await client.ask(b"x")).status == 201  # it was taken
    await (await sent_some(doors, door)).close()  # its sender has gone
    await until(lambda: load.buffered_bytes == 0)
    refused = await doors.client(door)
    chunk = b"1f4\r\n" + b"x" * 500 + b"\r\n"
    chunked = request("POST", "/v1/topics/orders/half", [("Transfer-Encoding", "chunked")])
    assert (await refused.ask(chunked + chunk + b"rubbish")).status == 400
    doors.service.hold()
    left = await doors.client(door)
    await left.send(raw_half(b"x" * 400))
    await doors.service.until_waiting(1)
    reset(left)  # in the middle of the work
    await client.close()
    await until(lambda: door.connection_count == 0)
    assert {share.held_bytes for share in load._peer_shares.values()} == {400}
    doors.service.release()
    await until(lambda: not load._peer_shares)
    assert load.buffered_bytes == 0


async def test_whose_token_is_taken_away_while_he_sends_is_refused(doors: OpenDoors) -> None:
    """The guard is asked before the body comes; what it said holds for the identities of then."""
    access = Access(identities=known())
    door = await doors.open(access=access, limits=http_limits(**LIMITS))
    gone = await sent_some(doors, door, ("Half-Token", SHOP))
    stays = await sent_some(doors, door, ("Half-Token", BANK))
    access.replace(known()[1:])
    assert (await gone.ask(b"x")).status == 401
    assert (await stays.ask(b"x")).status == 201
