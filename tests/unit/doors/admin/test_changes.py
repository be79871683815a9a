"""Whoever waits for a change hears of it at once, and of none in a moment."""

from __future__ import annotations

import asyncio
import contextlib
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.access import Access, Right
from halfhitch.doors.admin import AdminDoor
from halfhitch.doors.admin.changes import Changes
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import PartitionPhase, PartitionState
from harness.admin_door import QuietSystem
from harness.identities import access_with, identity
from harness.raw_http import Client, request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from harness.raw_http import Answer

    Open = Callable[..., Coroutine[Any, Any, Client]]


ANN = "ann-token-ann-token"


class Shop(QuietSystem):
    """Owns one half partition."""

    def __init__(self) -> None:
        super().__init__()
        self.age_s = 1.0
        self.position = 7
        self.looks = 0

    def partitions(self) -> list[Any]:
        self.looks += 1
        state = PartitionState(0, PartitionPhase.WORKING, 1, 0, 0, 0, 0, self.position, 0, 0, None)
        state.oldest_age_s = self.age_s
        return [state]


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def door(shop: Shop) -> AsyncIterator[Open]:
    async with contextlib.AsyncExitStack() as closing:

        async def open_(access: Access | None = None) -> Client:
            one = AdminDoor(shop, Metrics(), [], "127.0.0.1", 0, access=access or access_with())
            await one.start()
            closing.push_async_callback(one.stop)
            return await client(one.port, closing)

        yield open_


async def client(port: int, closing: contextlib.AsyncExitStack) -> Client:
    made = await Client.tcp(port)
    closing.push_async_callback(made.close)
    return made


def asked(after: str, *headers: tuple[str, str]) -> bytes:
    return request("GET", f"/v1/changes?after={after}", headers)


def revision(answer: Answer) -> str:
    assert answer.status == 200, answer
    found: str = answer.json()["revision"]
    return found


async def test_the_present_revision_is_told_at_once_and_a_change_when_it_comes(
    shop: Shop, door: Open
) -> None:
    one = await door()
    first = revision(await one.ask(asked("0")))
    waiting = asyncio.ensure_future(one.ask(asked(first)))
    looks = shop.looks
    async with asyncio.timeout(10):
        while shop.looks < looks + 2:
            await asyncio.sleep(0.01)
    assert not waiting.done()
    shop.position += 1
    assert revision(await waiting) != first


async def test_time_alone_is_no_change(shop: Shop, door: Open) -> None:
    one = await door()
    first = revision(await one.ask(asked("0")))
    shop.age_s += 60
    assert revision(await one.ask(asked(first))) == first
    assert shop.looks > 3  # it has waited for one


async def test_what_must_be_said_and_what_is_not_taken(door: Open) -> None:
    one = await door()
    for target in ("/v1/changes", "/v1/changes?after=", "/v1/changes?before=0"):
        assert (await one.ask(request("GET", target))).status == 400


async def test_it_is_for_whoever_may_observe(door: Open) -> None:
    access = Access(identities=[identity("ann", ANN, Right.PRODUCE, groups=["shop"])])
    one = await door(access)
    refused = await one.ask(asked("0", ("Half-Token", ANN)))
    assert refused.status == 403


async def test_a_door_that_stops_lets_nobody_wait(shop: Shop) -> None:
    changes = Changes(shop, wait_s=3_600, look_s=3_600)
    first = json.loads((await answer(changes, "0")).partition(b"\r\n\r\n")[2])["revision"]
    waiting = asyncio.ensure_future(answer(changes, first))
    await asyncio.sleep(0)
    assert not waiting.done()
    changes.stop()
    async with asyncio.timeout(10):
        await waiting


async def answer(changes: Changes, after: str) -> bytes:
    asked = SimpleNamespace(caller=SimpleNamespace(require_somewhere=lambda _: None))
    asked.read_parameter = lambda _: after
    handler: Any = changes.handlers()["changes"]
    said: bytes = await handler(asked)
    return said
