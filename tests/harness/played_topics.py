"""Topics in memory, with a consumer that reads them as librdkafka's does: for commands that read.

No Kafka transactions: what is appended is committed, and can be read at once.
"""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from halfhitch.core.model import DoneMark, Resolution, ResolutionSource
from halfhitch.wire import headers as names
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import HalfRecord, system_headers

if TYPE_CHECKING:
    from collections.abc import Callable

HALF, OP, PARKED = (
    "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
)  # fmt: skip
AT_MS = 1_795_276_800_000


class Record:
    """As confluent_kafka.Message; an end of a partition where `failure` is set."""

    def __init__(
        self, log: tuple[str, int], log_offset: int, key: bytes | None = None,
        value: bytes | None = None, headers: list[tuple[str, bytes | None]] | None = None,
        at_ms: int = AT_MS, failure: Any = None,
    ) -> None:  # fmt: skip
        self._log, self._log_offset, self._key, self._value = log, log_offset, key, value
        self._headers, self._at_ms, self._failure = headers, at_ms, failure

    def topic(self) -> str:
        return self._log[0]

    def partition(self) -> int:
        return self._log[1]

    def offset(self) -> int:
        return self._log_offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._at_ms

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self._headers

    def error(self) -> Any:
        return self._failure


class PlayedTopics:
    """What is stored, for any number of consumers."""

    def __init__(self, **partitions: int) -> None:
        self.logs: dict[tuple[str, int], list[Record]] = {}
        self.away = False
        #: Called when a consumer has read all there is.
        self.on_idle: Callable[[], None] = lambda: None
        for topic, count in {HALF: 2, OP: 2, PARKED: 1, **partitions}.items():
            self.create(topic, count)

    def create(self, topic: str, count: int = 1) -> None:
        for partition in range(count):
            self.logs[topic, partition] = []

    def append(self, topic: str, partition: int = 0, **content: Any) -> Record:
        log = self.logs[topic, partition]
        record = Record((topic, partition), len(log), **content)
        log.append(record)
        return record

    def prepare(
        self, transaction_id: str, topic: str = "orders", *, group: str = "shop",
        partition: int = 0, index: int = 0, at_ms: int = AT_MS, key: bytes | None = b"k",
        value: bytes = b"v", headers: Any = (), **more: Any,
    ) -> Record:  # fmt: skip
        """A half record."""
        half = HalfRecord(transaction_id, group, index, at_ms, "one", topic, **more)
        ours = system_headers(half)
        return self.append(
            HALF, partition, key=key, value=value, headers=[*ours, *headers], at_ms=at_ms
        )

    def decide(
        self, half: Record, resolution: Resolution = Resolution.COMMIT,
        source: ResolutionSource = ResolutionSource.PRODUCER, reason: str | None = None,
        after_ms: int = 0,
    ) -> Record:  # fmt: skip
        """A decision about the transaction of this half."""
        group, transaction_id = self.identity(half)
        entry = op_wire.DecisionEntry(group, transaction_id, 1, 1, source, reason)  # type: ignore[arg-type]
        value, headers = op_wire.write(op_wire.tag_of(resolution), [entry], [half.offset()])
        return self._op(half, value, headers, None, after_ms)

    def finish(self, half: Record, ending: int = 1) -> Record:
        """A done mark."""
        identity: Any = self.identity(half)
        mark: Any = DoneMark(identity, ending, (half.offset(),))  # type: ignore[arg-type]
        (record,) = op_wire.write_step([mark], [])
        return self._op(half, record.value, record.headers, record.key)

    def forward(self, half: Record, partition: int = 0) -> Record:
        """The message on its topic."""
        named = dict(half.headers() or [])
        ours = (names.UNIQ_KEY, names.PGROUP, names.HALFHITCH)
        users = [pair for pair in half.headers() or [] if pair[0] not in names.SYSTEM]
        headers = [*users, *((name, named[name]) for name in ours)]
        topic = (named[names.REAL_TOPIC] or b"").decode()
        _, at_ms = half.timestamp()
        return self.append(
            topic, partition, key=half.key(), value=half.value(), headers=headers, at_ms=at_ms
        )

    @staticmethod
    def identity(half: Record) -> tuple[str, str]:
        named = dict(half.headers() or [])
        return (named[names.PGROUP] or b"").decode(), (named[names.UNIQ_KEY] or b"").decode()

    def _op(
        self, half: Record, value: bytes, headers: Any, key: bytes | None, after_ms: int = 0
    ) -> Record:
        at_ms = half.timestamp()[1] + after_ms
        return self.append(OP, half.partition(), key=key, value=value, headers=headers, at_ms=at_ms)

    def consumer(self, _: Any = None) -> PlayedConsumer:
        return PlayedConsumer(self)


class PlayedConsumer:
    """One of them."""

    def __init__(self, topics: PlayedTopics) -> None:
        self._topics = topics
        self._positions: dict[tuple[str, int], int] = {}
        self._told: dict[tuple[str, int], int] = {}
        self._closed = threading.Event()

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        self._require_kafka()
        found: dict[str, Any] = {}
        for name, partition in list(self._topics.logs):
            found.setdefault(name, SimpleNamespace(partitions={})).partitions[partition] = None
        return SimpleNamespace(topics=found)

    def get_watermark_offsets(
        self, where: TopicPartition, wait_s: float = 0, cached: bool = False
    ) -> tuple[int, int]:
        self._require_kafka()
        return 0, len(self._topics.logs[where.topic, where.partition])

    def offsets_for_times(self, asked: list[TopicPartition], _: float) -> list[TopicPartition]:
        self._require_kafka()
        found = []
        for where in asked:
            log = self._topics.logs[where.topic, where.partition]
            later = [r.offset() for r in log if r.timestamp()[1] >= where.offset]
            found.append(TopicPartition(where.topic, where.partition, min(later, default=-1)))
        return found

    def incremental_assign(self, places: list[TopicPartition]) -> None:
        for where in places:
            self._positions[where.topic, where.partition] = where.offset

    def incremental_unassign(self, places: list[TopicPartition]) -> None:
        for where in places:
            del self._positions[where.topic, where.partition]
            self._told.pop((where.topic, where.partition), None)

    def position(self, places: list[TopicPartition]) -> list[TopicPartition]:
        return [
            TopicPartition(w.topic, w.partition, self._positions[w.topic, w.partition])
            for w in places
        ]

    def poll(self, wait_s: float = 0) -> Record | None:
        self._require_kafka()
        found = self._next()
        if found is None:
            self._topics.on_idle()
            self._closed.wait(min(wait_s, 0.01))
        return found

    def consume(self, count: int, wait_s: float = 0) -> list[Record]:
        found = [self._next() for _ in range(count)]
        return [record for record in found if record is not None]

    def close(self) -> None:
        self._closed.set()

    def _next(self) -> Record | None:
        for log, position in self._positions.items():
            records = self._topics.logs[log]
            if position < len(records):
                self._positions[log] += 1
                return records[position]
            if self._told.get(log) != position:
                self._told[log] = position
                return Record(log, position, failure=KafkaError(KafkaError._PARTITION_EOF))
        return None

    def _require_kafka(self) -> None:
        if self._topics.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
