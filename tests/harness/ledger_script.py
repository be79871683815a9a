"""A ledger fed by hand: each call appends one record to a log and lets the ledger read it.

The script keeps both logs, so that a successor can be started from the watermarks of a step and
read what a new owner would read. What a step appends (copies of halves, op records) is appended,
and read, by `read_back`; by `store` it is appended only, as when the owner dies.
"""

from __future__ import annotations

from dataclasses import replace
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
from harness.defaults import check_rules

if TYPE_CHECKING:
    from halfhitch.core.check_rules import CheckRules
    from halfhitch.core.standing import Standing
    from halfhitch.core.transaction import Transaction

OpEvent = DecisionRead | DoneRead | ConflictRead


def identity_of(name: str) -> Identity:
    return ProducerGroup("orders"), TransactionId(name)


def first_offset_of(half: HalfRead) -> int:
    """What a copy of this half says of where the first one lay."""
    return half.half_offset if half.first_half_offset < 0 else half.first_half_offset


class LedgerScript:
    """`now_ms` is the log time of both logs; it is moved by hand."""

    def __init__(
        self,
        *,
        half_position: int = 0,
        op_position: int = 0,
        horizon_ms: int = 900_000,
        finished_max: int = 30_000,
        rules: CheckRules | None = None,
    ) -> None:
        rules = rules or check_rules()
        self.ledger = Ledger(
            half_position=half_position,
            op_position=op_position,
            horizon_ms=horizon_ms,
            finished_max=finished_max,
            rules=rules,
        )
        self.limits = (horizon_ms, finished_max, rules)
        self.now_ms = 1_000_000
        self.is_caught_up = True  # the half log was read to its end
        self.next_half = half_position
        self.next_op = op_position
        self.halves: list[HalfRead] = []
        self.ops: list[OpEvent] = []
        self._unread: list[tuple[OpOffset, OpEvent | None]] = []
        self._late_halves: list[HalfRead] = []
        self._copies: list[HalfRead] = []  # of the last step planned, where they came from

    # -- records --------------------------------------------------------------------------------

    def half(
        self,
        name: str,
        index: int = 0,
        *,
        size_bytes: int = 10,
        immunity_ms: int = -1,
        check_count: int = 0,
        first_stored_ms: int = -1,
        digest: int = 0,
    ) -> HalfOffset:
        where = HalfOffset(self.next_half), TimestampMs(self.now_ms)
        event = HalfRead(
            *where,
            identity_of(name),
            index,
            size_bytes,
            immunity_ms=immunity_ms,
            check_count=check_count,
            first_stored_ms=first_stored_ms,
            digest=digest,
        )
        return self._read_half(event)

    def half_unread(self, name: str, *, digest: int = 0, immunity_ms: int = -1) -> HalfOffset:
        """It is stored while a step is out, and read before that step's copies."""
        where = HalfOffset(self.next_half), TimestampMs(self.now_ms)
        half = HalfRead(*where, identity_of(name), 0, 10, immunity_ms, digest=digest)
        self._late_halves.append(half)
        self.halves.append(self._late_halves[-1])
        self.next_half += 1
        return where[0]

    def resume(
        self,
        name: str,
        count: int = 1,
        *,
        indexes: tuple[int, ...] = (0,),
        born: Resolution | None = None,
        immunity_ms: int = -1,
        first_digest: int = 0,
    ) -> HalfOffset:
        """A parked transaction is put back: a note in the op log, then its halves.

        The half log is read first, so what lies before the note in the op log may still be unread.
        """
        fence = self.append(None)
        first = HalfOffset(self.next_half)
        for index in indexes:
            event = HalfRead(
                HalfOffset(self.next_half),
                TimestampMs(self.now_ms),
                identity_of(name),
                index,
                10,
                immunity_ms=immunity_ms,
                first_stored_ms=0,
                first_half_offset=0,
                resumed_count=count,
                fence=fence,
                born=born,
                born_count=0 if born is None else len(indexes),
                digest=first_digest and first_digest + index,
            )
            self._read_half(event)
        return first

    def _read_half(self, event: HalfRead) -> HalfOffset:
        self.ledger.half(event)
        self.halves.append(event)
        self.next_half += 1
        return event.half_offset

    def commit(self, name: str, covered_count: int = 1, *hints: int) -> OpOffset:
        return self._decide(name, Resolution.COMMIT, covered_count, hints=hints)

    def roll_back(self, name: str) -> OpOffset:
        return self._decide(name, Resolution.ROLLBACK, 1)

    def give_up(self, name: str) -> OpOffset:
        """The policy's decision."""
        return self._decide(name, Resolution.PARK, 1, ResolutionSource.POLICY)

    def done(
        self, name: str, ending: int, *half_offsets: int, digests: tuple[int, ...] = ()
    ) -> OpOffset:
        offsets = tuple(HalfOffset(half_offset) for half_offset in half_offsets)
        return self._op(DoneRead(*self._where(), identity_of(name), ending, offsets, digests))

    def conflict(
        self, name: str, losing: int, kind: ConflictKind = ConflictKind.CONTRARY, *halves: int
    ) -> OpOffset:
        offsets = tuple(HalfOffset(half_offset) for half_offset in halves)
        lost = ConflictRead(*self._where(), identity_of(name), kind, OpOffset(losing), offsets)
        return self._op(lost)

    def _decide(
        self,
        name: str,
        resolution: Resolution,
        covered_count: int,
        source: ResolutionSource = ResolutionSource.PRODUCER,
        hints: tuple[int, ...] = (),
    ) -> OpOffset:
        said = identity_of(name), resolution, covered_count, source
        several = hints if len(hints) > 1 else ()
        return self._op(
            DecisionRead(*self._where(), *said, max(hints, default=-1), half_hints=several)
        )

    def _where(self) -> tuple[OpOffset, TimestampMs]:
        return OpOffset(self.next_op), TimestampMs(self.now_ms)

    def _op(self, event: OpEvent) -> OpOffset:
        self.append(event)
        self.read_ops()
        return event.op_offset

    def unread(self, name: str, resolution: Resolution) -> OpOffset:
        """A decision is appended; the ledger reads it with the next op record, or `read_ops`."""
        source = ResolutionSource.PRODUCER
        return self.append(DecisionRead(*self._where(), identity_of(name), resolution, 1, source))

    def append(self, event: OpEvent | None) -> OpOffset:
        """An op record that is not read yet; None: one that says nothing to the ledger."""
        op_offset = OpOffset(self.next_op)
        if event is not None:
            self.ops.append(event)
        self._unread.append((op_offset, event))
        self.next_op += 1
        return op_offset

    def read_ops(self) -> None:
        """What was appended to the op log is read."""
        unread, self._unread = self._unread, []
        for op_offset, event in unread:
            if event is None:
                self.ledger.pass_op(op_offset)
            else:
                self.ledger.op(event)

    # -- time -----------------------------------------------------------------------------------

    def tick(self, passed_ms: int = 0) -> None:
        """Time passes, in the logs and for the ledger."""
        self.now_ms += passed_ms
        self.ledger.tick(self.now_ms)
        if self.is_caught_up:
            self.ledger.end_incomplete()

    def pass_time(self, passed_ms: int) -> None:
        """Time passes in turns of a second, and a moment more: timers are late by a little."""
        for _ in range(passed_ms // 1_000):
            self.tick(1_000)
        self.tick(passed_ms % 1_000 + 64)

    # -- checks ---------------------------------------------------------------------------------

    def report(
        self, name: str, number: int, *, is_counted: bool = True, is_lost: bool = False
    ) -> None:
        """What became of a check; delivered unless told."""
        self.ledger.checks.reported(
            self.transaction(name), number, "unknown", "p1", is_counted=is_counted, is_lost=is_lost
        )

    def checked(self, name: str) -> int:
        """A check of it is written, read back and delivered; its number."""
        while True:
            (order,) = self.carried_out(permits=1).copies
            if order.transaction.identity[1] == name:
                self.report(name, order.number)
                return order.number

    def due_checks(self, *, permits: int = 10) -> list[tuple[str, int]]:
        """What the next step would check; that step is aborted."""
        step = self.plan(permits=permits)
        if step is None:
            return []
        found = [(o.transaction.identity[1], o.number) for o in step.copies if o.is_check]
        self.ledger.abort(step)
        return found

    # -- steps ----------------------------------------------------------------------------------

    def plan(
        self,
        *,
        message_count_max: int = 1_000,
        bytes_max: int = 1_000_000,
        permits: int | dict[str, int] = 0,
    ) -> Step | None:
        """`permits`: by group, or as many for the group of `identity_of`."""
        by_group = {"orders": permits} if isinstance(permits, int) else permits
        step = self.ledger.plan(
            message_count_max=message_count_max,
            bytes_max=bytes_max,
            rooms={ProducerGroup(group): count for group, count in by_group.items()},
        )
        if step is not None:  # their offsets and numbers change when the step is confirmed
            self._copies = [
                copy
                for order in step.copies
                for copy in self._copies_of(order.transaction, order.number)
            ]
        return step

    def planned(
        self,
        *,
        message_count_max: int = 1_000,
        bytes_max: int = 1_000_000,
        permits: int | dict[str, int] = 0,
    ) -> Step:
        step = self.plan(message_count_max=message_count_max, bytes_max=bytes_max, permits=permits)
        assert step is not None
        return step

    def written(self, *, permits: int | dict[str, int] = 0) -> Step:
        """Planned and committed; what it has appended is not read back yet."""
        step = self.planned(permits=permits)
        self.ledger.confirm(step)
        return step

    def read_back(self, step: Step) -> None:
        """Of the last step: its copies, then its op records."""
        self.read_copies()
        for mark in step.all_done:
            self.done(mark.identity[1], mark.ending, *mark.half_offsets, digests=mark.digests)
        for lost in step.conflicts:
            self.conflict(lost.identity[1], lost.losing_op_offset, lost.kind, *lost.half_offsets)

    def read_copies(self) -> None:
        """Of the last step: its copies only."""
        late, self._late_halves = self._late_halves, []
        for half in [*late, *self._stored_copies()]:
            self.ledger.half(half)

    def carried_out(self, *, permits: int | dict[str, int] = 0) -> Step:
        """Written, and read back."""
        step = self.written(permits=permits)
        self.read_back(step)
        return step

    def store(self, step: Step) -> None:
        """The step's records lie in the logs; this ledger does not hear of it."""
        self._stored_copies()
        for mark in step.all_done:
            where, halves = self._where(), tuple(mark.half_offsets)
            self.append(DoneRead(*where, mark.identity, mark.ending, halves, mark.digests))
        for lost in step.conflicts:
            where = self._where()
            losing, halves = lost.losing_op_offset, tuple(lost.half_offsets)
            self.append(ConflictRead(*where, lost.identity, lost.kind, losing, halves))

    def _copies_of(self, transaction: Transaction, number: int) -> list[HalfRead]:
        """What the owner appends for a copy order."""
        offsets = dict.fromkeys(o for _, o in transaction.messages())
        return [
            replace(
                half,
                check_count=number,
                first_stored_ms=transaction.stored_at_ms,
                first_half_offset=first_offset_of(half),
            )
            for half in self.halves
            if half.half_offset in offsets
        ]

    def _stored_copies(self) -> list[HalfRead]:
        copies, self._copies = self._copies, []
        stored = []
        for copy in copies:
            where = HalfOffset(self.next_half), TimestampMs(self.now_ms)
            stored.append(replace(copy, half_offset=where[0], stored_at_ms=where[1]))
            self.next_half += 1
        self.halves += stored
        return stored

    # -- what is there --------------------------------------------------------------------------

    def standing(self, name: str) -> Standing:
        return self.ledger.standing(identity_of(name))

    def transaction(self, name: str) -> Transaction:
        """An unfinished one."""
        found = self.ledger.find(identity_of(name))
        assert found is not None
        return found

    # -- takeover -------------------------------------------------------------------------------

    def successor(self, step: Step, *, ops_first: bool) -> LedgerScript:
        """A new owner that begins at the watermarks of this step, and has read all there is."""
        return self.heir((step.half_watermark, step.op_watermark), ops_first=ops_first)

    def heir(self, watermarks: tuple[int, int], *, ops_first: bool = False) -> LedgerScript:
        """A new owner that begins there, and has read all there is. Time has not come to it."""
        half_watermark, op_watermark = watermarks
        horizon_ms, finished_max, rules = self.limits
        heir = LedgerScript(
            half_position=half_watermark,
            op_position=op_watermark,
            horizon_ms=horizon_ms,
            finished_max=finished_max,
            rules=rules,
        )
        heir.now_ms = self.now_ms
        heir.halves, heir.ops = list(self.halves), list(self.ops)
        halves = [h for h in self.halves if h.half_offset >= half_watermark]
        ops = [o for o in self.ops if o.op_offset >= op_watermark]
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
