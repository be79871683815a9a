"""One half partition without Kafka: two logs as lists, a ledger driven as its owner drives it.

Records are written and read through the real codecs. What Kafka promises is modelled in the
simplest way that is true: a Kafka transaction is an append of everything at once (forwards, op
records, watermarks), or of nothing; an aborted one and every end marker leave offsets that are
never delivered; deleted records are gone. The judge of what should have happened is
ledger_model.py, which shares no code with the ledger.

Simplification: one process. An owner that was fenced cannot write, so there is only ever one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from halfhitch.core import ledger as ledger_module
from halfhitch.core.model import (
    HalfOffset,
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage, HalfRecord, Headers

TARGET = "orders"


def identity_of(name: str, group: str = "g") -> Identity:
    """Short names for tests."""
    return ProducerGroup(group), TransactionId(name)


@dataclass(frozen=True)
class Record:
    """A record in a log, and what the judge once read from it."""

    stored_at_ms: int
    value: bytes | None
    headers: Headers | None
    read: list[Any] = field(default_factory=list, compare=False, repr=False)


@dataclass
class Log:
    """A partition: None is an offset that is never delivered. `start` grows by deletion."""

    records: list[Record | None] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def read(self, position: int, count: int | None) -> list[tuple[int, Record]]:
        """At most `count` delivered records from there on."""
        assert position >= self.start, f"{position} was deleted; the log begins at {self.start}"
        found: list[tuple[int, Record]] = []
        for offset in range(position, self.end):
            record = self.records[offset]
            if record is not None:
                if count is not None and len(found) == count:
                    break
                found.append((offset, record))
        return found

    def copy(self) -> Log:
        return Log(list(self.records), self.start)


class LedgerWorld:
    """The logs, the target, the committed watermarks, and the ledger of the owner of the moment."""

    def __init__(
        self,
        *,
        horizon_ms: int = 900_000,
        finished_max: int = 200_000,
        op_clock_ahead_ms: int = 0,
    ) -> None:
        self.horizon_ms = horizon_ms
        self.finished_max = finished_max
        self.op_clock_ahead_ms = op_clock_ahead_ms
        self.now_ms = 1_000_000
        self.half_log = Log()
        self.op_log = Log()
        self.forwarded: list[tuple[Identity, list[tuple[int, bytes]]]] = []
        self.watermarks = (0, 0)
        self._earlier_watermarks = (0, 0)
        self.garbage_count = 0
        self.unknown_decision_count = 0
        self.step: ledger_module.Step | None = None
        self.step_is_committed = False
        self.step_op_offset = 0  # its op records begin there, or will not begin before
        self._ledger: ledger_module.Ledger | None = None
        self.half_position = self.op_position = 0
        self.take_over()

    # -- what clients, other instances and strangers append -------------------------------------

    def prepare(self, identity: Identity, index: int = 0, payload: bytes = b"") -> int:
        record = HalfRecord(identity[1], identity[0], index, self.now_ms, "i-1", TARGET)
        return self.append_half(payload, half_wire.system_headers(record))

    def decide(
        self,
        identity: Identity,
        resolution: Resolution,
        covered_count: int = 1,
        half_offsets: tuple[int, ...] = (),
    ) -> int:
        return self.decide_together(resolution, [(identity, covered_count, half_offsets)])

    def decide_together(
        self, resolution: Resolution, decisions: list[tuple[Identity, int, tuple[int, ...]]]
    ) -> int:
        entries: list[op_wire.Entry] = [
            op_wire.DecisionEntry(
                *identity, covered_count, len(half_offsets), ResolutionSource.PRODUCER
            )
            for identity, covered_count, half_offsets in decisions
        ]
        offsets = [offset for _, _, half_offsets in decisions for offset in half_offsets]
        return self.append_op(*op_wire.write(op_wire.tag_of(resolution), entries, offsets))

    def append_half(self, value: bytes | None, headers: Headers | None) -> int:
        self.half_log.records.append(Record(self.now_ms, value, headers))
        return self.half_log.end - 1

    def append_op(self, value: bytes | None, headers: Headers | None) -> int:
        stored_at_ms = self.now_ms + self.op_clock_ahead_ms
        self.op_log.records.append(Record(stored_at_ms, value, headers))
        return self.op_log.end - 1

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    # -- the owner ------------------------------------------------------------------------------

    @property
    def ledger(self) -> ledger_module.Ledger:
        assert self._ledger is not None, "nobody owns the partition: take it over"
        return self._ledger

    @property
    def is_owned(self) -> bool:
        return self._ledger is not None

    def crash(self) -> None:
        """The owner is gone, with its memory. A step that is not committed never will be."""
        if self.step is not None and not self.step_is_committed:
            self._leave_gap(self.op_log)
        self._ledger = self.step = None

    def take_over(self) -> None:
        """As service.owner does: from the committed watermarks, half log to its end first."""
        self.half_position, self.op_position = self.watermarks
        self._ledger = ledger_module.Ledger(
            half_position=self.half_position,
            op_position=self.op_position,
            horizon_ms=self.horizon_ms,
            finished_max=self.finished_max,
        )
        self.step = None
        self.read_half()
        self.read_op()

    def read_half(self, count: int | None = None) -> None:
        """Feed the next half records, all of them if no count is given."""
        for offset, record in self.half_log.read(self.half_position, count):
            size_bytes = len(record.value or b"")
            event = half_wire.read_identity(offset, record.stored_at_ms, size_bytes, record.headers)
            if isinstance(event, Garbage):
                self.garbage_count += 1
                self.ledger.pass_half(offset)
            else:
                self.ledger.half(event)
            self.half_position = offset + 1

    def read_op(self, count: int | None = None) -> None:
        """Feed the next op records, all of them if no count is given."""
        for offset, record in self.op_log.read(self.op_position, count):
            events = op_wire.read(offset, record.stored_at_ms, record.value, record.headers)
            if isinstance(events, Garbage):
                self.garbage_count += 1
                self.ledger.pass_op(offset)
            else:
                for event in events:
                    self.ledger.op(event)
            self.op_position = offset + 1

    def expire_early(self) -> None:
        """Only when the half log is read to its end, else by the time of what was read last."""
        read_until_ms = self.now_ms
        if self.half_log.read(self.half_position, 1):
            read = [r.stored_at_ms for r in self.half_log.records[: self.half_position] if r]
            read_until_ms = read[-1] if read else 0
        self.ledger.expire_early(read_until_ms)
        self.unknown_decision_count += self.ledger.unknown_decision_count
        self.ledger.unknown_decision_count = 0

    def plan(self, message_count_max: int = 1_000) -> ledger_module.Step | None:
        self.step = self.ledger.plan(message_count_max=message_count_max, bytes_max=1_000_000)
        self.step_is_committed = False
        self.step_op_offset = self.op_log.end
        return self.step

    def commit(self) -> None:
        """The step's Kafka transaction commits. The ledger does not know it yet."""
        step = self.step
        assert step is not None
        assert not self.step_is_committed
        self.step_op_offset = self.op_log.end
        for half_offsets in step.forwards:
            self._forward(half_offsets)
        for value, headers in op_wire.write_step(step.done, step.conflicts):
            self.append_op(value, headers)
        self._leave_gap(self.op_log)
        self._earlier_watermarks = self.watermarks
        self.watermarks = (step.half_watermark, step.op_watermark)
        self.step_is_committed = True

    def confirm(self) -> None:
        """... and now it knows."""
        assert self.step is not None
        assert self.step_is_committed
        self.ledger.confirm(self.step)
        self.step = None

    def abort(self) -> None:
        """The step's Kafka transaction is surely aborted, and the ledger is told."""
        assert self.step is not None
        assert not self.step_is_committed
        self._leave_gap(self.op_log)
        self.ledger.abort(self.step)
        self.step = None

    def write(self, message_count_max: int = 1_000) -> bool:
        """Plan, commit, confirm; False when there is nothing to do."""
        if self.plan(message_count_max) is None:
            return False
        self.commit()
        self.confirm()
        return True

    def settle(self) -> None:
        """Read everything and write steps until there is nothing left to do."""
        for _ in range(1_000):
            self.read_half()
            self.read_op()
            if not self.write() and self.op_position >= self._last(self.op_log):
                return
        raise AssertionError("the ledger always finds something more to do")

    def trim(self) -> None:
        """DeleteRecords below what an earlier Kafka transaction committed."""
        half, op = self._earlier_watermarks
        self.half_log.start = max(self.half_log.start, half)
        self.op_log.start = max(self.op_log.start, op)

    # -- for judges -------------------------------------------------------------------------------

    def successor(self) -> LedgerWorld:
        """What another owner would find if this one died now."""
        other = LedgerWorld(
            horizon_ms=self.horizon_ms,
            finished_max=self.finished_max,
            op_clock_ahead_ms=self.op_clock_ahead_ms,
        )
        other.now_ms = self.now_ms
        other.half_log, other.op_log = self.half_log.copy(), self.op_log.copy()
        other.forwarded = list(self.forwarded)
        other.watermarks = self.watermarks
        other._earlier_watermarks = self._earlier_watermarks
        other.take_over()
        return other

    def _forward(self, half_offsets: list[HalfOffset]) -> None:
        messages = []
        identities = set()
        for half_offset in half_offsets:
            assert half_offset >= self.half_log.start, f"half {half_offset} was deleted"
            record = self.half_log.records[half_offset]
            assert record is not None
            event = half_wire.read_identity(half_offset, 0, 0, record.headers)
            assert not isinstance(event, Garbage)
            identities.add(event.identity)
            messages.append((event.index, record.value or b""))
        assert len(identities) == 1, identities
        (identity,) = identities
        self.forwarded.append((identity, messages))

    @staticmethod
    def _leave_gap(log: Log) -> None:
        log.records.append(None)

    @staticmethod
    def _last(log: Log) -> int:
        """The position after the last delivered record."""
        return max((o + 1 for o, record in enumerate(log.records) if record), default=0)
