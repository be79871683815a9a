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

Check-back is in checks.py; here it is tied in. Not here: payloads (the owner keeps them by half
offset), time (`tick` brings it).
"""

from collections.abc import Sequence
from typing import Final

from halfhitch.core.checks import CopyOrder
from halfhitch.core.decisions import Decisions
from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    HalfOffset,
    HalfRead,
    OpOffset,
    ProducerGroup,
    Resolution,
    TimestampMs,
)
from halfhitch.core.step import Step, assemble
from halfhitch.core.transaction import State, Transaction, Trigger
from halfhitch.errors import invariant

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_PARK: Final = Resolution.PARK
_AWAITING: Final = State.AWAITING
_PENDING: Final = State.PENDING
_WRITTEN: Final = State.WRITTEN
_ABORTED: Final = Trigger.ABORTED
_COMPLETED: Final = Trigger.COMPLETED
_CONFIRMED: Final = Trigger.CONFIRMED
_COPY_PLANNED: Final = Trigger.COPY_PLANNED
_DONE_READ: Final = Trigger.DONE_READ

__all__ = ["Ledger", "Step"]


class Ledger(Decisions):
    """See the module's text."""

    # -- what was read ---------------------------------------------------------------------------

    def half(self, event: HalfRead) -> None:
        """A half record; whatever it turns out to be, it is needed until a done mark names it."""
        if self._step is not None:
            invariant(condition=False, sentence="a half was fed while a step is out")
        transaction = self._by_identity.get(event.identity)
        if transaction is None:
            ending = self._finished.ending(event.identity)
            if ending is None:
                self._first_half(event)
            elif ending < 0 and event.resumed_count:
                self._finished.forget(event.identity)
                self._first_half(event)
            else:
                self._late_half(event, ending)
        elif event.resumed_count > transaction.resumed_count:
            self._former_life(transaction)
            self._first_half(event)
        elif event.resumed_count < transaction.resumed_count and not _joins(transaction, event):
            self._late_half(event, GIVEN_UP)
        elif transaction.state is _WRITTEN:
            self._late_half(event, transaction.ending)
        else:
            self._further_half(transaction, event)

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
        if self._step is not None:
            invariant(condition=False, sentence="a decision was fed while a step is out")
        self._finished.advance(event.stored_at_ms, event.op_offset)
        self._marks.op_read(event.op_offset)
        self._conflicts.decided(event)
        transaction = self._by_identity.get(event.identity)
        if transaction is not None:
            self._apply(transaction, event)
        else:
            ending = self._finished.ending(event.identity)
            if ending is None:
                self._early.add(event)
            elif event.resolution is not _PARK:
                self._late_decision(event, ending)

    def done(self, event: DoneRead) -> None:
        """A done mark: of our own step, or (on replay) of an owner before us."""
        if self._step is not None:
            invariant(condition=False, sentence="a done mark was fed while a step is out")
        identity = event.identity
        self._finished.advance(event.stored_at_ms, event.op_offset)
        if event.ending == COPIED:
            self._copied_before_us(event)
            return
        transaction = self._by_identity.get(identity)
        if transaction is not None and transaction.resumed_count and self._is_of_former_life(event):
            self._former_mark(event)
            return
        # Remembered before it is let go: whoever asks from another thread finds one of them.
        self._finished.remember(identity, event.ending, event.digests)
        self._marks.done_read(event.op_offset, event.half_offsets)
        transaction = self._by_identity.pop(identity, None)
        for half_offset in event.half_offsets:
            holder = self._marks.holder(half_offset)
            if holder is not None and holder.identity == identity:
                if holder is not transaction:  # a late half whose own mark this is
                    holder.move(_DONE_READ)
                self._marks.half_done(half_offset)
        self._late_read(event)
        if transaction is None:
            # Its halves lie below where this replay began, or are all marked already.
            self._decided_too_late(event)
        elif transaction.state is _WRITTEN:
            self._written_count -= 1
            transaction.move(_DONE_READ)
        else:
            self._finished_before_us(transaction, event.ending)

    def conflict(self, event: ConflictRead) -> None:
        """A conflict that is on record: do not record it again."""
        invariant(self._step is None, "a conflict was fed while a step is out")
        self._finished.advance(event.stored_at_ms, event.op_offset)
        self._marks.op_read(event.op_offset)
        self._conflicts.recorded(event)
        if event.kind is ConflictKind.CONTRARY:
            # Replay began between the winner and this loser: it must not win now.
            self._early.lost(event.identity, event.losing_op_offset)

    def pass_half(self, half_offset: int) -> None:
        """A half record that could not be read: passed over, never needed."""
        self._marks.half_passed(half_offset)

    def pass_op(self, op_offset: int) -> None:
        """An op record that could not be read."""
        self._marks.op_read(OpOffset(op_offset))

    # -- what to do ------------------------------------------------------------------------------

    def tick(self, now_ms: int, calendar_ms: int | None = None) -> None:
        """Time has come to here. The first tick says that the replay is over."""
        self.checks.tick(now_ms, calendar_ms)

    def plan(
        self,
        *,
        message_count_max: int,
        bytes_max: int,
        rooms: dict[ProducerGroup, int] | None = None,
        chosen: Sequence[Transaction] | None = None,
        renewals: Sequence[Transaction] = (),
        with_notes: bool = True,
    ) -> Step | None:
        """The next step, or None: nothing to do. At least one transaction, however large.

        `rooms`: how many of each group may be checked now; what is used is taken off there.
        `chosen`: these of what `ready.look` shows and no others, while some target is away.
        `renewals`: of those that were put aside, to be appended anew with their decision.
        """
        invariant(self._step is None, "a step is planned while another is out")
        notes = self._notes.for_step() if with_notes else []
        if chosen is None:
            taken = self._ready.choose(message_count_max, bytes_max)
        else:
            taken = self._ready.take(chosen)
        copies = [CopyOrder(t, t.check_count) for t in renewals]
        for order in copies:
            order.transaction.move(_COPY_PLANNED)
        copies += self._copies(message_count_max, bytes_max, rooms)
        if not taken and not copies and not self._conflicts and not notes:
            return None
        watermarks = self._marks.after_step(
            self._finished.first_op_offset,
            (
                self._early.first_op_offset,
                self._conflicts.left_from(),
                self._notes.left_from(len(notes)),
            ),
        )
        self._step = assemble(taken, copies, self._conflicts.for_step(), notes, watermarks)
        return self._step

    def _copies(
        self, message_count_max: int, bytes_max: int, rooms: dict[ProducerGroup, int] | None
    ) -> list[CopyOrder]:
        """Half as much as a step may forward, so that neither has to wait for the other."""
        copies: list[CopyOrder] = []
        messages = size_bytes = 0
        orders = self.checks.copies({} if rooms is None else rooms)
        while not copies or (messages * 2 < message_count_max and size_bytes * 2 < bytes_max):
            order = next(orders, None)
            if order is None:
                break
            order.transaction.move(_COPY_PLANNED)
            copies.append(order)
            messages += order.transaction.message_count
            size_bytes += order.transaction.size_bytes
        return copies

    def confirm(self, step: Step) -> None:
        """The step's Kafka transaction is committed; `tick` has brought the time since."""
        self._take_back(step)
        self._marks.confirmed(step.half_watermark)
        for transaction, mark in zip(step.transactions, step.done, strict=True):
            transaction.move(_CONFIRMED)
            if transaction.resolution is not None:
                self._decided_count -= 1
                self._written_count += 1
            for half_offset in mark.half_offsets:
                self._marks.half_done(half_offset)
        for order, mark in zip(step.copies, step.copied, strict=True):
            order.transaction.move(_CONFIRMED)
            order.transaction.lift()
            self.unread_copies.add(order.transaction.identity)
            if order.transaction.resolution is None:
                self.checks.copied(order)
            else:
                order.transaction.carries_decision = True
            for half_offset in mark.half_offsets:
                self._marks.half_done(half_offset)
        for note in step.notes:
            self._notes.written(note)
        for conflict in step.conflicts:
            self._conflicts.recorded(conflict)

    def abort(self, step: Step) -> None:
        """The step's Kafka transaction is surely not committed: all of it is to be done again."""
        self._take_back(step)
        for transaction in step.transactions:
            transaction.move(_ABORTED)
            if transaction.resolution is _COMMIT:
                transaction.parked = transaction.parked and not transaction.is_whole
        for order in reversed(step.copies):
            order.transaction.move(_ABORTED)
            if order.transaction.resolution is None:
                self.checks.copy_failed(order)
        self._ready.extendleft(reversed(step.transactions))

    def _take_back(self, step: Step) -> None:
        invariant(self._step is step, "this is not the step that is out")
        self._step = None

    # -- how a transaction begins and is decided -------------------------------------------------

    def _first_half(self, event: HalfRead) -> None:
        stored_ms = _first_stored_ms(event)
        if stored_ms == self._stored_ms:
            stored_ms = self._stored_ms  # those of one batch share one number
        self._stored_ms = stored_ms
        transaction = Transaction(event.identity, _PENDING, stored_ms)
        transaction.began_at = event.half_offset
        if event.first_half_offset >= 0:
            transaction.began_at = HalfOffset(event.first_half_offset)
        transaction.resumed_count, transaction.fence = event.resumed_count, event.fence
        transaction.take(event.index, event.half_offset, event.size_bytes, digest=event.digest)
        self._by_identity[event.identity] = transaction
        self._marks.half_read(event.half_offset, transaction)
        self.checks.begins(transaction, stored_ms, event.immunity_ms)
        if event.check_count:
            self.checks.found_copy(transaction, event.check_count, event.stored_at_ms)
        if event.born is not None:
            self._born_decided(transaction, event, event.born)
        if self._early.count:
            for decision in self._early.take(event.identity):
                if decision.resolution is not _PARK:  # that is said of what was read
                    self._apply(transaction, decision)

    def _further_half(self, transaction: Transaction, event: HalfRead) -> None:
        is_copy = event.first_stored_ms >= 0
        if event.first_stored_ms > 0 and transaction.missing_count:
            transaction.missing_count -= 1  # our own, read back
            if not transaction.missing_count:
                self.unread_copies.discard(transaction.identity)
        elif event.check_count > transaction.check_count:
            self.checks.found_copy(transaction, event.check_count, event.stored_at_ms)
        if 0 <= event.first_half_offset < transaction.began_at:
            # A replay has met a client's late duplicate first: this copy knows the beginning.
            transaction.began_at = HalfOffset(event.first_half_offset)
            self.checks.began_before(transaction, _first_stored_ms(event))
        self._take(transaction, event, supersedes=is_copy)
        self._marks.half_read(event.half_offset, transaction)
        transaction.cover_what_follows()
        if event.born is not None and transaction.resolution is None:
            # A replay that has seen an older copy, too.
            self._born_decided(transaction, event, event.born)
        elif transaction.state is _AWAITING and transaction.is_whole:
            transaction.move(_COMPLETED)
            self.checks.completed(transaction)
            self._ready.append(transaction)
        elif transaction.parked and transaction.is_whole:
            transaction.parked = False  # the last message came in the very moment of giving it up


def _joins(transaction: Transaction, event: HalfRead) -> bool:
    """Whether a half of a life before this one is a message of this one.

    It was added when the transaction had been put back already, or is our own copy of such a one.
    All others are late duplicates of what was put back.
    """
    is_known = event.index == 0 or event.index in (transaction.further or ())
    return event.first_stored_ms > 0 or not is_known


def _first_stored_ms(event: HalfRead) -> TimestampMs:
    """Whether a decision is meant for it, and its age, follow from the first copy."""
    return TimestampMs(event.first_stored_ms) if event.first_stored_ms > 0 else event.stored_at_ms
