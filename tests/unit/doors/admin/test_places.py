"""One identity leaves places at work, and scrapes, to the others."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.access import Access, Right
from halfhitch.doors.admin import AdminDoor
from halfhitch.doors.admin.door import ADMIN_LIMITS
from halfhitch.observability.metrics import Metrics
from harness.admin_door import QuietSystem
from harness.fake_operations import FakeOperations
from harness.identities import identity
from harness.raw_http import Answer, Client, request, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

ANN, BOB, PROMETHEUS = "ann-token-ann-token", "bob-token-bob-token", "prometheus-prometheus"


class SlowOperations(FakeOperations):
    """Works on a question until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.asked_count = 0

    async def parked(self, wanted: Any) -> Any:
        self.asked_count += 1
        await self.may_answer.wait()
        return await super().parked(wanted)


class SlowMetrics(Metrics):
    """Renders when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.may_render = threading.Event()

    def render(self, partitions: Sequence[Any] = (), *, with_examples: bool = False) -> bytes:
        self.may_render.wait(60)
        return super().render(partitions, with_examples=with_examples)


class Stage:
    """A door with three identities, and requests to it."""

    def __init__(self, closing: contextlib.AsyncExitStack) -> None:
        self._closing = closing
        self.operations = SlowOperations()
        self.metrics = SlowMetrics()
        self._asking: list[asyncio.Task[Answer]] = []

    async def open(self, **limits: Any) -> None:
        known = [
            identity("ann", ANN, Right.OBSERVE, groups=("shop",)),
            identity("bob", BOB, Right.OBSERVE, groups=("bank",)),
            identity("prometheus", PROMETHEUS, Right.OBSERVE, groups=("*",)),
        ]
        self.door = AdminDoor(
            QuietSystem(),
            self.metrics,
            (),
            "127.0.0.1",
            0,
            access=Access(identities=known),
            operations=self.operations,
            limits=replace(ADMIN_LIMITS, **limits),
        )
        await self.door.start()
        self._closing.push_async_callback(self.door.stop)

    async def asked(self, token: str | None, path: str) -> Answer:
        client = await Client.tcp(self.door.port)
        self._closing.push_async_callback(client.close)
        headers = [] if token is None else [("Half-Token", token)]
        return await client.ask(request("GET", path, headers))

    def asking(self, count: int, token: str, path: str) -> list[asyncio.Task[Answer]]:
        made = [asyncio.create_task(self.asked(token, path)) for _ in range(count)]
        self._asking += made
        return made

    async def let_go(self) -> None:
        self.operations.may_answer.set()
        self.metrics.may_render.set()
        await asyncio.gather(*self._asking, return_exceptions=True)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with contextlib.AsyncExitStack() as closing:
        made = Stage(closing)
        closing.push_async_callback(made.let_go)
        yield made


async def test_who_may_observe_one_group_kept_all_others_waiting(stage: Stage) -> None:
    await stage.open(in_flight_count_max=8)
    held = stage.asking(4, ANN, "/v1/parked")
    await until(lambda: stage.operations.asked_count == 4)
    refused = await stage.asked(ANN, "/v1/parked")
    assert (refused.status, refused.code, refused.header("retry-after")) == (429, "overloaded", "1")
    assert "identity 'ann'" in refused.json()["error"]["message"]
    assert (await stage.asked(BOB, "/v1/status")).status == 200
    others = stage.asking(4, BOB, "/v1/parked")
    await until(lambda: stage.operations.asked_count == 8)
    full = await stage.asked(PROMETHEUS, "/v1/status")
    assert (full.status, full.code) == (429, "overloaded")
    stage.metrics.may_render.set()
    assert (await stage.asked(PROMETHEUS, "/metrics")).status == 200
    for path in ("/livez", "/readyz"):
        assert (await stage.asked(None, path)).status == 204
    stage.operations.may_answer.set()
    assert [(await answer).status for answer in (*held, *others)] == [200] * 8
    assert (await stage.asked(ANN, "/v1/parked")).status == 200, "the places were given back"


async def test_a_scrape_waited_behind_the_searches_of_an_operator(stage: Stage) -> None:
    """Both ran on the few threads of the event loop, and a search of Kafka takes seconds."""
    await stage.open()
    stage.metrics.may_render.set()
    may_end = threading.Event()
    searches = [asyncio.create_task(asyncio.to_thread(may_end.wait, 60)) for _ in range(64)]
    try:
        assert (await stage.asked(PROMETHEUS, "/metrics")).status == 200
    finally:
        may_end.set()
        await asyncio.gather(*searches)


async def test_scrapes_have_bounds_of_their_own_and_leave_probes_theirs(stage: Stage) -> None:
    await stage.open()
    held = stage.asking(8, PROMETHEUS, "/metrics")
    await until(lambda: len(stage.door._listening._load.tasks) == 8)  # type: ignore[union-attr]
    assert (await stage.asked(PROMETHEUS, "/metrics")).status == 429
    assert (await stage.asked(ANN, "/metrics")).status == 403, "and takes no place of hers"
    assert (await stage.asked(None, "/livez")).status == 204
    stage.metrics.may_render.set()
    assert [(await answer).status for answer in held] == [200] * 8
