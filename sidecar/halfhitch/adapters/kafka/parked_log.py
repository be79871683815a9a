"""Reading the parked topic: on from where it was left, and single records again.

`ParkedReading` keeps what was read (a fold) and how far; the topic only grows, so the next look is
cheap. What a Kafka transaction wrote becomes readable some milliseconds after it was committed, and
in one partition before the other: `read_on` waits until nothing that was begun before it is open.

One thread uses it. Everything here blocks, within a deadline.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.admin import answer
from halfhitch.adapters.kafka.errors import describe
from halfhitch.errors import KafkaUnavailable
from halfhitch.wire.parked_fold import ParkedFold, Place

_ASK_S: Final = 5.0
_POLL_S: Final = 0.1
_CHUNK: Final = 500
_MOVED: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class Outdated(KafkaUnavailable):
    """The topic is shorter than what was read of it: read it anew."""


class ParkedReading:
    """A fold of the topic and how far it goes. `check` is called often and may raise to stop."""

    def __init__(
        self,
        make_consumer: Callable[[], Consumer],
        admin: AdminClient,
        *,
        topic: str,
        fold: ParkedFold,
        check: Callable[[], None],
    ) -> None:
        self._make_consumer = make_consumer
        self._admin = admin
        self._topic = topic
        self._check = check
        self._read_to: dict[int, int] = {}
        self.fold = fold

    def read_on(self, give_up_s: float, *, open_wait_s: float = math.inf) -> None:
        """Read to the end as of now, waiting for what open Kafka transactions hide there.

        After `open_wait_s` that is left to the next time. Raises KafkaUnavailable at `give_up_s`;
        what was read until then is kept. Raises Outdated.
        """
        starts, stable = self._bounds(IsolationLevel.READ_COMMITTED)
        ends = self._ends(stable, IsolationLevel.READ_UNCOMMITTED)
        open_s = time.monotonic() + open_wait_s
        for partition, start in starts.items():
            if self._read_to.get(partition, 0) > stable[partition]:
                # Recreated; or its new leader does not know yet how far it goes.
                raise Outdated(f"{self._topic}-{partition} has become shorter; try again")
            if self._read_to.get(partition, -1) < start:
                self.fold.forget_below(partition, start)
                self._read_to[partition] = start
        if all(self._read_to[partition] >= end for partition, end in ends.items()):
            self.fold.caught_up()
            return
        consumer = self._make_consumer()
        try:
            self._read(consumer, ends, give_up_s, lambda: self._is_enough(stable, open_s))
        except KafkaException as error:
            raise KafkaUnavailable(
                f"{self._topic} cannot be read: {describe(error)}; try again"
            ) from error
        finally:
            consumer.close()
        if all(self._read_to[partition] >= end for partition, end in ends.items()):
            self.fold.caught_up()

    def _is_enough(self, stable: dict[int, int], open_s: float) -> bool:
        """What could be read at once has been read, and the rest was waited for."""
        return time.monotonic() > open_s and all(
            self._read_to[partition] >= end for partition, end in stable.items()
        )

    def _read(
        self,
        consumer: Consumer,
        ends: dict[int, int],
        give_up_s: float,
        is_enough: Callable[[], bool],
    ) -> None:
        unfinished = {p for p, end in ends.items() if self._read_to[p] < end}
        consumer.assign([TopicPartition(self._topic, p, self._read_to[p]) for p in unfinished])
        while unfinished:
            self._check()
            first = consumer.poll(_POLL_S)
            for message in [] if first is None else [first, *consumer.consume(_CHUNK, 0)]:
                self._take(message)
            # Behind the last record lie markers: the position passes over them, offsets do not.
            asked = [TopicPartition(self._topic, p) for p in unfinished] if first is None else []
            for where in consumer.position(asked) if asked else ():
                if where.offset > self._read_to[where.partition]:
                    self._read_to[where.partition] = where.offset
            done = {p for p in unfinished if self._read_to[p] >= ends[p]}
            if done:
                consumer.incremental_unassign([TopicPartition(self._topic, p) for p in done])
                unfinished -= done
            if is_enough():
                return
            if unfinished and time.monotonic() > give_up_s:
                raise self._too_slow(unfinished, ends)

    def _take(self, message: Any) -> None:
        error = message.error()
        partition = message.partition()
        if error is None:
            value, key = message.value() or b"", message.key() or b""
            self.fold.take(
                (partition, message.offset()),
                message.timestamp()[1],
                len(value) + len(key),
                message.headers(),
            )
            self._read_to[partition] = message.offset() + 1
        elif error.code() == KafkaError._PARTITION_EOF:
            self._read_to[partition] = max(self._read_to[partition], message.offset())
        elif error.code() in _MOVED:
            raise KafkaUnavailable(f"{self._topic} was trimmed while it was read; try again")
        elif error.fatal():
            raise KafkaException(error)

    def _too_slow(self, unfinished: set[int], ends: dict[int, int]) -> KafkaUnavailable:
        left = sum(ends[p] - self._read_to[p] for p in unfinished)
        return KafkaUnavailable(
            f"{self._topic} could not be read to its end in time, {left} records are left: ask "
            "again, it goes on from there (if the number stays the same, a Kafka transaction was "
            "left open there: it ends with its own timeout)"
        )

    def _bounds(self, isolation: IsolationLevel) -> tuple[dict[int, int], dict[int, int]]:
        try:
            found = self._admin.list_topics(self._topic, _ASK_S).topics[self._topic]
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}") from error
        if found.error is not None:
            raise KafkaUnavailable(
                f"{self._topic} is not known to Kafka ({found.error.str()}): see `halfhitch doctor`"
            )
        earliest: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        return (
            self._offsets(found.partitions, earliest, isolation),
            self._ends(found.partitions, isolation),
        )

    def _ends(self, partitions: Iterable[int], isolation: IsolationLevel) -> dict[int, int]:
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(partitions, latest, isolation)

    def _offsets(
        self, partitions: Iterable[int], spec: Any, isolation: IsolationLevel
    ) -> dict[int, int]:
        """While a leader moves, or is new, the answer is an error for a moment."""
        give_up_s = time.monotonic() + _ASK_S
        asked = {TopicPartition(self._topic, partition): spec for partition in partitions}
        while True:
            self._check()
            futures = self._admin.list_offsets(
                asked, isolation_level=isolation, request_timeout=_ASK_S
            )
            try:
                return {
                    where.partition: answer(future, _ASK_S, f"find the end of {self._topic}").offset
                    for where, future in futures.items()
                }
            except KafkaUnavailable:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(_POLL_S)


def fetch(
    consumer: Consumer, topic: str, places: Sequence[Place], give_up_s: float
) -> dict[Place, Message]:
    """These records; one that is gone is missing from the answer. Raises KafkaUnavailable."""
    found: dict[Place, Message] = {}
    by_partition: dict[int, list[int]] = {}
    for partition, log_offset in sorted(places):
        by_partition.setdefault(partition, []).append(log_offset)
    for partition, wanted in by_partition.items():
        missing = set(wanted)
        consumer.assign([TopicPartition(topic, partition, wanted[0])])
        while missing:
            message: Any = consumer.poll(_POLL_S)
            error = None if message is None else message.error()
            if message is not None and error is None:
                if message.offset() in missing:
                    found[partition, message.offset()] = message
                missing = {log_offset for log_offset in missing if log_offset > message.offset()}
                ahead = min(missing, default=0) - message.offset()
                if ahead > _CHUNK:  # what lies between need not be read
                    consumer.seek(TopicPartition(topic, partition, min(missing)))
            elif error is not None and error.code() in (*_MOVED, KafkaError._PARTITION_EOF):
                break
            if missing and time.monotonic() > give_up_s:
                raise KafkaUnavailable(f"messages on {topic} could not be read in time; try again")
    consumer.unassign()
    return found
