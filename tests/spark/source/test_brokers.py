"""What the source asks of a real Kafka."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from halfhitch.errors import ConfigurationError, KafkaUnavailable
from halfhitch_spark.kafka_topics import Choice, find_topics
from halfhitch_spark.source import brokers as brokers_module
from halfhitch_spark.source.brokers import Brokers, client_of
from harness.forwards import ANSWER_S, commit_records, half_hitch_record, store_undecided
from harness.kafka import create_topics, fresh_name, wait_for_markers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halfhitch.embedded import EmbeddedKafka


@pytest.mark.spark
@pytest.mark.kafka
def test_topics_are_found_with_the_ids_that_the_connector_s_client_sees(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    prefix = fresh_name("found")
    create_topics(kafka.bootstrap, {f"{prefix}.a": 1, f"{prefix}.b": 3})
    asked = Brokers({"bootstrap.servers": kafka.bootstrap})
    names = Choice((f"{prefix}.b", f"{prefix}.a"))
    found = asked.topics(names)
    assert found == find_topics(spark, kafka.bootstrap, {}, names)
    assert asked.topics(Choice(pattern=f"{prefix}[.].")) == found
    with pytest.raises(ConfigurationError, match=f"did you mean {prefix}"):
        asked.topics(Choice((f"{prefix}.c",)))
    with pytest.raises(ConfigurationError, match="must match the whole name"):
        asked.topics(Choice(pattern=prefix))


@pytest.mark.kafka
def test_an_end_is_the_last_stable_offset(kafka: EmbeddedKafka) -> None:
    topic = fresh_name("ends")
    create_topics(kafka.bootstrap, {topic: 2})
    log, empty = (topic, 0), (topic, 1)
    asked = Brokers({"bootstrap.servers": kafka.bootstrap})
    commit_records(kafka.bootstrap, topic, [half_hitch_record("t", b"1")])
    wait_for_markers(kafka.bootstrap, topic)
    open_producer = store_undecided(kafka.bootstrap, topic, [half_hitch_record("u", b"2")])
    try:
        assert asked.stable_ends([log, empty]) == {log: 2, empty: 0}
        assert asked.earliest([log]) == {log: 0}
        now_ms = int(dt.datetime.now(dt.UTC).timestamp() * 1_000)
        assert asked.at_time([log, empty], now_ms - 3_600_000) == {log: 0, empty: -1}
        assert asked.at_time([log], now_ms + 3_600_000)[log] < 0
    finally:
        open_producer.abort_transaction(ANSWER_S)
    wait_for_markers(kafka.bootstrap, topic)
    assert asked.stable_ends([log])[log] == 4
    assert asked.stable_ends([]) == {}


def test_a_kafka_that_does_not_answer_is_told_with_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(brokers_module, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(brokers_module, "_ANSWER_S", 0.5)
    with pytest.raises(KafkaUnavailable, match=r"Kafka at 127.0.0.1:1 did not say which topics"):
        Brokers({"bootstrap.servers": "127.0.0.1:1"}).topics(Choice(("points",)))


def test_java_s_options_are_refused_with_a_hint() -> None:
    with pytest.raises(ConfigurationError, match="librdkafka's here, not Java's"):
        client_of(AdminClient, {"ssl.truststore.location": "x"})
