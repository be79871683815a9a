"""Reading and writing one half partition of a MemoryKafka, as its owner does.

What it simplifies: a Kafka transaction is written within one call, so others see it open only by
the fault LEFT_OPEN; a refused target record makes the whole write FAIL, as with Kafka, but is known
at once; with Kafka away a read gives nothing at once where a real one waits.
"""

import secrets
import time
from collections.abc import Callable, Collection, Sequence

from halfhitch.adapters.memory.faults import WriteFault
from halfhitch.adapters.memory.kafka import (
    Fenced,
    KafkaTransaction,
    MemoryKafka,
    MemoryLog,
    StaleGeneration,
    record_bytes,
)
from halfhitch.crash_points import reached
from halfhitch.errors import BelowLogError, KafkaUnavailable, TopologyError
from halfhitch.ports import (
    ReadBatch,
    StoredRecord,
    TargetRecord,
    WriteOutcome,
    WriteResult,
)
from halfhitch.wire.op import StepRecord


class _Cursor:
    """Where the reader is in one log."""

    def __init__(self, log: MemoryLog, position: int) -> None:
        self.log = log
        self.position = position
        self.is_held = False
        self.told_end = False

    @property
    def at_end(self) -> bool:
        return not self.is_held and self.position >= self.log.stable_end

    def take(self, count_max: int) -> list[StoredRecord]:
        if self.is_held:
            return []
        if self.position < self.log.start:
            raise TopologyError(
                f"{self.log.topic}-{self.log.partition} no longer holds offset {self.position}: "
                "records were deleted that were still needed"
            )
        found, self.position = self.log.committed(self.position, count_max)
        return list(found)


class MemoryPartitionReader:
    """ports.PartitionReader. One read gives at most `read_max` records of each log."""

    def __init__(self, kafka: MemoryKafka, *, partition: int = 0, read_max: int = 2_000) -> None:
        self._kafka = kafka
        self._half = (kafka.half_topic, partition)
        self._op = (kafka.op_topic, partition)
        self._read_max = read_max
        self._cursors: tuple[_Cursor, _Cursor] | None = None
        #: See ports.PartitionReader.
        self.stamp = ""

    def committed_positions(self) -> tuple[int | None, int | None]:
        """See ports.PartitionReader."""
        self._refuse_when_away()
        if self._kafka.has_unstable_position([self._half, self._op]):
            raise KafkaUnavailable("the stored watermarks are not stable: fence the writer first")
        self.stamp = self._kafka.stamp([self._half, self._op])
        return self._kafka.stored_position(*self._half), self._kafka.stored_position(*self._op)

    def begin(self, half_position: int | None, op_position: int | None) -> tuple[int, int]:
        """See ports.PartitionReader."""
        self._refuse_when_away()
        half = self._cursor(self._half, half_position)
        op = self._cursor(self._op, op_position)
        for cursor in (half, op):
            if cursor.position < cursor.log.start:
                raise BelowLogError(_refusal(cursor.log, cursor.position))
        op.is_held = True
        self._cursors = half, op
        return half.position, op.position

    def _cursor(self, place: tuple[str, int], position: int | None) -> _Cursor:
        log = self._kafka.log(*place)
        if position is None:
            position = log.start
        if position > log.end:
            raise TopologyError(_refusal(log, position))
        return _Cursor(log, position)

    def hold_op(self) -> None:
        """See ports.PartitionReader."""
        self._begun()[1].is_held = True

    def release_op(self) -> None:
        """See ports.PartitionReader."""
        op = self._begun()[1]
        op.is_held = op.told_end = False

    def read(self, wait_s: float) -> ReadBatch:
        """See ports.PartitionReader. That an end has been reached also ends the waiting, once."""
        half, op = cursors = self._begun()
        give_up_s = time.monotonic() + wait_s
        with self._kafka.changed:
            while True:
                if self._kafka.faults.is_away:
                    return ReadBatch([], [])
                batch = ReadBatch(half.take(self._read_max), op.take(self._read_max))
                has_news = any(c.at_end and not c.told_end for c in cursors)
                for cursor in cursors:
                    cursor.told_end = cursor.at_end
                left_s = give_up_s - time.monotonic()
                if batch.half or batch.op or has_news or left_s <= 0:
                    return batch
                self._kafka.changed.wait(left_s)

    def half_end(self) -> int:
        """See ports.PartitionReader."""
        self._refuse_when_away()
        return self._kafka.log(*self._half).end

    def wake(self) -> None:
        """See ports.PartitionReader. Nothing waits here."""

    def half_read_to(self) -> int:
        """See ports.PartitionReader."""
        return self._begun()[0].position

    def op_end(self) -> int:
        """See ports.PartitionReader."""
        self._refuse_when_away()
        return self._kafka.log(*self._op).end

    def op_read_to(self) -> int:
        """See ports.PartitionReader."""
        return self._begun()[1].position

    def held(self) -> str | None:
        """See ports.PartitionReader."""
        parts = [
            f"{log.topic}-{log.partition} can be read up to {log.stable_end} of {log.end}"
            for log in (self._kafka.log(*self._half), self._kafka.log(*self._op))
            if log.stable_end < log.end
        ]
        return f"{', '.join(parts)}: a Kafka transaction is open there" if parts else None

    def fetch_halves(self, half_offsets: Sequence[int]) -> dict[int, StoredRecord]:
        """See ports.PartitionReader."""
        self._refuse_when_away()
        with self._kafka.changed:
            log = self._kafka.log(*self._half)
            there = range(log.start, log.stable_end)
            return {
                half_offset: log.records[half_offset]
                for half_offset in half_offsets
                if half_offset in there and log.records[half_offset].is_committed
            }

    def close(self) -> None:
        """See ports.PartitionReader."""
        self._cursors = None

    def _begun(self) -> tuple[_Cursor, _Cursor]:
        if self._cursors is None:
            raise KafkaUnavailable("the reader has not begun")
        return self._cursors

    def _refuse_when_away(self) -> None:
        if self._kafka.faults.is_away:
            raise KafkaUnavailable("Kafka does not answer; try again")


def _refusal(log: MemoryLog, position: int) -> str:
    return (
        f"{log.topic}-{log.partition} holds offsets {log.start} to {log.end}, but the stored "
        f"watermark is {position}: records were deleted or the topic was recreated"
    )


class MemoryPartitionWriter:
    """ports.PartitionWriter. `generation`: of the group, as this instance knows it.

    `record_bytes_max`: what its producer takes, whatever the topics do.
    """

    def __init__(
        self,
        kafka: MemoryKafka,
        *,
        partition: int = 0,
        generation: Callable[[], int] | None = None,
        record_bytes_max: int | None = None,
    ) -> None:
        self._kafka = kafka
        self._record_bytes_max = record_bytes_max
        self._run = secrets.token_hex(4)
        self._write_count = 0
        self._half = (kafka.half_topic, partition)
        self._op = (kafka.op_topic, partition)
        self._transactional_id = f"owner-{partition}"
        self._generation = generation or (lambda: kafka.generation)
        self._producer_epoch: int | None = None

    def fence(self) -> None:
        """See ports.PartitionWriter."""
        if self._kafka.faults.is_away:
            raise KafkaUnavailable("Kafka does not answer; try again")
        reached("before_fence")
        self._producer_epoch = self._kafka.init_producer(self._transactional_id)
        reached("after_fence")

    def end_resume(self) -> None:
        """See ports.PartitionWriter."""
        if self._kafka.faults.is_away:
            raise KafkaUnavailable("Kafka does not answer; try again")
        self._kafka.init_producer(self._kafka.resumer(self._half[1]))

    def write(
        self,
        targets: Sequence[TargetRecord],
        ops: Sequence[StepRecord],
        half_watermark: int,
        op_watermark: int,
    ) -> WriteResult:
        """See ports.PartitionWriter."""
        if self._producer_epoch is None:
            return WriteResult(WriteOutcome.FAIL, "the producer was not fenced")
        self._write_count += 1
        faults = self._kafka.faults
        fault = WriteFault.ABORTED if faults.is_away else faults.next_write()
        positions = {self._half: half_watermark, self._op: op_watermark}
        with self._kafka.changed:
            refused = self._refused(targets, ops)
            if refused is None:
                refused = self._away(targets)
            if refused is None and any(t.topic in faults.unexplained for t in targets):
                refused = WriteResult(WriteOutcome.FAIL, "something is wrong with this step")
            if refused is not None:
                self._producer_epoch = None
                return refused
            transaction: KafkaTransaction | None = None
            try:
                reached("before_begin")
                transaction = self._kafka.begin(self._transactional_id, self._producer_epoch)
                reached("after_begin")
                self._append(transaction, targets, ops)
                reached("after_produce")
                self._kafka.add_positions(transaction, positions, self._generation(), self._stamp)
                reached("after_send_offsets")
            except (Fenced, StaleGeneration) as error:
                if transaction is not None:
                    self._kafka.abort(transaction)
                self._producer_epoch = None
                return WriteResult(WriteOutcome.FAIL, str(error), is_ours=True)
            return self._end(transaction, fault)

    @property
    def _stamp(self) -> str:
        return f"{self._run}.{self._write_count}"

    def _refused(
        self, targets: Sequence[TargetRecord], ops: Sequence[StepRecord]
    ) -> WriteResult | None:
        """A broker refuses whole batches for one large record and does not say for which."""
        kafka, ours = self._kafka, (self._half[0], self._op[0])
        closed: dict[str, str] = {}
        refusing: dict[str, str] = {}
        poisoned: dict[int, str] = {}
        marks = [TargetRecord(*self._op, key, value, headers) for value, headers, key in ops]
        for place, record in enumerate([*targets, *marks]):
            topic, content = record.topic, (record.key, record.value, record.headers)
            reason = kafka.closed(topic)
            if reason is not None:
                closed[topic] = reason
            elif kafka.is_too_large(topic, *content):
                refusing[topic] = f"{topic}: a record is too large for it"
            else:
                reason = kafka.refusal(topic, record.partition)
                limit_bytes = self._record_bytes_max
                if limit_bytes is not None and record_bytes(*content) > limit_bytes:
                    reason = f"{topic}: a record is too large for this producer"
                    refusing.update({topic: reason} if topic in ours else {})
            if reason is not None and topic not in ours:
                poisoned[place] = reason
        reasons = [*closed.values(), *refusing.values(), *poisoned.values()]
        if not reasons:
            return None
        return WriteResult(
            WriteOutcome.FAIL,
            "; ".join(dict.fromkeys(reasons)),
            poisoned=poisoned,
            closed=closed,
            refusing=refusing,
            is_ours=any(topic in ours for topic in (*closed, *refusing)),
        )

    def _away(self, targets: Sequence[TargetRecord]) -> WriteResult | None:
        away = self._kafka.faults.away({target.topic for target in targets})
        if not away:
            return None
        return WriteResult(WriteOutcome.FAIL, "not stored in time", away_topics=away)

    def idle(self) -> bool:
        """See ports.PartitionWriter."""
        return False

    def leaderless(self, topics: Collection[str]) -> frozenset[str]:
        """See ports.PartitionWriter."""
        return frozenset(self._kafka.faults.leaderless.intersection(topics))

    def _append(
        self,
        transaction: KafkaTransaction,
        targets: Sequence[TargetRecord],
        ops: Sequence[StepRecord],
    ) -> None:
        append = self._kafka.append
        for target in targets:
            append(
                target.topic, target.partition, target.key, target.value, target.headers,
                transaction,
            )  # fmt: skip
        for value, headers, key in ops:
            append(*self._op, key, value, headers, transaction)

    def _end(self, transaction: KafkaTransaction, fault: WriteFault | None) -> WriteResult:
        if fault not in (WriteFault.ABORTED, WriteFault.ABORTED_UNSEEN, WriteFault.LEFT_OPEN):
            self._kafka.commit(transaction)
            reached("after_commit")
        elif fault is not WriteFault.LEFT_OPEN:
            self._kafka.abort(transaction)
        if fault in (None, WriteFault.SUSPECT):
            return WriteResult(WriteOutcome.OK, is_suspect=fault is not None, stamp=self._stamp)
        assert fault is not None
        self._producer_epoch = None
        surely = fault in (WriteFault.ABORTED, WriteFault.COMMITTED_LATE)
        return WriteResult(WriteOutcome.FAIL if surely else WriteOutcome.UNKNOWN, fault.name)

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        """See ports.PartitionWriter."""
        self._kafka.delete_below(*self._half, half_offset)
        self._kafka.delete_below(*self._op, op_offset)

    def close(self) -> None:
        """See ports.PartitionWriter."""
        self._producer_epoch = None
