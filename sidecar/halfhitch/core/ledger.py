"""The ledger of one half partition: records go in, what one Kafka transaction must do comes out.

Owns: every unfinished transaction of the partition, the memory of finished ones, both low
watermarks. Memory is always the fold of the two logs: live reading and replay call the same four
methods (`half`, `decision`, `done`, `conflict`), so after a crash the same records give the same
state, whichever log was read faster.

Turn of the owner:
  read records -> feed them -> `plan` -> write the step as ONE Kafka transaction -> `confirm`
  (or `abort` when it is surely not committed; when nobody can say, drop the ledger and replay).

Invariants:
- The first decision in the op log wins (the first that is meant for the transaction: early.py).
- A step contains whole transactions only, in the order in which they became ready.
- half watermark: every half offset below it needs nothing more.
  op watermark: replay from it rebuilds all that halves at or above the half watermark need, and the
  memory of the finished. Both are computed as they will hold once the step is committed.
- While a step is out nothing is fed: the owner's thread does one thing after another.

Not here: payloads (the owner keeps them by half offset), time (ages come in), checks.
"""

from collections import deque
from typing import Final

from halfhitch.core.conflicts import Conflicts
from halfhitch.core.early import EarlyDecisions, is_meant_for
from halfhitch.core.finished import Finished
from halfhitch.core.late import LateMarks
from halfhitch.core.model import (
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    HalfRead,
    Identity,
    OpOffset,
    Resolution,
    Standing,
)
from halfhitch.core.step import Step, assemble
from halfhitch.core.transaction import State, Transaction, Trigger
from halfhitch.core.watermarks import Watermarks
from halfhitch.errors import invariant

__all__ = ["Ledger", "Step"]

_ENDED_AS: Final = {ROLLED_BACK: Standing.ROLLED_BACK, PARKED: Standing.PARKED}


class Ledger:
    """See the module's text. Positions are those of the next record to be read."""

    def __init__(
        self, *, half_position: int, op_position: int, horizon_ms: int, finished_max: int
    ) -> None:
        self._by_identity: dict[Identity, Transaction] = {}
        self._ready: deque[Transaction] = deque()  # bounded by what is unfinished
        self._early = EarlyDecisions()
        self._decided_count = self._written_count = 0
        self._finished = Finished(horizon_ms=horizon_ms, count_max=finished_max)
        self._conflicts = Conflicts()
        self._marks = Watermarks(half_position, op_position)
        self._late = LateMarks(self._ready, self._marks)
        self._step: Step | None = None
        self.unknown_decision_count = 0  # early decisions that expired; read and reset by the owner

    # -- what was read ---------------------------------------------------------------------------

    def half(self, event: HalfRead) -> None:
        """A half record; whatever it turns out to be, it is needed until a done mark names it."""
        invariant(self._step is None, "a half was fed while a step is out")
        transaction = self._by_identity.get(event.identity)
        if transaction is None:
            ending = self._finished.ending(event.identity)
            if ending is None:
                self._first_half(event)
            else:
                self._late_half(event, ending)
        elif transaction.state is State.WRITTEN:
            self._late_half(event, transaction.ending)
        else:
            transaction.take(event.index, event.half_offset, event.size_bytes)
            self._marks.half_read(event.half_offset, transaction)
            if transaction.state is State.AWAITING and transaction.is_whole:
                transaction.move(Trigger.COMPLETED)
                self._ready.append(transaction)

    def op(self, event: DecisionRead | DoneRead | ConflictRead) -> None:
        """One entry of an op record."""
        if isinstance(event, DecisionRead):
            self.decision(event)
        elif isinstance(event, DoneRead):
            self.done(event)
        else:
            self.conflict(event)

    def decision(self, event: DecisionRead) -> None:
        """A decision: the first one of its transaction wins."""
        invariant(self._step is None, "a decision was fed while a step is out")
        self._finished.advance(event.stored_at_ms, event.op_offset)
        self._marks.op_read(event.op_offset)
        transaction = self._by_identity.get(event.identity)
        if transaction is not None:
            self._apply(transaction, event)
            return
        ending = self._finished.ending(event.identity)
        if ending is None:
            self._early.add(event)
        else:
            self._late_decision(event, ending)

    def done(self, event: DoneRead) -> None:
        """A done mark: of our own step, or (on replay) of an owner before us."""
        invariant(self._step is None, "a done mark was fed while a step is out")
        identity = event.identity
        self._finished.advance(event.stored_at_ms, event.op_offset)
        # Remembered before it is let go: whoever asks from another thread finds one of them.
        self._finished.remember(identity, event.ending)
        self._marks.done_read(event.op_offset, event.half_offsets)
        transaction = self._by_identity.pop(identity, None)
        for half_offset in event.half_offsets:
            holder = self._marks.holder(half_offset)
            if holder is not None and holder.identity == identity:
                if holder is not transaction:  # a late half whose own mark this is
                    holder.move(Trigger.DONE_READ)
                self._marks.half_done(half_offset)
        self._late.done_read(identity)
        if transaction is None:
            # Its halves lie below where this replay began, or are all marked already.
            for op_offset in self._early.losers(identity, event.ending):
                self._conflicts.add(identity, op_offset)
        elif transaction.state is State.WRITTEN:
            self._written_count -= 1
            transaction.move(Trigger.DONE_READ)
        else:
            self._finished_before_us(transaction, event.ending)

    def conflict(self, event: ConflictRead) -> None:
        """A conflict that is on record: do not record it again."""
        invariant(self._step is None, "a conflict was fed while a step is out")
        self._finished.advance(event.stored_at_ms, event.op_offset)
        self._marks.op_read(event.op_offset)
        if event.kind is ConflictKind.CONTRARY:
            self._conflicts.recorded(event.identity, event.losing_op_offset)
            # Replay began between the winner and this loser: it must not win now.
            self._early.lost(event.identity, event.losing_op_offset)

    def pass_half(self, half_offset: int) -> None:
        """A half record that could not be read: passed over, never needed."""
        self._marks.half_passed(half_offset)

    def pass_op(self, op_offset: int) -> None:
        """An op record that could not be read."""
        self._marks.op_read(OpOffset(op_offset))

    def expire_early(self, half_read_until_ms: int) -> None:
        """All halves stored before this broker time were read: drop decisions without a half."""
        self.unknown_decision_count += self._early.expire(half_read_until_ms)

    # -- what to do ------------------------------------------------------------------------------

    def plan(self, *, message_count_max: int, bytes_max: int) -> Step | None:
        """The next step, or None: nothing to do. At least one transaction, however large."""
        invariant(self._step is None, "a step is planned while another is out")
        chosen: list[Transaction] = []
        messages = size_bytes = 0
        while self._ready and (
            not chosen or (messages < message_count_max and size_bytes < bytes_max)
        ):
            transaction = self._ready.popleft()
            if transaction.state is not State.READY:
                continue  # finished by a done mark while it waited here
            transaction.move(Trigger.PLANNED)
            chosen.append(transaction)
            messages += transaction.message_count
            size_bytes += transaction.size_bytes
        if not chosen and not self._conflicts:
            return None
        watermarks = self._marks.after_step(
            self._finished.first_op_offset,
            (self._early.first_op_offset, self._conflicts.left_from()),
        )
        self._step = assemble(chosen, self._conflicts.for_step(), watermarks)
        return self._step

    def confirm(self, step: Step) -> None:
        """The step's Kafka transaction is committed."""
        self._take_back(step)
        self._marks.confirmed(step.half_watermark)
        for transaction, mark in zip(step.transactions, step.done, strict=True):
            transaction.move(Trigger.CONFIRMED)
            if transaction.resolution is not None:
                self._decided_count -= 1
                self._written_count += 1
            for half_offset in mark.half_offsets:
                self._marks.half_done(half_offset)
        for conflict in step.conflicts:
            if conflict.kind is ConflictKind.CONTRARY:
                self._conflicts.recorded(conflict.identity, conflict.losing_op_offset)

    def abort(self, step: Step) -> None:
        """The step's Kafka transaction is surely not committed: all of it is to be done again."""
        self._take_back(step)
        for transaction in step.transactions:
            transaction.move(Trigger.ABORTED)
            transaction.parked = False
        self._ready.extendleft(reversed(step.transactions))

    def _take_back(self, step: Step) -> None:
        invariant(self._step is step, "this is not the step that is out")
        self._step = None

    # -- what is known ---------------------------------------------------------------------------

    def standing(self, identity: Identity) -> Standing:
        """May be asked from another thread: single dictionary look-ups, a moment old at worst."""
        transaction = self._by_identity.get(identity)
        if transaction is None:
            ending = self._finished.ending(identity)
            if ending is not None:
                return _ENDED_AS.get(ending, Standing.COMMITTED)
            return Standing.EARLY if self._early.has(identity) else Standing.UNKNOWN
        if transaction.resolution is None:
            return Standing.PENDING
        commit = transaction.resolution is Resolution.COMMIT
        if transaction.state in (State.WRITTEN, State.FINISHED):
            return _ENDED_AS.get(transaction.ending, Standing.COMMITTED)
        return Standing.COMMITTING if commit else Standing.ROLLING_BACK

    @property
    def reads_op(self) -> bool:
        """False while too many decisions wait for halves that have not been read."""
        return not self._early.is_full

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Pending, decided with a half, early, remembered as finished: for people."""
        decided = self._decided_count
        pending = len(self._by_identity) - decided - self._written_count
        return pending, decided, self._early.count, len(self._finished)

    @property
    def positions(self) -> tuple[int, int]:
        """Next half and op offset to be read."""
        return self._marks.half_position, self._marks.op_position

    @property
    def early_count(self) -> int:
        """Decisions whose half has not been read."""
        return self._early.count

    # -- how a transaction begins and is decided -------------------------------------------------

    def _first_half(self, event: HalfRead) -> None:
        transaction = Transaction(event.identity, State.PENDING, event.stored_at_ms)
        transaction.take(event.index, event.half_offset, event.size_bytes)
        self._by_identity[event.identity] = transaction
        self._marks.half_read(event.half_offset, transaction)
        if self._early.count:
            for decision in self._early.take(event.identity):
                self._apply(transaction, decision)

    def _apply(self, transaction: Transaction, event: DecisionRead) -> None:
        if transaction.resolution is not None:
            if transaction.resolution is not event.resolution:
                self._conflicts.add(event.identity, event.op_offset)
            return
        if not is_meant_for(event, transaction.stored_at_ms):
            self.unknown_decision_count += 1
            return
        transaction.decide(event.resolution, event.covered_count, event.op_offset)
        self._decided_count += 1
        self._marks.decided(transaction)
        if transaction.is_whole:
            transaction.move(Trigger.DECIDED_WHOLE)
            self._ready.append(transaction)
        else:
            transaction.move(Trigger.DECIDED)

    # -- what comes late, or was done before us --------------------------------------------------

    def _late_half(self, event: HalfRead, ending: int) -> None:
        half_offset, memory = event.half_offset, self._finished.first_op_offset
        mark = self._late.copy(event.identity, ending, event.index, half_offset, memory)
        self._marks.half_read(half_offset, mark)

    def _late_decision(self, event: DecisionRead, ending: int) -> None:
        self._late.repeat(event.identity, ending, event.op_offset)
        if (event.resolution is Resolution.COMMIT) is not (ending != ROLLED_BACK):
            self._conflicts.add(event.identity, event.op_offset)

    def _finished_before_us(self, transaction: Transaction, ending: int) -> None:
        """Replay: somebody finished it. Copies that came after his mark need one of their own."""
        identity = transaction.identity
        if transaction.resolution is not None:
            self._decided_count -= 1
            if (transaction.ending == ROLLED_BACK) is not (ending == ROLLED_BACK):
                # The winner lies below where this replay began, and all that lost against it is on
                # record: what won here is one of those, and what lost against that did not lose.
                self._conflicts.withdraw(identity)
        transaction.move(Trigger.DONE_READ)
        memory = self._finished.first_op_offset
        for index, half_offset in transaction.indexed_halves():
            if self._marks.holder(half_offset) is transaction:
                mark = self._late.copy(identity, ending, index, half_offset, memory)
                self._marks.hand_over(half_offset, mark)
