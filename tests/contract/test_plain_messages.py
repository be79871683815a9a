"""What every RecordLog promises of plain messages, and every TopicCatalog of making topics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import (
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    UnknownTopic,
)
from harness.kafka import fresh_name
from harness.partitioning import java_partition
from harness.worlds import (
    SMALL_RECORD_BYTES_MAX,
    TARGET_PARTITION_COUNT,
    Feature,
    needs,
)

if TYPE_CHECKING:
    from harness.worlds import World


async def test_a_plain_message_lies_where_the_answer_says(world: World) -> None:
    topic = world.targets[0]
    async with world.record_log() as log:
        answers = await asyncio.gather(
            *[log.append_message(topic, 1, b"k", b"m%d" % n, [("n", None)]) for n in range(3)]
        )
    assert answers == [(1, 0), (1, 1), (1, 2)]
    assert [(r.partition, r.offset, r.key, r.value, r.headers) for r in world.committed(topic)] == [
        (1, n, b"k", b"m%d" % n, (("n", None),)) for n in range(3)
    ]


async def test_a_keyed_message_without_a_partition_keeps_to_one(world: World) -> None:
    topic = world.targets[0]
    async with world.record_log() as log:
        answers = [await log.append_message(topic, None, b"key", b"x", []) for _ in range(3)]
        await log.append_message(topic, None, None, b"anywhere", [])
    assert len({partition for partition, _ in answers}) == 1
    records = world.committed(topic)
    assert sorted((r.partition, r.offset) for r in records if r.key) == sorted(answers)
    assert sum(r.value == b"anywhere" for r in records) == 1


@needs(Feature.JAVA_PARTITIONING)
async def test_a_keyed_message_goes_where_a_java_producer_would_send_it(world: World) -> None:
    topic = world.targets[0]
    keys = [b"key-%d" % n for n in range(20)]
    async with world.record_log() as log:
        answers = [await log.append_message(topic, None, key, b"x", []) for key in keys]
    assert [partition for partition, _ in answers] == [
        java_partition(key, TARGET_PARTITION_COUNT) for key in keys
    ]


async def test_a_plain_message_for_nowhere_says_so_and_harms_no_other(world: World) -> None:
    async with world.record_log() as log:
        with pytest.raises((UnknownTopic, OutcomeUnknown)):
            await log.append_message(fresh_name("no-such-topic"), 0, None, b"lost", [])
        large = bytes(SMALL_RECORD_BYTES_MAX + 1)
        with pytest.raises((MessageTooLarge, OutcomeUnknown)):
            await log.append_message(world.targets[1], 0, None, large, [])
        assert await log.append_message(world.targets[0], 0, None, b"stored", []) == (0, 0)
        assert await log.append_half(0, None, b"half", []) == 0


async def test_without_kafka_nobody_knows_whether_a_plain_message_is_stored(world: World) -> None:
    async with world.record_log(away=True) as log:
        with pytest.raises(OutcomeUnknown):
            await log.append_message(world.targets[0], 0, None, b"x", [])


async def test_whoever_waits_for_a_plain_message_may_go_away(world: World) -> None:
    async with world.record_log() as log:
        gone = log.append_message(world.targets[0], 0, None, b"first", [])
        gone.cancel()
        assert await log.append_message(world.targets[0], 0, None, b"second", []) == (0, 1)


# -- topics --------------------------------------------------------------------------------------


async def test_all_topics_are_told_with_their_partitions(world: World) -> None:
    found = await world.catalog().all()
    assert found[world.targets[0]] == TARGET_PARTITION_COUNT
    assert world.half_topic in found


async def test_a_topic_is_made_once(world: World) -> None:
    catalog, topic = world.catalog(), fresh_name("made")
    assert await catalog.refresh(topic) is None
    for _ in range(2):
        await catalog.create(topic, 2)
    give_up_s = asyncio.get_running_loop().time() + 20
    while (count := await catalog.refresh(topic)) is None:
        assert asyncio.get_running_loop().time() < give_up_s
        await asyncio.sleep(0.05)
    assert count == 2


async def test_the_end_of_a_partition_is_the_offset_of_the_next_record(world: World) -> None:
    catalog, topic = world.catalog(), world.targets[0]
    assert await catalog.end_offset(topic, 1) == 0
    world.put(topic, [b"x", b"y"], partition=1)
    assert await catalog.end_offset(topic, 1) == 2


async def test_without_kafka_no_question_about_topics_is_answered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch.adapters.kafka.catalog._ASK_S", 0.3)
    monkeypatch.setattr("halfhitch.adapters.kafka.catalog._CREATE_S", 0.3)
    monkeypatch.setattr("halfhitch.adapters.kafka.admin._GRACE_S", 0.3)
    catalog = world.catalog(away=True)
    for question in (
        catalog.all(),
        catalog.create("x", 1),
        catalog.end_offset(world.targets[0], 0),
    ):
        with pytest.raises(KafkaUnavailable):
            await question
