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
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.admin import answer
from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_ends import Log, patiently
from halfhitch.adapters.kafka.readable import headers_of
from halfhitch.adapters.kafka.scan import LogScan, pick
from halfhitch.errors import KafkaUnavailable
from halfhitch.wire.parked_fold import ParkedAt, ParkedFold

_ASK_S: Final = 5.0


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
        self._read_to: dict[Log, int] = {}
        self.fold = fold

    def read_on(self, give_up_s: float, *, open_wait_s: float = math.inf) -> None:
        """Read to the end as of now, waiting for what open Kafka transactions hide there.

        After `open_wait_s` that is left to the next time. Raises KafkaUnavailable at `give_up_s`;
        what was read until then is kept. Raises Outdated.
        """
        starts, stable = self._bounds(IsolationLevel.READ_COMMITTED)
        ends = self._ends(stable, IsolationLevel.READ_UNCOMMITTED)
        open_s = time.monotonic() + open_wait_s
        for log, start in starts.items():
            if self._read_to.get(log, 0) > stable[log]:
                # Recreated; or its new leader does not know yet how far it goes.
                raise Outdated(f"{self._topic}-{log[1]} has become shorter; try again")
            if self._read_to.get(log, -1) < start:
                self.fold.forget_below(log[1], start)
                self._read_to[log] = start
        if all(self._read_to[log] >= end for log, end in ends.items()):
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
        if all(self._read_to[log] >= end for log, end in ends.items()):
            self.fold.caught_up()

    def extent(self) -> dict[Log, tuple[int, int]]:
        """Where the topic's logs begin and end, for committed records. Raises KafkaUnavailable."""
        starts, ends = self._bounds(IsolationLevel.READ_COMMITTED)
        return {log: (start, ends[log]) for log, start in starts.items()}

    def _is_enough(self, stable: dict[Log, int], open_s: float) -> bool:
        """What could be read at once has been read, and the rest was waited for."""
        return time.monotonic() > open_s and all(
            self._read_to[log] >= end for log, end in stable.items()
        )

    def _read(
        self,
        consumer: Consumer,
        ends: dict[Log, int],
        give_up_s: float,
        is_enough: Callable[[], bool],
    ) -> None:
        scan = LogScan(consumer, self._read_to)
        unfinished = scan.below(ends)
        scan.begin({log: self._read_to[log] for log in unfinished})
        while unfinished:
            self._check()
            for message in scan.some():
                self._take(message)
            done = unfinished - scan.below(ends)
            scan.leave(done)
            unfinished -= done
            if is_enough():
                return
            if unfinished and time.monotonic() > give_up_s:
                raise self._too_slow(unfinished, ends)

    def _take(self, message: Any) -> None:
        value, key = message.value() or b"", message.key() or b""
        self.fold.take(
            (message.partition(), message.offset()),
            message.timestamp()[1],
            len(value) + len(key),
            headers_of(message),
        )

    def _too_slow(self, unfinished: set[Log], ends: dict[Log, int]) -> KafkaUnavailable:
        left = sum(ends[log] - self._read_to[log] for log in unfinished)
        return KafkaUnavailable(
            f"{self._topic} could not be read to its end in time, {left} records are left: ask "
            "again, it goes on from there (if the number stays the same, a Kafka transaction was "
            "left open there: it ends with its own timeout)"
        )

    def _bounds(self, isolation: IsolationLevel) -> tuple[dict[Log, int], dict[Log, int]]:
        try:
            found = self._admin.list_topics(self._topic, _ASK_S).topics[self._topic]
        except KafkaException as error:
            raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}") from error
        if found.error is not None:
            raise KafkaUnavailable(
                f"{self._topic} is not known to Kafka ({found.error.str()}): see `halfhitch doctor`"
            )
        earliest: Any = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        logs = [(self._topic, partition) for partition in found.partitions]
        return self._offsets(logs, earliest, isolation), self._ends(logs, isolation)

    def _ends(self, logs: Iterable[Log], isolation: IsolationLevel) -> dict[Log, int]:
        latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(logs, latest, isolation)

    def _offsets(self, logs: Iterable[Log], spec: Any, isolation: IsolationLevel) -> dict[Log, int]:
        asked = {TopicPartition(*log): spec for log in logs}
        return patiently(lambda: self._asked(asked, isolation), _ASK_S)

    def _asked(self, asked: dict[Any, Any], isolation: IsolationLevel) -> dict[Log, int]:
        self._check()
        futures = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=_ASK_S)
        action = f"find the end of {self._topic}"
        return {
            (where.topic, where.partition): answer(future, _ASK_S, action).offset
            for where, future in futures.items()
        }


def fetch(
    consumer: Consumer, topic: str, places: Sequence[ParkedAt], give_up_s: float
) -> dict[ParkedAt, Message]:
    """These records; one that is gone is missing from the answer. Raises KafkaUnavailable."""
    by_partition: dict[int, list[int]] = {}
    for partition, log_offset in places:
        by_partition.setdefault(partition, []).append(log_offset)
    return {
        (partition, log_offset): message
        for partition, wanted in sorted(by_partition.items())
        for log_offset, message in pick(consumer, (topic, partition), wanted, give_up_s).items()
    }
