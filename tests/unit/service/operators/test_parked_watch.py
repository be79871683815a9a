"""The number of what is parked: by one instance, and without reading more than needed."""

from __future__ import annotations

import asyncio

import pytest

from halfhitch.errors import KafkaUnavailable
from halfhitch.service.api import PartitionPhase, PartitionState
from halfhitch.service.operators.parked_watch import ParkedWatch
from harness.scraped import owned


class Topic:
    """A parked topic with so many transactions."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.left_out_count = self.read_count = 0
        self.error: KafkaUnavailable | None = None

    async def extent(self) -> dict[int, tuple[int, int]]:
        if self.error is not None:
            raise self.error
        return {0: (0, len(self.names))}

    async def parkings(self) -> tuple[list[str], int]:
        self.read_count += 1
        return self.names, self.left_out_count


class World:
    def __init__(self) -> None:
        self.topic = Topic()
        self.states: list[PartitionState] = [owned(0)]
        self.told: list[int | None] = []
        self.watch = ParkedWatch(self.topic, lambda: self.states, self.told.append)

    async def look(self) -> int | None:
        await self.watch.look()
        return self.told[-1]


@pytest.fixture
def world() -> World:
    return World()


async def test_what_is_parked_is_counted_and_the_topic_read_when_it_has_changed(
    world: World,
) -> None:
    assert await world.look() == 0
    world.topic.names += ["T1", "T2"]
    assert await world.look() == 2
    for _ in range(3):
        assert await world.look() == 2
    assert world.topic.read_count == 2
    world.topic.names, world.topic.left_out_count = ["T1", "T2", "T3"], 40
    assert await world.look() == 43


async def test_whoever_does_not_work_on_the_first_half_partition_says_nothing(world: World) -> None:
    world.topic.names = ["T1"]
    assert await world.look() == 1
    for states in ([], [owned(1)], [owned(0, PartitionPhase.TAKING_OVER)]):
        world.states = states
        assert await world.look() is None
    world.states = [owned(0), owned(1)]
    assert await world.look() == 1
    assert world.topic.read_count == 2, "others may have counted meanwhile"


async def test_without_kafka_the_last_number_stands_and_the_watch_goes_on(world: World) -> None:
    world.topic.names = ["T1"]
    assert await world.look() == 1
    world.topic.error, world.topic.names = KafkaUnavailable("away"), ["T1", "T2"]
    assert await world.look() == 1
    world.topic.error = None
    assert await world.look() == 2


async def test_a_topic_that_takes_long_is_looked_at_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 0.0, 0.0, 0.5, 100.0, 130.0])
    monkeypatch.setattr("halfhitch.service.operators.parked_watch.monotonic", lambda: next(times))
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        world.states = [owned(0)]
        if len(pauses) == 3:
            raise asyncio.CancelledError

    world.states = []
    with pytest.raises(asyncio.CancelledError):
        await world.watch.run(sleep)
    assert pauses == [2.0, 60.0, 600.0], "who begins to work on it tells soon"
