"""`format("halfhitch")` gives the rows that the connector gives: on a real broker, by Spark."""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from halfhitch_spark import QueryMetrics, read_batch, read_stream
from halfhitch_spark.source import register_source
from halfhitch_spark.source.source import HalfHitchStreamReader
from halfhitch_spark.source.stretches import Stretch
from halfhitch_spark.source.wish import wish_of
from harness.forwards import (
    ANSWER_S,
    Record,
    abort_records,
    commit_records,
    forwarded_headers,
    half_hitch_record,
    store_undecided,
)
from harness.kafka import (
    admin_client,
    create_topics,
    fresh_name,
    wait_for_markers,
    wait_until,
)
from harness.odd_records import produce_odd
from harness.spark import run_stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

    from halfhitch.embedded import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def records(prefix: str, count: int, partition: int = 0) -> list[Record]:
    return [
        half_hitch_record(f"{prefix}-{n}", f"{prefix}-{n}".encode(), partition=partition)
        for n in range(count)
    ]


def store_everything(kafka: EmbeddedKafka, orders: str, points: str) -> Producer:
    """Two topics as they are in life; an open Kafka transaction at the end of the first."""
    create_topics(kafka.bootstrap, {orders: 3, points: 1})
    for round_number in range(4):
        commit_records(kafka.bootstrap, orders, records(f"c{round_number}", 5))
        abort_records(kafka.bootstrap, orders, records(f"a{round_number}", 7, partition=1))
        commit_records(kafka.bootstrap, orders, records(f"d{round_number}", 3, partition=1))
    user = [("trace", b"a"), ("raw", b"\xff\x00"), ("trace", b"a"), ("none", None), ("", b"")]
    odd = [
        Record(b"\x00\xff", key=b"\xfe", headers=forwarded_headers("t-Ω", user=user, count=2)),
        Record(None, key=b"", headers=forwarded_headers("t-Ω", index=1)),
        Record(b"foreign", headers=[("UNIQ_KEY", b"t"), ("x", None)]),
        Record(b"bare"),
    ]
    commit_records(kafka.bootstrap, points, odd)
    abort_records(kafka.bootstrap, points, records("tail", 3))
    wait_for_markers(kafka.bootstrap, orders, points)
    open_producer = store_undecided(kafka.bootstrap, orders, records("open", 2))
    # Behind an open one: nobody may see it yet.
    commit_records(kafka.bootstrap, orders, records("behind", 2))
    return open_producer


def commit(kafka: EmbeddedKafka, topic: str, given: list[Record]) -> None:
    commit_records(kafka.bootstrap, topic, given)
    wait_for_markers(kafka.bootstrap, topic)


def options(kafka: EmbeddedKafka, *topics: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": ",".join(topics), **more}


def batch(spark: SparkSession, given: dict[str, str]) -> DataFrame:
    return spark.read.format("halfhitch").options(**given).load()


def stream(spark: SparkSession, given: dict[str, str]) -> DataFrame:
    return spark.readStream.format("halfhitch").options(**given).load()


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def values_of(rows: list[Row]) -> list[str]:
    return [bytes(row["value"]).decode() for row in in_order(rows)]


def run(messages: DataFrame, checkpoint: Path) -> list[Row]:
    """What one run of the stream reads."""
    found: list[Row] = []

    def take(rows: DataFrame, _: int) -> None:
        found.extend(rows.collect())

    run_stream(messages, checkpoint, take)
    return in_order(found)


@pytest.fixture
def spark_with_source(spark: SparkSession) -> SparkSession:
    register_source(spark)
    return spark


@pytest.mark.long
def test_its_rows_are_the_connector_s_with_aborted_and_open_kafka_transactions(
    spark_with_source: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    spark, orders, points = spark_with_source, fresh_name("orders"), fresh_name("points")
    open_producer = store_everything(kafka, orders, points)
    given = options(kafka, orders, points)

    def everywhere() -> list[list[Row]]:
        """By batch and by stream, of the connector and of the source."""
        both = [
            in_order(read_batch(spark, kafka.bootstrap, [orders, points]).collect()),
            in_order(batch(spark, given).collect()),
        ]
        for name in ("connector", "source"):
            checkpoint = tmp_path / name
            messages = (
                read_stream(
                    spark, kafka.bootstrap, [orders, points], checkpoint=checkpoint.as_uri()
                )
                if name == "connector"
                else stream(spark, given)
            )
            both.append(run(messages, checkpoint))
        return both

    try:
        before = everywhere()
    finally:
        open_producer.abort_transaction(ANSWER_S)
    wait_for_markers(kafka.bootstrap, orders, points)
    assert before[0] == before[1] == before[2] == before[3]
    assert len(before[0]) == 4 * 5 + 4 * 3 + 4
    assert batch(spark, given).dtypes == read_batch(spark, kafka.bootstrap, orders).dtypes
    after = everywhere()
    assert after[0] == after[1]
    assert len(after[0]) == len(before[0]) + 2
    # A stream goes on from its checkpoint: what was hidden, and nothing else.
    assert values_of(after[2]) == values_of(after[3]) == ["behind-0", "behind-1"]
    assert run(stream(spark, given), tmp_path / "source") == []


def test_a_batch_begins_and_ends_where_it_is_told(
    spark_with_source: SparkSession, kafka: EmbeddedKafka
) -> None:
    spark, topic = spark_with_source, fresh_name("edges")
    create_topics(kafka.bootstrap, {topic: 2})
    commit(kafka, topic, records("early", 3))
    moment_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1_000) + 1
    time.sleep(0.02)
    commit(kafka, topic, records("late", 2))

    def shown(**more: str) -> list[str]:
        return values_of(batch(spark, options(kafka, topic, **more)).collect())

    assert shown(startingTimestamp=str(moment_ms)) == ["late-0", "late-1"]
    assert shown(endingTimestamp=str(moment_ms)) == ["early-0", "early-1", "early-2"]
    from_second = json.dumps({topic: {"0": 1}})
    assert shown(startingOffsets=from_second, endingTimestamp=str(moment_ms)) == [
        "early-1",
        "early-2",
    ]
    assert shown(startingOffsets="latest") == []
    with pytest.raises(Exception, match="can be read up to 7 now"):
        shown(endingOffsets=json.dumps({topic: {"0": 8}}))
    with pytest.raises(Exception, match="there is no topic 'nowhere"):
        batch(spark, options(kafka, "nowhere-at-all")).collect()


def test_a_stream_that_starts_again_neither_doubles_nor_loses_and_reads_new_partitions(
    spark_with_source: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    spark, topic, checkpoint = spark_with_source, fresh_name("again"), tmp_path / "checkpoint"
    create_topics(kafka.bootstrap, {topic: 1})
    messages = stream(spark, options(kafka, topic))
    commit(kafka, topic, records("a", 3))
    assert values_of(run(messages, checkpoint)) == ["a-0", "a-1", "a-2"]

    admin = admin_client(kafka.bootstrap)
    for future in admin.create_partitions([NewPartitions(topic, 2)]).values():
        future.result(30)

    def has_grown() -> bool:  # a producer's client may ask a broker that has not heard of it
        return len(admin.list_topics(topic, 30).topics[topic].partitions) == 2

    wait_until(has_grown, 30.0, what="the new partition")
    commit(kafka, topic, [*records("b", 1), *records("c", 2, partition=1)])
    assert values_of(run(messages, checkpoint)) == ["b-0", "c-0", "c-1"]


def test_a_batch_that_dies_is_read_again_with_the_same_rows(
    spark_with_source: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    spark, topic, checkpoint = spark_with_source, fresh_name("dies"), tmp_path / "checkpoint"
    create_topics(kafka.bootstrap, {topic: 1})
    messages = stream(spark, options(kafka, topic))
    commit(kafka, topic, records("a", 3))
    died: list[list[str]] = []

    def die(rows: DataFrame, _: int) -> None:
        died.append(values_of(rows.collect()))
        raise RuntimeError("struck down")

    with pytest.raises(Exception, match="struck down"):
        run_stream(messages, checkpoint, die)
    commit(kafka, topic, records("later", 1))
    seen: list[list[str]] = []
    for _ in range(2):  # a run of Spark 4.0 is one batch of a Python source: the one that died
        run_stream(messages, checkpoint, lambda rows, _: seen.append(values_of(rows.collect())))
    assert seen == [died[0], ["later-0"]]


def test_a_topic_that_was_made_anew_under_a_checkpoint_is_refused(
    spark_with_source: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    spark, topic, checkpoint = spark_with_source, fresh_name("anew"), tmp_path / "checkpoint"
    create_topics(kafka.bootstrap, {topic: 1})
    commit(kafka, topic, records("old", 2))
    messages = stream(spark, options(kafka, topic))
    assert values_of(run(messages, checkpoint)) == ["old-0", "old-1"]
    admin = admin_client(kafka.bootstrap)
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    deadline = time.monotonic() + 30
    while topic in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
    create_topics(kafka.bootstrap, {topic: 1})
    # As many as before: by their offsets alone nothing would be new.
    commit(kafka, topic, records("new", 2))
    with pytest.raises(Exception, match="was deleted and made anew"):
        run(messages, checkpoint)


@pytest.mark.long
def test_messages_deleted_unread_end_the_query_unless_that_is_accepted(
    spark_with_source: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    spark, topic, checkpoint = spark_with_source, fresh_name("trimmed"), tmp_path / "checkpoint"
    create_topics(kafka.bootstrap, {topic: 1})
    commit(kafka, topic, records("first", 3))
    assert len(run(stream(spark, options(kafka, topic)), checkpoint)) == 3
    commit(kafka, topic, records("second", 5))
    admin = admin_client(kafka.bootstrap)
    for future in admin.delete_records([TopicPartition(topic, 0, 7)]).values():
        future.result(30)
    with pytest.raises(Exception, match=f"messages 4 to 6 of {topic}-0 were deleted"):
        run(stream(spark, options(kafka, topic)), checkpoint)
    accepting = stream(spark, options(kafka, topic, failOnDataLoss="false"))
    assert values_of(run(accepting, checkpoint)) == ["second-3", "second-4"]


def test_what_its_options_cannot_mean_is_said_before_a_query_begins(
    spark_with_source: SparkSession, kafka: EmbeddedKafka
) -> None:
    given: dict[str, Any] = options(kafka, "points")
    given["kafka.isolation.level"] = "read_uncommitted"
    with pytest.raises(Exception, match="must be read_committed, because"):
        batch(spark_with_source, given).collect()


def test_its_streams_are_seen_by_the_metrics(
    spark_with_source: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    spark, topic = spark_with_source, fresh_name("metrics")
    create_topics(kafka.bootstrap, {topic: 1})
    commit(kafka, topic, records("a", 3))
    metrics = QueryMetrics(spark)
    spark.streams.addListener(metrics)
    try:
        run(stream(spark, options(kafka, topic)), tmp_path / "checkpoint")

        def is_known() -> bool:
            return any(q.positions == {(topic, 0): 4} for q in list(metrics._queries.values()))

        wait_until(is_known, 60, what="where the stream is")
    finally:
        spark.streams.removeListener(metrics)


def test_its_schema_was_not_the_connector_s_where_one_has_no_nulls(
    spark_with_source: SparkSession, kafka: EmbeddedKafka
) -> None:
    spark, topic = spark_with_source, fresh_name("schema")
    create_topics(kafka.bootstrap, {topic: 1})
    given = options(kafka, topic)
    connector = read_batch(spark, kafka.bootstrap, topic).schema
    streamed = read_stream(spark, kafka.bootstrap, topic, checkpoint=None).schema
    assert streamed == connector
    assert batch(spark, given).schema.json() == connector.json()
    assert stream(spark, given).schema.json() == connector.json()


def test_a_stream_from_the_end_that_died_in_its_first_batch_went_on_behind_it(
    kafka: EmbeddedKafka,
) -> None:
    """As Spark calls the reader: by hand, since the first batch is empty but for a moment."""
    topic = fresh_name("latest")
    create_topics(kafka.bootstrap, {topic: 1})
    commit(kafka, topic, records("old", 3))
    wish = wish_of(options(kafka, topic, startingOffsets="latest"), streaming=True)
    first = HalfHitchStreamReader(wish)
    looked = first._begin

    def begin_and_commit() -> dict[tuple[str, int], int]:
        begun = looked()
        commit(kafka, topic, records("new", 2))
        return begun

    first._looked_s = float("-inf")
    first._begin = begin_and_commit  # type: ignore[method-assign]
    end = json.loads(json.dumps(first.latestOffset()))
    commit(kafka, topic, records("later", 4))
    planned = [Stretch(topic, 0, 4, 7)]
    assert first.partitions(first.initialOffset(), end) == planned

    second = HalfHitchStreamReader(wish)  # the driver has died and is there again
    assert second.partitions(end, end) == []
    assert second.partitions(second.initialOffset(), end) == planned
    later = second.latestOffset()
    assert second.partitions(end, later) == [Stretch(topic, 0, 7, 12)]
    assert json.dumps(second.latestOffset()) == json.dumps(later)


def test_a_stream_from_the_end_of_a_busy_topic_was_told_of_lost_messages(
    spark_with_source: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    spark, topic, checkpoint = spark_with_source, fresh_name("busy"), tmp_path / "checkpoint"
    create_topics(kafka.bootstrap, {topic: 1})
    commit(kafka, topic, records("old", 3))
    messages = stream(spark, options(kafka, topic, startingOffsets="latest"))

    def die(*_: object) -> None:
        raise RuntimeError("struck down")

    with pytest.raises(Exception, match="struck down"):
        run_stream(messages, checkpoint, die)
    commit(kafka, topic, records("new", 2))
    seen: list[str] = []
    for _ in range(2):
        run_stream(messages, checkpoint, lambda rows, _: seen.extend(values_of(rows.collect())))
    assert seen == ["new-0", "new-1"]
    run_stream(messages, checkpoint, lambda *_: seen.append("a batch without a message"))
    assert seen == ["new-0", "new-1"]


def test_a_header_name_that_is_no_text_is_said_with_its_place(
    spark_with_source: SparkSession, kafka: EmbeddedKafka
) -> None:
    """confluent-kafka says SystemError of it, or nothing where the call is hot; the worker died."""
    topic = fresh_name("odd")
    create_topics(kafka.bootstrap, {topic: 1})
    commit(kafka, topic, records("before", 200))  # so that the call is hot
    produce_odd(kafka.bootstrap, topic, b"odd", b"\xff=1")
    with pytest.raises(Exception, match=f"{topic}-0 at 201: a header's name is not UTF-8"):
        batch(spark_with_source, options(kafka, topic)).collect()
