"""One task reads its stretch of a real partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import TopicPartition

from halfhitch.errors import KafkaUnavailable
from halfhitch_spark.source import reading
from halfhitch_spark.source.reading import read_stretch
from halfhitch_spark.source.stretches import MessagesGone, Stretch
from harness.forwards import (
    ANSWER_S,
    Record,
    abort_records,
    commit_records,
    half_hitch_record,
    store_undecided,
)
from harness.kafka import admin_client, create_topics, fresh_name

if TYPE_CHECKING:
    from halfhitch.embedded import EmbeddedKafka

pytestmark = pytest.mark.kafka


def records(prefix: str, count: int) -> list[Record]:
    return [half_hitch_record(f"{prefix}-{n}", f"{prefix}-{n}".encode()) for n in range(count)]


def read(
    kafka: EmbeddedKafka, topic: str, start: int, end: int, *, accept: bool = False
) -> list[tuple[int, str]]:
    stretch = Stretch(topic, 0, start, end)
    client = {"bootstrap.servers": kafka.bootstrap}
    return [
        (row["offset"], row["value"].decode())
        for batch in read_stretch(client, stretch, accept_data_loss=accept)
        for row in batch.to_pylist()
    ]


def test_it_ends_where_it_was_told_over_markers_and_aborted_messages(kafka: EmbeddedKafka) -> None:
    topic = fresh_name("stretch")
    create_topics(kafka.bootstrap, {topic: 1})
    commit_records(kafka.bootstrap, topic, records("a", 3))  # 0 to 2, marker 3
    abort_records(kafka.bootstrap, topic, records("gone", 4))  # 4 to 7, marker 8
    commit_records(kafka.bootstrap, topic, records("b", 2))  # 9 and 10, marker 11
    abort_records(kafka.bootstrap, topic, records("gone-too", 2))  # 12 and 13, marker 14
    open_producer = store_undecided(kafka.bootstrap, topic, records("open", 2))  # 15 and 16
    try:
        everything = [(0, "a-0"), (1, "a-1"), (2, "a-2"), (9, "b-0"), (10, "b-1")]
        for end in range(16):
            shown = [(at, text) for at, text in everything if at < end]
            assert read(kafka, topic, 0, end) == shown, end
        assert read(kafka, topic, 2, 10) == [(2, "a-2"), (9, "b-0")]
        assert read(kafka, topic, 4, 9) == []
    finally:
        open_producer.abort_transaction(ANSWER_S)


def test_many_messages_come_in_pieces_and_none_twice(kafka: EmbeddedKafka) -> None:
    topic = fresh_name("many")
    create_topics(kafka.bootstrap, {topic: 1})
    commit_records(kafka.bootstrap, topic, records("m", 12_000))
    found = read(kafka, topic, 0, 12_001)
    assert found == [(n, f"m-{n}") for n in range(12_000)]


def test_messages_that_go_before_the_task_comes_end_it_or_are_passed_over(
    kafka: EmbeddedKafka,
) -> None:
    topic = fresh_name("trimmed")
    create_topics(kafka.bootstrap, {topic: 1})
    commit_records(kafka.bootstrap, topic, records("m", 6))
    admin = admin_client(kafka.bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        future.result(30)
    with pytest.raises(MessagesGone, match=f"messages 1 to 3 of {topic}-0 were deleted"):
        read(kafka, topic, 1, 7)
    assert read(kafka, topic, 1, 7, accept=True) == [(4, "m-4"), (5, "m-5")]


def test_a_task_to_which_nothing_comes_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_STUCK_S", 0.5)
    nobody = {"bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(KafkaUnavailable, match=r"points-0 gave nothing behind 3 of 9.*away"):
        list(read_stretch(nobody, Stretch("points", 0, 3, 9), accept_data_loss=False))
