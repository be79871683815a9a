"""The owner of one half partition: reads both logs, asks the ledger, writes one Kafka transaction.

Order of a takeover, always: fence (new producer, init_transactions: whoever was before us can write
no more, what he left open is aborted) -> read the stored watermarks (stable ones) -> read the half
log to its end, then the op log to its end -> only then plan. Reading the watermarks before fencing
would be a race: the predecessor could still commit a step in between.

The half log is read first on purpose: a done mark that is read before its half would make that half
look like a late copy, and it would be marked done a second time.

Used by one thread. Not here: threads, retries of a whole takeover (worker.py), Kafka (ports).
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.model import DoneMark, Identity, Resolution, Standing
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import (
    Clock,
    KafkaHeaders,
    Observer,
    PartitionReader,
    PartitionWriter,
    StoredRecord,
    TargetRecord,
    WriteOutcome,
)
from halfhitch.service.topics import TopicPolicy
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage

logger = logging.getLogger(__name__)

_REPLAY_WAIT_S: Final = 0.5
#: A replay that gives nothing for so long is stuck: give up and begin again.
_REPLAY_IDLE_S: Final = 15.0
#: Trim the logs when so many records or so many seconds have passed since the last time.
_TRIM_RECORDS: Final = 20_000
_TRIM_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class OwnerLimits:
    """Bounds of one partition's owner."""

    batch_count_max: int = 1_000
    batch_bytes_max: int = 4_000_000
    payload_cache_bytes: int = 33_554_432
    horizon_ms: int = 900_000
    finished_max: int = 200_000


class StepFailedError(KafkaUnavailable):
    """The step's Kafka transaction was surely aborted; the ledger stands: try again later."""


class OutcomeLostError(KafkaUnavailable):
    """Nobody knows how the step's Kafka transaction ended: only a new takeover can tell."""


@dataclass(slots=True)
class _Payload:
    key: bytes | None
    value: bytes | None
    headers: KafkaHeaders
    size_bytes: int


class PartitionOwner:
    """See the module's text. `on_done` is called after every committed step, on this thread."""

    def __init__(
        self,
        partition: int,
        *,
        reader: PartitionReader,
        writer: PartitionWriter,
        policy: TopicPolicy,
        observer: Observer,
        clock: Clock,
        limits: OwnerLimits,
        on_done: Callable[[int, Sequence[DoneMark]], None],
    ) -> None:
        self.partition = partition
        self._reader = reader
        self._writer = writer
        self._policy = policy
        self._observer = observer
        self._clock = clock
        self._limits = limits
        self._on_done = on_done
        self._ledger: Ledger | None = None
        self._payloads: OrderedDict[int, _Payload] = OrderedDict()
        self._payload_bytes = 0
        self._watermarks = (0, 0)  # of the last committed step
        self._trimmed = (0, 0)
        self._trimmed_at_s = 0.0
        self._op_held = False
        self._oldest_op_ms: int | None = None  # read since the last step
        # Broker time: the newest record's, plus what has passed here since it was read.
        self._log_time_ms = 0
        self._log_time_read_s = 0.0

    # -- takeover --------------------------------------------------------------------------------

    def take_over(self) -> None:
        """Fence, replay, be ready. Raises KafkaUnavailable or TopologyError; call again."""
        began_s = self._clock.monotonic_s()
        self._ledger = None
        self._payloads.clear()
        self._payload_bytes = 0
        self._writer.fence()
        stored = self._reader.committed_positions()
        half_start, op_start = self._reader.begin(*stored)
        ledger = Ledger(
            half_position=half_start,
            op_position=op_start,
            horizon_ms=self._limits.horizon_ms,
            finished_max=self._limits.finished_max,
        )
        replayed = self._replay(ledger)
        self._watermarks = self._trimmed = (half_start, op_start)
        self._op_held = False
        self._ledger = ledger
        self._observer.takeover(self.partition, self._clock.monotonic_s() - began_s, replayed)
        logger.info(
            "half partition %d taken over: %d records replayed from half %d, op %d",
            self.partition,
            replayed,
            half_start,
            op_start,
            extra={"action": "partition_taken_over"},
        )

    def _replay(self, ledger: Ledger) -> int:
        replayed = 0
        progress_s = self._clock.monotonic_s()
        op_released = False
        while True:
            batch = self._reader.read(_REPLAY_WAIT_S)
            count = len(batch.half) + len(batch.op)
            replayed += count
            self._feed(ledger, batch.half, batch.op)
            if count:
                progress_s = self._clock.monotonic_s()
            if not op_released and batch.half_at_end:
                self._reader.release_op()
                op_released = True
            elif op_released and batch.op_at_end:
                return replayed
            if self._clock.monotonic_s() - progress_s > _REPLAY_IDLE_S:
                raise KafkaUnavailable(
                    f"the logs of half partition {self.partition} cannot be read to their ends"
                )

    # -- turns -----------------------------------------------------------------------------------

    def turn(self, wait_s: float) -> bool:
        """Read, plan, write one step. True when there may be more to do at once.

        Raises StepFailedError (call again after a pause) or OutcomeLostError, KafkaUnavailable,
        TopologyError (take over again).
        """
        ledger = self._working_ledger()
        batch = self._reader.read(wait_s)
        self._feed(ledger, batch.half, batch.op)
        if batch.half_at_end and ledger.early_count:
            ledger.expire_early(self._now_ms())
            if ledger.unknown_decision_count:
                self._observer.unknown_decisions(ledger.unknown_decision_count)
                ledger.unknown_decision_count = 0
        self._hold_or_release_op(ledger)
        step = ledger.plan(
            message_count_max=self._limits.batch_count_max, bytes_max=self._limits.batch_bytes_max
        )
        if step is None:
            return bool(batch.half or batch.op)
        self._write(ledger, step)
        return True

    def _hold_or_release_op(self, ledger: Ledger) -> None:
        if self._op_held is ledger.reads_op:
            if ledger.reads_op:
                self._reader.release_op()
            else:
                self._reader.hold_op()
            self._op_held = not ledger.reads_op

    def _feed(
        self, ledger: Ledger, halves: Sequence[StoredRecord], ops: Sequence[StoredRecord]
    ) -> None:
        garbage = 0
        for record in halves:
            garbage += self._feed_half(ledger, record)
        if garbage:
            self._observer.garbage("half", garbage)
            garbage = 0
        for record in ops:
            garbage += self._feed_op(ledger, record)
        if garbage:
            self._observer.garbage("op", garbage)
        if ops and self._oldest_op_ms is None:
            self._oldest_op_ms = ops[0].timestamp()[1]
        newest = ops[-1] if ops else halves[-1] if halves else None
        if newest is not None:
            self._log_time_ms = max(self._log_time_ms, newest.timestamp()[1])
            self._log_time_read_s = self._clock.monotonic_s()

    def _feed_half(self, ledger: Ledger, record: StoredRecord) -> int:
        half_offset, headers = record.offset(), record.headers()
        key, value = record.key(), record.value()
        size_bytes = len(key or b"") + len(value or b"")
        event = half_wire.read_identity(half_offset, record.timestamp()[1], size_bytes, headers)
        if isinstance(event, Garbage):
            logger.warning(
                "half record %d of partition %d is passed over: %s",
                half_offset,
                self.partition,
                event.reason,
                extra={"action": "garbage_half"},
            )
            ledger.pass_half(half_offset)
            return 1
        ledger.half(event)
        # headers cannot be None here: read_identity has looked into them
        self._payloads[half_offset] = _Payload(key, value, headers or [], size_bytes)
        self._payload_bytes += size_bytes
        while self._payload_bytes > self._limits.payload_cache_bytes:
            self._payload_bytes -= self._payloads.popitem(last=False)[1].size_bytes
        return 0

    def _feed_op(self, ledger: Ledger, record: StoredRecord) -> int:
        op_offset = record.offset()
        events = op_wire.read(op_offset, record.timestamp()[1], record.value(), record.headers())
        if isinstance(events, Garbage):
            logger.warning(
                "op record %d of partition %d is passed over: %s",
                op_offset,
                self.partition,
                events.reason,
                extra={"action": "garbage_op"},
            )
            ledger.pass_op(op_offset)
            return 1
        for event in events:
            ledger.op(event)
        return 0

    # -- one step --------------------------------------------------------------------------------

    def _write(self, ledger: Ledger, step: Step) -> None:
        began_s = self._clock.monotonic_s()
        targets = self._targets(step)
        ops = op_wire.write_step(step.done, step.conflicts)
        result = self._writer.write(targets, ops, step.half_watermark, step.op_watermark)
        dropped = sum(1 for t in step.transactions if t.resolution is Resolution.ROLLBACK)
        self._observer.kafka_transaction(
            self.partition,
            result.outcome.value,
            self._clock.monotonic_s() - began_s,
            len(targets),
            dropped,
        )
        if result.outcome is WriteOutcome.UNKNOWN:
            raise OutcomeLostError(f"how a Kafka transaction ended is not known: {result.reason}")
        if result.outcome is WriteOutcome.FAIL:
            ledger.abort(step)
            raise StepFailedError(f"a Kafka transaction was aborted: {result.reason}")
        ledger.confirm(step)
        self._after(step)

    def _after(self, step: Step) -> None:
        for mark in step.done:
            for half_offset in mark.half_offsets:
                payload = self._payloads.pop(half_offset, None)
                if payload is not None:
                    self._payload_bytes -= payload.size_bytes
        for conflict in step.conflicts:
            self._observer.conflict(conflict.kind, 1)
        self._on_done(self.partition, step.done)
        if self._oldest_op_ms is not None:
            # The broker's clock against ours: good enough for a dashboard, used for nothing else.
            self._observer.forwarded_after((self._clock.wall_ms() - self._oldest_op_ms) / 1000)
            self._oldest_op_ms = None
        # Only what an EARLIER transaction has committed is trimmed: see DESIGN.md.
        before, self._watermarks = self._watermarks, (step.half_watermark, step.op_watermark)
        self._trim(before)

    def _trim(self, watermarks: tuple[int, int]) -> None:
        now_s = self._clock.monotonic_s()
        records = sum(watermarks) - sum(self._trimmed)
        if records >= _TRIM_RECORDS or (records > 0 and now_s - self._trimmed_at_s >= _TRIM_S):
            self._trimmed, self._trimmed_at_s = watermarks, now_s
            self._writer.delete_below(*watermarks)

    def _targets(self, step: Step) -> list[TargetRecord]:
        wanted = [o for halves in step.forwards for o in halves if o not in self._payloads]
        fetched = self._fetch(wanted) if wanted else {}
        targets = []
        for halves in step.forwards:
            for half_offset in halves:
                payload = self._payloads.get(half_offset) or fetched[half_offset]
                forward = half_wire.read_forward(half_offset, payload.headers)
                reason = (
                    forward.reason
                    if isinstance(forward, Garbage)
                    else self._policy.refusal(forward.target_topic)
                )
                if isinstance(forward, Garbage) or reason is not None:
                    # Only a stranger writing into the half topic gets here: the door refuses these.
                    logger.error(
                        "half %d of partition %d is not forwarded: %s",
                        half_offset,
                        self.partition,
                        reason,
                        extra={"action": "forward_refused"},
                    )
                    self._observer.garbage("half", 1)
                    continue
                targets.append(
                    TargetRecord(
                        forward.target_topic,
                        forward.target_partition,
                        payload.key,
                        payload.value,
                        forward.headers,
                    )
                )
        return targets

    def _fetch(self, half_offsets: Sequence[int]) -> dict[int, _Payload]:
        """Payloads that were let go of to save memory."""
        records = self._reader.fetch_halves(half_offsets)
        lost = [half_offset for half_offset in half_offsets if half_offset not in records]
        if lost:
            raise OutcomeLostError(
                f"half messages {lost[:5]} of partition {self.partition} are no longer in the log"
            )
        return {
            half_offset: _Payload(record.key(), record.value(), record.headers() or [], 0)
            for half_offset, record in records.items()
        }

    # -- what is known ---------------------------------------------------------------------------

    def standing(self, identity: Identity, half_offset: int) -> Standing | None:
        """Of a transaction whose first half lies there; None when it was read and is known no more.

        For other threads. The position is looked at before the ledger: a half that is below it has
        been entered before, so "unknown" then means ended beyond the memory.
        """
        ledger = self._ledger
        if ledger is None:
            return Standing.UNKNOWN
        was_read = half_offset < ledger.positions[0]
        standing = ledger.standing(identity)
        return None if standing is Standing.UNKNOWN and was_read else standing

    @property
    def is_working(self) -> bool:
        """Whether the takeover is complete."""
        return self._ledger is not None

    def numbers(self) -> tuple[tuple[int, int, int, int], tuple[int, int], tuple[int, int]]:
        """Ledger counts, positions, committed watermarks: for people."""
        ledger = self._ledger
        if ledger is None:
            return (0, 0, 0, 0), (0, 0), self._watermarks
        return ledger.counts, ledger.positions, self._watermarks

    def close(self) -> None:
        """Let go of reader and writer; an open Kafka transaction is aborted."""
        self._ledger = None
        self._reader.close()
        self._writer.close()

    def _working_ledger(self) -> Ledger:
        if self._ledger is None:
            raise KafkaUnavailable(f"half partition {self.partition} is not taken over yet")
        return self._ledger

    def _now_ms(self) -> int:
        """Broker time, as well as it can be known without asking."""
        passed_s = self._clock.monotonic_s() - self._log_time_read_s
        return self._log_time_ms + int(passed_s * 1000)
