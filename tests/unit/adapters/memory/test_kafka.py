"""What a Kafka in memory does on a test's demand; what it shares with a real one is in contract."""

from __future__ import annotations

import threading
import time

import pytest

from halfhitch.adapters.memory import (
    AppendFault,
    MemoryClock,
    MemoryKafka,
    MemoryMarkers,
    MemoryPartitionReader,
    MemoryPartitionWriter,
    MemoryRecordLog,
    MemoryTopicCatalog,
    WriteFault,
)
from halfhitch.errors import (
    InvariantViolation,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    TopologyError,
)
from halfhitch.ports import ReadBatch, TargetRecord, WriteOutcome


@pytest.fixture
def kafka() -> MemoryKafka:
    made = MemoryKafka(MemoryClock())
    made.create_topic("orders", 3)
    return made


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


@pytest.mark.parametrize(
    ("fault", "error", "is_stored"),
    [
        (AppendFault.REFUSED, KafkaUnavailable, False),
        (AppendFault.TOO_LARGE, MessageTooLarge, False),
        (AppendFault.LOST, OutcomeUnknown, False),
        (AppendFault.ANSWER_LOST, OutcomeUnknown, True),
    ],
)
async def test_a_fault_strikes_one_append_and_no_other(
    kafka: MemoryKafka, fault: AppendFault, error: type[Exception], is_stored: bool
) -> None:
    log = MemoryRecordLog(kafka)
    kafka.faults.appends = [None, fault]
    assert await log.append_op(0, b"first", []) == 0
    with pytest.raises(error):
        await log.append_op(0, b"struck", [])
    await log.append_op(0, b"last", [])
    stored = [record.value() for record in kafka.committed(kafka.op_topic)]
    assert stored == [b"first", *([b"struck"] if is_stored else []), b"last"]


async def test_an_answer_never_comes_before_the_loop_has_turned(kafka: MemoryKafka) -> None:
    future = MemoryRecordLog(kafka).append_half(0, None, b"v", [])
    assert not future.done()
    assert await future == 0


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


def test_a_topic_that_does_not_exist_cannot_be_looked_into(kafka: MemoryKafka) -> None:
    with pytest.raises(TopologyError):
        kafka.log("nowhere", 0)
    with pytest.raises(TopologyError):
        kafka.log("orders", 3)


# -- reading -------------------------------------------------------------------------------------


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


async def test_nothing_waits_for_markers_but_the_question_is_kept() -> None:
    markers = MemoryMarkers()
    await markers.settled(["orders", "points", "orders"])
    assert markers.asked == [frozenset({"orders", "points"})]
