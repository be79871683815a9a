"""RocketMQ doors over a Kafka in memory, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from halfhitch.adapters.memory import MemoryTopicCatalog
from halfhitch.doors.rocketmq import RocketmqDoor, RocketmqOptions
from halfhitch.service.transactions.admission import Admission
from halfhitch.service.transactions.topic_directory import TopicDirectory
from harness.coordinator import Coordinator
from harness.defaults import rocketmq_limits
from harness.fake_desk import FakeDesk
from harness.remoting_client import RemotingClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from halfhitch.access import Access
    from halfhitch.doors.rocketmq.lending import Lending


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Stage:
    """A coordinator in memory, doors over it, and clients of these."""

    def __init__(self, clients: contextlib.AsyncExitStack) -> None:
        # No owner turns by itself here: whoever waits for one asks the logs soon.
        self.it = Coordinator(visible_wait_s=0.02)
        self.kafka = self.it.kafka
        self.desk = FakeDesk()
        self.unready: list[str] = []
        self.doors: list[RocketmqDoor] = []
        self._clients = clients

    async def open(
        self,
        *,
        limits: dict[str, Any] | None = None,
        lending: Lending | None = None,
        access: Access | None = None,
        **options: Any,
    ) -> RocketmqDoor:
        policy, catalog = self.it.twin.policy, MemoryTopicCatalog(self.kafka)
        admission = Admission(policy=policy, catalog=catalog, message_bytes_max=10_000)
        door = RocketmqDoor(
            self.it.service,
            self.it.service.sends,
            TopicDirectory(policy, catalog, admission),
            wall_ms=self.it.twin.clock.wall_ms,
            desk=self.desk,
            unready_reasons=lambda: self.unready,
            options=replace(RocketmqOptions(port=0), **options),
            limits=rocketmq_limits(**(limits or {})),
            lending=lending,
            access=access,
        )
        await door.start()
        self.doors.append(door)
        return door

    async def client(self, door: RocketmqDoor, **options: Any) -> RemotingClient:
        assert door.port is not None
        return await self._clients.enter_async_context(RemotingClient(door.port, **options))

    async def until(self, happened: Callable[[], object], what: str) -> None:
        give_up_s = asyncio.get_running_loop().time() + 15
        while not happened():
            assert asyncio.get_running_loop().time() < give_up_s, f"not in time: {what}"
            await asyncio.sleep(0.005)

    def stored(self, topic: str = "orders") -> list[Any]:
        return self.kafka.committed(topic)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """At the end no exception may have reached the event loop."""
    failures: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    async with contextlib.AsyncExitStack() as clients:
        made = Stage(clients)
        try:
            yield made
        finally:
            for door in made.doors:
                await door.stop(drain_s=0)
    assert failures == []


@pytest.fixture
async def client(stage: Stage) -> RemotingClient:
    """A connection to a door with default settings."""
    return await stage.client(await stage.open())
