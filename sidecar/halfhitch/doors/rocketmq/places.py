"""Where topics lie: the part of a name server, and what tools ask of a broker's topics.

Every answer names this very door as the one broker, under one name for all instances, so that a
client which is sent to another instance ends its transactions there.
"""

from collections.abc import Awaitable
from typing import Final, Protocol

from halfhitch.doors.rocketmq import names
from halfhitch.doors.rocketmq.offsets import Address
from halfhitch.errors import ForbiddenTopic, UnknownTopic
from halfhitch.service.target_topics import TargetTopics
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.fields import int32, text
from halfhitch.wire.remoting.frame import reply
from halfhitch.wire.remoting.requests import Frame
from halfhitch.wire.remoting.routing import (
    cluster_body,
    max_offset_fields,
    read_max_offset_request,
    read_route_request,
    route_body,
    topics_body,
)

_PARTITIONS_MAX: Final = 1_000


class Asker(Protocol):
    """The connection that a request came over."""

    @property
    def address(self) -> Address:
        """Where its client reaches us."""
        ...

    def work(self, frame: Frame, work: Awaitable[bytes]) -> None:
        """Answer with what this gives."""
        ...


class Places:
    """`create_topics`: topics that are asked for are made, with `create_partitions` each."""

    def __init__(
        self,
        topics: TargetTopics,
        *,
        broker_name: str,
        cluster_name: str,
        create_topics: bool,
        create_partitions: int,
    ) -> None:
        self._topics = topics
        self._broker_name = broker_name
        self._cluster_name = cluster_name
        self._creates = create_topics
        self._create_partitions = create_partitions

    def route(self, frame: Frame, asker: Asker) -> bytes | None:
        """105: for allowed topics that exist, or are made now."""
        asked = read_route_request(frame)
        if asked == codes.AUTO_CREATE_TOPIC:
            if not self._creates:
                raise UnknownTopic(
                    "topics are not created by sending to them: create the topic in Kafka, or set "
                    "rocketmq.create_topics"
                )
            return self._route(frame, asker, asked, self._create_partitions)
        topic = names.kafka_topic(names.namespace_of(frame), asked)
        count = self._topics.known_count(topic)
        if count is not None:
            return self._route(frame, asker, asked, count)
        asker.work(frame, self._found_route(frame, asker, asked, topic))
        return None

    async def _found_route(self, frame: Frame, asker: Asker, asked: str, topic: str) -> bytes:
        try:
            count = await self._topics.count(topic)
        except UnknownTopic:
            if not self._creates:
                raise UnknownTopic(
                    f"Kafka has no topic {topic!r}: create it first (kafka-topics.sh --create "
                    f"--topic {topic}), or set rocketmq.create_topics"
                ) from None
            count = await self._topics.create(topic, self._create_partitions)
        return self._route(frame, asker, asked, count)

    def _route(self, frame: Frame, asker: Asker, topic: str, count: int) -> bytes:
        body = route_body(
            topic, self._broker_name, asker.address.text, count, cluster=self._cluster_name
        )
        return reply(frame, codes.SUCCESS, body=body)

    def topics(self, frame: Frame, asker: Asker) -> bytes | None:
        """206."""
        asker.work(frame, self._all_topics(frame))
        return None

    async def _all_topics(self, frame: Frame) -> bytes:
        return reply(frame, codes.SUCCESS, body=topics_body(list(await self._topics.all())))

    def cluster(self, frame: Frame, asker: Asker) -> bytes | None:
        """106."""
        body = cluster_body(self._broker_name, asker.address.text, cluster=self._cluster_name)
        return reply(frame, codes.SUCCESS, body=body)

    def max_offset(self, frame: Frame, asker: Asker) -> bytes | None:
        """30: clients that watch over servers ask for it, whatever the answer."""
        place = read_max_offset_request(frame)
        topic = names.kafka_topic(names.namespace_of(frame), place.topic)
        asker.work(frame, self._end_of(frame, topic, place.queue_id))
        return None

    async def _end_of(self, frame: Frame, topic: str, partition: int) -> bytes:
        end_offset = await self._topics.end(topic, partition)
        return reply(frame, codes.SUCCESS, fields=max_offset_fields(end_offset))

    def create_topic(self, frame: Frame, asker: Asker) -> bytes | None:
        """17."""
        topic = names.kafka_topic(names.namespace_of(frame), text(frame.fields, "topic"))
        if not self._creates:
            raise ForbiddenTopic(
                f"topic {topic!r} is not created from here: create it in Kafka, or set "
                "rocketmq.create_topics"
            )
        wanted = int32(frame.fields, "writeQueueNums", self._create_partitions)
        asker.work(frame, self._created(frame, topic, min(max(wanted, 1), _PARTITIONS_MAX)))
        return None

    async def _created(self, frame: Frame, topic: str, partition_count: int) -> bytes:
        await self._topics.create(topic, partition_count)
        return reply(frame, codes.SUCCESS)
