"""The door's listener, its sweep, and its way out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch.wire.remoting import codes
from harness.redis_servers import certificate
from harness.remoting_client import DEADLINE_S
from harness.rocketmq_doors import GROUP, is_closed, server_tls

if TYPE_CHECKING:
    pass


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key."""
    return certificate(tmp_path_factory.mktemp("tls"))


async def test_a_silent_connection_is_closed(stage: Any) -> None:
    client = await stage.client(await stage.open(limits={"idle_s": 0.3}))
    assert (await client.heartbeat("g")).code == 0
    await is_closed(client)
    assert stage.desk.links == []


async def test_a_frame_that_never_ends_is_not_waited_for(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = await stage.client(await stage.open(limits={"receive_s": 0.3}))
    client.raw(b"\x00\x00\x10\x00\x00")
    await is_closed(client)
    assert "was not complete after 0.3 s" in caplog.text


async def test_a_stopping_door_takes_ends_and_sends_new_messages_elsewhere(stage: Any) -> None:
    door = await stage.open()
    newer = await stage.client(door)
    older = await stage.client(door, version=409)
    sent = await newer.half(GROUP, "orders", b"x", unique="U1")
    stopping = asyncio.ensure_future(door.stop(drain_s=20))
    await stage.until(lambda: not stage.desk.links, "the producers to be let go")
    assert (await newer.half(GROUP, "orders", b"x", unique="U2")).code == codes.GO_AWAY
    assert (await older.half(GROUP, "orders", b"x", unique="U3")).code == (
        codes.SERVICE_NOT_AVAILABLE
    )
    assert (await newer.end_sync(GROUP, sent, 8)).code == 0
    await asyncio.wait_for(stopping, DEADLINE_S)
    await is_closed(newer)
    await is_closed(older)
    assert len(stage.it.halves()) == 1


async def test_a_door_without_connections_stops_at_once(stage: Any) -> None:
    door = await stage.open()
    await asyncio.wait_for(door.stop(drain_s=60), DEADLINE_S)
    assert door.port is None


async def test_an_address_in_use_is_told_with_the_settings_names(
    stage: Any, pair: tuple[Path, Path]
) -> None:
    door = await stage.open()
    with pytest.raises(ConfigurationError, match=r"rocketmq\.port"):
        await stage.open(port=door.port)
    tls = server_tls(pair)
    with pytest.raises(ConfigurationError, match=r"rocketmq\.port"):
        await stage.open(port=door.port, tls=tls)
