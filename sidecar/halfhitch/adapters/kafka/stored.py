"""Offsets that a group has stored, asked for without the admin client.

`AdminClient.list_consumer_group_offsets` ends the whole process: by a null pointer when the group's
coordinator has moved (librdkafka#5040), by a failed assertion after it has timed out. A consumer
asks the same, safely; it subscribes to nothing, so it joins no group.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from halfhitch.adapters.kafka.admin import answer


class StoredOffsets:
    """Of one group. Any thread; blocks; nothing is kept open between two questions."""

    def __init__(self, make_consumer: Callable[[], Consumer]) -> None:
        """`make_consumer`: with the group's name."""
        self._make_consumer = make_consumer

    def of(
        self, places: Sequence[TopicPartition], wait_s: float, action: str
    ) -> list[TopicPartition]:
        """Offset and metadata of each place; an offset below 0 means that none is stored.

        Raises KafkaUnavailable, ConfigurationError (no right); `action` stands in the sentence.
        """
        asked: Future[Any] = Future()
        consumer = self._make_consumer()
        try:
            asked.set_result(consumer.committed(list(places), wait_s))
        except Exception as error:  # noqa: BLE001 - `answer` raises it again, as ours if it can
            asked.set_exception(error)
        finally:
            consumer.close()
        found: list[TopicPartition] = answer(asked, wait_s, action)
        return [place for place in found if place.error is None]
