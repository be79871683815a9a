"""What the audit asks of a real Kafka from the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from halfhitch.errors import KafkaUnavailable
from halfhitch_spark.audit.cluster import Cluster
from harness.forwards import Record, commit_records, forwarded_headers, store_undecided
from harness.kafka import create_topics, fresh_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from halfhitch.embedded import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_ends_times_watermarks_and_settings_are_told(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic, group = fresh_name("cluster"), fresh_name("group")
    create_topics(kafka.bootstrap, {topic: 2}, {"cleanup.policy": "compact"})
    records = [Record(b"v", key=b"k", headers=forwarded_headers("t", index=0))]
    commit_records(kafka.bootstrap, topic, records)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 1, 7)], asynchronous=False)
    consumer.close()
    places = [(topic, 0), (topic, 1)]
    open_producer = store_undecided(kafka.bootstrap, topic, records)
    with Cluster.opened(spark, kafka.bootstrap, {}) as cluster:
        assert cluster.partitions()[topic] == 2
        assert cluster.starts(places) == {(topic, 0): 0, (topic, 1): 0}
        assert cluster.ends(places) == {(topic, 0): 3, (topic, 1): 0}
        assert cluster.stable_ends(places) == {(topic, 0): 2, (topic, 1): 0}
        assert cluster.at_time(places, 1) == {(topic, 0): 0, (topic, 1): -1}
        assert cluster.watermarks(group, topic) == {1: 7}
        assert cluster.watermarks(fresh_name("nobody"), topic) == {}
        assert cluster.compacted([topic]) == {topic: 86_400_000}
        assert cluster.starts([]) == {}
        with pytest.raises(KafkaUnavailable), Cluster.opened(spark, kafka.bootstrap, {}) as other:
            other.ends([(fresh_name("nothing"), 0)])
    open_producer.abort_transaction(30.0)
