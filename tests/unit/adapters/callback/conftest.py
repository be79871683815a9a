"""A world to ask in, on both event loops: every async test in this folder runs on each."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from harness.callback_world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """At the end no exception may have reached the event loop."""
    failures: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    async with AsyncExitStack() as stack:
        world = World(stack)
        stack.push_async_callback(world.server.stop)
        yield world
    assert failures == []
