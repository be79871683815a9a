"""Where instances tell each other which half partitions take nothing new: in stored offsets.

A group that nobody joins keeps one offset for each half partition. Its metadata is the burden
(wire/burden.py); the offset itself is no place in a log but a number that is another one each time
the owner tells it. What has not changed for some seconds is not believed: its owner has gone, or
the burden has. So no clocks are compared, and nothing needs to be taken back.

Kafka and not Redis, for a bound must hold without Redis too. As long as no bound is reached owners
write nothing, and the others ask one question a second.

A consumer that joins nothing writes and reads. The admin client must not: whatever it asks a
group's coordinator ends the whole process when the coordinator answers after the time is over
(adapters/kafka/stored.py).
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.admin import answer, refused
from halfhitch.errors import KafkaUnavailable
from halfhitch.wire import burden as wire
from halfhitch.wire.burden import Burden

_WAIT_S: Final = 2.0
#: Told once a second, and asked as often.
BELIEVED_S: Final = 6.0
_CLOSE_S: Final = 2.0
#: What the client has to say is heard between two looks.
_LOOK_S: Final = 0.02

#: Told by a consumer when a commit has been answered: the error of all of it, and each place.
OnCommit = Callable[[KafkaError | None, list[TopicPartition]], None]


class KafkaBurdenBoard:
    """service.transactions.intake_watch.BurdenBoard. One thread at a time; `close` from any."""

    def __init__(
        self,
        make_consumer: Callable[[OnCommit], Consumer],
        *,
        group: str,
        half_topic: str,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`make_consumer`: of this group; it joins nothing."""
        self._make_consumer = make_consumer
        self._group = group
        self._half_topic = half_topic
        self._now_s = now_s
        self._consumer: Consumer | None = None
        # Of the commit that is under way: its number, and what was answered.
        self._told_number = 0
        self._told: Future[list[TopicPartition]] | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        # Of each half partition: what was found last, and when it became so. What is found first
        # may be of any age.
        self._found: dict[int, tuple[int, float]] = {}

    def exchange(self, own: Mapping[int, Burden], others: Sequence[int]) -> Mapping[int, Burden]:
        """See service.transactions.intake_watch.BurdenBoard."""
        with self._lock:
            if self._is_closed:
                return {}
            if own:
                self._tell(own)
            return self._hear(others) if others else {}

    def close(self) -> None:
        """Let go; waits for what is under way, for seconds at most."""
        with self._lock:
            self._is_closed = True
            if self._consumer is not None:
                # With a commit under way it does not close for as long as Kafka hangs.
                closing = threading.Thread(target=self._consumer.close, daemon=True)
                closing.start()
                closing.join(_CLOSE_S)

    def _tell(self, own: Mapping[int, Burden]) -> None:
        number = time.time_ns() // 1_000_000
        places = [
            TopicPartition(self._half_topic, partition, number, metadata=wire.write(burden))
            for partition, burden in own.items()
        ]
        action = f"tell under the group {self._group} what is not taken"
        told: Future[list[TopicPartition]] = Future()
        self._told = told
        self._told_number = number
        consumer = self._client()
        give_up_s = time.monotonic() + _WAIT_S
        try:
            # One that waits would wait for as long as a session lasts when no coordinator is there.
            consumer.commit(offsets=places, asynchronous=True)
            while not told.done():
                if time.monotonic() > give_up_s:
                    raise KafkaUnavailable(
                        f"Could not {action}: Kafka did not answer within {_WAIT_S:g} s."
                    )
                consumer.poll(_LOOK_S)
        except KafkaException as error:
            told.set_exception(error)
        for stored in answer(told, _WAIT_S, action):
            if stored.error is not None:
                raise refused(stored.error, action)

    def _heard_of_commit(self, error: KafkaError | None, places: list[TopicPartition]) -> None:
        """Of the consumer. An earlier commit's answer may come late."""
        told = self._told
        if told is None or told.done() or any(each.offset != self._told_number for each in places):
            return
        if error is not None:
            told.set_exception(KafkaException(error))
        else:
            told.set_result(places)

    def _client(self) -> Consumer:
        if self._consumer is None:
            self._consumer = self._make_consumer(self._heard_of_commit)
        return self._consumer

    def _hear(self, others: Sequence[int]) -> Mapping[int, Burden]:
        consumer = self._client()
        consumer.poll(0)  # what the client has to say besides must not pile up
        asked: Future[Any] = Future()
        try:
            places = [TopicPartition(self._half_topic, partition) for partition in others]
            asked.set_result(consumer.committed(places, _WAIT_S))
        except KafkaException as error:
            asked.set_exception(error)
        action = f"hear under the group {self._group} what is not taken"
        now_s, heard = self._now_s(), {}
        for place in answer(asked, _WAIT_S, action):
            if place.error is not None:
                raise refused(place.error, action)
            if place.offset < 0:
                continue
            number, since_s = self._found.get(place.partition, (place.offset, -BELIEVED_S))
            if number != place.offset:
                since_s = now_s
            self._found[place.partition] = (place.offset, since_s)
            burden = wire.read(place.metadata or "")
            if burden is not None and now_s - since_s < BELIEVED_S:
                heard[place.partition] = burden
        return heard
