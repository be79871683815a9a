"""A Kafka in memory with one topic."""

from __future__ import annotations

import pytest

from halfhitch.adapters.memory import MemoryClock, MemoryKafka


@pytest.fixture
def kafka() -> MemoryKafka:
    made = MemoryKafka(MemoryClock())
    made.create_topic("orders", 3)
    return made
