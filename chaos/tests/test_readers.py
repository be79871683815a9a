"""The readers on a real Kafka: what they keep, what they notice, what they admit to have missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition

from chaos.kit.open_transactions import list_transactions, open_transactions
from chaos.kit.readers import (
    READ_UNCOMMITTED,
    HoldWatch,
    Tail,
    WatermarkSampler,
    held_partitions,
    read_final,
)
from harness.forwards import Record, abort_records, commit_records, store_undecided
from harness.kafka import admin_client, create_topics, fresh_name, wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chaos.kit.readers import Seen

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(kafka: Any) -> str:
    name = fresh_name("readers")
    create_topics(kafka.bootstrap, {name: 2})
    return name


def values(records: Sequence[Seen]) -> list[bytes | None]:
    return sorted(seen.value or b"" for seen in records)


def test_a_tail_keeps_what_was_trimmed_meanwhile_and_says_when_it_saw_it(
    kafka: Any, topic: str
) -> None:
    commit_records(kafka.bootstrap, topic, [Record(b"before", b"k", [("h", None)])])
    with Tail(kafka.bootstrap, [topic]) as tail:
        commit_records(kafka.bootstrap, topic, [Record(b"after", partition=1)])
        abort_records(kafka.bootstrap, topic, [Record(b"aborted", partition=1)])
        tail.wait_for_the_end()
        trim(kafka.bootstrap, topic, 1)
    assert values(tail.records) == [b"after", b"before"]
    (before,) = [seen for seen in tail.of(topic) if seen.value == b"before"]
    assert (before.partition, before.log_offset) == (0, 0)
    assert (before.key, before.headers) == (b"k", (("h", None),))
    assert 0 < before.stored_ms <= before.seen_ms
    assert tail.gaps == []
    assert values(read_final(kafka.bootstrap, [topic])) == [b"after"]


def test_a_tail_that_began_too_late_says_so(kafka: Any, topic: str) -> None:
    commit_records(kafka.bootstrap, topic, [Record(b"gone"), Record(b"there")])
    trim(kafka.bootstrap, topic, 1)
    with Tail(kafka.bootstrap, [topic]) as tail:
        tail.wait_for_the_end()
    assert values(tail.records) == [b"there"]
    assert tail.gaps == [f"{topic}-0 began at 1"]


def test_an_open_transaction_holds_committed_readers_and_shows_to_the_others(
    kafka: Any, topic: str
) -> None:
    ours = fresh_name("forwards").rpartition("-")[0]  # other processes have some open, too
    with (
        Tail(kafka.bootstrap, [topic]) as committed,
        Tail(kafka.bootstrap, [topic], READ_UNCOMMITTED) as uncommitted,
        HoldWatch(kafka.bootstrap, [topic]) as watch,
    ):
        producer = store_undecided(kafka.bootstrap, topic, [Record(b"hidden")])
        wait_until(lambda: watch.longest_ms > 500, 20, what="the hold")
        assert held_partitions(kafka.bootstrap, [topic]) == [f"{topic}-0: stable 0, written 1"]
        (still,) = open_transactions(kafka.bootstrap, prefix=ours)
        assert "Ongoing" in still
        producer.abort_transaction(30)
        wait_until(lambda: not held_partitions(kafka.bootstrap, [topic]), 20)
        committed.wait_for_the_end()
        uncommitted.wait_for_the_end()
    assert open_transactions(kafka.bootstrap, prefix=ours, patience_s=10) == []
    assert len(list_transactions(kafka.bootstrap)) > 0
    assert (values(committed.records), values(uncommitted.records)) == ([], [b"hidden"])
    assert len(committed.stalls) == 1
    assert uncommitted.stalls == []
    (stall,) = watch.stalls
    assert (stall.topic, stall.partition) == (topic, 0)
    assert 500 < stall.duration_ms < 20_000


def test_partitions_that_are_added_are_read_too(kafka: Any, topic: str) -> None:
    from confluent_kafka.admin import NewPartitions

    with Tail(kafka.bootstrap, [topic]) as tail:
        admin = admin_client(kafka.bootstrap)
        for future in admin.create_partitions([NewPartitions(topic, 3)]).values():
            future.result(30)
        commit_records(kafka.bootstrap, topic, [Record(b"new", partition=2)])
        wait_until(lambda: tail.records, 20, what="the record in the new partition")
    assert [seen.partition for seen in tail.records] == [2]


def test_the_sampler_sees_the_watermarks_and_where_the_logs_begin(kafka: Any) -> None:
    half, op, group = fresh_name("half"), fresh_name("op"), fresh_name("owners")
    create_topics(kafka.bootstrap, {half: 2, op: 2})
    sampler = WatermarkSampler(kafka.bootstrap, half, op, 2, group=group, every_s=0.05)
    wait_until(lambda: sampler.sample() or sampler.samples, 30, what="the first answer")
    assert (sampler.samples[-1].half, sampler.samples[-1].op) == ({}, {})
    commit_records(kafka.bootstrap, half, [Record(b"1"), Record(b"2"), Record(b"3", partition=1)])
    store_offsets(kafka.bootstrap, group, [TopicPartition(half, 0, 2), TopicPartition(op, 1, 7)])
    trim(kafka.bootstrap, half, 1)
    with sampler:
        wait_until(lambda: len(sampler.samples) > 2, 20)
    last = sampler.samples[-1]
    assert (last.half, last.op) == ({0: 2}, {1: 7})
    assert (last.half_starts, last.op_starts) == ({0: 1, 1: 0}, {0: 0, 1: 0})


def store_offsets(bootstrap: str, group: str, places: Sequence[TopicPartition]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions

    request = [ConsumerGroupTopicPartitions(group, list(places))]
    admin = admin_client(bootstrap)  # it must live for as long as its answer is awaited
    for future in admin.alter_consumer_group_offsets(request).values():
        future.result(30)


def trim(bootstrap: str, topic: str, before: int) -> None:
    """Delete what lies below, in partition 0."""
    places = [TopicPartition(topic, 0, before)]
    admin = admin_client(bootstrap)
    for future in admin.delete_records(places).values():
        future.result(30)


def test_what_a_readers_thread_died_of_is_not_overlooked(kafka: Any, topic: str) -> None:
    tail = Tail(kafka.bootstrap, [topic]).start()
    tail._records = None  # type: ignore[assignment]
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    producer.produce(topic, b"v")
    producer.flush(30)
    wait_until(lambda: tail.problem, 20)
    with pytest.raises(AttributeError):
        tail.stop()
