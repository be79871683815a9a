"""A reader whose client has lost one of its two logs, without an error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition

from halfhitch.adapters.kafka import silent_logs
from halfhitch.adapters.kafka.partition_reader import KafkaPartitionReader
from harness.worlds import KafkaWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.servers import KafkaAddress

pytestmark = pytest.mark.kafka
DEADLINE_S = 30.0


@pytest.fixture
def world(kafka: KafkaAddress, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaWorld]:
    monkeypatch.setattr(silent_logs, "_SILENT_S", 0.4)
    monkeypatch.setattr(silent_logs, "_AGAIN_S", 0.2)
    made = KafkaWorld(kafka.bootstrap)
    yield made
    made.close()


def begun(world: KafkaWorld) -> KafkaPartitionReader:
    reader = world.reader()
    assert isinstance(reader, KafkaPartitionReader)
    reader.begin(None, None)
    reader.release_op()
    return reader


def test_an_op_log_that_the_client_fetched_no_more_stood_still_for_ever(
    world: KafkaWorld, caplog: pytest.LogCaptureFixture
) -> None:
    reader = begun(world)
    reader._consumer.pause([TopicPartition(*reader._op)])  # behind the reader's back
    world.put(world.half_topic, [b"half"])
    world.put(world.op_topic, [b"one", b"two"])
    halves, ops = [], []
    give_up_s = time.monotonic() + DEADLINE_S
    while len(ops) < 2 and time.monotonic() < give_up_s:
        batch = reader.read(0.1)
        halves += batch.half
        ops += batch.op
    assert [record.value() for record in ops] == [b"one", b"two"]
    assert [record.value() for record in halves] == [b"half"], "none is read a second time"
    assert "gives nothing from 0 on, though it can be read to 2" in caplog.text


def test_a_log_at_its_end_behind_markers_and_one_that_is_held_are_left_alone(
    world: KafkaWorld, caplog: pytest.LogCaptureFixture
) -> None:
    reader = begun(world)
    world.put(world.op_topic, [b"one"])
    world.unfinished(world.op_topic, [b"aborted"]).abort()
    hidden = world.unfinished(world.half_topic, [b"open"])
    end_s = time.monotonic() + 3.0
    while time.monotonic() < end_s:
        reader.read(0.1)
    reader.hold_op()
    world.put(world.op_topic, [b"two"])
    end_s = time.monotonic() + 2.0
    while time.monotonic() < end_s:
        assert reader.read(0.1).op == []
    hidden.abort()
    assert "gives nothing" not in caplog.text


def test_what_the_client_held_as_its_logs_were_assigned_anew_comes_once(world: KafkaWorld) -> None:
    reader = begun(world)
    halves = [b"half %d" % number for number in range(6_000)]
    ops = [b"op %d" % number for number in range(500)]
    world.put(world.half_topic, halves)
    world.put(world.op_topic, ops)
    got_half: list[bytes | None] = []
    got_op: list[bytes | None] = []
    give_up_s = time.monotonic() + DEADLINE_S
    reads = 0
    while (len(got_half), len(got_op)) < (6_000, 500) and time.monotonic() < give_up_s:
        batch = reader.read(0.1)
        got_half += [record.value() for record in batch.half]
        got_op += [record.value() for record in batch.op]
        reads += 1
        if reads <= 5:
            time.sleep(0.1)  # the client fetches ahead
            reader._assign()
            reader.release_op()
    for _ in range(10):
        batch = reader.read(0.1)
        assert not batch.half
        assert not batch.op
    assert (got_half, got_op) == (halves, ops)
