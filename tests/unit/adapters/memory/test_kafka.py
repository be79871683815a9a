"""What a Kafka in memory does on a test's demand; what it shares with a real one is in contract."""

from __future__ import annotations

import pytest

from halfhitch.adapters.memory import (
    MemoryClock,
    MemoryKafka,
    MemoryMarkers,
    MemoryPartitionReader,
    MemoryPartitionWriter,
    MemoryTopicCatalog,
)
from halfhitch.errors import (
    KafkaUnavailable,
    TopologyError,
)
from halfhitch.ports import ReadBatch, TargetRecord, WriteOutcome


def target(value: bytes = b"v", key: bytes | None = None) -> TargetRecord:
    return TargetRecord("orders", None, key, value, [])


# -- the clock -----------------------------------------------------------------------------------


def test_time_passes_only_when_told_and_the_wall_may_jump_alone() -> None:
    clock = MemoryClock(wall_ms=1_000_000)
    assert clock.wall_ms() == 1_000_000
    began_s = clock.monotonic_s()
    clock.advance(1.5)
    assert (clock.wall_ms(), clock.monotonic_s() - began_s) == (1_001_500, 1.5)
    clock.jump(-3_600)
    assert (clock.wall_ms(), clock.monotonic_s() - began_s) == (-2_598_500, 1.5)


def test_records_carry_the_brokers_time() -> None:
    clock = MemoryClock(wall_ms=5_000)
    kafka = MemoryKafka(clock)
    kafka.append(kafka.half_topic, 0, None, b"1", [])
    clock.advance(2)
    kafka.append(kafka.half_topic, 0, None, b"2", [])
    times = [record.timestamp() for record in kafka.committed(kafka.half_topic)]
    assert times == [(2, 5_000), (2, 7_000)]


# -- appends that go wrong -----------------------------------------------------------------------


async def test_with_kafka_away_everything_says_so(kafka: MemoryKafka) -> None:
    reader, writer = MemoryPartitionReader(kafka), MemoryPartitionWriter(kafka)
    writer.fence()
    reader.begin(None, None)
    kafka.append(kafka.half_topic, 0, None, b"v", [])
    kafka.faults.is_away = True
    for ask in (
        reader.committed_positions,
        lambda: reader.begin(None, None),
        lambda: reader.fetch_halves([0]),
        reader.half_end,
        writer.fence,
    ):
        with pytest.raises(KafkaUnavailable):
            ask()
    assert reader.read(0.0) == ReadBatch([], [])
    assert writer.write([target()], [], 0, 0).outcome is WriteOutcome.FAIL
    with pytest.raises(KafkaUnavailable):
        await MemoryTopicCatalog(kafka).refresh("orders")
    kafka.faults.is_away = False
    assert [record.value() for record in reader.read(0.0).half] == [b"v"]


# -- writes that go wrong ------------------------------------------------------------------------


def test_a_topic_that_does_not_exist_cannot_be_looked_into(kafka: MemoryKafka) -> None:
    with pytest.raises(TopologyError):
        kafka.log("nowhere", 0)
    with pytest.raises(TopologyError):
        kafka.log("orders", 3)


# -- reading -------------------------------------------------------------------------------------


async def test_nothing_waits_for_markers_but_the_question_is_kept() -> None:
    markers = MemoryMarkers()
    await markers.settled(["orders", "points", "orders"])
    assert markers.asked == [frozenset({"orders", "points"})]
