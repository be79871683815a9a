"""Membership in the owners' group: which half partitions are ours, told to a listener.

The member reads nothing (its partitions are paused); it exists for the assignment and for the group
generation that every Kafka transaction of an owner carries.

Rules of this thread:
- It polls and does nothing else that could block, but for a revocation: then the workers of the
  partitions must have ended before the answer goes out, or two owners would be alive.
- The generation handed to the workers is taken on this thread only, between polls. A worker whose
  partition is about to be revoked is stopped inside the very poll that learns of it, so it never
  gets a generation in which the partition belongs to somebody else.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe

logger = logging.getLogger(__name__)

_POLL_S: Final = 0.2


class Listener(Protocol):
    """service.ownership.Ownership, as this thread sees it."""

    def assigned(self, partitions: list[int]) -> None:
        """Ours from now on."""

    def revoked(self, partitions: list[int]) -> None:
        """Given up; returns when their workers have ended."""

    def lost(self, partitions: list[int]) -> None:
        """Somebody else's already."""


class GroupMembership:
    """One consumer, one thread."""

    def __init__(
        self, make_consumer: Callable[[], Consumer], *, half_topic: str, listener: Listener
    ) -> None:
        self._make_consumer = make_consumer
        self._half_topic = half_topic
        self._listener = listener
        self._metadata: Any = None
        self._stopping = threading.Event()
        self.trouble: str | None = None
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)

    def start(self) -> None:
        """Join the group."""
        self._thread.start()

    def stop(self, wait_s: float) -> None:
        """Leave the group; the listener is told to revoke everything first."""
        self._stopping.set()
        self._thread.join(wait_s)

    def metadata(self, may_write: Callable[[], bool]) -> Any:
        """The group generation for send_offsets_to_transaction; from any thread.

        A worker is told that it may not write before its partition goes, and the generation moves
        on only after that. So the generation is taken first and the question asked second: the
        other way round, a worker that hangs in between would get one that it must not have.
        """
        metadata = self._metadata
        if metadata is None:
            raise KafkaException(KafkaError(KafkaError._STATE, "not a member of the group yet"))
        if not may_write():
            raise KafkaException(KafkaError(KafkaError._STATE, "the partition was given up"))
        return metadata

    @property
    def is_alive(self) -> bool:
        """False when the thread has died: only a restart helps then."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            consumer = self._make_consumer()
            consumer.subscribe(
                [self._half_topic],
                on_assign=self._assigned,
                on_revoke=self._revoked,
                on_lost=self._lost,
            )
            try:
                while not self._stopping.is_set() and self._poll(consumer):
                    pass
            finally:
                consumer.close()  # revokes what is left, through the callback
            self._stopping.wait(1.0)

    def _poll(self, consumer: Consumer) -> bool:
        """False when this consumer is finished and another is to be made."""
        message = consumer.poll(_POLL_S)
        error: Any = None if message is None else message.error()
        if error is not None:
            self.trouble = f"group membership: {error.str()}"
            logger.warning("%s", self.trouble, extra={"action": "membership_trouble"})
            if error.fatal():
                return False
        self._take_metadata(consumer)
        return True

    def _take_metadata(self, consumer: Consumer) -> None:
        try:
            self._metadata = consumer.consumer_group_metadata()
        except KafkaException as error:
            logger.debug("no group metadata: %s", describe(error))

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Any offset will do, for nothing is read; without one the client would look for a stored
        # one.
        consumer.incremental_assign([TopicPartition(p.topic, p.partition, 0) for p in partitions])
        if partitions:
            consumer.pause(partitions)
        self._take_metadata(consumer)
        self.trouble = None
        self._listener.assigned([p.partition for p in partitions])

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._listener.revoked([p.partition for p in partitions])
        consumer.incremental_unassign(partitions)

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        logger.warning(
            "half partitions %s were lost: this instance was not heard of in time",
            sorted(p.partition for p in partitions),
            extra={"action": "partitions_lost"},
        )
        self._listener.lost([p.partition for p in partitions])
        consumer.incremental_unassign(partitions)
