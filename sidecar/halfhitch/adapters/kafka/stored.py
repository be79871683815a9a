"""Offsets that a group has stored, asked for and written without the admin client.

What the admin client asks a group's coordinator can end the whole process.
`list_consumer_group_offsets` did so by a null pointer when the coordinator had moved
(librdkafka#5040); and whatever it asks a coordinator by a failed assertion (`eonce->refcnt > 0` in
`rd_kafka_admin_coord_response_parse`) or memory that is given back twice, when the answer comes
after the request's time is over. A consumer does the same safely; it subscribes to nothing, so it
joins no group.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.admin import answer, refused

#: The group may be written to; the place, which there is not, could not.
_NO_PLACE: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED}
)


class StoredOffsets:
    """Of one group. Any thread; blocks; nothing is kept open between two questions."""

    def __init__(self, make_consumer: Callable[[], Consumer]) -> None:
        """`make_consumer`: with the group's name, and fit to read logs (clients.JUDGING)."""
        self._make_consumer = make_consumer

    def consumer(self) -> Consumer:
        """One more, for whoever must look into the logs that the offsets speak of; to be closed."""
        return self._make_consumer()

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
        except KafkaException as error:
            asked.set_exception(_right_that_lacks(consumer) or error)
        except Exception as error:  # noqa: BLE001 - `answer` raises it again, as ours if it can
            asked.set_exception(error)
        finally:
            consumer.close()
        found: list[TopicPartition] = answer(asked, wait_s, action)
        return [place for place in found if place.error is None]

    def keep(self, places: Sequence[TopicPartition], action: str) -> None:
        """Store offset and metadata of each place; waits for a session's time at most.

        Raises what `of` raises, and KafkaUnavailable when the group has members.
        """
        stored: Future[Any] = Future()
        consumer = self._make_consumer()
        try:
            stored.set_result(consumer.commit(offsets=list(places), asynchronous=False))
        except Exception as error:  # noqa: BLE001 - `answer` raises it again, as ours if it can
            stored.set_exception(error)
        finally:
            consumer.close()
        for place in answer(stored, 0.0, action):
            if place.error is not None:
                raise refused(place.error, action)

    def probe(self, unknown_topic: str, action: str) -> None:
        """What `keep` would raise; nothing is stored, for there is no topic of this name."""
        consumer = self._make_consumer()
        try:
            consumer.commit(offsets=[TopicPartition(unknown_topic, 0, 0)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in _NO_PLACE:
                raise refused(error.args[0], action) from error
        finally:
            consumer.close()


def _right_that_lacks(consumer: Consumer) -> KafkaException | None:
    """Who may not describe the group finds no coordinator: the question waits until its time is
    over, and why, the client says only here.
    """
    event = consumer.poll(0)
    error = None if event is None else event.error()
    if error is None or error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
        return None
    return KafkaException(error)
