"""What operators are told of half partitions that others own, while these change hands."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from halfhitch.engine import Engine
from halfhitch.errors import KafkaUnavailable
from halfhitch.service.api import Filter
from harness.engines import GROUP, PARTITION_COUNT, SESSION_MS, Site, until, until_working

pytestmark = pytest.mark.kafka

COUNT = 300
WANTED = Filter(producer_group=GROUP)


@pytest.fixture
def site(kafka: Any, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Where a new owner writes its list so slowly that everybody can see half of it."""
    monkeypatch.setattr("halfhitch.service.owner.told_index.TURN_MAX", 20)
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


class Operator:
    """Asks again and again how many are undecided."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.answers: list[tuple[int, bool]] = []  # how many, and whether that was all

    async def ask_on(self) -> None:
        while True:
            await self.ask()
            await asyncio.sleep(0)

    async def ask(self) -> tuple[int, bool]:
        for page in (
            await self._engine.operations.names(WANTED),
            await self._engine.operations.undecided(WANTED),
        ):
            self.answers.append((page.total_count, not page.missing_partitions))
        return self.answers[-1]


async def test_a_list_is_said_to_be_all_only_while_it_is_whatever_its_owners_do(
    site: Site, redis_server: Any
) -> None:
    """A bulk decision took 6,968 of 10,000 for all, while half partitions changed hands."""
    shared = {"redis_url": redis_server.url, "session_timeout_ms": SESSION_MS}
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(site.engine(**shared))
        for number in range(COUNT):
            await site.prepare(first, [site.message()], f"T{number}")
        operator = Operator(first)
        asking = asyncio.create_task(operator.ask_on())
        stack.callback(asking.cancel)
        for _ in range(2):
            second = Engine(site.options(**shared), site.observer)
            await second.start()
            await until_working(first, PARTITION_COUNT // 2)
            await until_working(second, PARTITION_COUNT // 2)
            await until(lambda: operator.answers[-1:] == [(COUNT, True)], "all are seen")
            await second.stop()
            await until_working(first, PARTITION_COUNT)
            await until(lambda: operator.answers[-1:] == [(COUNT, True)], "all are seen")
        assert not asking.done()
    said_to_be_all = {count for count, is_all in operator.answers if is_all}
    assert said_to_be_all == {COUNT}
    assert any(not is_all for _, is_all in operator.answers), "nobody saw half a list"


async def test_an_engine_that_has_not_reached_kafka_does_not_say_that_nothing_is_undecided(
    site: Site,
) -> None:
    engine = Engine(site.options(bootstrap="127.0.0.1:1"), site.observer)
    await engine.start()
    try:
        with pytest.raises(KafkaUnavailable, match="not been reached yet"):
            await Operator(engine).ask()
    finally:
        await engine.stop()
