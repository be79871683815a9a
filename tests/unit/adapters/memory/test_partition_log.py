"""What an owner's reader and writer in memory do on a test's demand."""

from __future__ import annotations

import threading
import time

import pytest

from halfhitch.adapters.memory import (
    MemoryKafka,
    MemoryPartitionReader,
    MemoryPartitionWriter,
    WriteFault,
)
from halfhitch.errors import (
    InvariantViolation,
    KafkaUnavailable,
    TopologyError,
)
from halfhitch.ports import TargetRecord, WriteOutcome


def target(value: bytes = b"v", key: bytes | None = None) -> TargetRecord:
    return TargetRecord("orders", None, key, value, [])


@pytest.mark.parametrize(
    ("fault", "outcome", "is_visible"),
    [
        (None, WriteOutcome.OK, True),
        (WriteFault.SUSPECT, WriteOutcome.OK, True),
        (WriteFault.ABORTED, WriteOutcome.FAIL, False),
        (WriteFault.ABORTED_UNSEEN, WriteOutcome.UNKNOWN, False),
        (WriteFault.COMMITTED_UNSEEN, WriteOutcome.UNKNOWN, True),
        (WriteFault.LEFT_OPEN, WriteOutcome.UNKNOWN, False),
    ],
)
def test_a_write_ends_as_the_test_says(
    kafka: MemoryKafka, fault: WriteFault | None, outcome: WriteOutcome, is_visible: bool
) -> None:
    writer = MemoryPartitionWriter(kafka)
    writer.fence()
    kafka.faults.writes = [fault]
    result = writer.write([target()], [(b"1,", [], None)], 7, 0)
    assert (result.outcome, result.is_suspect) == (outcome, fault is WriteFault.SUSPECT)
    assert len(kafka.uncommitted("orders")) == 1
    assert len(kafka.committed("orders")) == len(kafka.committed(kafka.op_topic)) == is_visible
    assert kafka.stored_position(kafka.half_topic, 0) == (7 if is_visible else None)
    assert kafka.has_unstable_position([(kafka.half_topic, 0)]) is (fault is WriteFault.LEFT_OPEN)
    writer.fence()
    assert not kafka.has_unstable_position([(kafka.half_topic, 0)])
    assert writer.write([target()], [], 8, 0).outcome is WriteOutcome.OK


def test_a_record_too_large_is_not_named_but_a_missing_topic_is(kafka: MemoryKafka) -> None:
    kafka.record_bytes_max["orders"] = 10
    writer = MemoryPartitionWriter(kafka)
    writer.fence()
    result = writer.write([target(), target(bytes(11))], [], 0, 0)
    assert (result.outcome, result.poisoned, set(result.refusing)) == (
        WriteOutcome.FAIL,
        {},
        {"orders"},
    )
    kafka.delete_topic("orders")
    writer.fence()
    result = writer.write([target()], [], 0, 0)
    assert (set(result.poisoned), set(result.closed), result.refusing) == ({0}, {"orders"}, {})


def test_keyed_records_stay_together_and_keyless_ones_go_first(kafka: MemoryKafka) -> None:
    writer = MemoryPartitionWriter(kafka)
    writer.fence()
    writer.write([target(key=b"k"), target(key=b"k"), target()], [], 0, 0)
    by_key = [(record.key(), record.partition) for record in kafka.committed("orders")]
    assert len({partition for key, partition in by_key if key is not None}) == 1
    assert [partition for key, partition in by_key if key is None] == [0]


def test_one_producer_has_one_kafka_transaction_at_a_time(kafka: MemoryKafka) -> None:
    producer_epoch = kafka.init_producer("stranger")
    kafka.begin("stranger", producer_epoch)
    with pytest.raises(InvariantViolation):
        kafka.begin("stranger", producer_epoch)


def test_a_reader_that_waits_is_woken_by_a_record(kafka: MemoryKafka) -> None:
    reader = MemoryPartitionReader(kafka)
    reader.begin(None, None)
    assert reader.read(0.0).half == []
    assert reader.half_read_to() == reader.half_end()
    timer = threading.Timer(0.05, lambda: kafka.append(kafka.half_topic, 0, None, b"news", []))
    timer.start()
    began_s = time.monotonic()
    batch = reader.read(30.0)
    timer.join()
    assert [record.value() for record in batch.half] == [b"news"]
    assert time.monotonic() - began_s < 10.0


def test_a_reader_whose_records_are_deleted_under_it_says_so(kafka: MemoryKafka) -> None:
    for _ in range(5):
        kafka.append(kafka.half_topic, 0, None, b"v", [])
    reader = MemoryPartitionReader(kafka, read_max=2)
    reader.begin(None, None)
    assert len(reader.read(0.0).half) == 2
    kafka.delete_below(kafka.half_topic, 0, 4)
    with pytest.raises(TopologyError, match="still needed"):
        reader.read(0.0)


def test_a_reader_that_has_not_begun_reads_nothing(kafka: MemoryKafka) -> None:
    with pytest.raises(KafkaUnavailable):
        MemoryPartitionReader(kafka).read(0.0)
