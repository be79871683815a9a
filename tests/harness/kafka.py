"""Small helpers around a real Kafka: topics, reading to the end, waiting with a deadline."""

from __future__ import annotations

import itertools
import os
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_ADMIN_S = 30.0
_LEADER_CHANGED = (
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
_RUN = uuid.uuid4().hex[:6]
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """One record as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def fresh_name(prefix: str) -> str:
    """A name that no other test, run or process uses."""
    return f"{prefix}-{_RUN}-{os.getpid()}-{next(_numbers)}"


def admin_client(bootstrap: str) -> AdminClient:
    """An AdminClient that does not write refused connections to stderr."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def create_topics(
    bootstrap: str, partitions: Mapping[str, int], config: Mapping[str, str] | None = None
) -> None:
    """Create topics (name to partition count) and wait until every partition has a leader."""
    admin = admin_client(bootstrap)
    wanted = [
        NewTopic(name, count, config=dict(config or {})) for name, count in partitions.items()
    ]
    for future in admin.create_topics(wanted, operation_timeout=_ADMIN_S).values():
        future.result(_ADMIN_S)

    def all_led() -> bool:
        known = admin.list_topics(timeout=_ADMIN_S).topics
        return all(
            name in known
            and len(known[name].partitions) == count
            and all(p.leader >= 0 for p in known[name].partitions.values())
            for name, count in partitions.items()
        )

    wait_until(all_led, _ADMIN_S)


def is_settled(bootstrap: str, topic: str) -> bool:
    """Whether no Kafka transaction is open on it."""
    return bounds(bootstrap, topic, "read_committed") == bounds(
        bootstrap, topic, "read_uncommitted"
    )


def read_all(
    bootstrap: str,
    topic: str,
    isolation: str = "read_committed",
    deadline_s: float = 30.0,
    consumer_config: Mapping[str, Any] | None = None,
) -> list[ReadRecord]:
    """Every record of a topic up to its end now, by partition and offset.

    With read_committed the end is the last stable offset: an open Kafka transaction hides itself
    and everything after it. Raises TimeoutError if the end is not reached within `deadline_s`.
    """
    records = each_record(bootstrap, topic, isolation, deadline_s, consumer_config)
    return sorted(records, key=lambda record: (record.partition, record.offset))


def each_record(
    bootstrap: str,
    topic: str,
    isolation: str = "read_committed",
    deadline_s: float = 30.0,
    consumer_config: Mapping[str, Any] | None = None,
) -> Iterator[ReadRecord]:
    """As `read_all`, but one after the other as they come; by offset within a partition."""
    begins, ends = bounds(bootstrap, topic, isolation)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": fresh_name("read-all"),
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
            **(consumer_config or {}),
        }
    )
    try:
        yield from _read_to(consumer, topic, begins, ends, time.monotonic() + deadline_s)
    finally:
        consumer.close()


def bounds(bootstrap: str, topic: str, isolation: str) -> tuple[dict[int, int], dict[int, int]]:
    """Where each partition of a topic begins and ends for readers of this isolation level."""
    give_up_s = time.monotonic() + _ADMIN_S
    while True:
        try:
            return _bounds(bootstrap, topic, isolation)
        except KafkaException as error:
            # Of a partition whose leader has just changed: who is asked next knows it.
            if error.args[0].code() not in _LEADER_CHANGED or time.monotonic() > give_up_s:
                raise
            time.sleep(0.1)


def _bounds(bootstrap: str, topic: str, isolation: str) -> tuple[dict[int, int], dict[int, int]]:
    admin = admin_client(bootstrap)
    metadata = admin.list_topics(topic, timeout=_ADMIN_S).topics[topic]
    if metadata.error is not None:
        raise KafkaException(metadata.error)
    level = (
        IsolationLevel.READ_COMMITTED
        if isolation == "read_committed"
        else IsolationLevel.READ_UNCOMMITTED
    )

    def ask(spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, p): spec for p in metadata.partitions}
        answers = admin.list_offsets(asked, isolation_level=level, request_timeout=_ADMIN_S)
        return {place.partition: future.result().offset for place, future in answers.items()}

    return ask(OffsetSpec.earliest()), ask(OffsetSpec.latest())


def wait_for_markers(bootstrap: str, *topics: str) -> None:
    """Until no Kafka transaction is open: one that was ended is so for readers a moment later."""

    def is_settled() -> bool:
        return all(
            bounds(bootstrap, topic, "read_committed")
            == bounds(bootstrap, topic, "read_uncommitted")
            for topic in topics
        )

    wait_until(is_settled, _ADMIN_S, what="the end of all Kafka transactions")


def _read_to(
    consumer: Consumer,
    topic: str,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    deadline_s: float,
) -> Iterator[ReadRecord]:
    unfinished = {partition for partition, end in ends.items() if end > begins[partition]}
    # True offsets: for a symbolic one the client asks the broker, and asks again half a second
    # later when it does not know the leader yet.
    consumer.assign([TopicPartition(topic, p, begins[p]) for p in sorted(unfinished)])
    while unfinished:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"{topic}: the end of partitions {sorted(unfinished)} not reached")
        # consume() alone would wait for a full batch or the whole time.
        first = consumer.poll(min(left_s, 0.2))
        rest = consumer.consume(1000, timeout=0)
        for message in [first, *rest] if first is not None else rest:
            error = message.error()
            if error is None:
                if message.offset() < ends[message.partition()]:
                    yield _record(message)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
        # The position passes over control records and aborted batches, a record's offset does not.
        for place in consumer.position([TopicPartition(topic, p) for p in unfinished]):
            if place.offset >= ends[place.partition]:
                unfinished.discard(place.partition)


def _record(message: Any) -> ReadRecord:
    return ReadRecord(
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        headers=tuple(message.headers() or ()),
    )


def wait_until(
    predicate: Callable[[], object],
    deadline_s: float,
    *,
    interval_s: float = 0.02,
    what: str | Callable[[], str] = "the condition",
) -> None:
    """Poll a condition that has no event; TimeoutError (naming `what`) if it never holds."""
    end_s = time.monotonic() + deadline_s
    while not predicate():
        if time.monotonic() > end_s:
            name = what if isinstance(what, str) else what()
            raise TimeoutError(f"{name} did not come true within {deadline_s:g} s")
        time.sleep(interval_s)


def values(records: Sequence[ReadRecord]) -> list[bytes | None]:
    """The values alone, in the order given."""
    return [record.value for record in records]
