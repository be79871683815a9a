"""The brokers: logs whose Kafka transactions end log by log, and a coordinator of the old protocol.

As in Kafka with clients that end Kafka transactions with EndTxn v1:
- A producer epoch lasts until the next InitProducerId: EndTxn and TxnOffsetCommit name no Kafka
  transaction, so one that was held up in the network strikes whatever is open when it arrives.
- EndTxn is answered when the decision is taken. Markers, and the group's offsets, follow; until
  then the id is busy (CONCURRENT_TRANSACTIONS) and readers see nothing of it.
- What is produced must belong to the Kafka transaction that is open (verified by the leader).
- Who keeps one open for too long is aborted and fenced by the coordinator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from halfhitch.adapters.memory.kafka import (
    Fenced,
    KafkaTransaction,
    MemoryKafka,
    MemoryRecord,
    StaleGeneration,
    _Ending,
)
from harness.simulation.cluster import HALF, OP

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.adapters.memory.kafka import MemoryLog
    from halfhitch.ports import KafkaHeaders
    from harness.simulation.several.group import Group
    from harness.simulation.timeline import Timeline

Place = tuple[str, int]


class Concurrent(Exception):
    """The last Kafka transaction of this id is still being ended: try again."""


class WrongState(Exception):
    """There is no such Kafka transaction open, and the last one ended otherwise."""


@dataclass(eq=False)
class Open:
    """A Kafka transaction, as its coordinator knows it."""

    transactional_id: str
    began_ms: int
    author: Any  # who wrote it; for the account
    parts: dict[MemoryLog, KafkaTransaction] = field(default_factory=dict)
    has_offsets: bool = False
    positions: dict[Place, int] = field(default_factory=dict)
    stamp: str = ""
    left: int = 0  # markers that are still to be written; 0 while it is open


@dataclass
class Producer:
    """What the coordinator knows of a transactional id."""

    producer_epoch: int = -1
    open: Open | None = None
    last: bool | None = None  # how the last one ended: committed or not


class Brokers(MemoryKafka):
    """MemoryKafka's logs; its simple Kafka transactions serve what operators and parkers do."""

    def __init__(
        self, timeline: Timeline, clock: Any, partition_count: int, *, timeout_ms: int
    ) -> None:
        super().__init__(clock, half_topic=HALF, op_topic=OP, partition_count=partition_count)
        self._timeline = timeline
        self._timeout_ms = timeout_ms
        self._producers: dict[str, Producer] = {}
        self.group: Group | None = None
        self.marker_ms: Callable[[], int] = lambda: 0
        #: Called with (author, positions) when a commit is decided.
        self.on_commit: Callable[[Open], None] = lambda decided: None
        #: Called when the group's offsets have moved.
        self.on_positions: Callable[[dict[Place, int]], None] = lambda positions: None
        #: What lies beside each stored offset: all that were stored with it.
        self.stored_with: dict[Place, dict[Place, int]] = {}
        #: All that was ever stored together, with its stamp, by half partition.
        self.stored_before: dict[int, list[tuple[dict[Place, int], str]]] = {}
        self.waiters: dict[Place, list[Any]] = {}

    # -- logs -------------------------------------------------------------------------------------

    def wake_readers(self, log: MemoryLog) -> None:
        for task in self.waiters.get((log.topic, log.partition), ()):
            task.wake()

    @property
    def open_count(self) -> int:
        """Kafka transactions that nobody has ended."""
        return sum(p.open is not None for p in self._producers.values())

    # -- the coordinator --------------------------------------------------------------------------

    def init_producer_id(self, transactional_id: str) -> int:
        """InitProducerId. Raises Concurrent while a predecessor's is being aborted."""
        producer = self._producers.setdefault(transactional_id, Producer())
        if producer.open is not None:
            if producer.open.left == 0:
                self._timeline.count["left open, ended by who fences"] += 1
                producer.producer_epoch += 1
                self._decide(producer, is_commit=False)
            raise Concurrent
        producer.producer_epoch += 1
        producer.last = None
        return producer.producer_epoch

    def _current(self, transactional_id: str, producer_epoch: int) -> Producer:
        producer = self._producers.setdefault(transactional_id, Producer())
        if producer.producer_epoch != producer_epoch:
            self._timeline.count["requests of fenced producers"] += 1
            raise Fenced(f"{transactional_id} has a newer producer")
        return producer

    def _join(self, transactional_id: str, producer_epoch: int, author: Any) -> Open:
        producer = self._current(transactional_id, producer_epoch)
        if producer.open is None:
            producer.open = Open(transactional_id, self._timeline.now_ms, author)
        elif producer.open.left:
            raise Concurrent
        return producer.open

    def add_partition(
        self, transactional_id: str, producer_epoch: int, author: Any, place: Place
    ) -> None:
        """AddPartitionsToTxn. Raises Fenced, Concurrent."""
        open_ = self._join(transactional_id, producer_epoch, author)
        log = self.log(*place)
        if log not in open_.parts:
            open_.parts[log] = part = KafkaTransaction(transactional_id, producer_epoch)
            log.open[part] = log.end

    def produce(
        self,
        transactional_id: str,
        producer_epoch: int,
        place: Place,
        content: tuple[bytes | None, bytes | None, KafkaHeaders],
    ) -> int:
        """Produce. The leader looks at what is open in its log. Raises WrongState, Fenced."""
        log = self.log(*place)
        for part in log.open:
            if (part.transactional_id, part.producer_epoch) == (transactional_id, producer_epoch):
                record = MemoryRecord(log, self._clock.wall_ms(), *content, part)
                log.records.append(record)
                return record.offset()
        self._current(transactional_id, producer_epoch)
        raise WrongState("not verified: the partition is not part of an open Kafka transaction")

    def add_offsets(self, transactional_id: str, producer_epoch: int, author: Any) -> None:
        """AddOffsetsToTxn."""
        self._join(transactional_id, producer_epoch, author).has_offsets = True

    def commit_offsets(
        self,
        transactional_id: str,
        producer_epoch: int,
        member: tuple[str, int] | None,
        positions: dict[Place, int],
        stamp: str = "",
    ) -> None:
        """TxnOffsetCommit; without a member nobody looks who it is. Raises StaleGeneration too."""
        producer = self._current(transactional_id, producer_epoch)
        if member is not None and self.group is not None and not self.group.knows(*member):
            self._timeline.count["offsets of another generation"] += 1
            raise StaleGeneration(f"{member} is not of this generation")
        if producer.open is None or producer.open.left or not producer.open.has_offsets:
            raise WrongState("the offsets are not part of an open Kafka transaction")
        producer.open.positions.update(positions)
        producer.open.stamp = stamp

    def end(self, transactional_id: str, producer_epoch: int, *, is_commit: bool) -> None:
        """EndTxn v1: whatever is open now. Raises Fenced, Concurrent, WrongState."""
        producer = self._current(transactional_id, producer_epoch)
        if producer.open is None:
            if producer.last is not is_commit:
                raise WrongState("there is nothing to end")
            return
        if producer.open.left:
            raise Concurrent
        self._decide(producer, is_commit=is_commit)

    def _decide(self, producer: Producer, *, is_commit: bool) -> None:
        open_ = producer.open
        assert open_ is not None
        if is_commit:
            self.on_commit(open_)
        ending = _Ending.COMMITTED if is_commit else _Ending.ABORTED
        open_.left = len(open_.parts) + 1

        def arrived() -> None:
            open_.left -= 1
            if open_.left == 0:
                producer.open, producer.last = None, is_commit

        def mark(log: MemoryLog, part: KafkaTransaction) -> None:
            part.ending = ending
            del log.open[part]
            log.records.append(
                MemoryRecord(log, self._clock.wall_ms(), None, None, [], part, is_marker=True)
            )
            self.wake_readers(log)
            arrived()

        def store() -> None:
            if is_commit:
                self._positions.update(open_.positions)
                self._stamps.update(dict.fromkeys(open_.positions, open_.stamp))
                pair = dict(open_.positions)
                self.stored_with.update((place, pair) for place in pair)
                for partition in {partition for _, partition in pair}:
                    self.stored_before.setdefault(partition, []).append((pair, open_.stamp))
                self.on_positions(open_.positions)
            arrived()

        for log, part in open_.parts.items():
            self._timeline.after(self.marker_ms(), lambda log=log, part=part: mark(log, part))
        self._timeline.after(self.marker_ms(), store)

    def look_for_old_ones(self) -> None:
        """What the coordinator does by itself every now and then."""
        for producer in self._producers.values():
            open_ = producer.open
            if open_ is None or open_.left:
                continue
            if self._timeline.now_ms - open_.began_ms > self._timeout_ms:
                self._timeline.count["timed out by the coordinator"] += 1
                self._timeline.note("{} timed out", open_.transactional_id)
                producer.producer_epoch += 1
                self._decide(producer, is_commit=False)

    def change_position(self, place: Place, position: int | None) -> None:
        """As an operator does with Kafka's tools; None removes it."""
        self.store_position(*place, position)
        self.stored_with.pop(place, None)

    def is_stable(self, places: list[Place]) -> bool:
        """Whether no Kafka transaction may still change these offsets of the group."""
        return not any(
            producer.open is not None and any(p in producer.open.positions for p in places)
            for producer in self._producers.values()
        )
