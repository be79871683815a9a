"""Worlds for the contract tests, behind one face: the Kafka in memory, a real one, and a real one
whose owners go the native way.

A world has one half and one op topic with two partitions and two target topics, all its own. What
a world cannot do is declared by its `features`; a test that needs more is not run there at all.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from halfhitch.adapters.kafka import clients
from halfhitch.adapters.kafka.admin import topic_configs
from halfhitch.adapters.kafka.catalog import KafkaTopicCatalog
from halfhitch.adapters.kafka.log_ends import LogEnds
from halfhitch.adapters.kafka.parked_store import resumer_id
from halfhitch.adapters.kafka.partition_reader import KafkaPartitionReader
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.adapters.kafka.record_log import KafkaRecordLog
from halfhitch.adapters.kafka.topics import ensure
from halfhitch.adapters.memory import (
    MemoryClock,
    MemoryKafka,
    MemoryPartitionReader,
    MemoryPartitionWriter,
    MemoryRecordLog,
    MemoryTopicCatalog,
)
from halfhitch.adapters.native.owner import way_of
from halfhitch.wire.topics import InternalTopics
from harness.kafka import (
    ReadRecord,
    admin_client,
    bounds,
    create_topics,
    fresh_name,
    read_all,
    wait_until,
)
from harness.native import native

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from halfhitch.adapters.kafka.log_consumer import LogConsumer
    from halfhitch.adapters.native.owner import OwnersWay
    from halfhitch.ports import (
        KafkaHeaders,
        PartitionReader,
        PartitionWriter,
        ReadBatch,
        RecordLog,
        StoredRecord,
        TopicCatalog,
    )

PARTITION_COUNT = 2
TARGET_PARTITION_COUNT = 3
RECORD_BYTES_MAX = 300_000
#: What the second target topic takes.
SMALL_RECORD_BYTES_MAX = 20_000
DEADLINE_S = 20.0
#: Nobody listens there.
NOWHERE = "127.0.0.1:1"


class Feature(Enum):
    """What not every world can do."""

    JAVA_PARTITIONING = auto()  # a keyed record goes where a Java producer would send it


_Test = TypeVar("_Test", bound="Callable[..., object]")


def needs(*features: Feature) -> Callable[[_Test], _Test]:
    """Run this contract test only in worlds that have these features."""

    def mark(function: _Test) -> _Test:
        function.needed_features = frozenset(features)  # type: ignore[attr-defined]
        return function

    return mark


class Unfinished(Protocol):
    """A Kafka transaction of an owner that has not ended; its records are stored."""

    def commit(self) -> None:
        """Make it visible."""

    def abort(self) -> None:
        """Hide it for ever."""


class World(Protocol):
    """What a contract test may use."""

    features: ClassVar[frozenset[Feature]]
    half_topic: str
    op_topic: str
    targets: tuple[str, str]

    def reader(self, partition: int = 0) -> PartitionReader: ...

    def writer(self, partition: int = 0) -> PartitionWriter: ...

    def record_log(self, *, away: bool = False) -> Any: ...

    def catalog(self, *, away: bool = False) -> TopicCatalog: ...

    def put(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: KafkaHeaders | None = None,
    ) -> None:
        """Plain records, surely stored."""

    def unfinished(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        headers: KafkaHeaders | None = None,
        positions: tuple[int, int] | None = None,
        is_resume: bool = False,
    ) -> Unfinished:
        """Records (and stored watermarks) in an open Kafka transaction of partition 0's owner.

        `is_resume`: of whoever puts parked messages back there.
        """

    def committed(self, topic: str, *, is_open: bool = False) -> list[ReadRecord]:
        """What readers find; `is_open`: although a Kafka transaction there has not ended."""

    def limit(self, topic: str, record_bytes_max: int) -> None:
        """From now on the topic takes no larger records."""

    def rebalance(self) -> None:
        """The group moves on; writers made before still speak for the old generation."""

    def close(self) -> None: ...


def drain(
    reader: PartitionReader, *, half: bool = True, op: bool = True
) -> tuple[list[StoredRecord], list[StoredRecord]]:
    """Read on to the ends that those that are asked for have now."""
    halves: list[StoredRecord] = []
    ops: list[StoredRecord] = []
    half_end = reader.half_end() if half else 0
    op_end = reader.op_end() if op else 0
    give_up_s = time.monotonic() + DEADLINE_S
    while reader.half_read_to() < half_end or reader.op_read_to() < op_end:
        batch: ReadBatch = reader.read(0.2)
        halves += batch.half
        ops += batch.op
        if time.monotonic() > give_up_s:
            raise TimeoutError(f"the ends were not reached: {len(halves)} halves, {len(ops)} ops")
    return halves, ops


# -- in memory -----------------------------------------------------------------------------------


class MemoryWorld:
    """World over a MemoryKafka."""

    features: ClassVar[frozenset[Feature]] = frozenset()

    def __init__(self) -> None:
        self.kafka = MemoryKafka(MemoryClock(), partition_count=PARTITION_COUNT)
        self.half_topic = self.kafka.half_topic
        self.op_topic = self.kafka.op_topic
        self.targets = ("orders", "points")
        self.kafka.record_bytes_max[self.half_topic] = RECORD_BYTES_MAX
        self.kafka.record_bytes_max[self.targets[1]] = SMALL_RECORD_BYTES_MAX
        for target in self.targets:
            self.kafka.create_topic(target, TARGET_PARTITION_COUNT)

    def reader(self, partition: int = 0) -> PartitionReader:
        return MemoryPartitionReader(self.kafka, partition=partition)

    def writer(self, partition: int = 0) -> PartitionWriter:
        generation = self.kafka.generation
        return MemoryPartitionWriter(self.kafka, partition=partition, generation=lambda: generation)

    @asynccontextmanager
    async def record_log(self, *, away: bool = False) -> AsyncIterator[RecordLog]:
        self.kafka.faults.is_away = away
        yield MemoryRecordLog(self.kafka)
        self.kafka.faults.is_away = False

    def catalog(self, *, away: bool = False) -> TopicCatalog:
        self.kafka.faults.is_away = away
        return MemoryTopicCatalog(self.kafka)

    def put(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: KafkaHeaders | None = None,
    ) -> None:
        for value in values:
            self.kafka.append(topic, partition, key, value, headers or [])

    def unfinished(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        headers: KafkaHeaders | None = None,
        positions: tuple[int, int] | None = None,
        is_resume: bool = False,
    ) -> Unfinished:
        kafka = self.kafka
        transactional_id = kafka.resumer(0) if is_resume else "owner-0"
        transaction = kafka.begin(transactional_id, kafka.init_producer(transactional_id))
        for value in values:
            kafka.append(topic, 0, None, value, headers or [], transaction)
        if positions is not None:
            half, op = positions
            stored = {(self.half_topic, 0): half, (self.op_topic, 0): op}
            kafka.add_positions(transaction, stored, kafka.generation)

        class Open:
            def commit(self) -> None:
                kafka.commit(transaction)

            def abort(self) -> None:
                kafka.abort(transaction)

        return Open()

    def committed(self, topic: str, *, is_open: bool = False) -> list[ReadRecord]:
        return [
            ReadRecord(r.partition, r.offset(), r.key(), r.value(), tuple(r.headers() or ()))
            for r in self.kafka.committed(topic)
        ]

    def limit(self, topic: str, record_bytes_max: int) -> None:
        self.kafka.record_bytes_max[topic] = record_bytes_max

    def rebalance(self) -> None:
        self.kafka.generation += 1

    def close(self) -> None:
        pass


# -- the real one --------------------------------------------------------------------------------


class KafkaWorld:
    """World over a broker, with topics of its own."""

    features: ClassVar[frozenset[Feature]] = frozenset(Feature)
    _native: ClassVar[OwnersWay | None] = None

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._names = InternalTopics(fresh_name("contract") + "-")
        self.half_topic, self.op_topic = self._names.half, self._names.op
        self.targets = (self._names.prefix + "orders", self._names.prefix + "points")
        self._admin = admin_client(bootstrap)
        self._closers: list[Callable[[], object]] = []
        ensure(self._admin, self._names, partition_count=PARTITION_COUNT, replication_factor=1)
        create_topics(bootstrap, {self.targets[0]: TARGET_PARTITION_COUNT})
        small = {"max.message.bytes": str(SMALL_RECORD_BYTES_MAX)}
        create_topics(bootstrap, {self.targets[1]: TARGET_PARTITION_COUNT}, small)
        self._member = self._join()

    def _config(self, *, away: bool = False) -> clients.Config:
        return clients.base(NOWHERE if away else self._bootstrap, "contract", {"log_level": 0})

    def _join(self) -> Consumer:
        """A member of the owners' group, so that there is a generation to speak of."""
        member = clients.member_consumer(
            self._config(),
            group=self._names.owner_group,
            session_timeout_ms=60_000,  # as long it may not be polled
            group_instance_id=None,
        )
        member.subscribe([self.half_topic])

        def is_assigned() -> bool:
            member.poll(0.05)
            return bool(member.assignment())

        wait_until(is_assigned, DEADLINE_S, what="the member's assignment")
        return member

    def _consumer(self) -> Consumer:
        return clients.log_consumer(self._config(), group=self._names.owner_group)

    def _native_consumer(self, partition: int) -> LogConsumer | None:
        if self._native is None:
            return None
        config = clients.log_config(self._config(), group=self._names.owner_group)
        return self._native.consumer(config, self.half_topic, self.op_topic, partition)

    def _transactional_producer(self, partition: int) -> clients.OwnerProducer:
        return clients.owner_producer(
            self._config(),
            transactional_id=f"{self._names.owner_group}-{partition}",
            transaction_timeout_ms=15_000,
        )

    def _resume_producer(self, partition: int) -> Producer:
        return clients.resume_producer(
            self._config(),
            transactional_id=resumer_id(self._names.owner_group, partition),
            transaction_timeout_ms=15_000,
        )

    def reader(self, partition: int = 0) -> PartitionReader:
        reader = KafkaPartitionReader(
            self._consumer,
            ends=LogEnds(self._admin),
            half_topic=self.half_topic,
            op_topic=self.op_topic,
            partition=partition,
            native=self._native_consumer(partition),
        )
        self._closers.append(reader.close)
        return reader

    def writer(self, partition: int = 0) -> PartitionWriter:
        metadata = self._member.consumer_group_metadata()
        writer = KafkaPartitionWriter(
            lambda: self._transactional_producer(partition),
            make_resumer=lambda: self._resume_producer(partition),
            admin=self._admin,
            group_metadata=lambda: metadata,
            half_topic=self.half_topic,
            op_topic=self.op_topic,
            partition=partition,
            transaction_timeout_ms=15_000,
            forward=None if self._native is None else self._native.forward,
        )
        self._closers.append(writer.close)
        return writer

    @asynccontextmanager
    async def record_log(self, *, away: bool = False) -> AsyncIterator[RecordLog]:
        log = KafkaRecordLog(
            lambda: clients.record_producer(
                clients.record_config(
                    self._config(away=away),
                    delivery_ms=500 if away else 8_000,
                    message_bytes_max=RECORD_BYTES_MAX,
                )
            ),
            half_topic=self.half_topic,
            op_topic=self.op_topic,
        )
        log.start()
        try:
            yield log
        finally:
            await log.stop(5.0)

    def catalog(self, *, away: bool = False) -> TopicCatalog:
        return KafkaTopicCatalog(admin_client(NOWHERE) if away else self._admin)

    def put(
        self,
        topic: str,
        values: Sequence[bytes | None],
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: KafkaHeaders | None = None,
    ) -> None:
        problems: list[object] = []
        producer: Any = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0})
        for value in values:
            producer.produce(
                topic,
                value,
                key,
                partition,
                lambda problem, _: problems.append(problem) if problem else None,
                headers=headers or [],
            )
        assert producer.flush(DEADLINE_S) == 0, "records were not stored in time"
        producer.close()
        assert not problems, problems

    def unfinished(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        headers: KafkaHeaders | None = None,
        positions: tuple[int, int] | None = None,
        is_resume: bool = False,
    ) -> Unfinished:
        producer: Any
        # Kafka's own client: an owner's shell has no `flush`.
        producer = self._resume_producer(0) if is_resume else self._transactional_producer(0).client
        producer.init_transactions(DEADLINE_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0, headers=headers or [])
        assert producer.flush(DEADLINE_S) == 0, "records were not stored in time"
        if positions is not None:
            places = zip((self.half_topic, self.op_topic), positions, strict=True)
            producer.send_offsets_to_transaction(
                [TopicPartition(name, 0, position) for name, position in places],
                self._member.consumer_group_metadata(),
                DEADLINE_S,
            )

        def close() -> None:
            with suppress(KafkaException):  # fenced meanwhile: there is nothing left to end
                producer.close()

        self._closers.append(close)

        settle = self._settle

        class Open:
            def commit(self) -> None:
                producer.commit_transaction(DEADLINE_S)
                settle(topic)

            def abort(self) -> None:
                producer.abort_transaction(DEADLINE_S)
                settle(topic)

        return Open()

    def committed(self, topic: str, *, is_open: bool = False) -> list[ReadRecord]:
        if not is_open:
            self._settle(topic)
        return read_all(self._bootstrap, topic)

    def _settle(self, topic: str) -> None:
        """Kafka answers the end of a Kafka transaction before its markers are in the logs."""
        wait_until(
            lambda: (
                bounds(self._bootstrap, topic, "read_committed")
                == bounds(self._bootstrap, topic, "read_uncommitted")
            ),
            DEADLINE_S,
            what=f"the markers of {topic}",
        )

    def limit(self, topic: str, record_bytes_max: int) -> None:
        wanted = {"max.message.bytes": str(record_bytes_max)}
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in wanted.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(DEADLINE_S)
        wait_until(
            lambda: (
                topic_configs(self._admin, [topic], DEADLINE_S)[0][topic].items() >= wanted.items()
            ),
            DEADLINE_S,
            what=f"the limit of {topic}",
        )

    def rebalance(self) -> None:
        self._member.close()
        self._member = self._join()

    def close(self) -> None:
        for closer in self._closers:
            closer()
        self._member.close()


class NativeWorld(KafkaWorld):
    """The same where an owner reads and forwards outside of Python."""

    _native = None if native is None else way_of(native)


WORLDS: dict[str, type[MemoryWorld | KafkaWorld]] = {
    "memory": MemoryWorld,
    "kafka": KafkaWorld,
    "native": NativeWorld,
}
