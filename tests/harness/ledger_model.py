"""What must have happened in a half partition, computed naively from the whole of both logs.

Nothing is incremental and nothing is shared with the ledger but the two record codecs and the names
of its values: each question goes through all records again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from halfhitch.core.model import (
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    HalfRead,
    Identity,
    Resolution,
    Standing,
)
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from harness.ledger_world import LedgerWorld, Log, Record

#: The contract's figure, not the ledger's constant: a decision counts for what begins at most a
#: minute after it.
EARLY_MS = 60_000


@dataclass
class History:
    """All that the logs say of one transaction, in log order."""

    identity: Identity
    halves: list[HalfRead] = field(default_factory=list)
    payloads: dict[int, bytes] = field(default_factory=dict)
    decisions: list[DecisionRead] = field(default_factory=list)
    done: list[DoneRead] = field(default_factory=list)
    conflicts: list[ConflictRead] = field(default_factory=list)

    @property
    def winner(self) -> DecisionRead | None:
        """The first decision that is not older than the transaction by more than a minute."""
        if not self.halves:
            return None
        began_ms = self.halves[0].stored_at_ms
        return next((d for d in self.decisions if began_ms <= d.stored_at_ms + EARLY_MS), None)

    @property
    def firsts(self) -> dict[int, HalfRead]:
        """The first copy of each message."""
        result: dict[int, HalfRead] = {}
        for half in self.halves:
            result.setdefault(half.index, half)
        return result

    @property
    def is_whole(self) -> bool:
        winner = self.winner
        if winner is None:
            return False
        if winner.resolution is Resolution.ROLLBACK:
            return True
        return all(index in self.firsts for index in range(winner.covered_count))

    @property
    def ending(self) -> int:
        winner = self.winner
        assert winner is not None
        return winner.covered_count if winner.resolution is Resolution.COMMIT else 0


def histories(half_log: Log, op_log: Log) -> dict[Identity, History]:
    """Everything that was ever written, deleted records included."""
    result: dict[Identity, History] = {}

    def of(identity: Identity) -> History:
        return result.setdefault(identity, History(identity))

    for offset, record in enumerate(half_log.records):
        for half in () if record is None else _halves(offset, record):
            of(half.identity).halves.append(half)
            of(half.identity).payloads[offset] = record.value or b""
    for offset, record in enumerate(op_log.records):
        for event in () if record is None else _entries(offset, record):
            history = of(event.identity)
            if isinstance(event, DecisionRead):
                history.decisions.append(event)
            elif isinstance(event, DoneRead):
                history.done.append(event)
            else:
                history.conflicts.append(event)
    return result


def _halves(offset: int, record: Record) -> list[HalfRead]:
    if not record.read:
        half = half_wire.read_identity(offset, record.stored_at_ms, 0, record.headers)
        record.read.append([] if isinstance(half, Garbage) else [half])
    return record.read[0]


def _entries(offset: int, record: Record) -> list[DecisionRead | DoneRead | ConflictRead]:
    if not record.read:
        events = op_wire.read(offset, record.stored_at_ms, record.value, record.headers)
        record.read.append([] if isinstance(events, Garbage) else events)
    return record.read[0]


class Judge:
    """Compares a world with the naive account of it."""

    def __init__(self, world: LedgerWorld) -> None:
        self.world = world
        self.histories = histories(world.half_log, world.op_log)

    # -- at any moment --------------------------------------------------------------------------

    def check_forwards(self) -> None:
        """Forwarded: only what is committed, once, whole, and the first copy of each message."""
        times = Counter(identity for identity, _ in self.world.forwarded)
        for identity, messages in self.world.forwarded:
            history = self.histories[identity]
            winner = history.winner
            assert winner is not None, f"{identity} was forwarded without a decision"
            assert winner.resolution is Resolution.COMMIT, f"{identity} is rolled back, yet visible"
            assert history.is_whole, f"{identity} was forwarded before all of it was there"
            assert times[identity] == 1, f"{identity} was forwarded {times[identity]} times"
            firsts = history.firsts
            assert messages == [
                (index, history.payloads[firsts[index].half_offset])
                for index in range(winner.covered_count)
            ], f"{identity} was not forwarded whole"

    def check_done_marks(self) -> None:
        """Every mark says how it ended, no half is marked twice, and none before its end."""
        forwarded = {identity for identity, _ in self.world.forwarded}
        for history in self.histories.values():
            marked = Counter(o for mark in history.done for o in mark.half_offsets)
            assert not marked or max(marked.values()) == 1, f"a half is done twice: {history.done}"
            assert set(marked) <= {half.half_offset for half in history.halves}
            for mark in history.done:
                assert mark.ending == history.ending
                assert (mark.ending > 0) is (history.identity in forwarded)

    def check_watermarks(self) -> None:
        """The half watermark lies exactly at the first half that needs something."""
        done = {o for h in self.histories.values() for m in h.done for o in m.half_offsets}
        half_watermark, op_watermark = self.world.watermarks
        needed = [
            half.half_offset
            for history in self.histories.values()
            for half in history.halves
            if half.half_offset not in done
        ]
        assert half_watermark <= min(needed, default=half_watermark), "passes a half that is needed"
        between = [
            offset
            for offset in range(half_watermark, min(needed, default=half_watermark))
            if self.world.half_log.records[offset] is not None
        ]
        # What was not read when the step was planned may lie above it, but nothing that is done.
        assert not done.intersection(between), "the half watermark stays behind for nothing"
        assert op_watermark <= self.world.op_log.end

    def check_all(self) -> None:
        """What must hold at any moment."""
        self.check_forwards()
        self.check_done_marks()
        self.check_watermarks()
        if self.world.is_owned:
            self.check_standings()

    def check_standings(self) -> None:
        """What the ledger says of each transaction follows from what it has read so far."""
        world = self.world
        half_log = Log(world.half_log.records[: world.half_position])
        op_log = Log(world.op_log.records[: world.op_position])
        read = histories(half_log, op_log)
        # What the step under way has committed, the ledger does not know before it is confirmed.
        known_end = world.op_log.end if world.step is None else world.step_op_offset
        confirmed = {
            history.identity: history.done[0].ending
            for history in self.histories.values()
            if history.done and history.done[0].op_offset < known_end
        }
        for identity in self.histories:
            history = read.get(identity) or History(identity)
            allowed = self._standings(history, confirmed.get(identity))
            standing = world.ledger.standing(identity)
            assert standing in allowed, f"{identity}: {standing}, but {allowed} is to be expected"

    def _standings(self, history: History, ending: int | None) -> set[Standing]:
        winner = history.winner
        if ending is not None:
            result = {Standing.COMMITTED if ending else Standing.ROLLED_BACK}
            read = self.world.op_position
            was_read = any(m.op_offset < read for m in self.histories[history.identity].done)
            if was_read and not self.is_remembered(history.identity, read):
                result |= {Standing.UNKNOWN, Standing.EARLY}
            return result
        if winner is not None:
            commit = winner.resolution is Resolution.COMMIT
            return {Standing.COMMITTING if commit else Standing.ROLLING_BACK}
        if history.halves:
            return {Standing.PENDING}
        if not history.decisions:
            return {Standing.UNKNOWN}
        newest_ms = max(d.stored_at_ms for d in history.decisions)
        kept = self.world.now_ms < newest_ms + EARLY_MS
        return {Standing.EARLY} if kept else {Standing.EARLY, Standing.UNKNOWN}

    def is_remembered(self, identity: Identity, before: int | None = None) -> bool:
        """Whether the memory's promise covers it: by log time, and by count.

        `before`: as seen when the op log was read up to there.
        """
        marks = self.histories[identity].done
        last = max((m for m in marks if before is None or m.op_offset < before),
                   key=lambda m: m.op_offset, default=None)  # fmt: skip
        if last is None:
            return False
        records = self.world.op_log.records[last.op_offset : before]
        newest_ms = max(record.stored_at_ms for record in records if record is not None)
        end = self.world.op_log.end if before is None else before
        others = sum(
            1
            for history in self.histories.values()
            for mark in history.done
            if last.op_offset <= mark.op_offset < end and mark.identity != identity
        )
        age_ms, horizon_ms = newest_ms - last.stored_at_ms, self.world.horizon_ms
        third = self.world.finished_max // 3
        # Two generations must pass, each by age or by count.
        return (age_ms < horizon_ms and others < third) or (
            age_ms < horizon_ms // 2 and others < 2 * third
        )

    # -- when everything was read and done --------------------------------------------------------

    def check_settled(self) -> None:
        """Every decided and whole transaction is carried out; all that lost is on record."""
        forwarded = {identity for identity, _ in self.world.forwarded}
        for history in self.histories.values():
            winner = history.winner
            if winner is None or not history.is_whole:
                assert not history.done, f"{history.identity} is not decided, yet done"
                assert not history.conflicts or winner is not None
                continue
            committed = winner.resolution is Resolution.COMMIT
            assert (history.identity in forwarded) is committed, f"{history.identity} is stuck"
            marked = {o for mark in history.done for o in mark.half_offsets}
            assert marked == {half.half_offset for half in history.halves}
        for history in self.histories.values():
            self._check_contrary(history)
            self._check_uncovered(history)

    def _check_contrary(self, history: History) -> None:
        """Every decision that lost is on record once.

        Two blurs are allowed, both only after a replay that no longer sees the first halves: a
        decision that was too old to count may be recorded as one that lost; and nothing needs to be
        on record when a copy of the halves is so late that the winner looks too old for it.
        """
        winner = history.winner
        recorded = Counter(
            c.losing_op_offset for c in history.conflicts if c.kind is ConflictKind.CONTRARY
        )
        contrary = {
            decision.op_offset: decision.op_offset > winner.op_offset
            for decision in history.decisions
            if winner is not None and decision.resolution is not winner.resolution
        }
        assert set(recorded) <= set(contrary), f"did not lose: {recorded} {history}"
        assert all(count == 1 for count in recorded.values()), f"recorded twice: {history}"
        if winner is not None and self._has_late_copies(history, winner):
            return
        for op_offset, lost in contrary.items():
            late = any(mark.op_offset < op_offset for mark in history.done)
            if lost and (not late or self.is_remembered(history.identity, op_offset + 1)):
                assert op_offset in recorded, f"lost, but not on record: {op_offset} {history}"

    @staticmethod
    def _has_late_copies(history: History, winner: DecisionRead) -> bool:
        return any(half.stored_at_ms > winner.stored_at_ms + EARLY_MS for half in history.halves)

    def _check_uncovered(self, history: History) -> None:
        winner = history.winner
        recorded = Counter(
            half_offset
            for c in history.conflicts
            if c.kind is ConflictKind.UNCOVERED
            for half_offset in c.half_offsets
        )
        uncovered: set[int] = set()
        copies: set[int] = set()
        if winner is not None and winner.resolution is Resolution.COMMIT and history.is_whole:
            beyond = [half for half in history.halves if half.index >= winner.covered_count]
            firsts = {half.half_offset for half in history.firsts.values()}
            uncovered = {half.half_offset for half in beyond if half.half_offset in firsts}
            copies = {half.half_offset for half in beyond} - uncovered
        assert uncovered <= set(recorded) <= uncovered | copies, f"uncovered: {history}"
        assert all(count == 1 for count in recorded.values()), f"recorded twice: {history}"
