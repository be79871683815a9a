"""Where topics lie: the part of a name server, and what tools ask of a broker's topics.

Every answer names this very door as the one broker, under one name for all instances, so that a
client which is sent to another instance ends its transactions there.
"""

from collections.abc import Coroutine
from typing import Any, Final, Protocol

from halfhitch.access import Caller, Right
from halfhitch.doors.rocketmq import names
from halfhitch.doors.rocketmq.offsets import Address
from halfhitch.errors import ForbiddenTopic, UnknownTopic
from halfhitch.service.transactions.topic_directory import TopicDirectory
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


class Routes:
    """`create_topics`: topics that are asked for are made, with `create_partitions` each."""

    def __init__(
        self,
        topics: TopicDirectory,
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

    def knows(self, topic: str) -> bool:
        """Whether nobody needs to ask Kafka for it."""
        return self._topics.is_known(topic)

    def route(
        self, frame: Frame, asker: Asker, caller: Caller
    ) -> bytes | Coroutine[Any, Any, bytes]:
        """105: for allowed topics that exist, or are made now."""
        asked = read_route_request(frame)
        if asked == codes.AUTO_CREATE_TOPIC:
            caller.require_somewhere(Right.PRODUCE)
            if not self._creates:
                raise UnknownTopic(
                    "topics are not created by sending to them: create the topic in Kafka, or set "
                    "rocketmq.create_topics"
                )
            return self._route(frame, asker, asked, self._create_partitions)
        topic = names.kafka_topic(names.namespace_of(frame), asked)
        caller.require_topic(topic)
        count = self._topics.known_count(topic)
        if count is not None:
            return self._route(frame, asker, asked, count)
        return self._found_route(frame, asker, asked, topic)

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

    async def topics(self, frame: Frame, _: Asker, caller: Caller) -> bytes:
        """206: those that the client may send to."""
        found = [topic for topic in await self._topics.all() if caller.may_send_to(topic)]
        return reply(frame, codes.SUCCESS, body=topics_body(found))

    def cluster(self, frame: Frame, asker: Asker, _: Caller) -> bytes:
        """106."""
        body = cluster_body(self._broker_name, asker.address.text, cluster=self._cluster_name)
        return reply(frame, codes.SUCCESS, body=body)

    async def max_offset(self, frame: Frame, _: Asker, caller: Caller) -> bytes:
        """30: clients that watch over servers ask for it, whatever the answer."""
        asked = read_max_offset_request(frame)
        topic = names.kafka_topic(names.namespace_of(frame), asked.topic)
        caller.require_topic(topic)
        end_offset = await self._topics.end(topic, asked.queue_id)
        return reply(frame, codes.SUCCESS, fields=max_offset_fields(end_offset))

    async def create_topic(self, frame: Frame, _: Asker, caller: Caller) -> bytes:
        """17."""
        topic = names.kafka_topic(names.namespace_of(frame), text(frame.fields, "topic"))
        caller.require_topic(topic)
        if not self._creates:
            raise ForbiddenTopic(
                f"topic {topic!r} is not created from here: create it in Kafka, or set "
                "rocketmq.create_topics"
            )
        wanted = int32(frame.fields, "writeQueueNums", self._create_partitions)
        await self._topics.create(topic, min(max(wanted, 1), _PARTITIONS_MAX))
        return reply(frame, codes.SUCCESS)
