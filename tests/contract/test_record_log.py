"""What every RecordLog and every TopicCatalog promises."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import KafkaUnavailable, MessageTooLarge, OutcomeUnknown
from harness.worlds import (
    PARTITION_COUNT,
    RECORD_BYTES_MAX,
    TARGET_PARTITION_COUNT,
    drain,
)

if TYPE_CHECKING:
    from harness.worlds import World


async def test_an_append_answers_with_the_offset_at_which_the_record_lies(world: World) -> None:
    async with world.record_log() as log:
        halves = await asyncio.gather(
            *[log.append_half(1, b"k", b"half %d" % n, [("n", b"%d" % n)]) for n in range(5)]
        )
        ops = [await log.append_op(1, b"op %d" % n, []) for n in range(2)]
    assert halves == [0, 1, 2, 3, 4]
    assert ops == [0, 1]
    half_records = world.committed(world.half_topic)
    assert [(r.partition, r.offset, r.key, r.value, r.headers) for r in half_records] == [
        (1, n, b"k", b"half %d" % n, (("n", b"%d" % n),)) for n in range(5)
    ]
    assert [(r.partition, r.key, r.value) for r in world.committed(world.op_topic)] == [
        (1, None, b"op 0"),
        (1, None, b"op 1"),
    ]


async def test_null_keys_values_and_header_values_survive_as_they_are(world: World) -> None:
    headers = [("a", b"1"), ("a", None), ("", b""), ("a", b"1"), ("ü", b"\x00\xff")]
    async with world.record_log() as log:
        await log.append_half(0, None, None, headers)
        await log.append_half(0, b"", b"", headers)
    reader = world.reader()
    reader.begin(None, None)
    (nulls, empties), _ = drain(reader, op=False)
    assert (nulls.key(), nulls.value(), nulls.headers()) == (None, None, headers)
    assert (empties.key(), empties.value(), empties.headers()) == (b"", b"", headers)


async def test_a_waiter_who_goes_away_disturbs_nobody(world: World) -> None:
    async with world.record_log() as log:
        gone = log.append_half(0, None, b"first", [])
        gone.cancel()
        assert await log.append_half(0, None, b"second", []) == 1
    assert [r.value for r in world.committed(world.half_topic)] == [b"first", b"second"]


async def test_a_partition_that_does_not_exist_is_surely_not_stored(world: World) -> None:
    async with world.record_log() as log:
        with pytest.raises(KafkaUnavailable):
            await log.append_half(PARTITION_COUNT, None, b"lost", [])
        assert await log.append_half(0, None, b"stored", []) == 0
    assert [r.value for r in world.committed(world.half_topic)] == [b"stored"]


async def test_without_kafka_nobody_knows_whether_a_record_is_stored(world: World) -> None:
    async with world.record_log(away=True) as log:
        futures = [log.append_half(0, None, b"x", []), log.append_op(0, b"1,", [])]
        for future in futures:
            with pytest.raises(OutcomeUnknown):
                await future


async def test_a_record_that_is_too_large_is_surely_not_stored(world: World) -> None:
    async with world.record_log() as log:
        with pytest.raises(MessageTooLarge):
            await log.append_half(0, None, bytes(2 * RECORD_BYTES_MAX), [])
        assert await log.append_half(0, None, b"small", []) == 0


async def test_a_topic_is_not_known_before_it_was_asked_for(world: World) -> None:
    catalog = world.catalog()
    assert catalog.partition_count(world.targets[0]) is None
    assert await catalog.refresh(world.targets[0]) == TARGET_PARTITION_COUNT
    assert catalog.partition_count(world.targets[0]) == TARGET_PARTITION_COUNT


async def test_a_topic_that_does_not_exist_is_said_not_to(world: World) -> None:
    catalog = world.catalog()
    assert await catalog.refresh("no-such-topic") is None
    assert catalog.partition_count("no-such-topic") is None


async def test_without_kafka_a_topic_is_never_said_not_to_exist(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch.adapters.kafka.catalog._ASK_S", 0.3)
    with pytest.raises(KafkaUnavailable):
        await world.catalog(away=True).refresh(world.targets[0])
