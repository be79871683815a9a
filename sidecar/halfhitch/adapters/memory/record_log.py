"""Appends, topic look-ups and markers of a MemoryKafka, for the event loop.

What it simplifies: a record is stored within the call, only its answer comes later (in the loop's
next round); there is no queue that could be full, and no cache of topics that could be old.
"""

from asyncio import Future, get_running_loop
from collections.abc import Iterable
from functools import partial

from halfhitch.adapters.memory.faults import AppendFault
from halfhitch.adapters.memory.kafka import MemoryKafka
from halfhitch.errors import (
    HalfHitchError,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    UnknownTopic,
)
from halfhitch.ports import KafkaHeaders


class MemoryRecordLog:
    """ports.RecordLog."""

    def __init__(self, kafka: MemoryKafka) -> None:
        self._kafka = kafka

    def append_half(
        self, partition: int, key: bytes | None, value: bytes | None, headers: KafkaHeaders
    ) -> "Future[int]":
        """See ports.RecordLog."""
        return self._append(self._kafka.half_topic, partition, key, value, headers)

    def append_op(self, partition: int, value: bytes, headers: KafkaHeaders) -> "Future[int]":
        """See ports.RecordLog."""
        return self._append(self._kafka.op_topic, partition, None, value, headers)

    def append_message(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
    ) -> "Future[tuple[int, int]]":
        """See ports.RecordLog."""
        future: Future[tuple[int, int]] = get_running_loop().create_future()
        count = self._kafka.partition_count(topic)
        if count is None:
            future.set_exception(UnknownTopic(f"topic {topic!r} does not exist"))
            return future
        if partition is None:
            partition = self._kafka.choose_partition(topic, key)
        appended = self._append(topic, partition, key, value, headers)
        appended.add_done_callback(partial(_answer_message, future, partition))
        return future

    def _append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
    ) -> "Future[int]":
        loop = get_running_loop()
        future: Future[int] = loop.create_future()
        fault = self._kafka.faults.next_append()
        if self._kafka.refusal(topic, partition) is not None:
            fault = AppendFault.REFUSED
        elif self._kafka.is_too_large(topic, key, value, headers):
            fault = AppendFault.TOO_LARGE
        if self._kafka.faults.is_away:
            fault = AppendFault.LOST  # a client cannot tell a dead broker from a slow one
        if fault in (None, AppendFault.ANSWER_LOST):
            log_offset = self._kafka.append(topic, partition, key, value, headers)
        if fault is None:
            loop.call_soon(_answer, future, log_offset)
        else:
            loop.call_soon(_answer, future, _error(fault, topic))
        return future


def _answer(future: "Future[int]", result: int | HalfHitchError) -> None:
    if future.done():  # whoever waited has gone
        return
    if isinstance(result, int):
        future.set_result(result)
    else:
        future.set_exception(result)


def _answer_message(
    future: "Future[tuple[int, int]]", partition: int, appended: "Future[int]"
) -> None:
    if future.done():
        return
    error = appended.exception()
    if error is None:
        future.set_result((partition, appended.result()))
    else:
        future.set_exception(error)


def _error(fault: AppendFault, topic: str) -> HalfHitchError:
    if fault is AppendFault.TOO_LARGE:
        return MessageTooLarge(f"the record for {topic!r} is too large; send a smaller message")
    if fault is AppendFault.REFUSED:
        return KafkaUnavailable(f"the record for {topic!r} was refused; try again")
    return OutcomeUnknown(
        f"the record for {topic!r} was not confirmed; repeat the request with the same id"
    )


class MemoryTopicCatalog:
    """ports.TopicCatalog. What was never asked for with `refresh` is not known, as in a cache."""

    def __init__(self, kafka: MemoryKafka) -> None:
        self._kafka = kafka
        self._counts: dict[str, int] = {}

    def partition_count(self, topic: str) -> int | None:
        """See ports.TopicCatalog."""
        return self._counts.get(topic)

    async def refresh(self, topic: str) -> int | None:
        """See ports.TopicCatalog."""
        if self._kafka.faults.is_away:
            raise KafkaUnavailable("Kafka does not answer; try again")
        count = self._kafka.partition_count(topic)
        if count is not None:
            self._counts[topic] = count
        return count

    async def all(self) -> dict[str, int]:
        """See ports.TopicCatalog."""
        if self._kafka.faults.is_away:
            raise KafkaUnavailable("Kafka does not answer; try again")
        return self._kafka.topics()

    async def create(self, topic: str, partition_count: int) -> None:
        """See ports.TopicCatalog."""
        if self._kafka.faults.is_away:
            raise KafkaUnavailable("Kafka does not answer; try again")
        if self._kafka.partition_count(topic) is None:
            self._kafka.create_topic(topic, partition_count)

    async def end_offset(self, topic: str, partition: int) -> int:
        """See ports.TopicCatalog."""
        if self._kafka.faults.is_away:
            raise KafkaUnavailable("Kafka does not answer; try again")
        return self._kafka.log(topic, partition).end


class MemoryMarkers:
    """ports.Markers. A commit and its markers are one thing here, so there is nothing to wait for.

    `asked` holds the topics of each question.
    """

    def __init__(self) -> None:
        self.asked: list[frozenset[str]] = []

    async def settled(self, topics: Iterable[str]) -> None:
        """See ports.Markers."""
        self.asked.append(frozenset(topics))
