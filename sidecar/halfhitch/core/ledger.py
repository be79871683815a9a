"""The ledger of one half partition: records go in, what one Kafka transaction must do comes out.

Owns: every unfinished transaction of the partition, the memory of finished ones, both low
watermarks. Memory is always the fold of the two logs: live reading and replay call the same four
methods (`half`, `decision`, `done`, `conflict`), so after a crash the same records give the same
state.

Turn of the owner:
  read records -> feed them -> `plan` -> write the step as ONE Kafka transaction -> `confirm`
  (or `abort` when it is surely not committed; when nobody can say, drop the ledger and replay).

Invariants:
- The first decision in the op log wins; op records are fed in log order.
- A step contains whole transactions only, in the order of their decisions.
- half watermark: every half offset below it needs nothing more.
  op watermark: replay from it rebuilds all that halves at or above the half watermark need, and the
  memory of the finished. Both are computed as they will hold once the step is committed.
- While a step is out nothing is fed: the owner's thread does one thing after another.

Not here: payloads (the owner keeps them by half offset), time (ages come in), checks.
"""

from collections import deque
from dataclasses import dataclass

from halfhitch.core.conflicts import Conflicts
from halfhitch.core.early import EarlyDecisions
from halfhitch.core.finished import Finished
from halfhitch.core.model import (
    ROLLED_BACK,
    ConflictKind,
    ConflictMark,
    ConflictRead,
    DecisionRead,
    DoneMark,
    DoneRead,
    HalfOffset,
    HalfRead,
    Identity,
    OpOffset,
    Resolution,
    Standing,
)
from halfhitch.core.transaction import State, Transaction, Trigger
from halfhitch.core.watermarks import Watermarks
from halfhitch.errors import invariant


@dataclass(slots=True)
class Step:
    """What ONE Kafka transaction must do. `forwards`: in order, the halves of each transaction."""

    forwards: list[list[HalfOffset]]
    done: list[DoneMark]
    conflicts: list[ConflictMark]
    half_watermark: int
    op_watermark: int
    transactions: list[Transaction]


class Ledger:
    """See the module's text. Positions are those of the next record to be read."""

    def __init__(
        self, *, half_position: int, op_position: int, horizon_ms: int, finished_max: int
    ) -> None:
        self._by_identity: dict[Identity, Transaction] = {}
        self._ready: deque[Transaction] = deque()
        self._early = EarlyDecisions()
        self._decided_count = 0  # early ones included
        self._finished = Finished(horizon_ms=horizon_ms, count_max=finished_max)
        self._conflicts = Conflicts()
        self._repeats: dict[Identity, Transaction] = {}
        self._marks = Watermarks(half_position, op_position)
        self._step: Step | None = None
        self.unknown_decision_count = 0  # early decisions that expired; read and reset by the owner

    # -- what was read ---------------------------------------------------------------------------

    def half(self, event: HalfRead) -> None:
        """A half record; whatever it turns out to be, it is needed until a done mark names it."""
        invariant(self._step is None, "a half was fed while a step is out")
        identity, half_offset = event.identity, event.half_offset
        transaction = self._by_identity.get(identity)
        if transaction is None:
            ending = self._finished.ending(identity)
            if ending is not None:
                self._late_half(event, ending)
                return
            transaction = Transaction(identity, State.PENDING)
            self._by_identity[identity] = transaction
        elif not transaction.has_half:
            self._early.count -= 1
        transaction.take(event.index, half_offset, event.size_bytes)
        self._marks.half_read(half_offset, transaction)
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
        op_offset, identity = event.op_offset, event.identity
        self._finished.advance(event.stored_at_ms, op_offset)
        self._marks.op_read(op_offset)
        transaction = self._by_identity.get(identity)
        if transaction is None:
            ending = self._finished.ending(identity)
            if ending is not None:
                self._late_decision(event, ending)
                return
            transaction = Transaction(identity, State.PENDING)
            self._by_identity[identity] = transaction
            self._early.add(event.stored_at_ms, transaction)
        elif transaction.resolution is not None:
            if transaction.resolution is not event.resolution:
                self._conflicts.add(ConflictKind.CONTRARY, identity, op_offset, [])
            return
        transaction.decide(event.resolution, event.covered_count, op_offset)
        self._decided_count += 1
        self._marks.decided(transaction)
        if transaction.is_whole:
            transaction.move(Trigger.DECIDED_WHOLE)
            self._ready.append(transaction)
        else:
            transaction.move(Trigger.DECIDED)

    def done(self, event: DoneRead) -> None:
        """A done mark: of our own step, or (on replay) of an owner before us."""
        invariant(self._step is None, "a done mark was fed while a step is out")
        identity = event.identity
        self._finished.advance(event.stored_at_ms, event.op_offset)
        self._finished.remember(identity, event.ending)
        self._marks.done_read(event.op_offset, event.half_offsets)
        transaction = self._by_identity.pop(identity, None)
        if transaction is not None:
            self._uncount(transaction)
            transaction.move(Trigger.DONE_READ)
        for half_offset in event.half_offsets:
            holder = self._marks.holder(half_offset)
            if holder is not None and holder.identity == identity:
                if holder is not transaction:  # a late half whose own mark this is
                    holder.move(Trigger.DONE_READ)
                self._marks.half_done(half_offset)
        repeat = self._repeats.pop(identity, None)
        if repeat is not None:
            repeat.move(Trigger.DONE_READ)
        if transaction is not None:
            self._hand_over_copies(transaction, event.ending)

    def conflict(self, event: ConflictRead) -> None:
        """A conflict that is on record: do not record it again."""
        invariant(self._step is None, "a conflict was fed while a step is out")
        self._finished.advance(event.stored_at_ms, event.op_offset)
        self._marks.op_read(event.op_offset)
        self._conflicts.recorded(event.kind, event.identity, event.losing_op_offset)
        transaction = self._by_identity.get(event.identity)
        if (
            transaction is not None
            and event.kind is ConflictKind.CONTRARY
            and transaction.decided_op_offset == event.losing_op_offset
            and not transaction.has_half
        ):
            # Replay began between the winner and this loser: it must not win now as an early
            # decision.
            self._forget(transaction)

    def pass_half(self, half_offset: int) -> None:
        """A half record that could not be read: passed over, never needed."""
        self._marks.half_passed(half_offset)

    def pass_op(self, op_offset: int) -> None:
        """An op record that could not be read."""
        self._marks.op_read(OpOffset(op_offset))

    def expire_early(self, half_read_until_ms: int) -> None:
        """All halves stored before this broker time were read: drop decisions without a half."""
        while (transaction := self._early.expired(half_read_until_ms)) is not None:
            self._forget(transaction)
            self.unknown_decision_count += 1

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
        forwards: list[list[HalfOffset]] = []
        for transaction in chosen:
            if transaction.resolution is Resolution.COMMIT:
                forwards.append(list(transaction.covered()))
                self._record_uncovered(transaction)
        done = [DoneMark(t.identity, _ending(t), t.half_offsets()) for t in chosen]
        conflicts = self._conflicts.for_step()
        half_watermark, op_watermark = self._marks.after_step(self._finished.first_op_offset)
        left = self._conflicts.left_from()
        if left is not None:
            op_watermark = min(op_watermark, left)
        self._step = Step(forwards, done, conflicts, half_watermark, op_watermark, chosen)
        return self._step

    def confirm(self, step: Step) -> None:
        """The step's Kafka transaction is committed."""
        self._take_back(step)
        self._marks.confirmed(step.half_watermark)
        for transaction in step.transactions:
            transaction.move(Trigger.CONFIRMED)
            identity = transaction.identity
            if self._by_identity.get(identity) is transaction:
                # Remembered before it is let go: whoever asks from another thread finds one of
                # them.
                self._finished.remember(identity, _ending(transaction))
                del self._by_identity[identity]
                self._uncount(transaction)
            elif self._repeats.get(identity) is transaction:
                del self._repeats[identity]
            for half_offset in transaction.half_offsets():
                self._marks.half_done(half_offset)
        for mark in step.conflicts:
            self._conflicts.recorded(mark.kind, mark.identity, mark.losing_op_offset)

    def abort(self, step: Step) -> None:
        """The step's Kafka transaction is surely not committed: all of it is to be done again."""
        self._take_back(step)
        for transaction in step.transactions:
            transaction.move(Trigger.ABORTED)
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
            if ending is None:
                return Standing.UNKNOWN
            return Standing.ROLLED_BACK if ending == ROLLED_BACK else Standing.COMMITTED
        if transaction.resolution is None:
            return Standing.PENDING
        if not transaction.has_half:
            return Standing.EARLY
        commit = transaction.resolution is Resolution.COMMIT
        return Standing.COMMITTING if commit else Standing.ROLLING_BACK

    @property
    def reads_op(self) -> bool:
        """False while too many decisions wait for halves that have not been read."""
        return not self._early.is_full

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Pending, decided with a half, early, remembered as finished: for people."""
        decided, early = self._decided_count, self._early.count
        return len(self._by_identity) - decided, decided - early, early, len(self._finished)

    @property
    def positions(self) -> tuple[int, int]:
        """Next half and op offset to be read."""
        return self._marks.half_position, self._marks.op_position

    @property
    def early_count(self) -> int:
        """Decisions whose half has not been read."""
        return self._early.count

    # -- what comes late -------------------------------------------------------------------------

    def _late_half(self, event: HalfRead, ending: int) -> None:
        """A half of a finished transaction: nothing to forward, only a done mark of its own."""
        half_offset = event.half_offset
        self._marks.half_read(
            half_offset, self._nothing_but_a_mark(event.identity, ending, half_offset)
        )
        if ending != ROLLED_BACK and event.index >= ending:
            # The winner's own op offset is no longer known; the position will do to tell conflicts
            # apart.
            losing_op_offset = OpOffset(self._marks.op_position)
            self._conflicts.add(
                ConflictKind.UNCOVERED, event.identity, losing_op_offset, [half_offset]
            )

    def _hand_over_copies(self, transaction: Transaction, ending: int) -> None:
        """Copies that came after the done mark was written need a mark of their own.

        Else a later replay that begins above the mark would take them for a new transaction.
        """
        for half_offset in transaction.half_offsets():
            if self._marks.holder(half_offset) is transaction:
                late = self._nothing_but_a_mark(transaction.identity, ending, half_offset)
                self._marks.hand_over(half_offset, late)

    def _late_decision(self, event: DecisionRead, ending: int) -> None:
        commit = ending != ROLLED_BACK
        if commit is not (event.resolution is Resolution.COMMIT):
            self._conflicts.add(ConflictKind.CONTRARY, event.identity, event.op_offset, [])
        elif event.identity not in self._repeats:
            # Equal and late: the done mark is repeated, so that whoever waits for it on another
            # instance sees it after his own decision, and nobody has to remember who waits.
            transaction = self._nothing_but_a_mark(event.identity, ending, None)
            transaction.decided_op_offset = event.op_offset
            self._marks.decided(transaction)
            self._repeats[event.identity] = transaction

    def _nothing_but_a_mark(
        self, identity: Identity, ending: int, half_offset: HalfOffset | None
    ) -> Transaction:
        transaction = Transaction(identity, State.READY)
        transaction.covered_count = ending  # no resolution: nothing is forwarded
        if half_offset is not None:
            transaction.first = half_offset
        self._ready.append(transaction)
        return transaction

    def _record_uncovered(self, transaction: Transaction) -> None:
        uncovered = transaction.uncovered()
        if uncovered:
            op_offset = transaction.decided_op_offset
            self._conflicts.add(ConflictKind.UNCOVERED, transaction.identity, op_offset, uncovered)

    def _forget(self, transaction: Transaction) -> None:
        transaction.move(Trigger.EXPIRED)
        del self._by_identity[transaction.identity]
        self._uncount(transaction)

    def _uncount(self, transaction: Transaction) -> None:
        if transaction.resolution is not None:
            self._decided_count -= 1
        if not transaction.has_half:
            self._early.count -= 1


def _ending(transaction: Transaction) -> int:
    return (
        ROLLED_BACK if transaction.resolution is Resolution.ROLLBACK else transaction.covered_count
    )
