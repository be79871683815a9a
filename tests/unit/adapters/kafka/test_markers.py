"""Who waits for markers, and for how long, over log ends that a test moves."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.kafka.markers import KafkaMarkers
from halfhitch.errors import KafkaUnavailable, VisibilityUnknown

if TYPE_CHECKING:
    from collections.abc import Collection

    from halfhitch.adapters.kafka.log_ends import Log


class Logs:
    """Each topic has one partition, with one record; what is in `held` cannot be read."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)
        self.looks: Counter[str] = Counter()
        self.fails: list[Exception] = []

    def partition_count(self, topic: str) -> int | None:
        return None if topic == "gone" else 1

    def existing(self, logs: Collection[Log]) -> dict[Log, int]:
        if self.fails:
            raise self.fails.pop()
        return dict.fromkeys(logs, 1)

    def readable(self, logs: Collection[Log]) -> dict[Log, int]:
        self.looks.update(topic for topic, _ in logs)
        return {log: 0 if log[0] in self.held else 1 for log in logs}

    def markers(self, wait_s: float = 60.0) -> KafkaMarkers:
        made: Any = self
        return KafkaMarkers(made, made, wait_s=wait_s)


async def soon(waiting: Any) -> None:
    async with asyncio.timeout(10):
        await waiting


async def test_a_topic_that_is_held_back_kept_the_callers_of_all_others_waiting() -> None:
    """Another producer's open Kafka transaction on one topic: they waited, and were told that
    nobody knows whether their messages can be seen."""
    logs = Logs("b")
    markers = logs.markers()
    held = asyncio.ensure_future(markers.settled(["a", "b"]))
    beside = asyncio.ensure_future(markers.settled(["a"]))
    await soon(beside)
    await soon(markers.settled(["a", "gone"]))
    assert not held.done()
    logs.held.clear()
    await soon(held)


async def test_whoever_waits_for_long_is_told_which_topic_holds_readers_back() -> None:
    with pytest.raises(VisibilityUnknown, match="holds back the readers of b"):
        await soon(Logs("b").markers(wait_s=0.01).settled(["a", "b"]))


async def test_what_can_be_read_is_not_asked_for_again() -> None:
    logs = Logs("b")
    held = asyncio.ensure_future(logs.markers().settled(["a", "b"]))
    async with asyncio.timeout(10):
        while logs.looks["b"] < 3:
            await asyncio.sleep(0)
    assert logs.looks["a"] == 1
    logs.held.clear()
    await soon(held)


@pytest.mark.parametrize("error", [KafkaUnavailable("away"), ValueError("a bug")])
async def test_a_look_that_failed_left_those_behind_it_waiting_for_ever(error: Exception) -> None:
    logs = Logs()
    markers = logs.markers()
    logs.fails.append(error)
    with pytest.raises(VisibilityUnknown, match=r"not known: .*(away|a bug)"):
        await soon(markers.settled(["a"]))
    await soon(markers.settled(["a"]))


async def test_whoever_goes_away_leaves_nothing_to_look_for() -> None:
    logs = Logs("b")
    markers = logs.markers()
    held = asyncio.ensure_future(markers.settled(["b"]))
    async with asyncio.timeout(10):
        while not logs.looks["b"]:
            await asyncio.sleep(0)
        held.cancel()
        while markers._looking is not None:
            await asyncio.sleep(0)
