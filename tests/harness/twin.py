"""One half partition on a Kafka in memory: writers of its logs, an owner, and what came of it.

Everything runs in the caller's thread: a test appends, lets the owner turn, and looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from halfhitch.adapters.memory import (
    MemoryClock,
    MemoryKafka,
    MemoryPartitionReader,
    MemoryPartitionWriter,
)
from halfhitch.core.model import DoneRead, Identity, ProducerGroup, Resolution, TransactionId
from halfhitch.service.checking.policy import GiveUpPolicy
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.service.owner.questions import CheckQuestions
from halfhitch.service.owner.stories import Stories
from halfhitch.service.owner.turn import OwnerLimits, PartitionOwner
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage, HalfRecord, system_headers
from halfhitch.wire.handle import HandleCodec
from harness.defaults import owner_limits
from harness.scripted_gate import ScriptedGate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from halfhitch.core.model import DoneMark
    from halfhitch.ports import (
        KafkaHeaders,
        PartitionReader,
        PartitionWriter,
        ReadBatch,
        StoredRecord,
        TargetRecord,
        WriteResult,
    )
    from halfhitch.service.transactions.op_appends import OnRead
    from halfhitch.wire.op import OpRead, StepRecord

GROUP = "group"
TARGETS = ("orders", "points")
PARKED = "TRANS_CHECK_MAX_TIME_TOPIC"
INSTANCE = "instance-1"
HANDLES = HandleCodec([b"0123456789abcdef"])


class RecordingObserver:
    """ports.Observer that keeps every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *values, **named: self.calls.append((name, (*values, *named.values())))

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of this name."""
        return [values for called, values in self.calls if called == name]


class RecordingReader(MemoryPartitionReader):
    """Writes down what is called, into a list that it may share with a writer."""

    def __init__(self, kafka: MemoryKafka, calls: list[str], **options: Any) -> None:
        super().__init__(kafka, **options)
        self.calls = calls

    def committed_positions(self) -> tuple[int | None, int | None]:
        self.calls.append("committed_positions")
        return super().committed_positions()

    def begin(self, half_position: int | None, op_position: int | None) -> tuple[int, int]:
        self.calls.append("begin")
        return super().begin(half_position, op_position)

    def hold_op(self) -> None:
        self.calls.append("hold_op")
        super().hold_op()

    def release_op(self) -> None:
        self.calls.append("release_op")
        super().release_op()

    def read(self, wait_s: float) -> ReadBatch:
        self.calls.append("read")
        return super().read(wait_s)

    def fetch_halves(self, half_offsets: Sequence[int]) -> dict[int, StoredRecord]:
        self.calls.append(f"fetch {sorted(half_offsets)}")
        return super().fetch_halves(half_offsets)

    def close(self) -> None:
        self.calls.append("close reader")
        super().close()


class BlindReader(RecordingReader):
    """A reader that cannot fetch one of the logs for a while; 0 is the half log, 1 the op log."""

    def set_blind(self, *, blind: bool, log: int = 0) -> None:
        """From now on."""
        assert self._cursors is not None
        self._cursors[log].is_held = blind

    @property
    def op_position(self) -> int:
        """Of the next op record to be read."""
        assert self._cursors is not None
        return self._cursors[1].position


class RecordingWriter(MemoryPartitionWriter):
    """Writes down what is called; `before_fence` and `before_write` run at the start of each."""

    before_fence: Callable[[], object] | None = None
    before_write: Callable[[], object] | None = None

    def __init__(self, kafka: MemoryKafka, calls: list[str], **options: Any) -> None:
        super().__init__(kafka, **options)
        self.calls = calls

    def fence(self) -> None:
        self.calls.append("fence")
        if self.before_fence is not None:
            self.before_fence()
        super().fence()

    def write(
        self,
        targets: Sequence[TargetRecord],
        ops: Sequence[StepRecord],
        half_watermark: int,
        op_watermark: int,
    ) -> WriteResult:
        self.calls.append("write")
        if self.before_write is not None:
            self.before_write()
        return super().write(targets, ops, half_watermark, op_watermark)

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        self.calls.append(f"delete_below {half_offset} {op_offset}")
        super().delete_below(half_offset, op_offset)

    def close(self) -> None:
        self.calls.append("close writer")
        super().close()


def identity(transaction_id: str) -> Identity:
    """Of a transaction of the harness's own group."""
    return ProducerGroup(GROUP), TransactionId(transaction_id)


@dataclass
class Twin:
    """Partition 0 of a MemoryKafka with two target topics of three partitions."""

    clock: MemoryClock = field(default_factory=MemoryClock)
    partition_count: int = 1
    limits: OwnerLimits = field(default_factory=owner_limits)
    allow: tuple[str, ...] = ("*",)

    def __post_init__(self) -> None:
        self.kafka = MemoryKafka(self.clock, partition_count=self.partition_count)
        for topic in (*TARGETS, PARKED):
            self.kafka.create_topic(topic, 3)
        self.observer = RecordingObserver()
        self.done: list[DoneMark] = []
        self.calls: list[str] = []
        self.gate = ScriptedGate()
        self.give_up = GiveUpPolicy("park")
        self.policy = TopicPolicy(
            internal_topics=(self.kafka.half_topic, self.kafka.op_topic, PARKED), allow=self.allow
        )

    # -- the logs --------------------------------------------------------------------------------

    def half(
        self,
        transaction_id: str,
        *,
        index: int = 0,
        topic: str = TARGETS[0],
        key: bytes | None = None,
        value: bytes | None = b"value",
        headers: KafkaHeaders | None = None,
        target_partition: int | None = None,
        partition: int = 0,
        digest: int = 0,
    ) -> int:
        """A half message, as a prepare stores it; gives its half offset."""
        record = HalfRecord(
            transaction_id,
            GROUP,
            index,
            self.clock.wall_ms(),
            INSTANCE,
            topic,
            target_partition,
            digest=digest,
        )
        return self.kafka.append(
            self.kafka.half_topic, partition, key, value, system_headers(record) + (headers or [])
        )

    def decide(
        self,
        resolution: Resolution,
        *transaction_ids: str,
        covered: int = 1,
        hints: Sequence[int] = (),
        partition: int = 0,
        source: str = "producer",
        reason: str | None = None,
    ) -> int:
        """One op record with a decision for each of them; gives its op offset.

        `hints`: the half offsets that each of them names.
        """
        entries = [
            op_wire.DecisionEntry(GROUP, transaction_id, covered, len(hints), source, reason)  # type: ignore[arg-type]
            for transaction_id in transaction_ids
        ]
        value, headers = op_wire.write(
            op_wire.tag_of(resolution), entries, list(hints) * len(entries)
        )
        return self.kafka.append(self.kafka.op_topic, partition, None, value, headers)

    def commit(
        self,
        *transaction_ids: str,
        covered: int = 1,
        hints: Sequence[int] = (),
        source: str = "producer",
    ) -> int:
        """See `decide`."""
        return self.decide(
            Resolution.COMMIT, *transaction_ids, covered=covered, hints=hints, source=source
        )

    def roll_back(self, *transaction_ids: str, covered: int = 1) -> int:
        """See `decide`."""
        return self.decide(Resolution.ROLLBACK, *transaction_ids, covered=covered)

    def give_up_now(self, transaction_id: str, hints: Sequence[int] = ()) -> int:
        """The policy's decision to park it undecided."""
        return self.decide(Resolution.PARK, transaction_id, hints=hints, source="policy")

    def values(self, topic: str = TARGETS[0]) -> list[bytes | None]:
        """What a reader of committed records finds, in order."""
        return [record.value() for record in self.kafka.committed(topic)]

    def written_values(self, topic: str = TARGETS[0]) -> list[bytes | None]:
        """What was ever written, aborted records included."""
        return [record.value() for record in self.kafka.uncommitted(topic)]

    def ops(self) -> list[OpRead]:
        """Every entry of the op log, in order."""
        entries: list[OpRead] = []
        for record in self.kafka.committed(self.kafka.op_topic):
            events = op_wire.read(record.offset(), 0, record.value(), record.headers())
            if not isinstance(events, Garbage):
                entries += events
        return entries

    def done_ids(self) -> list[str]:
        """Transaction ids of the done marks in the op log, in order."""
        return [entry.identity[1] for entry in self.ops() if isinstance(entry, DoneRead)]

    def stored(self) -> tuple[int | None, int | None]:
        """The group's committed watermarks of partition 0."""
        place = self.kafka.stored_position
        return place(self.kafka.half_topic, 0), place(self.kafka.op_topic, 0)

    # -- its owner -------------------------------------------------------------------------------

    def owner(
        self,
        *,
        reader: PartitionReader | None = None,
        writer: PartitionWriter | None = None,
        partition: int = 0,
        stories: Stories | None = None,
        on_read: OnRead = lambda _: None,
        index: Any = None,
    ) -> PartitionOwner:
        """A fresh owner; reader and writer note their calls in `calls` unless given."""
        return PartitionOwner(
            partition,
            reader=reader or RecordingReader(self.kafka, self.calls, partition=partition),
            writer=writer or RecordingWriter(self.kafka, self.calls, partition=partition),
            policy=self.policy,
            parked_topic=PARKED,
            observer=self.observer,
            clock=self.clock,
            limits=self.limits,
            on_done=lambda _, marks: self.done.extend(marks),
            make_checkback=lambda payloads, its_reader: CheckBack(
                partition,
                gate=self.gate,
                index=index,
                policy=self.give_up,
                questions=CheckQuestions(
                    partition,
                    half_topic=self.kafka.half_topic,
                    sign=HANDLES.encode,
                    number_max=self.limits.check_rules.count_max,
                ),
                observer=self.observer,
                clock=self.clock,
                payloads=payloads,
                reader=its_reader,
            ),
            stories=stories,
            on_read=on_read,
        )

    def working_owner(self, **options: Any) -> PartitionOwner:
        """A fresh owner that has taken over."""
        owner = self.owner(**options)
        owner.take_over()
        return owner


def turn_until_idle(owner: PartitionOwner, turn_max: int = 1_000) -> None:
    """Turn until there is nothing left to do."""
    for _ in range(turn_max):
        if not owner.turn(0.0):
            return
    raise AssertionError(f"still busy after {turn_max} turns")
