"""What must have happened in a half partition, computed naively from the whole of both logs.

Nothing is incremental and nothing is shared with the ledger but the two record codecs and the names
of its values: each question goes through all records again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    HalfRead,
    Identity,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.core.standing import Standing
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from halfhitch.wire.parked import LateDecision, Parked, read_parked
from harness.ledger_world import LedgerWorld
from harness.logs import Log, Record

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
    def ends(self) -> list[DoneRead]:
        """Done marks that say how it ended; the others only clear away older copies."""
        return [mark for mark in self.done if mark.ending != COPIED]

    @property
    def is_whole(self) -> bool:
        winner = self.winner
        if winner is None:
            return False
        if winner.resolution is not Resolution.COMMIT:
            return True
        return all(index in self.firsts for index in range(self.covered_count))

    @property
    def commits(self) -> list[DecisionRead]:
        """The winning commit and all that say the same after it."""
        winner = self.winner
        if winner is None or winner.resolution is not Resolution.COMMIT:
            return []
        return [
            d
            for d in self.decisions
            if d.op_offset >= winner.op_offset and d.resolution is Resolution.COMMIT
        ]

    @property
    def covered_count(self) -> int:
        """Among equal commits the largest counts, until the first done mark fixes it."""
        for mark in self.ends:
            if mark.ending > 0:
                return mark.ending
        return max((decision.covered_count for decision in self.commits), default=0)

    @property
    def message_count(self) -> int:
        """As the memory of the finished may count them, for it counts messages; one at least."""
        return 1 + max((half.index for half in self.halves), default=0)

    @property
    def parked_indexes(self) -> list[int]:
        """Messages that are kept, in the order in which they got there.

        A mark parks what it names: the first one, of what is given up each that names another one.
        """
        result: list[int] = []
        for mark in self.ends:
            if mark.ending == GIVEN_UP or (mark.ending == PARKED and not result):
                named = {h.index for h in self.halves if h.half_offset in mark.half_offsets}
                result += sorted(named.difference(result))
        return result

    def may_end_with(self, mark: DoneRead) -> bool:
        """Whether a commit before the mark covers so many; one for all covers what is there."""
        before = [d for d in self.commits if d.op_offset < mark.op_offset]
        if not before or mark.ending < before[0].covered_count:
            return False
        if any(d.covered_count == mark.ending for d in before):
            return True
        is_there = all(index in self.firsts for index in range(mark.ending))
        return is_there and any(d.source is not ResolutionSource.PRODUCER for d in before)

    @property
    def ending(self) -> int:
        """How it ends. That something never came is seen by whoever has waited: see Judge."""
        winner = self.winner
        assert winner is not None
        if any(mark.ending == PARKED for mark in self.done):
            return PARKED
        endings = {Resolution.ROLLBACK: ROLLED_BACK, Resolution.PARK: GIVEN_UP}
        return endings.get(winner.resolution, self.covered_count)


def histories(half_log: Log, op_log: Log) -> dict[Identity, History]:
    """Everything that was ever written, deleted records included."""
    result: dict[Identity, History] = {}

    def of(identity: Identity) -> History:
        return result.setdefault(identity, History(identity))

    for offset, record in half_log.committed():
        for half in _halves(offset, record):
            of(half.identity).halves.append(half)
            of(half.identity).payloads[offset] = record.value or b""
    for offset, record in op_log.committed():
        for event in _entries(offset, record):
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
            assert winner.resolution is Resolution.COMMIT, f"{identity} is not committed, yet seen"
            assert history.is_whole, f"{identity} was forwarded before all of it was there"
            assert times[identity] == 1, f"{identity} was forwarded {times[identity]} times"
            firsts = history.firsts
            assert messages == [
                (index, history.payloads[firsts[index].half_offset])
                for index in range(history.covered_count)
            ], f"{identity} was not forwarded whole"

    def check_done_marks(self) -> None:
        """Every mark says how it ended, no half is marked twice, and none before its end."""
        forwarded = {identity for identity, _ in self.world.forwarded}
        for history in self.histories.values():
            marked = Counter(o for mark in history.done for o in mark.half_offsets)
            assert not marked or max(marked.values()) == 1, f"a half is done twice: {history.done}"
            halves = {half.half_offset: half for half in history.halves}
            assert set(marked) <= set(halves)
            for mark in history.done:
                if mark.ending == COPIED:
                    self._check_superseded(history, [halves[o] for o in mark.half_offsets])
                    continue
                assert mark.ending == history.ending, f"ends in another way: {mark} {history}"
                assert (mark.ending > 0) is (history.identity in forwarded)
                if mark.ending > 0:
                    assert history.may_end_with(mark), f"covers another part: {mark} {history}"
                if mark.ending == PARKED:
                    winner = history.winner
                    assert winner is not None
                    waited_ms = history.ends[0].stored_at_ms - winner.stored_at_ms
                    assert waited_ms >= self.world.rules.incomplete_ms, f"not waited for: {history}"

    @staticmethod
    def _check_superseded(history: History, halves: list[HalfRead]) -> None:
        """An older copy may go when the newer one is there."""
        for half in halves:
            newer = [
                other
                for other in history.halves
                if other.index == half.index and other.half_offset > half.half_offset
            ]
            assert any(other.first_stored_ms >= 0 for other in newer), f"half is lost: {history}"

    def check_parked(self) -> None:
        """What is given up, or never became whole, is kept: each message once, as it came."""
        parked: dict[Identity, list[tuple[int, bytes]]] = {}
        for offset, record in self.world.parked_log.committed():
            if isinstance(read_parked(offset, record.headers), Parked):
                half = half_wire.read_identity(offset, 0, 0, record.headers)
                assert not isinstance(half, Garbage)
                parked.setdefault(half.identity, []).append((half.index, record.value or b""))
        for history in self.histories.values():
            firsts = history.firsts
            expected = [
                (i, history.payloads[firsts[i].half_offset]) for i in history.parked_indexes
            ]
            found = parked.get(history.identity, [])
            assert found == expected, f"parked: {found}, expected {expected}: {history}"

    def check_copies(self) -> None:
        """A copy is the message as it came first, and its number is the next or the same."""
        for history in self.histories.values():
            firsts, count = history.firsts, 0
            for half in history.halves:
                if half.first_stored_ms < 0:
                    assert half.check_count == 0
                    continue
                first = firsts[half.index]
                assert half.half_offset > first.half_offset, f"a copy of nothing: {history}"
                payloads = history.payloads
                assert payloads[half.half_offset] == payloads[first.half_offset], f"{history}"
                assert half.first_stored_ms == history.halves[0].stored_at_ms, f"age: {history}"
                assert count <= half.check_count <= count + 1, f"numbers: {history}"
                count = half.check_count
        numbers: dict[Identity, list[int]] = {}
        for asked in self.world.appended.asked:
            numbers.setdefault(asked.identity, []).append(asked.number)
            assert asked.before_is_known, f"counted, but the last was not delivered: {asked}"
            winner = self.histories[asked.identity].winner
            is_open = winner is None or winner.op_offset >= asked.op_position
            assert is_open, f"asked what is decided: {asked}"
            assert asked.number <= self.world.rules.count_max, f"asked too often: {asked}"
        for identity, found in numbers.items():
            assert found == list(range(1, len(found) + 1)), f"numbers of {identity}: {found}"

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
        lowest = min(needed, default=half_watermark)
        assert half_watermark <= lowest, "passes a half that is needed"
        between = [o for o, _ in self.world.half_log.committed(lowest) if o >= half_watermark]
        # What was not read when the step was planned may lie above it, but nothing that is done.
        assert not done.intersection(between), "the half watermark stays behind for nothing"
        assert op_watermark <= self.world.op_log.end

    def check_all(self) -> None:
        """What must hold at any moment."""
        self.check_forwards()
        self.check_done_marks()
        self.check_parked()
        self.check_copies()
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
            history.identity: history.ends[0].ending
            for history in self.histories.values()
            if history.ends and history.ends[0].op_offset < known_end
        }
        for identity in self.histories:
            history = read.get(identity) or History(identity)
            allowed = self._standings(history, confirmed.get(identity))
            standing = world.ledger.standing(identity)
            assert standing in allowed, f"{identity}: {standing}, but {allowed} is to be expected"

    def _standings(self, history: History, ending: int | None) -> set[Standing]:
        winner = history.winner
        if ending is not None:
            result = {_ENDED.get(ending, Standing.COMMITTED)}
            read = self.world.op_position
            was_read = any(m.op_offset < read for m in self.histories[history.identity].ends)
            if was_read and not self.is_remembered(history.identity, read):
                result |= {Standing.UNKNOWN, Standing.EARLY}
            return result
        if winner is not None:
            return {_UNDER_WAY[winner.resolution]}
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
        marks = self.histories[identity].ends
        last = max((m for m in marks if before is None or m.op_offset < before),
                   key=lambda m: m.op_offset, default=None)  # fmt: skip
        if last is None:
            return False
        records = self.world.op_log.committed(before)
        newest_ms = max(r.stored_at_ms for offset, r in records if offset >= last.op_offset)
        end = self.world.op_log.end if before is None else before
        others = sum(
            history.message_count
            for history in self.histories.values()
            for mark in history.ends
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
            if winner is None or not (history.is_whole or history.ends):
                assert not history.ends, f"{history.identity} is not decided, yet done"
                assert not history.conflicts or winner is not None
                continue
            committed = history.ending > 0
            assert (history.identity in forwarded) is committed, f"{history.identity} is stuck"
            marked = {o for mark in history.done for o in mark.half_offsets}
            assert marked == {half.half_offset for half in history.halves}
        for history in self.histories.values():
            self._check_contrary(history)
            self._check_uncovered(history)
        self._check_notes()

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
            if winner is not None
            and Resolution.PARK not in (winner.resolution, decision.resolution)
            and decision.resolution is not winner.resolution
        }
        assert set(recorded) <= set(contrary), f"did not lose: {recorded} {history}"
        assert all(count == 1 for count in recorded.values()), f"recorded twice: {history}"
        if winner is not None and self._has_late_copies(history, winner):
            return
        for op_offset, lost in contrary.items():
            late = any(mark.op_offset < op_offset for mark in history.ends)
            if lost and (not late or self.is_remembered(history.identity, op_offset + 1)):
                assert op_offset in recorded, f"lost, but not on record: {op_offset} {history}"

    def _check_notes(self) -> None:
        """A decision that came after the giving up lies beside what is parked, and nothing else."""
        noted: dict[Identity, set[int]] = {}
        for offset, record in self.world.parked_log.committed():
            note = read_parked(offset, record.headers)
            if isinstance(note, LateDecision):
                history = self.histories[_identity_of(note)]
                (decision,) = [d for d in history.decisions if d.op_offset == note.op_offset][:1]
                assert decision.resolution.value == note.decision
                noted.setdefault(history.identity, set()).add(note.op_offset)
        for history in self.histories.values():
            winner = history.winner
            found = noted.get(history.identity, set())
            late = set()
            if winner is not None and winner.resolution is Resolution.PARK:
                late = {
                    d.op_offset
                    for d in history.decisions
                    if d.op_offset > winner.op_offset and d.resolution is not Resolution.PARK
                }
            assert found <= late, f"noted, but not late: {found} {history}"
            for op_offset in late - found:
                assert any(m.op_offset < op_offset for m in history.ends), f"not noted: {history}"
                assert not self.is_remembered(history.identity, op_offset + 1), f"{history}"

    @staticmethod
    def _has_late_copies(history: History, winner: DecisionRead) -> bool:
        """Of those that clients have sent; one that was appended anew knows when it was young."""
        return any(
            half.stored_at_ms > winner.stored_at_ms + EARLY_MS
            for half in history.halves
            if half.first_stored_ms < 0
        )

    def _check_uncovered(self, history: History) -> None:
        """Of each message that the commit does not cover one half is on record, once."""
        winner = history.winner
        recorded = Counter(
            half_offset
            for c in history.conflicts
            if c.kind is ConflictKind.UNCOVERED
            for half_offset in c.half_offsets
        )
        beyond: dict[int, set[int]] = {}
        if winner is not None and history.is_whole and history.ending > 0:
            copied = {o for m in history.done if m.ending == COPIED for o in m.half_offsets}
            for half in history.halves:
                if half.index >= history.covered_count and half.half_offset not in copied:
                    beyond.setdefault(half.index, set()).add(half.half_offset)
        assert set(recorded) <= set().union(*beyond.values()), f"covered: {history}"
        assert all(half_offsets & set(recorded) for half_offsets in beyond.values()), f"{history}"
        assert all(count == 1 for count in recorded.values()), f"recorded twice: {history}"


_ENDED = {
    ROLLED_BACK: Standing.ROLLED_BACK,
    PARKED: Standing.PARKED,
    GIVEN_UP: Standing.GIVEN_UP,
}
_UNDER_WAY = {
    Resolution.COMMIT: Standing.COMMITTING,
    Resolution.ROLLBACK: Standing.ROLLING_BACK,
    Resolution.PARK: Standing.GIVING_UP,
}


def _identity_of(note: LateDecision) -> Identity:
    return ProducerGroup(note.producer_group), TransactionId(note.transaction_id)
