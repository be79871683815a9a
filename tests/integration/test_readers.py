"""Groups that read what is not committed are found by their positions, on a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from halfhitch.adapters.kafka.clients import JUDGING
from halfhitch.adapters.kafka.readers import inspect_readers
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from harness.forwards import ANSWER_S, commit_records, half_hitch_record, store_undecided
from harness.kafka import admin_client, create_topics, fresh_name, wait_until

if TYPE_CHECKING:
    from harness.servers import KafkaAddress

pytestmark = pytest.mark.kafka

WAIT_S = 30.0


def read_all_and_store(bootstrap: str, topic: str, group: str, isolation: str, count: int) -> None:
    """So many messages, as a consumer does it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "isolation.level": isolation,
            "auto.offset.reset": "earliest", "enable.auto.commit": False,
        }
    )  # fmt: skip
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        for _ in range(count):
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None
            last = message
        consumer.commit(last, asynchronous=False)
    finally:
        consumer.close()


def test_a_reader_of_uncommitted_messages_is_named_while_a_transaction_is_open(
    kafka: KafkaAddress,
) -> None:
    topic, careful, hasty = fresh_name("orders"), fresh_name("careful"), fresh_name("hasty")
    create_topics(kafka.bootstrap, {topic: 1})
    commit_records(kafka.bootstrap, topic, [half_hitch_record("t", b"first", count=1)])
    open_producer = store_undecided(kafka.bootstrap, topic, [half_hitch_record("open", b"open")])
    admin: Any = admin_client(kafka.bootstrap)

    def stored_offsets(group: str) -> StoredOffsets:
        config = {"bootstrap.servers": kafka.bootstrap, "group.id": group, **JUDGING}
        return StoredOffsets(lambda: Consumer(config))

    # Tests before this one have left more groups than are looked at.
    others = {one.group_id for one in admin.list_consumer_groups().result(WAIT_S).valid}

    def look(*without: str) -> Finding:
        logs = [(topic, 0), ("no-such-topic", 0)]
        (found,) = inspect_readers(
            admin, stored_offsets, logs, without=frozenset((*others, *without)), wait_s=WAIT_S
        )
        return found

    read_all_and_store(kafka.bootstrap, topic, careful, "read_committed", 1)
    assert look().severity is Severity.OK
    read_all_and_store(kafka.bootstrap, topic, hasty, "read_uncommitted", 2)
    found = look()
    assert found.severity is Severity.WARN
    assert f"not committed: {hasty} on {topic}-0. They see" in found.sentence
    assert careful not in found.sentence
    assert look(hasty).severity is Severity.OK
    open_producer.abort_transaction(ANSWER_S)
    wait_until(lambda: look().severity is Severity.OK, WAIT_S, what="nothing is open")


def test_more_groups_than_are_looked_at_are_told(
    kafka: KafkaAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch.adapters.kafka.readers._GROUPS_MAX", 1)
    topic = fresh_name("orders")
    create_topics(kafka.bootstrap, {topic: 1})
    commit_records(kafka.bootstrap, topic, [half_hitch_record("t", b"first", count=1)])
    for _ in range(2):
        read_all_and_store(kafka.bootstrap, topic, fresh_name("group"), "read_committed", 1)

    def stored_offsets(group: str) -> StoredOffsets:
        config = {"bootstrap.servers": kafka.bootstrap, "group.id": group, **JUDGING}
        return StoredOffsets(lambda: Consumer(config))

    admin: Any = admin_client(kafka.bootstrap)
    logs = [(topic, 0)]
    (found,) = inspect_readers(admin, stored_offsets, logs, without=frozenset(), wait_s=WAIT_S)
    assert "None of the first 1 of " in found.sentence
