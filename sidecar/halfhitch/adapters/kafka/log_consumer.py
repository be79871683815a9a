"""What an owner's reader asks of the consumer of its two logs, and Kafka's Python client as one.

The other one is native (adapters/native/owner.py): what it reads stays outside of Python.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import Consumer, TopicPartition

from halfhitch.adapters.kafka.readable import headers_of
from halfhitch.ports import StoredRecord


@dataclass(slots=True)
class Taken:
    """What one read of both logs gave."""

    half: Sequence[StoredRecord]
    op: Sequence[StoredRecord]
    #: Ends of logs, and errors: with `error`, `topic`, `partition` and `offset` as messages have.
    others: Sequence[Any]
    #: False: there may be more at once.
    has_taken_all: bool


class LogConsumer(Protocol):
    """Of one half partition, and the op partition of its number, assigned by hand.

    One thread uses it. Everything may block, and raises KafkaException.
    """

    def committed(self, logs: list[TopicPartition], wait_s: float) -> list[TopicPartition]:
        """What is stored for the half log and for the op log, in this order."""

    def get_watermark_offsets(self, log: TopicPartition, wait_s: float) -> tuple[int, int]:
        """Where the log begins, and how far it can be read."""

    def assign(self, logs: list[TopicPartition]) -> None:
        """Read the half log and the op log from here."""

    def pause(self, logs: list[TopicPartition]) -> None:
        """Give nothing of the op log."""

    def resume(self, logs: list[TopicPartition]) -> None:
        """Give records of the op log again."""

    def take(self, wait_s: float, count_max: int) -> Taken:
        """What is there, waiting for the first; about so many records."""

    def wake(self) -> None:
        """From any thread: end the wait of `take`, if that can be done."""

    def close(self) -> None:
        """The end."""


class PlainLogConsumer:
    """LogConsumer by Kafka's Python client."""

    def __init__(self, consumer: Consumer, half_topic: str) -> None:
        self._consumer = consumer
        self._half_topic = half_topic

    def committed(self, logs: list[TopicPartition], wait_s: float) -> list[TopicPartition]:
        """See LogConsumer; so for the others."""
        return self._consumer.committed(logs, wait_s)

    def get_watermark_offsets(self, log: TopicPartition, wait_s: float) -> tuple[int, int]:
        """See LogConsumer."""
        return self._consumer.get_watermark_offsets(log, wait_s)

    def assign(self, logs: list[TopicPartition]) -> None:
        """See LogConsumer."""
        self._consumer.assign(logs)

    def pause(self, logs: list[TopicPartition]) -> None:
        """See LogConsumer."""
        self._consumer.pause(logs)

    def resume(self, logs: list[TopicPartition]) -> None:
        """See LogConsumer."""
        self._consumer.resume(logs)

    def take(self, wait_s: float, count_max: int) -> Taken:
        """See LogConsumer."""
        half: list[Any] = []  # Kafka's messages are StoredRecords, but their stubs are looser
        op: list[Any] = []
        others: list[Any] = []
        first = self._consumer.poll(wait_s)
        if first is None:
            return Taken(half, op, others, has_taken_all=True)
        more = self._consumer.consume(count_max, 0)
        half_topic = self._half_topic
        for message in [first, *more]:
            if message.error() is not None:
                others.append(message)
                continue
            headers_of(message)
            if message.topic() == half_topic:
                half.append(message)
            else:
                op.append(message)
        return Taken(half, op, others, has_taken_all=len(more) < count_max)

    def wake(self) -> None:
        """See LogConsumer. Kafka's Python client has no way to."""

    def close(self) -> None:
        """See LogConsumer."""
        self._consumer.close()
