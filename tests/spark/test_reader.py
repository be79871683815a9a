"""Spark shows committed messages, each exactly once: on a real broker."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.errors import AnalysisException, StreamingQueryException

from halfhitch.errors import ConfigurationError
from halfhitch_spark import (
    connector_package,
    dangerously_read_uncommitted,
    json_payload,
    read_batch,
    read_committed,
    read_stream,
)
from harness.forwards import (
    ANSWER_S,
    Record,
    abort_records,
    commit_records,
    forwarded_headers,
    half_hitch_record,
    store_undecided,
)
from harness.kafka import admin_client, create_topics, fresh_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

    from halfhitch.embedded import EmbeddedKafka


def values_of(messages: DataFrame) -> list[str]:
    return sorted(bytes(row["value"]).decode() for row in messages.select("value").collect())


def records(prefix: str, count: int, partition: int = 0) -> list[Record]:
    return [
        half_hitch_record(f"{prefix}-{number}", f"{prefix}-{number}".encode(), partition=partition)
        for number in range(count)
    ]


def texts(given: Iterable[Record]) -> list[str]:
    return sorted((record.value or b"").decode() for record in given)


@pytest.mark.spark
@pytest.mark.kafka
def test_only_committed_messages_are_shown_although_others_are_stored(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic = fresh_name("read-committed")
    create_topics(kafka.bootstrap, {topic: 2})
    committed = records("first", 40) + records("second", 10, partition=1)
    hidden_by_the_open = records("behind", 5)
    aborted = records("aborted", 30) + records("aborted-too", 20, partition=1)
    undecided = records("undecided", 1)

    commit_records(kafka.bootstrap, topic, committed)
    abort_records(kafka.bootstrap, topic, aborted)
    open_producer = store_undecided(kafka.bootstrap, topic, undecided)
    try:
        # Partition 0 only: what lies behind an open Kafka transaction waits until that has ended.
        commit_records(kafka.bootstrap, topic, hidden_by_the_open)
        stored = dangerously_read_uncommitted(spark, kafka.bootstrap, topic)
        assert values_of(stored) == sorted(
            texts(committed) + texts(aborted) + texts(undecided) + texts(hidden_by_the_open)
        ), "there was nothing to hide"
        assert values_of(read_committed(spark, kafka.bootstrap, topic)) == texts(committed)
    finally:
        open_producer.abort_transaction(ANSWER_S)
    shown = values_of(read_committed(spark, kafka.bootstrap, topic))
    assert shown == sorted(texts(committed) + texts(hidden_by_the_open))


@pytest.mark.spark
@pytest.mark.kafka
def test_messages_of_two_topics_come_with_their_columns(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    orders, points = fresh_name("orders"), fresh_name("points")
    create_topics(kafka.bootstrap, {orders: 1, points: 1})
    user = [("trace", b"a"), ("raw", b"\xff\x00"), ("trace", b"a"), ("none", None), ("empty", b"")]
    headers = forwarded_headers("t-1", index=0, user=user)
    commit_records(kafka.bootstrap, orders, [Record(b"\x00\xff", key=b"\xfe", headers=headers)])
    second = Record(None, headers=forwarded_headers("t-1", index=1))
    commit_records(kafka.bootstrap, points, [second])

    rows = read_committed(spark, kafka.bootstrap, [orders, points]).orderBy("message_index")
    first_row, second_row = rows.collect()

    assert bytes(first_row["value"]) == b"\x00\xff"
    assert bytes(first_row["key"]) == b"\xfe"
    assert first_row["topic"] == orders
    assert (first_row["partition"], first_row["offset"]) == (0, 0)
    assert first_row["transaction_id"] == second_row["transaction_id"] == "t-1"
    assert first_row["producer_group"] == "orders"
    assert first_row["born"].timestamp() == 1_700_000_000.123
    assert first_row["timestamp"] > first_row["born"]
    assert header_pairs(first_row) == user
    assert second_row["topic"] == points
    assert (second_row["key"], second_row["value"], second_row["headers"]) == (None, None, [])


def header_pairs(row: Row) -> list[tuple[str, bytes | None]]:
    return [(h["key"], None if h["value"] is None else bytes(h["value"])) for h in row["headers"]]


@pytest.mark.spark
@pytest.mark.kafka
def test_messages_of_other_producers_are_shown_without_a_transaction(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic = fresh_name("mixed")
    create_topics(kafka.bootstrap, {topic: 1})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    producer.produce(topic, value=b"bare")
    producer.produce(topic, value=b"labelled", headers=[("UNIQ_KEY", b"not ours"), ("a", None)])
    assert producer.flush(ANSWER_S) == 0
    commit_records(kafka.bootstrap, topic, [half_hitch_record("t-1", b"ours")])

    rows = read_committed(spark, kafka.bootstrap, topic).orderBy("offset").collect()

    assert [bytes(row["value"]) for row in rows] == [b"bare", b"labelled", b"ours"]
    assert [row["transaction_id"] for row in rows] == [None, None, "t-1"]
    assert [row["message_index"] for row in rows] == [None, None, 0]
    assert header_pairs(rows[1]) == [("UNIQ_KEY", b"not ours"), ("a", None)]


@pytest.mark.spark
@pytest.mark.kafka
def test_a_stream_that_starts_again_from_its_checkpoint_neither_doubles_nor_loses(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = fresh_name("restart")
    create_topics(kafka.bootstrap, {topic: 2})
    seen: list[tuple[int, list[str]]] = []

    def run_until_caught_up() -> None:
        query = (
            read_committed(
                spark, kafka.bootstrap, topic, streaming=True, options={"maxOffsetsPerTrigger": 25}
            )
            .writeStream.option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
            .trigger(availableNow=True)
            .foreachBatch(lambda batch, number: seen.append((number, values_of(batch))))
            .start()
        )
        assert query.awaitTermination(60)

    first = records("first", 30) + records("first-b", 20, partition=1)
    commit_records(kafka.bootstrap, topic, first)
    abort_records(kafka.bootstrap, topic, records("aborted", 30))
    run_until_caught_up()
    second = records("second", 10)
    abort_records(kafka.bootstrap, topic, records("aborted-too", 10, partition=1))
    commit_records(kafka.bootstrap, topic, second)
    run_until_caught_up()
    run_until_caught_up()

    assert len(seen) > 2, "one batch a run would not show that batches join without a gap"
    assert [number for number, _ in seen] == list(range(len(seen)))
    assert sorted(text for _, batch in seen for text in batch) == sorted(
        texts(first) + texts(second)
    )


@pytest.mark.spark
@pytest.mark.kafka
def test_reading_starts_where_it_is_told(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    topic = fresh_name("starting")
    create_topics(kafka.bootstrap, {topic: 1})
    commit_records(kafka.bootstrap, topic, records("m", 5))
    from_third = json.dumps({topic: {"0": 3}})
    shown = read_committed(spark, kafka.bootstrap, topic, starting=from_third)
    assert values_of(shown) == ["m-3", "m-4"]


@pytest.mark.spark
@pytest.mark.kafka
def test_a_stream_reads_a_pattern_with_payloads_in_bounded_batches_and_loses_no_row(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    prefix = fresh_name("typed")
    first, second = f"{prefix}.a", f"{prefix}.b"
    create_topics(kafka.bootstrap, {first: 1, second: 2})
    good = [half_hitch_record(f"g{n}", b'{"n":%d}' % n, count=1) for n in range(20)]
    # Each Kafka transaction leaves a marker, and an aborted one all its records, without an offset.
    for record in good[:10]:
        commit_records(kafka.bootstrap, first, [record])
        abort_records(kafka.bootstrap, first, [record, record])
    commit_records(kafka.bootstrap, second, good[10:])
    commit_records(kafka.bootstrap, second, [half_hitch_record("bad", b"{", partition=1, count=1)])
    seen: list[list[tuple[int | None, str | None, int | None]]] = []

    def take(batch: DataFrame, _: int) -> None:
        seen.append(
            [
                (
                    row["payload"] and row["payload"]["n"],
                    row["dead_letter"] and row["dead_letter"]["reason"],
                    row["message_count"],
                )
                for row in batch.collect()
            ]
        )

    def run_until_caught_up() -> None:
        messages = read_stream(
            spark, kafka.bootstrap, pattern=f"{prefix}[.].", messages_per_batch=15,
            checkpoint=(tmp_path / "checkpoint").as_uri(), payload=json_payload("n bigint"),
        )  # fmt: skip
        query = (
            messages.writeStream.option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
            .trigger(availableNow=True)
            .foreachBatch(take)
            .start()
        )
        assert query.awaitTermination(120)

    run_until_caught_up()
    run_until_caught_up()
    rows = [row for batch in seen for row in batch]
    assert len(seen) > 2
    assert sorted(n for n, _, _ in rows if n is not None) == list(range(20))
    assert [why for _, why, _ in rows if why] == ["it is not JSON of the schema"]
    assert {count for _, _, count in rows} == {1}


@pytest.mark.spark
@pytest.mark.kafka
def test_a_batch_begins_and_ends_at_a_moment_or_at_offsets(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic = fresh_name("moments")
    create_topics(kafka.bootstrap, {topic: 2})
    commit_records(kafka.bootstrap, topic, records("early", 3))
    moment = dt.datetime.now(dt.UTC)
    time.sleep(0.02)  # Kafka's times are whole milliseconds
    commit_records(kafka.bootstrap, topic, records("late", 2))
    shown = read_batch(spark, kafka.bootstrap, topic, starting=moment)
    assert values_of(shown) == ["late-0", "late-1"]  # nothing on partition 1: Spark would refuse
    shown = read_batch(spark, kafka.bootstrap, topic, ending=moment)
    assert values_of(shown) == ["early-0", "early-1", "early-2"]
    shown = read_batch(spark, kafka.bootstrap, topic, starting={topic: {0: 1}}, ending=moment)
    assert values_of(shown) == ["early-1", "early-2"]


@pytest.mark.spark
@pytest.mark.kafka
def test_messages_deleted_unread_end_the_query_unless_that_is_accepted_in_words(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, checkpoint = fresh_name("trimmed"), (tmp_path / "checkpoint").as_uri()
    create_topics(kafka.bootstrap, {topic: 1})
    seen: list[str] = []

    def run(*, accept: bool = False) -> None:
        messages = read_stream(
            spark, kafka.bootstrap, topic, checkpoint=checkpoint, accept_data_loss=accept
        )
        query = (
            messages.writeStream.option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .foreachBatch(lambda batch, _: seen.extend(values_of(batch)))
            .start()
        )
        assert query.awaitTermination(120)

    commit_records(kafka.bootstrap, topic, records("first", 3))
    run()
    commit_records(kafka.bootstrap, topic, records("second", 5))
    admin = admin_client(kafka.bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 0, 7)]).values():
        future.result(30)
    with pytest.raises(StreamingQueryException, match="data"):
        run()
    with pytest.raises(ConfigurationError, match="accept_data_loss=True"):
        read_stream(
            spark, kafka.bootstrap, topic, checkpoint=None, options={"failOnDataLoss": "false"}
        )
    run(accept=True)
    assert seen == ["first-0", "first-1", "first-2", "second-3", "second-4"]


class SparkWithout:
    """A session whose Kafka source cannot be had."""

    def __init__(self, complaint: str) -> None:
        self._complaint = complaint

    @property
    def read(self) -> SparkWithout:
        return self

    def __getattr__(self, _: str) -> Any:
        return lambda *_, **__: self

    def load(self) -> None:
        raise AnalysisException(self._complaint)


def test_a_session_without_the_connector_is_told_which_package_it_needs() -> None:
    spark: Any = SparkWithout("Failed to find data source: kafka. Please deploy the application")
    with pytest.raises(ConfigurationError, match=re.escape(connector_package())):
        read_committed(spark, "127.0.0.1:1", "points")


def test_sparks_other_complaints_are_left_as_they_are() -> None:
    spark: Any = SparkWithout("something else")
    with pytest.raises(AnalysisException, match="something else"):
        read_committed(spark, "127.0.0.1:1", "points")


def test_without_pyspark_the_import_says_what_to_install() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import halfhitch_spark"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert answer.returncode == 1
    assert "pip install 'halfhitch[spark]'" in answer.stderr


@pytest.mark.spark
def test_the_required_values_may_be_said_again(spark: SparkSession) -> None:
    said_again = {"kafka.isolation.level": "read_committed", "includeHeaders": True}
    messages = read_committed(spark, "127.0.0.1:1", "points", streaming=True, options=said_again)
    assert messages.isStreaming
