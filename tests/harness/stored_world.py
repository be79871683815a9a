"""A world (verify_world.py) as topics of a real Kafka: every record at its own offset.

What nobody may see there, markers and what was aborted, is a record of a stranger here, for it
takes an offset all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

from halfhitch.wire.topics import InternalTopics
from harness.kafka import admin_client, create_topics
from harness.verify_world import HALF, OP, PARKED_TOPIC, TARGETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.verify_world import World

#: Worlds are played in the year 2001.
_FOR_EVER = {"retention.ms": "-1", "message.timestamp.type": "CreateTime"}
_ANSWER_S = 30.0


def store_world(
    world: World, bootstrap: str, prefix: str, config: Mapping[str, Mapping[str, str]] | None = None
) -> InternalTopics:
    """Topics with this prefix (`World(prefix=...)`); `config`: of targets, by the world's names."""
    names = InternalTopics(prefix)
    shown = {HALF: names.half, OP: names.op, PARKED_TOPIC: names.parked}
    shown |= {topic: prefix + topic for topic in TARGETS}
    counts: dict[str, int] = {}
    for topic, partition in world.logs:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    for topic, count in counts.items():
        more = (config or {}).get(topic, {})
        create_topics(bootstrap, {shown[topic]: count}, {**_FOR_EVER, **more})
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    produce: Any = producer.produce
    for (topic, partition), log in world.logs.items():
        for record in log.records:
            is_seen = record.state == "visible"
            produce(
                shown[topic],
                record.stored_value if is_seen else None,
                record.stored_key if is_seen else b"nobody's",
                partition=partition,
                timestamp=record.time_ms,
                headers=list(record.stored_headers) if is_seen else [],
            )
    assert producer.flush(_ANSWER_S) == 0
    trimmed = [
        TopicPartition(shown[topic], partition, log.start)
        for (topic, partition), log in world.logs.items()
        if log.start
    ]
    if trimmed:
        admin = admin_client(bootstrap)
        for future in admin.delete_records(trimmed).values():
            future.result(_ANSWER_S)
    _store_watermarks(world, bootstrap, names)
    return names


def _store_watermarks(world: World, bootstrap: str, names: InternalTopics) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": names.owner_group})
    stored = [TopicPartition(names.half, p, at) for p, at in world.watermarks.items()]
    try:
        consumer.commit(offsets=stored, asynchronous=False)
    finally:
        consumer.close()
