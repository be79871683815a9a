"""A ledger fed by hand: each call appends one record to a log and lets the ledger read it.

The script keeps both logs, so that a successor can be started from the watermarks of a step and
read what a new owner would read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.model import (
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    HalfOffset,
    HalfRead,
    Identity,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TimestampMs,
    TransactionId,
)

if TYPE_CHECKING:
    from halfhitch.core.model import Standing

OpEvent = DecisionRead | DoneRead | ConflictRead


def identity_of(name: str) -> Identity:
    return ProducerGroup("orders"), TransactionId(name)


class LedgerScript:
    """`now_ms` is the log time of both logs; it is moved by hand."""

    def __init__(
        self,
        *,
        half_position: int = 0,
        op_position: int = 0,
        horizon_ms: int = 900_000,
        finished_max: int = 30_000,
    ) -> None:
        self.ledger = Ledger(
            half_position=half_position,
            op_position=op_position,
            horizon_ms=horizon_ms,
            finished_max=finished_max,
        )
        self.limits = (horizon_ms, finished_max)
        self.now_ms = 1_000_000
        self.next_half = half_position
        self.next_op = op_position
        self.halves: list[HalfRead] = []
        self.ops: list[OpEvent] = []

    # -- records --------------------------------------------------------------------------------

    def half(self, name: str, index: int = 0, *, size_bytes: int = 10) -> HalfOffset:
        half_offset = HalfOffset(self.next_half)
        stored_at_ms = TimestampMs(self.now_ms)
        event = HalfRead(half_offset, stored_at_ms, identity_of(name), index, size_bytes)
        self.ledger.half(event)
        self.halves.append(event)
        self.next_half += 1
        return half_offset

    def commit(self, name: str, covered_count: int = 1) -> OpOffset:
        return self._decide(name, Resolution.COMMIT, covered_count)

    def roll_back(self, name: str) -> OpOffset:
        return self._decide(name, Resolution.ROLLBACK, 1)

    def done(self, name: str, ending: int, *half_offsets: int) -> OpOffset:
        offsets = tuple(HalfOffset(half_offset) for half_offset in half_offsets)
        return self._op(DoneRead(*self._where(), identity_of(name), ending, offsets))

    def conflict(
        self, name: str, losing: int, kind: ConflictKind = ConflictKind.CONTRARY
    ) -> OpOffset:
        return self._op(ConflictRead(*self._where(), identity_of(name), kind, OpOffset(losing), ()))

    def _decide(self, name: str, resolution: Resolution, covered_count: int) -> OpOffset:
        source = ResolutionSource.PRODUCER
        identity = identity_of(name)
        return self._op(DecisionRead(*self._where(), identity, resolution, covered_count, source))

    def _where(self) -> tuple[OpOffset, TimestampMs]:
        return OpOffset(self.next_op), TimestampMs(self.now_ms)

    def _op(self, event: OpEvent) -> OpOffset:
        self.ledger.op(event)
        self.ops.append(event)
        self.next_op += 1
        return event.op_offset

    # -- steps ----------------------------------------------------------------------------------

    def plan(self, *, message_count_max: int = 1_000, bytes_max: int = 1_000_000) -> Step | None:
        return self.ledger.plan(message_count_max=message_count_max, bytes_max=bytes_max)

    def planned(self, *, message_count_max: int = 1_000, bytes_max: int = 1_000_000) -> Step:
        step = self.plan(message_count_max=message_count_max, bytes_max=bytes_max)
        assert step is not None
        return step

    def written(self) -> Step:
        """Planned and committed; its op records are not read back yet."""
        step = self.planned()
        self.ledger.confirm(step)
        return step

    def read_back(self, step: Step) -> None:
        for mark in step.done:
            self.done(mark.identity[1], mark.ending, *mark.half_offsets)
        for lost in step.conflicts:
            self.conflict(lost.identity[1], lost.losing_op_offset, lost.kind)

    def carried_out(self) -> Step:
        """Written, and read back."""
        step = self.written()
        self.read_back(step)
        return step

    # -- what is there --------------------------------------------------------------------------

    def standing(self, name: str) -> Standing:
        return self.ledger.standing(identity_of(name))

    # -- takeover -------------------------------------------------------------------------------

    def successor(self, step: Step, *, ops_first: bool) -> LedgerScript:
        """A new owner that begins at the watermarks of this step, and has read all there is."""
        horizon_ms, finished_max = self.limits
        heir = LedgerScript(
            half_position=step.half_watermark,
            op_position=step.op_watermark,
            horizon_ms=horizon_ms,
            finished_max=finished_max,
        )
        heir.now_ms = self.now_ms
        heir.halves, heir.ops = list(self.halves), list(self.ops)
        halves = [h for h in self.halves if h.half_offset >= step.half_watermark]
        ops = [o for o in self.ops if o.op_offset >= step.op_watermark]
        if ops_first:
            for event in ops:
                heir.ledger.op(event)
        for half in halves:
            heir.ledger.half(half)
        if not ops_first:
            for event in ops:
                heir.ledger.op(event)
        heir.next_half, heir.next_op = self.next_half, self.next_op
        return heir
