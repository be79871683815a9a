"""What Kafka says of topics, asked from the driver with the connector's own client.

Owns `Cluster`: one admin client, within `opened`. Everything blocks, and raises KafkaUnavailable.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import SparkSession

from halfhitch.verify.account import Place
from halfhitch_spark.kafka_topics import kafka_admin

_DELETE_RETENTION: Final = "delete.retention.ms"


class Cluster:
    """See the module's text."""

    def __init__(self, jvm: Any, admin: Any) -> None:
        self._jvm = jvm
        self._admin = admin

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, spark: SparkSession, bootstrap: str, options: Mapping[str, str]
    ) -> Iterator["Cluster"]:
        """One that is closed behind; `options` are those of Spark's source."""
        with kafka_admin(spark, bootstrap, options) as admin:
            yield cls(spark._jvm, admin)  # noqa: SLF001

    def partitions(self) -> dict[str, int]:
        """All topics that are shown to this user, with their numbers of partitions."""
        names = self._admin.listTopics().names().get()
        described = self._admin.describeTopics(names).allTopicNames().get()
        return {str(name): int(described.get(name).partitions().size()) for name in names}

    def starts(self, places: Collection[Place]) -> dict[Place, int]:
        """Where the first record is that is left."""
        return self._offsets(places, self._spec().earliest(), is_stable=False)

    def at_time(self, places: Collection[Place], since_ms: int) -> dict[Place, int]:
        """The first record of this time or later; below 0: there is none."""
        return self._offsets(places, self._spec().forTimestamp(since_ms), is_stable=False)

    def ends(self, places: Collection[Place]) -> dict[Place, int]:
        """Where partitions end, what is in open Kafka transactions included."""
        return self._offsets(places, self._spec().latest(), is_stable=False)

    def stable_ends(self, places: Collection[Place]) -> dict[Place, int]:
        """Where they end for readers of committed records."""
        return self._offsets(places, self._spec().latest(), is_stable=True)

    def watermarks(self, group: str, topic: str) -> dict[int, int]:
        """What a group has stored for a topic."""
        found = self._admin.listConsumerGroupOffsets(group)
        stored = found.partitionsToOffsetAndMetadata().get()
        return {
            int(where.partition()): int(stored.get(where).offset())
            for where in stored.keySet()
            if str(where.topic()) == topic and stored.get(where) is not None
        }

    def compacted(self, topics: Collection[str]) -> dict[str, int]:
        """Those that are, and how long each keeps the note that a key is gone."""
        resource = self._jvm.org.apache.kafka.common.config.ConfigResource
        kind = self._class("org.apache.kafka.common.config.ConfigResource$Type").TOPIC
        asked = self._jvm.java.util.ArrayList()
        for topic in topics:
            asked.add(resource(kind, topic))
        answers = self._admin.describeConfigs(asked).all().get()
        found = {}
        for one in asked:
            config = answers.get(one)
            if "compact" in str(config.get("cleanup.policy").value()):
                found[str(one.name())] = int(config.get(_DELETE_RETENTION).value())
        return found

    # -- py4j ------------------------------------------------------------------------------------

    def _spec(self) -> Any:
        return self._jvm.org.apache.kafka.clients.admin.OffsetSpec

    def _class(self, name: str) -> Any:
        """A nested class, which py4j reaches by the name that the JVM has for it."""
        found = self._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _offsets(
        self, places: Collection[Place], spec: Any, *, is_stable: bool
    ) -> dict[Place, int]:
        if not places:
            return {}
        kafka = self._jvm.org.apache.kafka
        asked = self._jvm.java.util.HashMap()
        for place in places:
            asked.put(kafka.common.TopicPartition(*place), spec)
        level = kafka.common.IsolationLevel
        options = kafka.clients.admin.ListOffsetsOptions(
            level.READ_COMMITTED if is_stable else level.READ_UNCOMMITTED
        )
        answers = self._admin.listOffsets(asked, options).all().get()
        return {
            (str(where.topic()), int(where.partition())): int(answers.get(where).offset())
            for where in answers.keySet()
        }
