"""Which topics exist: who asks for many keeps no other from his thread, and not without end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from halfhitch.adapters.kafka import catalog as module
from halfhitch.adapters.kafka.catalog import KafkaTopicCatalog
from halfhitch.errors import Overloaded

DEADLINE_S = 20


class SlowKafka:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.answered = threading.Event()
        self.entered = threading.Event()
        self.asked: list[str] = []

    def list_topics(self, topic: str, _: float) -> Any:
        self.asked.append(topic)
        self.entered.set()
        assert self.answered.wait(DEADLINE_S)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=[0, 1])})


async def test_prepares_to_many_unknown_topics_hold_up_nothing_but_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CALLS_MAX", 6)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    kafka = SlowKafka()
    catalog = KafkaTopicCatalog(kafka)  # type: ignore[arg-type]
    asking = [asyncio.create_task(catalog.refresh(f"topic-{number}")) for number in range(6)]
    again = asyncio.create_task(catalog.refresh("topic-5"))  # shares the request of the other
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert kafka.entered.wait(DEADLINE_S)
    with pytest.raises(Overloaded, match="look for topics"):
        await catalog.refresh("topic-6")
    assert await asyncio.wait_for(asyncio.to_thread(int), DEADLINE_S) == 0
    kafka.answered.set()
    assert await asyncio.gather(*asking, again) == [2] * 7
    assert await catalog.refresh("topic-6") == 2
    assert sorted(kafka.asked) == [f"topic-{number}" for number in range(7)]
    catalog.stop()


class ForgetfulKafka:
    """A cluster in which the broker that is asked knows the topic or not, answer by answer."""

    def __init__(self, *knows: bool) -> None:
        self._knows = list(knows)

    def list_topics(self, topic: str, _: float) -> Any:
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        found = SimpleNamespace(error=None if self._knows.pop(0) else error, partitions=[0, 1])
        return SimpleNamespace(topics={topic: found})


@pytest.mark.parametrize(
    ("knows", "counts"),
    [((False, True), [2]), ((False, False), [None]), ((True, False, True), [2, 2])],
    ids=["created a moment ago", "missing", "asked for again, of a broker that has just started"],
)
async def test_a_topic_is_missing_when_kafka_has_said_so_twice(
    knows: tuple[bool, ...], counts: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A prepare was told unknown_topic, and refused for good, for a topic that was there: one broker
    # of three had not heard of it.
    monkeypatch.setattr(module, "_SAID_AGAIN_S", 0.0)
    kafka = ForgetfulKafka(*knows)
    catalog = KafkaTopicCatalog(kafka)  # type: ignore[arg-type]
    assert [await catalog.refresh("orders") for _ in counts] == counts
    assert catalog.partition_count("orders") == counts[-1]
    assert not kafka._knows
    catalog.stop()
