"""What the source asks Kafka before it reads: which topics there are, and from where to where.

By librdkafka, from the driver. Ends are last stable offsets: what a reader of committed messages
can be given now. Everything that Kafka does not answer is KafkaUnavailable.
"""

import re
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.errors import ConfigurationError, KafkaUnavailable
from halfhitch_spark.kafka_topics import Choice, Topic, chosen
from halfhitch_spark.source.wish import Place

_ANSWER_S: Final = 15.0
#: While a leader moves the answer is an error for a moment.
_PATIENCE_S: Final = 30.0
_PAUSE_S: Final = 0.2

_URL_SAFE: Final = str.maketrans("+/", "-_")

_Answer = TypeVar("_Answer")


def client_of(make: Callable[..., _Answer], config: Mapping[str, Any]) -> _Answer:
    """A client of librdkafka. ConfigurationError for an option that it does not take."""
    try:
        return make(dict(config))
    except (KafkaException, ValueError, TypeError) as problem:
        raise ConfigurationError(
            f"Kafka's client does not take these options: {problem}. Options that begin with "
            "'kafka.' are librdkafka's here, not Java's: kafka.sasl.username instead of a JAAS "
            "file, kafka.ssl.ca.location instead of a trust store"
        ) from problem


class Brokers:
    """One client; from one thread."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._where = client["bootstrap.servers"]
        self._admin: AdminClient = client_of(AdminClient, {**client, "log_level": 0})

    def topics(self, choice: Choice) -> dict[str, Topic]:
        """The chosen ones, by name. ConfigurationError: there is none, or one not to be read."""

        def ask() -> dict[str, Topic]:
            there = self._admin.list_topics(timeout=_ANSWER_S).topics
            wanted = chosen(sorted(there), choice, _matches)
            asked = TopicCollection(wanted)
            told = self._admin.describe_topics(asked, request_timeout=_ANSWER_S)
            found = {name: future.result(_ANSWER_S) for name, future in told.items()}
            return {
                # As Java writes it, and so our own file beside a checkpoint.
                name: Topic(str(topic.topic_id).translate(_URL_SAFE), len(topic.partitions))
                for name, topic in found.items()
            }

        return self._patiently("which topics there are", ask)

    def earliest(self, places: Collection[Place]) -> dict[Place, int]:
        """The first offset that is left of each."""
        return self._offsets(places, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def stable_ends(self, places: Collection[Place]) -> dict[Place, int]:
        """Up to which each can be read."""
        return self._offsets(places, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def at_time(self, places: Collection[Place], at_ms: int) -> dict[Place, int]:
        """The first that is as young; below 0: nothing is that can be read."""
        return self._offsets(places, OffsetSpec.for_timestamp(at_ms))

    def _offsets(self, places: Collection[Place], spec: Any) -> dict[Place, int]:
        asked = {TopicPartition(*place): spec for place in places}

        def ask() -> dict[Place, int]:
            told = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ANSWER_S
            )
            return {
                (where.topic, where.partition): int(future.result(_ANSWER_S).offset)
                for where, future in told.items()
            }

        return self._patiently("where its partitions end", ask) if asked else {}

    def _patiently(self, what: str, ask: Callable[[], _Answer]) -> _Answer:
        give_up_s = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return ask()
            except (KafkaException, FutureTimeoutError) as problem:
                if time.monotonic() < give_up_s:
                    time.sleep(_PAUSE_S)
                    continue
                raise KafkaUnavailable(
                    f"Kafka at {self._where} did not say {what}: {problem}. Is the address right, "
                    "and may this user describe and read these topics?"
                ) from problem


def _matches(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name) is not None
