"""Are the topics there, and still the same ones? On a real broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from halfhitch.errors import ConfigurationError, KafkaUnavailable
from halfhitch.wire.topics import InternalTopics
from halfhitch_spark import kafka_topics, read_batch, read_committed, read_stream, same_topics
from halfhitch_spark.kafka_topics import FILE_NAME, Choice, find_topics, require_same_topics
from harness.forwards import commit_records, half_hitch_record
from harness.kafka import admin_client, create_topics, fresh_name
from harness.spark import run_stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from halfhitch.embedded import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def write(kafka: EmbeddedKafka, topic: str, *values: str) -> None:
    commit_records(
        kafka.bootstrap, topic, [half_hitch_record(value, value.encode()) for value in values]
    )


def make_anew(kafka: EmbeddedKafka, topic: str) -> None:
    admin = admin_client(kafka.bootstrap)
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    deadline = time.monotonic() + 30
    while topic in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < deadline
    create_topics(kafka.bootstrap, {topic: 1})


def values_of(messages: DataFrame, checkpoint: Path) -> list[str]:
    """Of what a run of the stream reads."""
    found: list[str] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(bytes(row["value"]).decode() for row in batch.select("value").collect())

    run_stream(messages, checkpoint, take)
    return sorted(found)


def test_a_topic_that_was_made_anew_under_a_checkpoint_is_refused_and_spark_alone_skips(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, checkpoint = fresh_name("anew"), tmp_path / "checkpoint"
    create_topics(kafka.bootstrap, {topic: 1})
    write(kafka, topic, "old-1", "old-2")

    def ours() -> DataFrame:
        where = checkpoint.as_uri()
        return read_stream(spark, kafka.bootstrap, topic, checkpoint=where)

    assert values_of(ours(), checkpoint) == ["old-1", "old-2"]
    assert values_of(ours(), checkpoint) == []
    make_anew(kafka, topic)
    write(kafka, topic, *(f"new-{number}" for number in range(6)))
    with pytest.raises(ConfigurationError, match=f"topic {topic} was deleted and made anew"):
        ours()

    called: list[int] = []
    each = same_topics(
        lambda _, number: called.append(number), kafka.bootstrap, topic,
        checkpoint=checkpoint.as_uri(),
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="Start with a new checkpoint"):
        each(read_batch(spark, kafka.bootstrap, topic), 1)
    assert not called

    own = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic,
           "kafka.isolation.level": "read_committed"}
    ).load()  # fmt: skip
    shown = values_of(own, checkpoint)
    assert shown
    assert not {"new-0", "new-1", "new-2"} & set(shown), "Spark says nothing of these"


def test_a_checkpoint_of_another_topic_is_refused_and_spark_alone_speaks_of_lost_data(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    first, second, checkpoint = fresh_name("first"), fresh_name("second"), tmp_path / "checkpoint"
    create_topics(kafka.bootstrap, {first: 1, second: 1})
    write(kafka, first, "a")
    write(kafka, second, "b", "c")

    def ours(topic: str, *, accept: bool = False) -> DataFrame:
        return read_stream(
            spark, kafka.bootstrap, topic, checkpoint=checkpoint.as_uri(), accept_data_loss=accept
        )

    assert values_of(ours(first), checkpoint) == ["a"]
    with pytest.raises(ConfigurationError, match=f"was begun with topic {first}, and this query"):
        ours(second)
    own = read_committed(spark, kafka.bootstrap, second, streaming=True)
    with pytest.raises(StreamingQueryException, match="Some data may have been lost"):
        values_of(own, checkpoint)
    assert values_of(ours(second, accept=True), checkpoint) == ["b", "c"]


def test_topics_that_are_not_there_or_not_to_be_read_are_told_in_a_sentence(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic = fresh_name("orders")
    prefix = fresh_name("x") + "-"
    ours = InternalTopics(prefix).reserved
    create_topics(kafka.bootstrap, {topic: 1, **dict.fromkeys(ours, 1)})
    cases = {
        topic[:-1] + "q": f"there is no topic .*did you mean .*{topic[:8]}",
        "zzz": "there is no topic 'zzz'.*there are: ",
        **dict.fromkeys(ours, "Half Hitch's own"),
    }
    for name, words in cases.items():
        with pytest.raises(ConfigurationError, match=words):
            read_batch(spark, kafka.bootstrap, name)
    with pytest.raises(ConfigurationError, match="no topic matches the pattern 'order'"):
        read_batch(spark, kafka.bootstrap, pattern="order")
    with pytest.raises(ConfigurationError, match="Half Hitch's own"):
        read_stream(spark, kafka.bootstrap, pattern=".*", checkpoint=None)
    with pytest.raises(ConfigurationError, match="Half Hitch's own"):  # it passed for a user's
        read_batch(spark, kafka.bootstrap, pattern=f"{prefix}.*AUDIT.*")
    with pytest.raises(ConfigurationError, match="either topics or a pattern"):
        read_batch(spark, kafka.bootstrap, topic, pattern="x")
    found = find_topics(spark, kafka.bootstrap, {}, Choice(pattern=f"{topic[:-1]}."))
    assert found[topic].partition_count == 1


def test_a_broker_that_does_not_answer_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_topics, "_ANSWER_MS", 1_000)
    with pytest.raises(KafkaUnavailable, match=r"Kafka at 127\.0\.0\.1:1 did not say .*Timeout"):
        read_batch(spark, "127.0.0.1:1", "orders")


def test_a_session_without_the_connector_is_told_which_package_it_needs(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    class Without:
        def __getattr__(self, name: str) -> object:
            return getattr(spark._jvm, "nothing" if name == "org" else name)

    class Session:
        _jvm = Without()

    with pytest.raises(ConfigurationError, match="no Kafka connector"):
        find_topics(Session(), "127.0.0.1:1", {}, Choice(("orders",)))  # type: ignore[arg-type]


def test_a_damaged_file_of_ids_is_told_and_new_topics_are_added(
    spark: SparkSession, tmp_path: Path
) -> None:
    where = tmp_path.as_uri()
    require_same_topics(spark, where, {"a": kafka_topics.Topic("1", 1)})
    both = {name: kafka_topics.Topic(number, 1) for name, number in (("a", "1"), ("b", "2"))}
    require_same_topics(spark, where, both)
    with pytest.raises(ConfigurationError, match="begun with topic a, and this query does not"):
        require_same_topics(spark, where, {"b": both["b"]})
    require_same_topics(spark, where, {"b": both["b"]}, accept_gone=True)
    both["a"] = kafka_topics.Topic("3", 1)
    with pytest.raises(ConfigurationError, match="topic a was deleted"):
        require_same_topics(spark, where, both)
    both["a"] = kafka_topics.Topic("A" * 22, 1)  # of a broker that has no ids
    require_same_topics(spark, where, both)
    (tmp_path / FILE_NAME).write_text("{")
    for crc in tmp_path.glob(".*.crc"):
        crc.unlink()
    with pytest.raises(ConfigurationError, match="is damaged"):
        require_same_topics(spark, where, {})
