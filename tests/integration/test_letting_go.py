"""A transactional producer is let go with requests under way, on a real Kafka."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from halfhitch.adapters.kafka.clients import base, begin_producing, owner_producer
from halfhitch.adapters.kafka.letting_go import let_go
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.embedded import EmbeddedKafka
from halfhitch.ports import TargetRecord, WriteOutcome
from harness.kafka import admin_client, create_topics, fresh_name, wait_until

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

        # Its partitions are Kafka's to know before it hangs: one that asks for them at the moment
        # when it is destroyed ends the process, and nobody lets go of one that has just begun.
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, b"v", partition=partition)
        while len(producer) > 0:
            producer.poll(0.1)
        cluster.pause_broker()
        try:
            for n in range(COUNT):
                producer.produce(topic, b"v", partition=n % 2, on_delivery=failed)
            let_go(producer)
            assert len(producer) == 0
        finally:
            cluster.resume_broker()
    assert len(reported) == COUNT
    assert set(reported) <= {KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT}


def test_a_producer_that_was_fenced_is_gone_when_its_writer_has_let_go(kafka: Any) -> None:
    """Its threads went on, and it gathered statistics that nobody fetched, 40 KiB a second."""
    half, op, orders = (fresh_name(kind) for kind in ("half", "op", "orders"))
    create_topics(kafka.bootstrap, {half: 1, op: 1, orders: 2})
    transactional_id = fresh_name("id")
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": fresh_name("group")})
    made: list[weakref.ref[Any]] = []

    def make() -> Any:
        common = base(kafka.bootstrap, "owner", {})
        producer = owner_producer(
            common, transactional_id=transactional_id, transaction_timeout_ms=15_000
        )
        made.append(weakref.ref(producer.client))
        return producer

    writer = KafkaPartitionWriter(
        make,
        make_resumer=make,
        admin=admin_client(kafka.bootstrap),
        group_metadata=member.consumer_group_metadata,
        half_topic=half,
        op_topic=op,
        partition=0,
        transaction_timeout_ms=15_000,
    )
    writer.fence()
    stranger = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": transactional_id}
    )
    stranger.init_transactions(30.0)
    targets = [TargetRecord(orders, n % 2, None, b"v", []) for n in range(COUNT)]
    written = writer.write(targets, [(b"1,", [], None)], 1, 1)
    assert written.outcome is not WriteOutcome.OK
    assert "fenced" in written.reason
    member.close()
    wait_until(lambda: made[0]() is None, 30.0, what="the end of the client")


def test_a_producer_ends_although_an_exception_of_its_is_kept() -> None:
    """Kept exceptions keep frames, and these kept clients: never served, never ended, they filled
    the memory with statistics and log lines."""
    kept: list[BaseException] = []
    made: list[weakref.ref[Any]] = []

    def fail() -> None:
        producer = owner_producer(
            base("127.0.0.1:1", "owner", {"log_level": 0}),
            transactional_id="id",
            transaction_timeout_ms=15_000,
        )
        made.append(weakref.ref(producer.client))
        try:
            try:
                producer.commit_transaction(1.0)
            except KafkaException as error:
                kept.append(error)
            with pytest.raises(KafkaException) as raised:
                begin_producing(producer, "orders", 0.1)
            kept.append(raised.value)
            assert made[0]() is not None
        finally:
            let_go(producer)
        assert len(producer) == 0
        with pytest.raises(RuntimeError, match="let go"):
            producer.begin_transaction()
        let_go(producer)  # harmless when repeated

    fail()
    assert len(kept) == 2
    wait_until(lambda: made[0]() is None, 30.0, what="the end of the client")
