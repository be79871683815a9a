"""Which topics exist: a cache that a prepare reads without waiting."""

import asyncio
import logging
import time
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
)

from halfhitch.adapters.kafka.admin import answer, topic_configs
from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.inspection import smaller_targets, too_small
from halfhitch.errors import HalfHitchError, KafkaUnavailable
from halfhitch.threads import ASKING_COUNT, Threads

logger = logging.getLogger(__name__)

_ASK_S = 4.0
_CREATE_S = 10.0
#: After this a count is asked for again in the background: topics may gain partitions.
_FRESH_S = 60.0
#: A topic that was just found missing is not asked for again at once.
_MISSING_S = 1.0
#: Any broker answers, and one that has just started, or that has not heard yet of a topic that was
#: created a moment ago, does not know it: "no" is an answer when it is said twice.
_SAID_AGAIN_S: Final = 0.25
#: Names come from callers, and Kafka may be slow: what else waits for a thread shall not notice.
_CALLS_MAX: Final = 256


class KafkaTopicCatalog:
    """ports.TopicCatalog. Its methods belong to one event loop.

    With `message_bytes_max` it also looks once whether a topic that is used takes messages so
    large, and says so in the log when it does not.
    """

    def __init__(self, admin: AdminClient, *, message_bytes_max: int | None = None) -> None:
        self._admin = admin
        self._message_bytes_max = message_bytes_max
        self._threads = Threads("look for topics", ASKING_COUNT, calls_max=_CALLS_MAX)
        self._measured: set[str] = set()
        self._measuring: set[asyncio.Task[None]] = set()
        self._counts: dict[str, tuple[int, float]] = {}
        self._missing: dict[str, float] = {}
        self._asking: dict[str, asyncio.Task[int | None]] = {}

    def partition_count(self, topic: str) -> int | None:
        """See ports.TopicCatalog."""
        known = self._counts.get(topic)
        if known is None:
            return None
        if time.monotonic() - known[1] > _FRESH_S and topic not in self._asking:
            self._counts[topic] = (known[0], time.monotonic())
            self._ask(topic).add_done_callback(_ignore_failure)
        return known[0]

    def known(self) -> dict[str, int]:
        """Topics that were asked for, with their numbers of partitions, as far as remembered."""
        return {topic: count for topic, (count, _) in list(self._counts.items())}

    async def refresh(self, topic: str) -> int | None:
        """See ports.TopicCatalog. Callers that ask at the same time share one request."""
        missing_since = self._missing.get(topic)
        if missing_since is not None and time.monotonic() - missing_since < _MISSING_S:
            return None
        return await asyncio.shield(self._asking.get(topic) or self._ask(topic))

    async def all(self) -> dict[str, int]:
        """See ports.TopicCatalog."""
        return await self._threads.call(self._blocking_all)

    async def create(self, topic: str, partition_count: int) -> None:
        """See ports.TopicCatalog. As many copies as the brokers' default says."""
        await self._threads.call(self._blocking_create, topic, partition_count)
        self._missing.pop(topic, None)

    async def end_offset(self, topic: str, partition: int) -> int:
        """See ports.TopicCatalog."""
        return await self._threads.call(self._blocking_end_offset, topic, partition)

    def _ask(self, topic: str) -> "asyncio.Task[int | None]":
        task = asyncio.ensure_future(self._fetch(topic))
        self._asking[topic] = task
        task.add_done_callback(lambda _: self._asking.pop(topic, None))
        return task

    async def _fetch(self, topic: str) -> int | None:
        count = await self._threads.call(self._blocking_count, topic)
        if count is None:
            await asyncio.sleep(_SAID_AGAIN_S)
            count = await self._threads.call(self._blocking_count, topic)
        if count is None:
            self._counts.pop(topic, None)
            if len(self._missing) > 10_000:  # names come from callers: keep this bounded
                self._missing.clear()
            self._missing[topic] = time.monotonic()
        else:
            self._missing.pop(topic, None)
            self._counts[topic] = (count, time.monotonic())
            self._measure(topic)
        return count

    def _measure(self, topic: str) -> None:
        """Not on the way of the prepare that asks first: it only makes a line in the log."""
        if self._message_bytes_max is None or topic in self._measured:
            return
        self._measured.add(topic)
        measuring = self._threads.call(self._blocking_measure, topic, self._message_bytes_max)
        task = asyncio.ensure_future(measuring)
        self._measuring.add(task)
        task.add_done_callback(self._has_measured)

    def _has_measured(self, task: "asyncio.Task[None]") -> None:
        self._measuring.discard(task)
        _ignore_failure(task)

    def stop(self) -> None:
        """Ask nothing more."""
        self._threads.stop()

    def _blocking_measure(self, topic: str, message_bytes_max: int) -> None:
        try:
            configs, _ = topic_configs(self._admin, [topic], _ASK_S)
        except (HalfHitchError, KafkaException):
            return  # `halfhitch doctor` asks again
        small = smaller_targets(configs, message_bytes_max)
        if small:
            finding = too_small(small, message_bytes_max)
            logger.warning(
                "%s %s", finding.sentence, finding.remedy, extra={"action": "target_too_small"}
            )

    def _blocking_count(self, topic: str) -> int | None:
        try:
            found = self._admin.list_topics(topic, _ASK_S).topics.get(topic)
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {error.args[0].str()}") from error
        if found is None:
            return None
        if found.error is not None:
            if found.error.code() in (
                KafkaError.UNKNOWN_TOPIC_OR_PART,
                KafkaError._UNKNOWN_TOPIC,
                KafkaError.TOPIC_EXCEPTION,
            ):
                return None
            raise KafkaUnavailable(f"Kafka cannot tell about topic {topic!r}: {found.error.str()}")
        return len(found.partitions)

    def _blocking_all(self) -> dict[str, int]:
        try:
            found = self._admin.list_topics(timeout=_ASK_S).topics
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}") from error
        return {name: len(t.partitions) for name, t in found.items() if t.error is None}

    def _blocking_create(self, topic: str, partition_count: int) -> None:
        wanted = NewTopic(topic, partition_count, -1)
        (future,) = self._admin.create_topics([wanted], operation_timeout=_CREATE_S).values()
        answer(future, _CREATE_S, f"create the topic {topic}", KafkaError.TOPIC_ALREADY_EXISTS)

    def _blocking_end_offset(self, topic: str, partition: int) -> int:
        where = {TopicPartition(topic, partition): OffsetSpec.latest()}  # type: ignore[no-untyped-call]
        (future,) = self._admin.list_offsets(where, request_timeout=_ASK_S).values()
        try:
            return int(future.result(_ASK_S + 1.0).offset)
        except TimeoutError:
            raise KafkaUnavailable("Kafka does not answer in time; try again") from None
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}") from error


def _ignore_failure(task: "asyncio.Task[Any]") -> None:
    if not task.cancelled():
        task.exception()  # looked at: the cached answer stays until Kafka says otherwise
