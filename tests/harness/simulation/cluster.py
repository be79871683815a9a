"""Kafka and the clocks of a simulated life: the memory adapter, with time and faults of the plan.

The owner's calls let time pass, and in it whatever else happens: other producers append while its
Kafka transaction is open, groups come and go, operators look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.adapters.memory.kafka import Fenced, MemoryKafka
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import ReadBatch, WriteOutcome, WriteResult
from harness.audit import AUDIT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from halfhitch.adapters.memory.kafka import KafkaTransaction
    from halfhitch.ports import KafkaHeaders, StoredRecord, TargetRecord
    from halfhitch.wire.op import StepRecord
    from harness.simulation.plan import Plan
    from harness.simulation.timeline import Timeline

HALF, OP, PARKED = "half", "op", "parked"
TARGETS = ("orders", "stock", "gone")
#: A topic that exists at the door and takes nothing later.
POISONED = "gone"
RESUMER = "resume-0"


class Crash(BaseException):
    """The process is gone at this point, with everything it had in memory."""


class BrokerClock:
    """Stamps what is appended; the op log's broker may be another one."""

    def __init__(self, timeline: Timeline, op_ahead_ms: int) -> None:
        self._timeline = timeline
        self._op_ahead_ms = op_ahead_ms
        self.ahead_ms = 0
        self.topic = HALF

    def wall_ms(self) -> int:
        ahead_ms = self._op_ahead_ms if self.topic == OP else 0
        return self._timeline.now_ms + self.ahead_ms + ahead_ms

    def monotonic_s(self) -> float:
        raise AssertionError("nobody asks a broker for this")


class CoordinatorClock:
    """Of one process: its wall clock may jump, its monotonic one began somewhere."""

    def __init__(self, timeline: Timeline, ahead_ms: int) -> None:
        self._timeline = timeline
        self._began_ms = timeline.now_ms - timeline.dice.randint(0, 10**9)
        self.ahead_ms = ahead_ms

    def wall_ms(self) -> int:
        return self._timeline.now_ms + self.ahead_ms

    def monotonic_s(self) -> float:
        return (self._timeline.now_ms - self._began_ms) / 1000


class Cluster:
    """Kafka, whether faults happen now, and the true time of every record."""

    def __init__(self, timeline: Timeline, plan: Plan) -> None:
        self.timeline = timeline
        self.plan = plan
        self.clock = BrokerClock(timeline, plan.op_ahead_ms)
        self.kafka = MemoryKafka(self.clock, half_topic=HALF, op_topic=OP)
        self.kafka.create_topic(PARKED, 2)
        self.kafka.create_topic(AUDIT, 2)
        for topic in TARGETS:
            if topic != POISONED or not plan.poisoned_topic:
                self.kafka.create_topic(topic)
        self.is_faulty = True
        self.write_count = 0
        self.refused: set[str] = set()  # targets that have taken nothing for a while
        self.stored_at: dict[tuple[str, int, int], int] = {}  # true time

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: KafkaHeaders,
        part_of: KafkaTransaction | None = None,
        partition: int | None = None,
    ) -> int:
        if partition is None:
            partition = 0 if topic in (HALF, OP) else None
        self.clock.topic = topic
        log_offset = self.kafka.append(topic, partition, key, value, headers, part_of)
        self.stored_at[topic, partition or 0, log_offset] = self.timeline.now_ms
        return log_offset

    def fault(self, probability: float, name: str) -> bool:
        if self.is_faulty and self.timeline.chance(probability):
            self.timeline.count[name] += 1
            self.timeline.note("fault: {}", name)
            return True
        return False

    def crash_point(self, name: str) -> None:
        if self.is_faulty and self.timeline.chance(self.plan.crash):
            self.timeline.count["crashes"] += 1
            self.timeline.count[f"crash {name}"] += 1
            self.timeline.note("CRASH {}", name)
            raise Crash(name)


class SimulatedReader:
    """ports.PartitionReader: one read gives some of what is there, and lets time pass for it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._half = cluster.kafka.log(HALF, 0)
        self._op = cluster.kafka.log(OP, 0)
        self._half_position = self._op_position = 0
        self._is_op_held = True
        self.stamp = ""

    def committed_positions(self) -> tuple[int | None, int | None]:
        kafka = self._cluster.kafka
        self.stamp = kafka.stamp([(HALF, 0), (OP, 0)])
        assert not kafka.has_unstable_position([(HALF, 0), (OP, 0)]), "read before fencing"
        return kafka.stored_position(HALF, 0), kafka.stored_position(OP, 0)

    def begin(self, half_position: int | None, op_position: int | None) -> tuple[int, int]:
        self._half_position = self._half.start if half_position is None else half_position
        self._op_position = self._op.start if op_position is None else op_position
        assert self._half_position >= self._half.start, "halves were deleted that are needed"
        assert self._op_position >= self._op.start, "op records were deleted that are needed"
        self._is_op_held = True
        return self._half_position, self._op_position

    def hold_op(self) -> None:
        self._is_op_held = True

    def release_op(self) -> None:
        self._is_op_held = False

    def read(self, wait_s: float) -> ReadBatch:
        cluster, timeline = self._cluster, self._cluster.timeline
        if cluster.timeline.chance(0.2):
            cluster.crash_point("while reading")
        if cluster.fault(cluster.plan.unreadable * 0.1, "kafka away"):
            raise KafkaUnavailable("Kafka does not answer")
        until_ms = timeline.now_ms + max(1, int(wait_s * 1000))
        timeline.pass_until(timeline.now_ms + 1)
        while not self._has_news and timeline.now_ms < until_ms:
            timeline.pass_one(until_ms)
        half: Sequence[StoredRecord] = []
        op: Sequence[StoredRecord] = []
        count_max = cluster.plan.read_max
        is_half_slow = cluster.fault(cluster.plan.unreadable * 4, "half log slow")
        if not is_half_slow:
            half, self._half_position = self._half.committed(self._half_position, count_max)
        if not self._is_op_held:
            op, self._op_position = self._op.committed(self._op_position, count_max)
        return ReadBatch(half, op)

    @property
    def _has_news(self) -> bool:
        return self._half_position < self._half.stable_end or (
            not self._is_op_held and self._op_position < self._op.stable_end
        )

    def half_end(self) -> int:
        return self._half.end

    def wake(self) -> None:
        """Nothing waits here."""

    def half_read_to(self) -> int:
        return self._half_position

    def op_end(self) -> int:
        return self._op.end

    def op_read_to(self) -> int:
        return self._op_position

    def held(self) -> str | None:
        held = [log for log in (self._half, self._op) if log.stable_end < log.end]
        return "a Kafka transaction is open" if held else None

    def fetch_halves(self, half_offsets: Sequence[int]) -> dict[int, StoredRecord]:
        cluster = self._cluster
        cluster.timeline.count["halves read back"] += len(half_offsets)
        if cluster.fault(cluster.plan.unreadable, "halves unreadable"):
            raise KafkaUnavailable("halves cannot be read back")
        log = self._half
        there = range(log.start, log.stable_end)
        return {o: log.records[o] for o in half_offsets if o in there}

    def close(self) -> None:
        pass


class SimulatedWriter:
    """ports.PartitionWriter: every way in which a Kafka transaction can end, and crashes in it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._producer_epoch: int | None = None
        self._stamp = ""

    def fence(self) -> None:
        self._cluster.crash_point("before fencing")
        self._producer_epoch = self._cluster.kafka.init_producer("owner-0")

    def end_resume(self) -> None:
        self._cluster.timeline.count["resumes ended by a takeover"] += 1
        self._cluster.kafka.init_producer(RESUMER)

    def write(
        self,
        targets: Sequence[TargetRecord],
        ops: Sequence[StepRecord],
        half_watermark: int,
        op_watermark: int,
    ) -> WriteResult:
        cluster, kafka, plan = self._cluster, self._cluster.kafka, self._cluster.plan
        assert self._producer_epoch is not None, "a producer is used again after a failure"
        cluster.crash_point("before the step")
        refused = {
            place: f"{target.topic} is gone"
            for place, target in enumerate(targets)
            if kafka.partition_count(target.topic) is None
        }
        if refused:
            cluster.timeline.count["poisoned steps"] += 1
            self._producer_epoch = None
            return WriteResult(WriteOutcome.FAIL, "a target is gone", poisoned=refused)
        try:
            open_ = kafka.begin("owner-0", self._producer_epoch)
            for target in targets:
                place = (target.topic, target.key, target.value, target.headers)
                cluster.append(*place, open_, target.partition)
                self._let_pass()
            for value, headers, key in ops:
                cluster.append(OP, key, value, headers, open_)
            positions = {(HALF, 0): half_watermark, (OP, 0): op_watermark}
            cluster.write_count += 1
            self._stamp = f"w{cluster.write_count}"
            kafka.add_positions(open_, positions, kafka.generation, self._stamp)
        except Fenced as error:
            self._producer_epoch = None
            return WriteResult(WriteOutcome.FAIL, str(error), is_ours=True)
        self._let_pass()
        cluster.crash_point("in the step, not committed")
        return self._end(open_, plan)

    def _end(self, open_: KafkaTransaction, plan: Plan) -> WriteResult:
        cluster, kafka = self._cluster, self._cluster.kafka
        count = cluster.timeline.count
        if cluster.fault(plan.aborted_step, "aborted steps"):
            kafka.abort(open_)
            self._producer_epoch = None
            return WriteResult(WriteOutcome.FAIL, "aborted")
        if cluster.fault(plan.unknown_outcome, "unknown outcomes"):
            self._producer_epoch = None
            if cluster.timeline.chance(0.6):
                kafka.commit(open_)
                count["unknown outcomes, committed"] += 1
            elif cluster.timeline.chance(0.5):
                kafka.abort(open_)
            return WriteResult(WriteOutcome.UNKNOWN, "no answer")
        kafka.commit(open_)
        count["steps"] += 1
        cluster.crash_point("behind the step, unknown to the ledger")
        is_suspect = cluster.fault(plan.suspect_step, "suspect steps")
        return WriteResult(WriteOutcome.OK, is_suspect=is_suspect, stamp=self._stamp)

    def _let_pass(self) -> None:
        timeline = self._cluster.timeline
        timeline.pass_until(
            timeline.now_ms + timeline.dice.randint(0, self._cluster.plan.latency_ms)
        )

    def idle(self) -> bool:
        return False

    def leaderless(self, topics: Collection[str]) -> frozenset[str]:
        return frozenset()

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        """Halves first; op records only when that has worked."""
        cluster = self._cluster
        if cluster.timeline.chance(cluster.plan.trim_fails):
            return
        cluster.kafka.delete_below(HALF, 0, half_offset)
        if not cluster.timeline.chance(cluster.plan.trim_fails):
            cluster.kafka.delete_below(OP, 0, op_offset)
        cluster.timeline.count["trims"] += 1

    def close(self) -> None:
        """An open Kafka transaction is ended by whoever fences next."""
        self._producer_epoch = None
