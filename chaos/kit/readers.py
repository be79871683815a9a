"""Readers that watch a run: what can be seen, when, and where the watermarks stand meanwhile.

`Tail` reads topics from their beginning for as long as it lives and keeps everything with the time
of its arrival. Read committed, over the targets, it finds what becomes visible and should not, or
is not there any more at the end; over the internal topics it is the copy of logs that are trimmed
meanwhile; read uncommitted it proves that there was something to hide. `read_final` is the fresh
reader at the end. `WatermarkSampler` asks for the owners' stored watermarks.

They judge nothing. A reader that could not see everything says so in `gaps`.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from chaos.kit.history import wall_ms
from harness.kafka import admin_client, bounds, fresh_name, read_all, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
_WATCH_S = 0.25
_NEW_PARTITIONS_S = 3.0
_ASK_S = 5.0
_OWN_GROUP = "CID_RMQ_SYS_TRANS"


@dataclass(frozen=True, slots=True)
class Seen:
    """A record and when a reader saw it. `stored_ms` is Kafka's time, `seen_ms` ours."""

    topic: str
    partition: int
    log_offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    stored_ms: int = 0
    seen_ms: int = 0

    @property
    def place(self) -> tuple[str, int, int]:
        """Where it lies."""
        return self.topic, self.partition, self.log_offset

    def with_headers(self, headers: Iterable[tuple[str, bytes | None]]) -> Seen:
        """The same record with other headers."""
        return replace(self, headers=tuple(headers))


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which something lay before a reader that it was not given."""

    topic: str
    partition: int
    began_ms: int
    ended_ms: int

    @property
    def duration_ms(self) -> int:
        """How long."""
        return self.ended_ms - self.began_ms


@dataclass(frozen=True, slots=True)
class Sample:
    """The stored watermarks at one moment, and where the logs began just before it."""

    t_ms: int
    half: Mapping[int, int]
    op: Mapping[int, int]
    half_starts: Mapping[int, int] = field(default_factory=dict)
    op_starts: Mapping[int, int] = field(default_factory=dict)


class _Watcher:
    """A thread that works until it is stopped, and whose failure is not overlooked."""

    def __init__(self, name: str) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.problem: BaseException | None = None

    def start(self) -> Any:
        """Begin; gives itself."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End. Raises what the thread died of: half a reading must not be judged as a whole one."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(30)
        if self.problem is not None:
            raise self.problem

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by stop()
            self.problem = error

    def _work(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self.stop()
        except BaseException:
            if error is None:
                raise


class Tail(_Watcher):
    """Reads topics from their beginning, partitions that are added later included."""

    def __init__(
        self, bootstrap: str, topics: Sequence[str], isolation: str = READ_COMMITTED
    ) -> None:
        super().__init__(f"tail {isolation}")
        self._bootstrap, self.topics, self._isolation = bootstrap, tuple(topics), isolation
        self._records: list[Seen] = []
        self._assigned: set[tuple[str, int]] = set()
        self._positions: dict[tuple[str, int], int] = {}
        self.gaps: list[str] = []
        self._holds = HoldWatch(bootstrap, topics) if isolation == READ_COMMITTED else None

    @property
    def records(self) -> list[Seen]:
        """Everything so far, in the order of its arrival."""
        return list(self._records)

    def since(self, stored_ms: int) -> list[Seen]:
        """What was stored then or later, so far as it has been read; from the newest on back."""
        found = []
        for seen in reversed(self._records):
            if seen.seen_ms < stored_ms:
                break
            if seen.stored_ms >= stored_ms:
                found.append(seen)
        return found

    def of(self, topic: str) -> list[Seen]:
        """Everything of one topic so far."""
        return [seen for seen in self.records if seen.topic == topic]

    @property
    def stalls(self) -> list[Stall]:
        """Times in which its topics held their committed readers; see HoldWatch."""
        return [] if self._holds is None else self._holds.stalls

    @property
    def longest_stall_ms(self) -> int:
        """The worst of them."""
        return 0 if self._holds is None else self._holds.longest_ms

    def wait_for_the_end(self, deadline_s: float = 30.0) -> None:
        """Until everything was read that can be read now. TimeoutError when that takes longer."""
        ends = {
            (topic, partition): end
            for topic in self.topics
            for partition, end in bounds(self._bootstrap, topic, self._isolation)[1].items()
        }
        wait_until(
            lambda: (
                self.problem is not None
                or all(self._positions.get(place, 0) >= end for place, end in ends.items() if end)
            ),
            deadline_s,
            what=lambda: f"{self._isolation} reading to {ends}: {self._positions}",
        )

    # -- the thread ------------------------------------------------------------------------------

    def start(self) -> Tail:
        """Begin, and wait until all partitions that exist now are being read."""
        super().start()
        wait_until(
            lambda: self.problem or {topic for topic, _ in self._assigned} >= set(self.topics),
            30,
            what="the reader's partitions",
        )
        if self._holds is not None:
            self._holds.start()
        return self

    def stop(self) -> None:
        """End both threads."""
        try:
            super().stop()
        finally:
            if self._holds is not None:
                self._holds.stop()

    def _work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": fresh_name("tail"),
                "enable.auto.commit": False,
                "isolation.level": self._isolation,
                # A log that was trimmed before us is a gap in what we know, never a silent jump.
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        try:
            look_s = partitions_s = 0.0
            while not self._over.is_set():
                now_s = time.monotonic()
                if now_s >= partitions_s:
                    self._assign(consumer)
                    is_complete = {topic for topic, _ in self._assigned} >= set(self.topics)
                    partitions_s = now_s + (_NEW_PARTITIONS_S if is_complete else 0.1)
                for message in consumer.consume(500, timeout=0.05):
                    self._take(consumer, message)
                if now_s >= look_s:
                    self._look(consumer)
                    look_s = now_s + _WATCH_S
        finally:
            consumer.close()

    def _assign(self, consumer: Consumer) -> None:
        try:
            known = consumer.list_topics(timeout=_ASK_S).topics
        except KafkaException:
            return  # nobody answers; again in a moment
        found = {(t, p) for t in self.topics if t in known for p in known[t].partitions}
        new = sorted(found - self._assigned)
        if not new:
            return
        try:
            places = [
                TopicPartition(
                    t, p, consumer.get_watermark_offsets(TopicPartition(t, p), _ASK_S)[0]
                )
                for t, p in new
            ]
        except KafkaException:
            return
        self.gaps += [f"{p.topic}-{p.partition} began at {p.offset}" for p in places if p.offset]
        consumer.incremental_assign(places)
        self._positions.update({(p.topic, p.partition): p.offset for p in places})
        self._assigned |= set(new)

    def _take(self, consumer: Consumer, message: Any) -> None:
        error = message.error()
        if error is None:
            _, stored_ms = message.timestamp()
            self._records.append(
                Seen(
                    message.topic(),
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                    stored_ms,
                    wall_ms(),
                )
            )
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            place = TopicPartition(message.topic(), message.partition(), OFFSET_BEGINNING)
            self.gaps.append(f"{place.topic}-{place.partition}: {error.str()}")
            try:
                consumer.seek(place)
            except KafkaException as problem:
                self.gaps.append(f"{place.topic}-{place.partition} is not read on: {problem}")

    def _look(self, consumer: Consumer) -> None:
        """Positions pass over control records and what was aborted; records do not."""
        for where in consumer.position([TopicPartition(*place) for place in self._assigned]):
            if where.offset >= 0:
                self._positions[where.topic, where.partition] = where.offset


class HoldWatch(_Watcher):
    """Measures for how long something was written that committed readers were not given.

    A partition is held while records lie behind its last stable offset and that offset does not
    move. It asks the brokers, so while Kafka itself is away nothing is known and nothing is
    counted.
    """

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        super().__init__("holds")
        self._admin, self._topics = admin_client(bootstrap), tuple(topics)
        self._under_way: dict[tuple[str, int], tuple[int, int, int]] = {}  # where, since, until
        self._ended: list[Stall] = []
        self.look_count = 0

    @property
    def stalls(self) -> list[Stall]:
        """All of them so far, those under way included."""
        under_way = [
            Stall(*place, since, until) for place, (_, since, until) in self._under_way.items()
        ]
        return [*self._ended, *under_way]

    @property
    def longest_ms(self) -> int:
        """The worst of them."""
        return max((stall.duration_ms for stall in self.stalls), default=0)

    def _work(self) -> None:
        places: list[TopicPartition] = []
        partitions_s = 0.0
        while not self._over.wait(_WATCH_S):
            try:
                if time.monotonic() >= partitions_s:
                    known = self._admin.list_topics(timeout=_ASK_S).topics
                    places = [
                        TopicPartition(t, p)
                        for t in self._topics
                        if t in known
                        for p in known[t].partitions
                    ]
                    partitions_s = time.monotonic() + _NEW_PARTITIONS_S
                if not places:
                    continue
                stable = self._ends(places, IsolationLevel.READ_COMMITTED)
                written = self._ends(places, IsolationLevel.READ_UNCOMMITTED)
            except (KafkaException, TimeoutError):
                continue
            for place, end in stable.items():
                self._look(place, end, written.get(place, end))
            self.look_count += 1

    def _ends(self, places: list[TopicPartition], level: Any) -> dict[tuple[str, int], int]:
        asked = {place: OffsetSpec.latest() for place in places}
        answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=_ASK_S)
        return {
            (place.topic, place.partition): future.result(2 * _ASK_S).offset
            for place, future in answers.items()
            if future.exception(2 * _ASK_S) is None
        }

    def _look(self, place: tuple[str, int], stable: int, written: int) -> None:
        now_ms = wall_ms()
        at, since_ms, until_ms = self._under_way.get(place, (-1, now_ms, now_ms))
        if stable < written and stable == at:
            self._under_way = {**self._under_way, place: (at, since_ms, now_ms)}
            return
        left = {other: held for other, held in self._under_way.items() if other != place}
        if until_ms > since_ms:
            self._ended.append(Stall(*place, since_ms, now_ms))
        if stable < written:
            left[place] = stable, now_ms, now_ms
        self._under_way = left


class WatermarkSampler(_Watcher):
    """The committed offsets of the owners' group, again and again."""

    def __init__(
        self,
        bootstrap: str,
        half_topic: str,
        op_topic: str,
        partition_count: int,
        *,
        group: str = _OWN_GROUP,
        every_s: float = 0.25,
    ) -> None:
        super().__init__("watermarks")
        self._admin = admin_client(bootstrap)
        self._half, self._op, self._every_s = half_topic, op_topic, every_s
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._places = [
            TopicPartition(topic, partition)
            for topic in (half_topic, op_topic)
            for partition in range(partition_count)
        ]
        self.samples: list[Sample] = []
        self.unanswered_count = 0

    def _work(self) -> None:
        while not self._over.wait(self._every_s):
            self.sample()

    def sample(self) -> None:
        """One sample now, if Kafka answers."""
        try:
            starts = self._starts()  # first: deletion follows the watermark, never leads it
            stored = self._stored()
        except (KafkaException, TimeoutError):
            self.unanswered_count += 1
            return
        self.samples.append(
            Sample(
                wall_ms(),
                _only(stored, self._half),
                _only(stored, self._op),
                _only(starts, self._half),
                _only(starts, self._op),
            )
        )

    def _starts(self) -> dict[tuple[str, int], int]:
        asked = {place: OffsetSpec.earliest() for place in self._places}
        answers = self._admin.list_offsets(asked, request_timeout=_ASK_S)
        return {(p.topic, p.partition): f.result(2 * _ASK_S).offset for p, f in answers.items()}

    def _stored(self) -> dict[tuple[str, int], int]:
        # The admin client's question ends the process when the coordinator moves (librdkafka#5040).
        asked = [TopicPartition(place.topic, place.partition) for place in self._places]
        return {
            (place.topic, place.partition): place.offset
            for place in self._consumer.committed(asked, timeout=_ASK_S)
            if place.error is None and place.offset >= 0
        }

    def stop(self) -> None:
        """See `_Watcher.stop`."""
        try:
            super().stop()
        finally:
            self._consumer.close()


def _only(offsets: Mapping[tuple[str, int], int], topic: str) -> dict[int, int]:
    return {partition: at for (name, partition), at in offsets.items() if name == topic}


def read_final(
    bootstrap: str,
    topics: Iterable[str],
    isolation: str = READ_COMMITTED,
    deadline_s: float = 60.0,
) -> list[Seen]:
    """Everything in these topics now, by a fresh consumer."""
    now_ms = wall_ms()
    return [
        Seen(topic, r.partition, r.offset, r.key, r.value, r.headers, seen_ms=now_ms)
        for topic in topics
        for r in read_all(bootstrap, topic, isolation, deadline_s)
    ]


def held_partitions(bootstrap: str, topics: Iterable[str]) -> list[str]:
    """Partitions in which an open Kafka transaction holds readers back right now."""
    found = []
    for topic in topics:
        stable = bounds(bootstrap, topic, READ_COMMITTED)[1]
        written = bounds(bootstrap, topic, READ_UNCOMMITTED)[1]
        found += [
            f"{topic}-{partition}: stable {stable[partition]}, written {end}"
            for partition, end in written.items()
            if stable.get(partition, end) < end
        ]
    return found


def by_place(records: Iterable[Seen]) -> dict[tuple[str, int, int], list[Seen]]:
    """Records by where they lie; more than one where a topic was deleted and made again."""
    found: dict[tuple[str, int, int], list[Seen]] = defaultdict(list)
    for seen in records:
        found[seen.place].append(seen)
    return dict(found)
