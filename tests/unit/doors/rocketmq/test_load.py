"""How much all connections together may hold."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from harness.rocketmq_doors import is_closed

if TYPE_CHECKING:
    pass


async def test_unfinished_frames_together_are_bounded(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = await stage.client(await stage.open(limits={"held_bytes_max": 1_000}))
    client.raw(b"\x00\x00\x10\x00" + bytes(2_000))
    await is_closed(client)
    assert "too many unfinished frames" in caplog.text


async def test_one_address_cannot_take_all_connections(
    stage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    door = await stage.open(limits={"connection_peer_count_max": 2})
    first, second = await stage.client(door), await stage.client(door)
    assert (await first.heartbeat()).code == (await second.heartbeat()).code == 0
    await is_closed(await stage.client(door))
    assert "rocketmq.connections_peer_max" in caplog.text
    _, writer = await asyncio.open_connection("127.0.0.1", door.port, local_addr=("127.0.0.2", 0))
    await stage.until(lambda: door.snapshot().connection_count == 3, "another address is let in")
    writer.close()
    await second.__aexit__(None, None, None)
    await stage.until(lambda: door.snapshot().connection_count == 1, "places come free")
    assert (await (await stage.client(door)).heartbeat()).code == 0


async def test_connections_are_bounded(stage: Any, caplog: pytest.LogCaptureFixture) -> None:
    door = await stage.open(limits={"connection_count_max": 1})
    first = await stage.client(door)
    assert (await first.heartbeat()).code == 0
    await is_closed(await stage.client(door))
    assert "rocketmq.connections_max" in caplog.text
    assert (await first.heartbeat()).code == 0
