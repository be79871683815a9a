"""Topics that messages may go to, for doors whose clients ask where a topic lies."""

from typing import Any

import pytest

from halfhitch.adapters.memory.clock import MemoryClock
from halfhitch.adapters.memory.kafka import MemoryKafka
from halfhitch.adapters.memory.record_log import MemoryTopicCatalog
from halfhitch.errors import ForbiddenTopic, InvalidPartition, KafkaUnavailable, UnknownTopic
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.service.transactions import topic_directory
from halfhitch.service.transactions.admission import Admission
from halfhitch.service.transactions.topic_directory import TopicDirectory


def new_directory(catalog: Any = None) -> TopicDirectory:
    if catalog is None:
        kafka = MemoryKafka(MemoryClock())
        kafka.create_topic("orders", 3)
        kafka.create_topic("secret", 1)
        catalog = MemoryTopicCatalog(kafka)
    policy = TopicPolicy(internal_topics=(), allow=("orders", "new*"))
    admission = Admission(policy=policy, catalog=catalog, message_bytes_max=1_000)
    return TopicDirectory(policy, catalog, admission)


async def test_what_was_learned_is_known_without_asking() -> None:
    directory = new_directory()
    assert directory.known_count("orders") is None
    assert await directory.count("orders") == 3
    assert directory.known_count("orders") == 3


async def test_topics_that_are_not_allowed_are_refused_and_not_listed() -> None:
    directory = new_directory()
    assert await directory.all() == {"orders": 3}
    with pytest.raises(ForbiddenTopic):
        directory.known_count("secret")
    with pytest.raises(ForbiddenTopic):
        await directory.create("secret", 1)


async def test_the_end_of_a_partition_that_is_not_there_is_refused_with_those_that_are() -> None:
    directory = new_directory()
    assert await directory.end("orders", 2) == 0
    for partition in (-1, 3):
        with pytest.raises(InvalidPartition, match="has partitions 0 to 2"):
            await directory.end("orders", partition)
    with pytest.raises(UnknownTopic):
        await directory.end("new", 0)


async def test_a_topic_that_was_made_can_be_written_to() -> None:
    directory = new_directory()
    assert await directory.create("new", 2) == 2
    assert directory.known_count("new") == 2


async def test_a_topic_that_is_not_seen_after_it_was_made_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Blind(MemoryTopicCatalog):
        async def refresh(self, topic: str) -> int | None:
            return None

    monkeypatch.setattr(topic_directory, "_SEEN_PAUSE_S", 0.0)
    with pytest.raises(KafkaUnavailable, match="was created but is not seen yet"):
        await new_directory(Blind(MemoryKafka(MemoryClock()))).create("new", 2)
