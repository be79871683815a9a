"""A Kafka in memory: logs, Kafka transactions, producer epochs and one consumer group's offsets.

As in Kafka:
- Records of a Kafka transaction lie in the log at once; its end takes an offset of its own (the
  marker). Readers of committed records see nothing at or above the last stable offset, and nothing
  of what was aborted; so their offsets have gaps.
- A new producer of the same transactional id gets a higher epoch, and what the one before it left
  open is aborted.
- Offsets that are part of a Kafka transaction are stored when it commits, under the group's
  current generation only.
- Records below a log's start are gone. Time in the logs is the broker's, never a producer's.

What it simplifies: one broker that never loses anything; no batches, compression, retention or
quotas; every append is at once on all replicas; a group is no more than a generation and its
offsets (who its members are is up to the test); deleted records keep their memory; a keyed record
without a partition goes by CRC-32 and a keyless one to partition 0, not as a Java producer chooses.

All of it is behind one lock, so that threads may share it; `changed` wakes those who wait.
"""

import threading
from collections.abc import Sequence
from enum import Enum, auto
from zlib import crc32

from halfhitch.adapters.memory.faults import Faults
from halfhitch.errors import TopologyError, invariant
from halfhitch.ports import Clock, KafkaHeaders

#: A topic's usual limit.
RECORD_BYTES_MAX = 1_048_576
#: Kafka's code for "the broker stamped it" in a record's timestamp.
_LOG_APPEND_TIME = 2


class Fenced(Exception):
    """A newer producer of the same transactional id has taken over."""


class StaleGeneration(Exception):
    """The group has moved on: whoever commits offsets under this generation may own nothing."""


class _Ending(Enum):
    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


class KafkaTransaction:
    """One Kafka transaction. Its records point to it, so its ending decides who sees them."""

    def __init__(self, transactional_id: str, producer_epoch: int) -> None:
        self.transactional_id = transactional_id
        self.producer_epoch = producer_epoch
        self.ending = _Ending.OPEN
        self.logs: list[MemoryLog] = []
        self.positions: dict[tuple[str, int], int] = {}
        self.stamp = ""


class MemoryRecord:
    """ports.StoredRecord; also a marker, which no reader is ever given."""

    def __init__(
        self,
        log: "MemoryLog",
        stored_at_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
        kafka_transaction: KafkaTransaction | None,
        *,
        is_marker: bool = False,
    ) -> None:
        self._topic = log.topic
        self.partition = log.partition
        self._log_offset = log.end
        self._stored_at_ms = stored_at_ms
        self._key = key
        self._value = value
        self._headers = list(headers)
        self.kafka_transaction = kafka_transaction
        self.is_marker = is_marker

    @property
    def is_committed(self) -> bool:
        """Whether a reader of committed records may see it (once it is below the stable end)."""
        transaction = self.kafka_transaction
        return not self.is_marker and (
            transaction is None or transaction.ending is _Ending.COMMITTED
        )

    def topic(self) -> str:
        """See ports.StoredRecord; so for the others."""
        return self._topic

    def offset(self) -> int:
        """Position in its log."""
        return self._log_offset

    def timestamp(self) -> tuple[int, int]:
        """(2: stamped by the broker, milliseconds)."""
        return _LOG_APPEND_TIME, self._stored_at_ms

    def key(self) -> bytes | None:
        """The user's key."""
        return self._key

    def value(self) -> bytes | None:
        """The user's value."""
        return self._value

    def headers(self) -> KafkaHeaders | None:
        """None when there are none, as Kafka's client says it."""
        return list(self._headers) or None


class MemoryLog:
    """One partition of one topic. `start`: what lies below was deleted."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.start = 0
        self.records: list[MemoryRecord] = []  # by offset, markers included
        self.open: dict[KafkaTransaction, int] = {}  # to the first offset of each

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return len(self.records)

    @property
    def stable_end(self) -> int:
        """The last stable offset: nothing below it belongs to an open Kafka transaction."""
        return min(self.open.values(), default=self.end)

    def committed(self, position: int, count_max: int) -> tuple[list[MemoryRecord], int]:
        """Committed records from there on, and the position after them."""
        found: list[MemoryRecord] = []
        while position < self.stable_end and len(found) < count_max:
            if self.records[position].is_committed:
                found.append(self.records[position])
            position += 1
        return found, position


class MemoryKafka:
    """See the module's text. Half and op topic are made at once; `create_topic` makes the rest."""

    def __init__(
        self,
        clock: Clock,
        *,
        half_topic: str = "RMQ_SYS_TRANS_HALF_TOPIC",
        op_topic: str = "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        partition_count: int = 1,
    ) -> None:
        self.half_topic = half_topic
        self.op_topic = op_topic
        self.faults = Faults()
        #: Topics that take less than the usual: name to the largest record's bytes.
        self.record_bytes_max: dict[str, int] = {}
        self.generation = 1  # of the owners' group; a test that rebalances adds one
        self.changed = threading.Condition(threading.RLock())
        self._clock = clock
        self._topics: dict[str, list[MemoryLog]] = {}
        self._producer_epochs: dict[str, int] = {}
        self._open: dict[str, KafkaTransaction] = {}
        self._positions: dict[tuple[str, int], int] = {}
        self._stamps: dict[tuple[str, int], str] = {}
        for topic in (half_topic, op_topic):
            self.create_topic(topic, partition_count)

    # -- topics ----------------------------------------------------------------------------------

    def create_topic(self, topic: str, partition_count: int = 1) -> None:
        """Make a topic."""
        self._topics[topic] = [MemoryLog(topic, p) for p in range(partition_count)]

    def delete_topic(self, topic: str) -> None:
        """Remove a topic with all it holds."""
        with self.changed:
            del self._topics[topic]

    def partition_count(self, topic: str) -> int | None:
        """None when there is no such topic."""
        logs = self._topics.get(topic)
        return None if logs is None else len(logs)

    def topics(self) -> dict[str, int]:
        """All of them, with their numbers of partitions."""
        return {topic: len(logs) for topic, logs in self._topics.items()}

    def choose_partition(self, topic: str, key: bytes | None) -> int:
        """Where a record goes that nobody has fixed to a partition."""
        return 0 if key is None else crc32(key) % (self.partition_count(topic) or 1)

    def log(self, topic: str, partition: int) -> MemoryLog:
        """One partition; TopologyError when it does not exist."""
        logs = self._topics.get(topic, ())
        if not 0 <= partition < len(logs):
            raise TopologyError(f"{topic}-{partition} does not exist: create the topic first")
        return logs[partition]

    def committed(self, topic: str) -> list[MemoryRecord]:
        """What a reader of committed records finds in a topic, by partition and offset."""
        with self.changed:
            logs = self._topics[topic]
            return [record for log in logs for record in log.committed(log.start, log.end)[0]]

    def uncommitted(self, topic: str) -> list[MemoryRecord]:
        """Every record of a topic, aborted and open ones included."""
        with self.changed:
            logs = self._topics[topic]
            return [r for log in logs for r in log.records[log.start :] if not r.is_marker]

    def closed(self, topic: str) -> str | None:
        """Why the topic takes no record at all; None when it takes some."""
        if topic not in self._topics:
            return f"{topic} does not exist"
        if topic in self.faults.forbidden:
            return f"{topic}: this instance has no right to write to it"
        return None

    def refusal(self, topic: str, partition: int | None) -> str | None:
        """Why no record can go there; None when one can."""
        closed = self.closed(topic)
        if closed is not None:
            return closed
        count = len(self._topics[topic])
        if partition is not None and partition not in range(count):
            return f"{topic} has no partition {partition}"
        return None

    def is_too_large(
        self, topic: str, key: bytes | None, value: bytes | None, headers: KafkaHeaders
    ) -> bool:
        """Whether the topic takes no record of this size."""
        limit_bytes = self.record_bytes_max.get(topic, RECORD_BYTES_MAX)
        return record_bytes(key, value, headers) > limit_bytes

    def append(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
        kafka_transaction: KafkaTransaction | None = None,
    ) -> int:
        """Append one record; gives its offset."""
        with self.changed:
            if partition is None:
                partition = self.choose_partition(topic, key)
            log = self.log(topic, partition)
            if kafka_transaction is not None:
                kafka_transaction.logs.append(log)
                log.open.setdefault(kafka_transaction, log.end)
            record = MemoryRecord(
                log, self._clock.wall_ms(), key, value, headers, kafka_transaction
            )
            log.records.append(record)
            self.changed.notify_all()
            return record.offset()

    def delete_below(self, topic: str, partition: int, log_offset: int) -> None:
        """DeleteRecords: move the log's start up, at most to the stable end."""
        with self.changed:
            log = self.log(topic, partition)
            log.start = min(max(log.start, log_offset), log.stable_end)

    # -- Kafka transactions ----------------------------------------------------------------------

    @staticmethod
    def resumer(partition: int) -> str:
        """The transactional id under which parked transactions of a half partition are put back."""
        return f"resume-{partition}"

    def init_producer(self, transactional_id: str) -> int:
        """InitProducerId: abort what is open under this id, give a higher epoch."""
        with self.changed:
            left_open = self._open.get(transactional_id)
            if left_open is not None:
                self._finish(left_open, _Ending.ABORTED)
            producer_epoch = self._producer_epochs.get(transactional_id, -1) + 1
            self._producer_epochs[transactional_id] = producer_epoch
            return producer_epoch

    def begin(self, transactional_id: str, producer_epoch: int) -> KafkaTransaction:
        """Begin a Kafka transaction. Raises Fenced."""
        with self.changed:
            transaction = KafkaTransaction(transactional_id, producer_epoch)
            self._refuse_fenced(transaction)
            invariant(transactional_id not in self._open, "one Kafka transaction at a time")
            self._open[transactional_id] = transaction
            return transaction

    def add_positions(
        self,
        transaction: KafkaTransaction,
        positions: dict[tuple[str, int], int],
        generation: int,
        stamp: str = "",
    ) -> None:
        """Offsets to be stored with the commit, and beside them `stamp`.

        Raises StaleGeneration, Fenced.
        """
        with self.changed:
            self._refuse_fenced(transaction)
            if generation != self.generation:
                raise StaleGeneration(f"generation {generation} is over: it is {self.generation}")
            transaction.positions.update(positions)
            transaction.stamp = stamp

    def commit(self, transaction: KafkaTransaction) -> None:
        """Make it visible. Raises Fenced."""
        with self.changed:
            self._refuse_fenced(transaction)
            self._positions.update(transaction.positions)
            self._stamps.update(dict.fromkeys(transaction.positions, transaction.stamp))
            self._finish(transaction, _Ending.COMMITTED)

    def abort(self, transaction: KafkaTransaction) -> None:
        """Hide it for ever; nothing to do when a newer producer has aborted it."""
        with self.changed:
            if transaction.ending is _Ending.OPEN:
                self._finish(transaction, _Ending.ABORTED)

    def stored_position(self, topic: str, partition: int) -> int | None:
        """The group's committed offset, None when there is none."""
        return self._positions.get((topic, partition))

    def stamp(self, places: Sequence[tuple[str, int]]) -> str:
        """What lies beside these offsets, when they were stored together; else nothing."""
        stamps = {self._stamps.get(place, "") for place in places}
        return stamps.pop() if len(stamps) == 1 else ""

    def store_position(self, topic: str, partition: int, position: int | None) -> None:
        """Set it from outside, as an operator does with Kafka's tools; None removes it."""
        with self.changed:
            self._stamps.pop((topic, partition), None)
            if position is None:
                self._positions.pop((topic, partition), None)
            else:
                self._positions[topic, partition] = position

    def has_unstable_position(self, places: Sequence[tuple[str, int]]) -> bool:
        """Whether an open Kafka transaction may still change one of these offsets."""
        with self.changed:
            return any(place in t.positions for t in self._open.values() for place in places)

    def _refuse_fenced(self, transaction: KafkaTransaction) -> None:
        if self._producer_epochs.get(transaction.transactional_id) != transaction.producer_epoch:
            raise Fenced(f"{transaction.transactional_id} has a newer producer")

    def _finish(self, transaction: KafkaTransaction, ending: _Ending) -> None:
        transaction.ending = ending
        del self._open[transaction.transactional_id]
        for log in dict.fromkeys(transaction.logs):
            del log.open[transaction]
            log.records.append(
                MemoryRecord(
                    log, self._clock.wall_ms(), None, None, [], transaction, is_marker=True
                )
            )
        self.changed.notify_all()


def record_bytes(key: bytes | None, value: bytes | None, headers: KafkaHeaders) -> int:
    """About as large as Kafka takes the record to be."""
    size_bytes = len(key or b"") + len(value or b"")
    return size_bytes + sum(len(name) + len(content or b"") for name, content in headers)
