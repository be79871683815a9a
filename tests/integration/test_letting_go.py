"""A transactional producer is let go with requests under way, on a real Kafka."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from halfhitch.adapters.kafka.clients import base, begin_producing, owner_producer
from halfhitch.adapters.kafka.letting_go import let_go
from halfhitch.embedded import EmbeddedKafka
from harness.kafka import create_topics, fresh_name

pytestmark = pytest.mark.kafka

COUNT = 20


@pytest.mark.timeout(120)
def test_nothing_is_under_way_when_a_producer_ends_although_kafka_hangs() -> None:
    """One whose requests were still answered when it ended was ended by a double free."""
    with EmbeddedKafka(short_lived=True) as cluster:
        topic = fresh_name("orders")
        create_topics(cluster.bootstrap, {topic: 2})
        producer = owner_producer(
            base(cluster.bootstrap, "owner", {}),
            transactional_id=fresh_name("id"),
            transaction_timeout_ms=15_000,
        )
        begin_producing(producer, topic, 30.0)
        reported: list[int] = []

        def failed(error: KafkaError | None, _: object) -> None:
            assert error is not None
            reported.append(error.code())

        def begin_and_produce() -> None:
            producer.begin_transaction()
            for n in range(COUNT):
                producer.produce(topic, b"v", partition=n % 2, on_delivery=failed)

        begin_and_produce()
        producer.commit_transaction(30.0)
        cluster.pause_broker()
        try:
            begin_and_produce()
            let_go(producer)
            assert len(producer) == 0
        finally:
            cluster.resume_broker()
    assert len(reported) == COUNT
    assert set(reported) <= {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}
