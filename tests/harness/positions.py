"""What an operator, or somebody careless, can do to the logs and stored watermarks of a site."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from halfhitch.adapters.kafka import topics
from halfhitch.adapters.kafka.clients import JUDGING
from halfhitch.adapters.kafka.stored import StoredOffsets
from harness.engines import DEADLINE_S, PARTITION_COUNT, until
from harness.kafka import admin_client, bounds, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.engines import Site

Log = tuple[str, int]


def logs(site: Site) -> list[Log]:
    """Half and op log of every partition."""
    return [
        (topic, p) for topic in (site.names.half, site.names.op) for p in range(PARTITION_COUNT)
    ]


def begins(site: Site) -> dict[Log, int]:
    """Where the logs begin."""
    return _bounds(site, 0)


def ends(site: Site) -> dict[Log, int]:
    """Where the logs end."""
    return _bounds(site, 1)


def _bounds(site: Site, which: int) -> dict[Log, int]:
    return {
        (topic, partition): place
        for topic in (site.names.half, site.names.op)
        for partition, place in bounds(site.bootstrap, topic, "read_uncommitted")[which].items()
    }


def stored(site: Site) -> dict[Log, int]:
    """The stored watermarks; logs without one are missing."""
    asked = [TopicPartition(*log) for log in logs(site)]
    found = stored_offsets(site).of(asked, DEADLINE_S, "read the watermarks")
    return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}


def stored_offsets(site: Site) -> StoredOffsets:
    """Of the owners' group."""
    config = {
        "bootstrap.servers": site.bootstrap,
        "group.id": site.names.owner_group,
        **JUDGING,
        "log_level": 0,
    }
    return StoredOffsets(lambda: Consumer(config))


async def store(
    site: Site,
    watermarks: Mapping[Log, int],
    *,
    given: Sequence[TopicPartition] | None = None,
) -> None:
    """Set watermarks, as kafka-consumer-groups --reset-offsets does; no owner may be there.

    `given`: these instead, with what lies beside them.
    """
    places = [TopicPartition(*log, place) for log, place in watermarks.items()]
    if given is not None:
        places = [TopicPartition(p.topic, p.partition, p.offset, p.metadata) for p in given]
    request = [ConsumerGroupTopicPartitions(site.names.owner_group, places)]

    admin = admin_client(site.bootstrap)

    def is_taken() -> bool:
        (future,) = admin.alter_consumer_group_offsets(request).values()
        try:
            return all(p.error is None for p in future.result(DEADLINE_S).topic_partitions)
        except KafkaException:
            return False

    await until(is_taken, "the watermarks are taken")


async def forget_the_group(site: Site) -> None:
    """Delete the owners' group with all that it had stored."""
    group = site.names.owner_group
    admin = admin_client(site.bootstrap)

    def is_gone() -> bool:
        try:
            admin.delete_consumer_groups([group])[group].result(DEADLINE_S)
        except KafkaException:
            return False
        return True

    await until(is_gone, "the group is empty and deleted")
    assert stored(site) == {}


def cut(site: Site, log: Log, before: int) -> None:
    """Delete the records before an offset, from outside."""
    where = TopicPartition(*log, before)
    admin = admin_client(site.bootstrap)
    for future in admin.delete_records([where]).values():
        future.result(DEADLINE_S)
    wait_until(lambda: begins(site)[log] == before, DEADLINE_S, what="the log is cut")


def recreate(site: Site, *names: str, count: int = PARTITION_COUNT) -> None:
    """Delete topics and create them anew, with the settings they must have."""
    admin = admin_client(site.bootstrap)
    for future in admin.delete_topics(list(names), operation_timeout=DEADLINE_S).values():
        future.result(DEADLINE_S)
    wait_until(
        lambda: not set(names) & set(admin.list_topics(timeout=DEADLINE_S).topics),
        DEADLINE_S,
        what="the topics are gone",
    )
    made = [
        NewTopic(
            name,
            count,
            1,
            config=topics.required_config(
                site.names, name, message_bytes_max=1_000_000, replication_factor=1
            ),
        )
        for name in names
    ]
    for future in admin.create_topics(made, operation_timeout=DEADLINE_S).values():
        future.result(DEADLINE_S)
    wait_until(
        lambda: set(names) <= set(admin.list_topics(timeout=DEADLINE_S).topics),
        DEADLINE_S,
        what="the topics are there",
    )


def add_partitions(site: Site, *names: str, count: int) -> None:
    """Give topics more partitions."""
    admin = admin_client(site.bootstrap)
    for future in admin.create_partitions([NewPartitions(n, count) for n in names]).values():
        future.result(DEADLINE_S)

    def are_there() -> bool:
        known = admin.list_topics(timeout=DEADLINE_S).topics
        return all(len(known[name].partitions) == count for name in names)

    wait_until(are_there, DEADLINE_S, what="the partitions are there")


def set_config(site: Site, topic: str, changes: Mapping[str, str]) -> None:
    """Change settings of a topic."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in changes.items()
    ]
    resource: Any = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin = admin_client(site.bootstrap)
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
