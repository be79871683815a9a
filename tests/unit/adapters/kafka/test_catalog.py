"""Which topics exist: who asks for many keeps no other from his thread, and not without end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

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
