"""Doors for tests, on both event loops: every async test in this folder runs on each."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from halfhitch.doors.http import HttpDoor
from harness.defaults import http_limits
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with
from harness.raw_http import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class OpenDoors:
    """Opens doors and connections, and closes them all at the end of the test."""

    def __init__(self) -> None:
        self.service = FakeTransactions()
        self.opened: list[HttpDoor] = []
        self._clients: list[Client] = []

    async def open(self, **settings: Any) -> HttpDoor:
        """A door over the fake service, on a free port."""
        usual = {"port": 0, "access": access_with(), "limits": http_limits()}
        door = HttpDoor(self.service, **usual | settings)
        await door.start()
        self.opened.append(door)
        return door

    async def client(self, door: HttpDoor) -> Client:
        """A connection over TCP, or over the unix socket if there is no TCP."""
        if door.port is None:
            assert door.unix_path is not None
            client = await Client.unix(door.unix_path)
        else:
            client = await Client.tcp(door.port)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        self.service.release()
        for client in self._clients:
            await client.close()
        for door in self.opened:
            await door.stop(drain_s=0)


@pytest.fixture
async def doors() -> AsyncIterator[OpenDoors]:
    """Doors to open; at the end no exception may have reached the event loop."""
    failures: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    opened = OpenDoors()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(opened.close)
        yield opened
    assert failures == []


@pytest.fixture
async def client(doors: OpenDoors) -> Client:
    """A connection to a door with default settings."""
    return await doors.client(await doors.open())
