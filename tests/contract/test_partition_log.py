"""What every PartitionReader and every PartitionWriter promises."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.system import SystemClock
from halfhitch.errors import BelowLogError, KafkaUnavailable, TopologyError
from halfhitch.ports import TargetRecord, WriteOutcome
from halfhitch.service.owner.proven_pair import newest_proven_pair
from halfhitch.wire.op import StepRecord
from halfhitch.wire.proof import write_proof
from harness.partitioning import java_partition
from harness.worlds import (
    DEADLINE_S,
    SMALL_RECORD_BYTES_MAX,
    TARGET_PARTITION_COUNT,
    Feature,
    drain,
    needs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.ports import KafkaHeaders, StoredRecord
    from harness.worlds import World


def numbered(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def values(records: Sequence[StoredRecord]) -> list[bytes | None]:
    return [record.value() for record in records]


def target(world: World, value: bytes, *, key: bytes | None = None, to: int = 0) -> TargetRecord:
    return TargetRecord(world.targets[to], 0 if key is None else None, key, value, [])


# -- reading -------------------------------------------------------------------------------------


def test_of_a_fresh_partition_nothing_is_stored_and_both_logs_begin_at_zero(world: World) -> None:
    reader = world.reader()
    assert reader.committed_positions() == (None, None)
    assert reader.begin(None, None) == (0, 0)
    assert drain(reader, op=False) == ([], [])


def test_records_come_in_order_with_the_brokers_time_and_only_of_this_partition(
    world: World,
) -> None:
    world.put(world.half_topic, numbered(5), key=b"k", headers=[("h", b"v")])
    world.put(world.half_topic, [b"other"], partition=1)
    world.put(world.op_topic, [b"other"], partition=1)
    reader = world.reader()
    reader.begin(None, None)
    halves, _ = drain(reader, op=False)
    assert values(halves) == numbered(5)
    assert [record.offset() for record in halves] == [0, 1, 2, 3, 4]
    assert {(r.topic(), r.key(), r.timestamp()[0]) for r in halves} == {(world.half_topic, b"k", 2)}
    assert halves[0].headers() == [("h", b"v")]


def test_reading_begins_exactly_where_it_is_asked_to(world: World) -> None:
    world.put(world.half_topic, numbered(5))
    world.put(world.op_topic, numbered(5))
    reader = world.reader()
    assert reader.begin(3, 5) == (3, 5)
    reader.release_op()
    halves, ops = drain(reader)
    assert values(halves) == [b"3", b"4"]
    assert ops == []


def test_op_records_are_held_until_they_are_released_and_none_is_lost_or_doubled(
    world: World,
) -> None:
    world.put(world.half_topic, numbered(3))
    world.put(world.op_topic, numbered(400))
    reader = world.reader()
    reader.begin(None, None)
    halves, ops = drain(reader, op=False)
    assert (values(halves), ops) == (numbered(3), [])
    reader.release_op()
    _, ops = drain(reader, half=False)
    assert values(ops) == numbered(400)
    reader.hold_op()
    world.put(world.op_topic, [b"later"])
    world.put(world.half_topic, [b"half"])
    halves, ops = _read_until(reader, halves_wanted=1)
    assert (values(halves), ops) == ([b"half"], [])
    reader.release_op()
    _, ops = _read_until(reader, ops_wanted=1)
    assert values(ops) == [b"later"]


def _read_until(
    reader: object, *, halves_wanted: int = 0, ops_wanted: int = 0
) -> tuple[list[StoredRecord], list[StoredRecord]]:
    halves: list[StoredRecord] = []
    ops: list[StoredRecord] = []
    give_up_s = time.monotonic() + DEADLINE_S
    while len(halves) < halves_wanted or len(ops) < ops_wanted:
        batch = reader.read(0.2)  # type: ignore[attr-defined]
        halves += batch.half
        ops += batch.op
        assert time.monotonic() < give_up_s, (values(halves), values(ops))
    return halves, ops


def test_an_aborted_kafka_transaction_is_never_read(world: World) -> None:
    world.put(world.op_topic, [b"before"])
    world.unfinished(world.op_topic, [b"aborted 1", b"aborted 2"]).abort()
    world.put(world.op_topic, [b"after"])
    reader = world.reader()
    reader.begin(None, None)
    reader.release_op()
    _, ops = drain(reader)
    assert values(ops) == [b"before", b"after"]
    assert ops[1].offset() > ops[0].offset() + 2


def test_an_open_kafka_transaction_hides_itself_and_everything_after_it(world: World) -> None:
    world.put(world.op_topic, [b"before"])
    transaction = world.unfinished(world.op_topic, [b"open"])
    world.put(world.op_topic, [b"after"])
    reader = world.reader()
    reader.begin(None, None)
    reader.release_op()
    _, ops = _read_until(reader, ops_wanted=1)
    assert values(ops) == [b"before"]
    # It can be read up to 1, and exists up to 3.
    assert (reader.op_read_to(), reader.op_end()) == (1, 3)
    assert f"{world.op_topic}-0 can be read up to 1 of 3" in (reader.held() or "")
    transaction.commit()
    _, ops = _read_until(reader, ops_wanted=2)
    assert values(ops) == [b"open", b"after"]
    assert reader.held() is None


def test_what_a_resume_has_left_open_is_ended_and_never_read(world: World) -> None:
    world.put(world.op_topic, [b"before"])
    world.unfinished(world.op_topic, [b"note"], is_resume=True)
    world.put(world.op_topic, [b"after"])
    reader = world.reader()
    reader.begin(None, None)
    reader.release_op()
    world.writer().end_resume()
    _, ops = drain(reader)
    assert values(ops) == [b"before", b"after"]


def test_a_position_below_the_start_of_a_log_is_refused(world: World) -> None:
    world.put(world.half_topic, numbered(5))
    world.put(world.op_topic, numbered(5))
    world.writer().delete_below(3, 4)
    reader = world.reader()
    for below in [(2, 4), (3, 3), (2, 3), (2, None)]:
        with pytest.raises(BelowLogError):
            reader.begin(*below)
    assert reader.begin(3, 4) == (3, 4)
    assert reader.begin(None, None) == (3, 4)


def test_a_position_beyond_the_end_of_a_log_is_refused(world: World) -> None:
    world.put(world.half_topic, numbered(5))
    reader = world.reader()
    with pytest.raises(TopologyError):
        reader.begin(6, None)
    assert reader.begin(5, None) == (5, 0)


def test_a_position_beyond_one_log_is_not_hidden_by_one_below_the_other(world: World) -> None:
    world.put(world.half_topic, numbered(5))
    world.put(world.op_topic, numbered(5))
    world.writer().delete_below(3, 4)
    reader = world.reader()
    for outside in [(2, 6), (6, 3)]:
        with pytest.raises(TopologyError) as raised:
            reader.begin(*outside)
        assert not isinstance(raised.value, BelowLogError)


def test_the_newest_proven_pair_is_found_behind_what_is_no_proof_and_what_was_aborted(
    world: World,
) -> None:
    world.put(world.half_topic, numbered(5))
    reader = world.reader()

    def found() -> tuple[int, int] | None:
        return newest_proven_pair(reader, clock=SystemClock(), partition=0, on_held=lambda _: None)

    assert found() is None
    writer = world.writer()
    writer.fence()
    done = StepRecord(b"1,", [("TAGS", b"d"), ("HALFHITCH", b"1[]")])
    for pair in [(1, 0), (3, 2)]:
        assert writer.write([], [done, write_proof(*pair)], *pair).outcome is WriteOutcome.OK
    world.put(world.op_topic, numbered(3))
    nowhere = TargetRecord(world.targets[0] + "-gone", None, None, b"nowhere", [])
    failed = writer.write([nowhere], [write_proof(4, 3)], 4, 3)
    assert failed.outcome is WriteOutcome.FAIL
    writer.fence()
    assert found() == reader.committed_positions() == (3, 2)
    writer.delete_below(3, 2)
    assert found() == (3, 2), "its proof lies above what is deleted with it"
    assert reader.begin(3, 2) == (3, 2)


def test_the_end_of_the_half_log_is_asked_of_kafka_and_markers_do_not_hide_it(
    world: World,
) -> None:
    reader = world.reader()
    reader.begin(None, None)
    assert (reader.half_read_to(), reader.half_end()) == (0, 0)
    world.put(world.half_topic, numbered(3))
    assert reader.half_end() == 3
    _read_until(reader, halves_wanted=3)
    assert reader.half_read_to() == 3
    world.unfinished(world.half_topic, [b"aborted"]).abort()
    end = reader.half_end()
    assert end == 5, "a record and a marker"
    give_up_s = time.monotonic() + DEADLINE_S
    while reader.half_read_to() < end:
        assert reader.read(0.1).half == []
        assert time.monotonic() < give_up_s


def test_an_end_that_was_met_moves_on_with_the_next_record(world: World) -> None:
    """Else a log that cannot be fetched for a while would look as if it had ended."""
    world.put(world.half_topic, numbered(3))
    reader = world.reader()
    reader.begin(None, None)
    drain(reader, op=False)
    world.put(world.half_topic, [b"later"])
    give_up_s = time.monotonic() + DEADLINE_S
    while not reader.read(0.0).half:
        assert reader.half_read_to() < reader.half_end(), "the later record is not read yet"
        assert time.monotonic() < give_up_s


# -- single halves -------------------------------------------------------------------------------


def test_single_halves_are_fetched_from_anywhere_in_the_log(world: World) -> None:
    world.put(world.half_topic, numbered(1_500))
    reader = world.reader()
    reader.begin(1_500, None)
    wanted = [1_499, 0, 7, 8, 700]
    found = reader.fetch_halves(wanted)
    assert {n: record.value() for n, record in found.items()} == {n: b"%d" % n for n in wanted}
    assert {n: record.offset() for n, record in found.items()} == {n: n for n in wanted}
    assert set(reader.fetch_halves([3])) == {3}, "a second time"


def test_a_half_that_is_gone_is_missing_from_the_answer_and_takes_no_other_with_it(
    world: World,
) -> None:
    world.put(world.half_topic, numbered(20))
    world.writer().delete_below(10, 0)
    reader = world.reader()
    reader.begin(None, None)
    assert set(reader.fetch_halves([4, 9, 10, 15, 99])) == {10, 15}


def test_fetching_single_halves_does_not_disturb_the_reading(world: World) -> None:
    world.put(world.half_topic, numbered(10))
    reader = world.reader()
    reader.begin(None, None)
    reader.fetch_halves([8])
    halves, _ = drain(reader, op=False)
    assert values(halves) == numbered(10)


# -- writing -------------------------------------------------------------------------------------


def test_a_step_is_one_kafka_transaction_with_its_watermarks(world: World) -> None:
    world.put(world.half_topic, numbered(5))
    writer = world.writer()
    writer.fence()
    headers: KafkaHeaders = [("a", b"1"), ("a", None)]
    targets = [
        TargetRecord(world.targets[0], 2, None, None, headers),
        TargetRecord(world.targets[1], 1, b"", b"", []),
    ]
    result = writer.write(targets, [StepRecord(b"1,", [("TAGS", b"d")])], 5, 0)
    assert (result.outcome, result.poisoned) == (WriteOutcome.OK, {})
    (first,), (second,) = (world.committed(name) for name in world.targets)
    assert (first.partition, first.key, first.value) == (2, None, None)
    assert first.headers == tuple(headers)
    assert (second.partition, second.key, second.value, second.headers) == (1, b"", b"", ())
    assert [(r.partition, r.value, r.headers) for r in world.committed(world.op_topic)] == [
        (0, b"1,", (("TAGS", b"d"),))
    ]
    assert world.reader().committed_positions() == (5, 0)
    assert world.reader(1).committed_positions() == (None, None)


def test_a_step_without_any_record_still_moves_the_watermarks(world: World) -> None:
    world.put(world.half_topic, numbered(2))
    writer = world.writer()
    writer.fence()
    assert writer.write([], [], 1, 0).outcome is WriteOutcome.OK
    assert writer.write([], [], 2, 0).outcome is WriteOutcome.OK
    assert world.reader().committed_positions() == (2, 0)


def test_one_target_that_does_not_exist_fails_the_whole_step_and_moves_nothing(
    world: World,
) -> None:
    world.put(world.half_topic, numbered(2))
    writer = world.writer()
    writer.fence()
    assert writer.write([target(world, b"1")], [], 1, 0).outcome is WriteOutcome.OK
    nowhere = TargetRecord(world.targets[0], TARGET_PARTITION_COUNT, None, b"nowhere", [])
    result = writer.write([target(world, b"2"), nowhere], [StepRecord(b"1,", [])], 2, 0)
    assert result.outcome is WriteOutcome.FAIL
    assert result.reason
    assert result.refusing or set(result.poisoned) == {1}
    assert [r.value for r in world.committed(world.targets[0])] == [b"1"]
    assert world.committed(world.op_topic) == []
    assert world.reader().committed_positions() == (1, 0)
    writer.fence()
    assert writer.write([target(world, b"3")], [], 2, 0).outcome is WriteOutcome.OK
    assert [r.value for r in world.committed(world.targets[0])] == [b"1", b"3"]


def test_a_topic_that_does_not_exist_is_named_as_the_culprit(world: World) -> None:
    writer = world.writer()
    writer.fence()
    nowhere = TargetRecord(world.targets[0] + "-gone", None, None, b"nowhere", [])
    targets = [target(world, b"1"), nowhere, target(world, b"2"), nowhere]
    result = writer.write(targets, [], 0, 0)
    assert result.outcome is WriteOutcome.FAIL
    assert set(result.poisoned) == {1, 3}
    assert all(world.targets[0] + "-gone" in reason for reason in result.poisoned.values())
    assert world.committed(world.targets[0]) == []


def test_a_record_that_its_topic_never_takes_is_told_from_bad_luck(world: World) -> None:
    writer = world.writer()
    writer.fence()
    large = target(world, bytes(2 * SMALL_RECORD_BYTES_MAX), to=1)
    result = writer.write([target(world, b"1"), large], [], 0, 0)
    assert result.outcome is WriteOutcome.FAIL
    assert result.refusing or set(result.poisoned) == {1}
    assert world.committed(world.targets[0]) == []
    writer.fence()
    assert writer.write([target(world, b"1")], [], 0, 0).outcome is WriteOutcome.OK


def test_what_a_target_refuses_is_told_with_its_name_and_is_nobody_elses_trouble(
    world: World,
) -> None:
    writer = world.writer()
    writer.fence()
    large = target(world, bytes(2 * SMALL_RECORD_BYTES_MAX), to=1)
    result = writer.write([target(world, b"1"), large], [StepRecord(b"1,", [])], 0, 0)
    assert set(result.refusing) <= {world.targets[1]}
    assert (result.closed, result.is_ours) == ({}, False)


@pytest.mark.parametrize("of", ["half", "op"])
def test_what_our_own_topics_refuse_is_our_own_trouble_and_no_record_is_blamed(
    world: World, of: str
) -> None:
    topic = world.half_topic if of == "half" else world.op_topic
    world.limit(topic, 1_000)
    writer = world.writer()
    writer.fence()
    copies = [TargetRecord(world.half_topic, 0, None, bytes(2_000), [])] if of == "half" else []
    ops = [StepRecord(bytes(2_000), [])] if of == "op" else []
    result = writer.write([target(world, b"1"), *copies], ops, 0, 0)
    assert result.outcome is WriteOutcome.FAIL
    assert (set(result.refusing), result.poisoned, result.is_ours) == ({topic}, {}, True)
    writer.fence()
    assert writer.write([target(world, b"1")], [], 0, 0).outcome is WriteOutcome.OK


def test_a_writer_takes_what_any_door_may_have_taken(world: World) -> None:
    world.limit(world.targets[0], 9_000_000)
    writer = world.writer()
    writer.fence()
    assert writer.write([target(world, bytes(8_000_000))], [], 0, 0).outcome is WriteOutcome.OK


def test_every_write_leaves_its_stamp_though_no_watermark_moves(world: World) -> None:
    world.put(world.half_topic, numbered(2))
    reader, writer = world.reader(), world.writer()
    assert (reader.committed_positions(), reader.stamp) == ((None, None), "")
    writer.fence()
    stamps = []
    for _ in range(2):
        stamps.append(writer.write([target(world, b"1")], [], 1, 0).stamp)
        assert (reader.committed_positions(), reader.stamp) == ((1, 0), stamps[-1])
    nowhere = TargetRecord(world.targets[0] + "-gone", None, None, b"nowhere", [])
    assert writer.write([nowhere], [], 2, 0).stamp == ""
    writer.fence()
    assert (reader.committed_positions(), reader.stamp) == ((1, 0), stamps[-1])
    other = world.writer()
    other.fence()
    stamps.append(other.write([target(world, b"1")], [], 1, 0).stamp)
    assert len({*stamps, ""}) == 4


def test_a_writer_that_was_not_fenced_writes_nothing(world: World) -> None:
    writer = world.writer()
    assert writer.write([target(world, b"1")], [], 0, 0).outcome is WriteOutcome.FAIL
    assert world.committed(world.targets[0]) == []


def test_the_next_writer_fences_the_one_before(world: World) -> None:
    world.put(world.half_topic, numbered(3))
    older, newer = world.writer(), world.writer()
    older.fence()
    assert older.write([target(world, b"older")], [], 1, 0).outcome is WriteOutcome.OK
    newer.fence()
    assert older.write([target(world, b"zombie")], [StepRecord(b"1,", [])], 3, 0).outcome is not (
        WriteOutcome.OK
    )
    assert newer.write([target(world, b"newer")], [], 2, 0).outcome is WriteOutcome.OK
    assert [r.value for r in world.committed(world.targets[0])] == [b"older", b"newer"]
    assert world.committed(world.op_topic) == []
    assert world.reader().committed_positions() == (2, 0)


def test_writers_of_different_partitions_do_not_fence_each_other(world: World) -> None:
    world.put(world.half_topic, numbered(1))
    world.put(world.half_topic, numbered(1), partition=1)
    first, second = world.writer(0), world.writer(1)
    first.fence()
    second.fence()
    assert first.write([target(world, b"0")], [], 1, 0).outcome is WriteOutcome.OK
    assert second.write([target(world, b"1")], [], 1, 0).outcome is WriteOutcome.OK


def test_the_fence_ends_what_the_writer_before_left_open(world: World) -> None:
    world.unfinished(world.targets[0], [b"left open"])
    assert world.committed(world.targets[0], is_open=True) == []
    writer = world.writer()
    writer.fence()
    assert writer.write([target(world, b"next")], [], 0, 0).outcome is WriteOutcome.OK
    assert [r.value for r in world.committed(world.targets[0])] == [b"next"]


def test_watermarks_that_may_still_change_are_not_given_out_before_the_fence(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch.adapters.kafka.partition_reader.ANSWER_S", 1.0)
    world.put(world.half_topic, numbered(5))
    writer = world.writer()
    writer.fence()
    assert writer.write([], [], 2, 0).outcome is WriteOutcome.OK
    world.unfinished(world.targets[0], [b"open"], positions=(5, 0))
    with pytest.raises(KafkaUnavailable):
        world.reader().committed_positions()
    monkeypatch.undo()
    world.writer().fence()
    assert world.reader().committed_positions() == (2, 0)


def test_a_writer_of_a_generation_that_is_over_writes_nothing(world: World) -> None:
    world.put(world.half_topic, numbered(3))
    writer = world.writer()
    writer.fence()
    assert writer.write([target(world, b"in time")], [], 1, 0).outcome is WriteOutcome.OK
    world.rebalance()
    for _ in range(2):  # a new producer does not help: the generation is what is over
        writer.fence()
        result = writer.write([target(world, b"zombie")], [StepRecord(b"1,", [])], 3, 0)
        assert result.outcome is not WriteOutcome.OK
    assert [r.value for r in world.committed(world.targets[0])] == [b"in time"]
    assert world.committed(world.op_topic) == []
    assert world.reader().committed_positions() == (1, 0)
    successor = world.writer()
    successor.fence()
    assert successor.write([target(world, b"next")], [], 3, 0).outcome is WriteOutcome.OK


@needs(Feature.JAVA_PARTITIONING)
def test_keyed_messages_go_where_a_java_producer_sends_them(world: World) -> None:
    keys = [b"", b"a", b"order-4711", "schlüssel".encode(), bytes(range(256))]
    writer = world.writer()
    writer.fence()
    targets = [target(world, b"v", key=key) for key in keys]
    assert writer.write(targets, [], 0, 0).outcome is WriteOutcome.OK
    found = {record.key: record.partition for record in world.committed(world.targets[0])}
    assert found == {key: java_partition(key, TARGET_PARTITION_COUNT) for key in keys}


def test_closing_twice_or_unused_is_harmless(world: World) -> None:
    writer, reader = world.writer(), world.reader()
    writer.close()
    writer.fence()
    for _ in range(2):
        writer.close()
        reader.close()
