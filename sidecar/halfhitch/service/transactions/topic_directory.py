"""Topics that messages may go to, for doors whose clients ask where a topic lies.

Which topics are allowed is the policy's to say; what exists, Kafka's.
"""

import asyncio
from typing import Final

from halfhitch.errors import InvalidPartition, KafkaUnavailable, UnknownTopic
from halfhitch.ports import TopicCatalog
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.service.transactions.admission import Admission

#: A topic that was just made is not known to every broker at once.
_SEEN_TRIES: Final = 20
_SEEN_PAUSE_S: Final = 0.25


class TopicDirectory:
    """Names and numbers of partitions; makes topics only when it is told to."""

    def __init__(self, policy: TopicPolicy, catalog: TopicCatalog, admission: Admission) -> None:
        self._policy = policy
        self._catalog = catalog
        self._admission = admission

    def known_count(self, topic: str) -> int | None:
        """Partitions, if they are known here without asking. Raises ForbiddenTopic."""
        self._policy.check(topic)
        return self._catalog.partition_count(topic)

    def is_known(self, topic: str) -> bool:
        """Whether something is known of it without asking."""
        return self._catalog.partition_count(topic) is not None

    async def count(self, topic: str) -> int:
        """Partitions. Raises ForbiddenTopic, UnknownTopic, KafkaUnavailable."""
        return await self._admission.learn(topic)

    async def all(self) -> dict[str, int]:
        """Allowed topics with their partitions. Raises KafkaUnavailable."""
        found = await self._catalog.all()
        return {
            topic: found[topic] for topic in sorted(found) if self._policy.refusal(topic) is None
        }

    async def end(self, topic: str, partition: int) -> int:
        """The offset that the next message gets. Raises as `count`, and InvalidPartition."""
        count = await self.count(topic)
        if not 0 <= partition < count:
            raise InvalidPartition(
                f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}"
            )
        return await self._catalog.end_offset(topic, partition)

    async def create(self, topic: str, partition_count: int) -> int:
        """Make the topic, if it is not there; how many partitions it has. Raises as `count`."""
        self._policy.check(topic)
        await self._catalog.create(topic, partition_count)
        for _ in range(_SEEN_TRIES):
            try:
                return await self.count(topic)
            except UnknownTopic:
                await asyncio.sleep(_SEEN_PAUSE_S)
        raise KafkaUnavailable(f"topic {topic!r} was created but is not seen yet; try again")
