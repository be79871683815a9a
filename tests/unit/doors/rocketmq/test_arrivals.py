"""Who has a place at the RocketMQ door, and who makes room."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.wire.remoting import codes
from harness.identities import access
from harness.rocketmq_doors import is_closed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from conftest import Stage
    from halfhitch.doors.rocketmq import RocketmqDoor
    from harness.remoting_client import RemotingClient

SECRETS = {"shop-key": "shop-secret", "bank-key": "bank-secret"}
SHOP = {"access_key": "shop-key", "secret_key": "shop-secret"}
BANK = {"access_key": "bank-key", "secret_key": "bank-secret"}
LIMITS = {"connection_count_max": 6, "connection_peer_count_max": 3}


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


async def opened(stage: Stage, **limits: int) -> RocketmqDoor:
    return await stage.open(access_secrets=SECRETS, access=access(), limits={**LIMITS, **limits})


async def came(stage: Stage, door: RocketmqDoor, local: str, **proof: str) -> RemotingClient:
    """Counted, before the next one comes."""
    before = door._load.stats.connection_count
    made = await stage.client(door, local=local, **proof)
    if not proof:
        door_is_full = before >= LIMITS["connection_count_max"]
        await stage.until(
            lambda: door._load.stats.connection_count > before or door_is_full, "its place"
        )
        await asyncio.sleep(0.01)
    return made


async def test_strangers_of_two_addresses_do_not_keep_out_who_has_a_key(stage: Stage) -> None:
    """Each had half of the places, and everybody else was closed without a word."""
    door = await opened(stage)
    strangers = [await came(stage, door, f"127.0.0.{2 + n % 2}") for n in range(6)]
    clients = [await came(stage, door, "127.0.0.4", **SHOP) for _ in range(3)]
    for client in clients:
        assert (await client.heartbeat("shop")).code == codes.SUCCESS
    for stranger in strangers[:3]:
        await is_closed(stranger)
    assert door.snapshot().connection_count == 6
    assert not any(stranger.closed.is_set() for stranger in strangers[3:])


async def test_strangers_of_the_own_address_do_not_keep_out_who_has_a_key(stage: Stage) -> None:
    door = await opened(stage)
    strangers = [await came(stage, door, "127.0.0.1") for _ in range(3)]
    clients = []
    for stranger in strangers:
        clients.append(await stage.client(door, **SHOP))
        assert (await clients[-1].heartbeat("shop")).code == codes.SUCCESS
        await is_closed(stranger)
    await is_closed(await stage.client(door, **SHOP))  # the address has all that it may have
    assert (await clients[0].heartbeat("shop")).code == codes.SUCCESS


async def test_one_identity_of_several_addresses_cannot_take_all_connections(
    stage: Stage,
) -> None:
    """What it asks over more than its share is refused, and these make room for others."""
    door = await opened(stage, connection_identity_count_max=2)
    theirs = [await came(stage, door, f"127.0.0.{2 + n}", **BANK) for n in range(4)]
    told = [(await client.heartbeat("bank")).code for client in theirs]
    assert told == [codes.SUCCESS] * 2 + [codes.SYSTEM_BUSY] * 2
    again = await theirs[2].heartbeat("bank")
    assert again.code == codes.SYSTEM_BUSY
    assert "identity 'bank' has, from all its addresses, 2 connections" in (again.remark or "")
    ours = [await came(stage, door, "127.0.0.9", **SHOP) for _ in range(2)]
    for client in ours:
        assert (await client.heartbeat("shop")).code == codes.SUCCESS
    ours.append(await came(stage, door, "127.0.0.9", **SHOP))
    assert (await ours[-1].heartbeat("shop")).code == codes.SYSTEM_BUSY, "of the shop's, too"
    await is_closed(theirs[2])


async def test_an_identity_that_has_closed_connections_may_have_others(stage: Stage) -> None:
    door = await opened(stage, connection_identity_count_max=1)
    for _ in range(3):
        async with AsyncExitStack() as stack:
            client: Any = await stack.enter_async_context(_client(door))
            assert (await client.heartbeat("shop")).code == codes.SUCCESS
        await stage.until(lambda: door.snapshot().connection_count == 0, "it has gone")


async def test_who_shows_a_wrong_signature_stays_a_stranger(stage: Stage) -> None:
    door = await opened(stage, connection_count_max=1)
    guessing = await came(stage, door, "127.0.0.2", access_key="shop-key", secret_key="guessed")
    assert (await guessing.heartbeat("shop")).code == codes.NO_PERMISSION
    client = await stage.client(door, **SHOP)
    assert (await client.heartbeat("shop")).code == codes.SUCCESS
    await is_closed(guessing)


async def test_where_no_signature_is_asked_for_newcomers_are_turned_away(stage: Stage) -> None:
    door = await stage.open(limits=LIMITS)
    clients = [await stage.client(door) for _ in range(3)]
    for client in clients:
        assert (await client.heartbeat("g")).code == codes.SUCCESS
    await is_closed(await stage.client(door))
    assert not any(client.closed.is_set() for client in clients)


def _client(door: RocketmqDoor) -> RemotingClient:
    from harness.remoting_client import RemotingClient

    assert door.port is not None
    return RemotingClient(door.port, **SHOP)
