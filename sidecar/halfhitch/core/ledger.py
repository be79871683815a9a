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

One class, and longer than a module should be: how records come in, how transactions are decided,
how they leave and what may be asked are only understood together. What other threads ask are single
look-ups, a moment old at worst: the ledger's own thread changes things in an order in which whoever
asks in between finds the state before or the state after.

Check-back is in checks.py; here it is tied in. Not here: payloads (the owner keeps them by half
offset), time (`tick` brings it).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from halfhitch.core.check_rules import CheckRules
from halfhitch.core.checks import Checks
from halfhitch.core.conflicts import Conflicts
from halfhitch.core.early import EarlyDecisions, is_meant_for
from halfhitch.core.finished import Finished
from halfhitch.core.late import LateMarks
from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    ROLLED_BACK,
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
)
from halfhitch.core.notes import LateNotes
from halfhitch.core.ready import Ready
from halfhitch.core.standing import Standing
from halfhitch.core.states import State, Trigger
from halfhitch.core.step import Step, assemble
from halfhitch.core.transaction import CopyOrder, Transaction
from halfhitch.core.watermarks import Watermarks
from halfhitch.errors import invariant

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_ABORTED: Final = Trigger.ABORTED
_AWAITING: Final = State.AWAITING
_COMMIT: Final = Resolution.COMMIT
_COMPLETED: Final = Trigger.COMPLETED
_CONFIRMED: Final = Trigger.CONFIRMED
_COPY_PLANNED: Final = Trigger.COPY_PLANNED
_DECIDED: Final = Trigger.DECIDED
_DECIDED_WHOLE: Final = Trigger.DECIDED_WHOLE
_DONE_READ: Final = Trigger.DONE_READ
_EXTENDED: Final = Trigger.EXTENDED
_PARK: Final = Resolution.PARK
_PENDING: Final = State.PENDING
_WRITTEN: Final = State.WRITTEN
#: Decided, and not carried out yet.
_EXTENSIBLE: Final = (State.AWAITING, State.READY, State.ASIDE)

__all__ = ["Ledger", "Step"]


class Ledger:
    """See the module's text."""

    def __init__(
        self,
        *,
        half_position: int,
        op_position: int,
        horizon_ms: int,
        finished_max: int,
        rules: CheckRules,
    ) -> None:
        self._by_identity: dict[Identity, Transaction] = {}
        self._early = EarlyDecisions()
        self._finished = Finished(horizon_ms=horizon_ms, count_max=finished_max)
        self._conflicts = Conflicts()
        self._ready = Ready()
        self._decided_count = self._written_count = 0
        self._marks = Watermarks(half_position, op_position)
        self._late = LateMarks(self._ready, self._marks)
        self._notes = LateNotes()
        self._step: Step | None = None
        self._stored_ms = TimestampMs(-1)  # of the transaction that began last
        self.checks = Checks(rules)
        self.unknown_decision_count = 0  # early decisions that expired; read and reset by the owner
        #: Done marks of what we have not written: a predecessor's, or, when the replay is over,
        #: those of somebody who owns the partition now.
        self.foreign_count = 0
        #: Their halves were appended anew by us, and the copies have not been read back yet.
        self.unread_copies: set[Identity] = set()

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
        even_empty: bool = False,
    ) -> Step | None:
        """The next step, or None: nothing to do. At least one transaction, however large.

        `even_empty`: somebody has something else to write with it.

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
        is_empty = not taken and not copies and not self._conflicts and not notes
        if is_empty and not even_empty:
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
            self.checks.began_before(transaction, _first_stored_ms(event), event.immunity_ms)
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

    # -- how transactions are decided: the first decision wins, later ones may extend it ---------

    def _born_decided(
        self, transaction: Transaction, event: HalfRead, resolution: Resolution
    ) -> None:
        """The half says so: it was put back so, or appended anew while a target was away."""
        self.checks.decided(transaction)
        transaction.carries_decision = True
        how = OpOffset(self._marks.op_position), event.stored_at_ms, None, None
        self._decide(transaction, resolution, event.born_count, how)

    def _apply(self, transaction: Transaction, event: DecisionRead) -> None:
        if event.resolution is _PARK and event.op_offset <= transaction.fence:
            return  # said of a life before this one
        if transaction.resolution is not None:
            if event.resolution is _PARK:
                return  # a policy gave it up when it was decided already; nobody lost
            if transaction.resolution is _PARK:
                self._notes.add(event)
            elif transaction.resolution is not event.resolution:
                self._conflicts.add(event.identity, event.op_offset, event)
            elif event.resolution is _COMMIT and transaction.state in _EXTENSIBLE:
                self._extend(transaction, event)
            return
        if not is_meant_for(event, transaction.began_at, transaction.stored_at_ms):
            self.unknown_decision_count += 1
            return
        answer = event.resolution if event.source is ResolutionSource.CHECK else None
        self.checks.decided(transaction, answer)
        covered_count = event.covered_count
        if event.is_about_all and event.resolution is _COMMIT:
            covered_count = max(covered_count, *(i + 1 for i, _ in transaction.messages()), 0)
            transaction.covers_all = True
        how = event.op_offset, event.stored_at_ms, event.reason, event.source
        self._decide(transaction, event.resolution, covered_count, how)

    def _extend(self, transaction: Transaction, event: DecisionRead) -> None:
        """Among equal commits the one that covers most counts, until the done mark fixes it."""
        extended = transaction.extend(event.covered_count, covers_all=event.is_about_all)
        if extended and transaction.state is not _AWAITING and not transaction.is_whole:
            transaction.move(_EXTENDED)
            self.checks.awaits(transaction)

    def _decide(
        self,
        transaction: Transaction,
        resolution: Resolution,
        covered_count: int,
        how: tuple[OpOffset, TimestampMs, str | None, ResolutionSource | None],
    ) -> None:
        transaction.decide(resolution, covered_count, *how)
        self._decided_count += 1
        self._marks.decided(transaction)
        if transaction.is_whole:
            transaction.move(_DECIDED_WHOLE)
            self._ready.append(transaction)
        else:
            transaction.move(_DECIDED)
            self.checks.awaits(transaction)

    # -- what is known ---------------------------------------------------------------------------

    def awaits_copies(self, identity: Identity) -> bool:
        """Whether copies that we have appended are still to be read back."""
        transaction = self._by_identity.get(identity)
        return transaction is not None and transaction.missing_count > 0

    def find(self, identity: Identity) -> Transaction | None:
        """An unfinished transaction."""
        return self._by_identity.get(identity)

    def pending(self) -> Iterator[Transaction]:
        """All that are undecided, those first whose first half was stored first."""
        return (t for t in self._by_identity.values() if t.resolution is None)

    def sort_by_age(self) -> None:
        """Once, when a replay is over: `pending` begins with the oldest.

        The halves of one that was appended anew, for a check, lie behind those of younger ones.
        """
        by_age = sorted(self._by_identity.items(), key=lambda item: item[1].stored_at_ms)
        self._by_identity = dict(by_age)

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
    def ready(self) -> Ready:
        """Those whose outcome can be written; some of them may be put aside."""
        return self._ready

    @property
    def positions(self) -> tuple[int, int]:
        """Next half and op offset to be read."""
        return self._marks.half_position, self._marks.op_position

    @property
    def early_count(self) -> int:
        """Decisions whose half has not been read."""
        return self._early.count

    # -- what has not come -----------------------------------------------------------------------

    def expire_early(self, half_read_until_ms: int) -> None:
        """All halves stored before this broker time were read: drop decisions without a half."""
        self.unknown_decision_count += self._early.expire(half_read_until_ms)

    def end_incomplete(self) -> None:
        """Decided long ago, but messages are missing, and the half log was read: park what came."""
        incomplete, self.checks.incomplete = self.checks.incomplete, []
        for transaction in incomplete:
            if transaction.state is not State.AWAITING:
                continue
            if transaction.missing_count:
                self.checks.awaits(transaction)
            else:
                transaction.parked = True
                transaction.move(Trigger.INCOMPLETE)
                self._ready.append(transaction)

    # -- what a half says ------------------------------------------------------------------------

    def _take(self, transaction: Transaction, event: HalfRead, *, supersedes: bool) -> None:
        """A further half, which is a copy of one that is there, or a message of a reused id."""
        other = transaction.take(
            event.index,
            event.half_offset,
            event.size_bytes,
            supersedes=supersedes,
            digest=event.digest,
        )
        if other >= 0:
            self._conflicts.reused(event.identity, other)

    # -- what comes late, or was done before us --------------------------------------------------

    def _late_half(self, event: HalfRead, ending: int) -> None:
        half_offset, memory = event.half_offset, self._finished.first_op_offset
        identity, index, digests = event.identity, event.index, self._digests(event.identity)
        mark = self._late.copy(identity, ending, index, half_offset, memory, digests)
        says_the_same = mark.says(index, event.digest)
        if ending == GIVEN_UP and index and not self._was_parked(identity, index):
            mark.stored_at_ms, mark.size_bytes = event.stored_at_ms, event.size_bytes
            says_the_same = self._late.park(mark, index, event.digest, event.resumed_count)
        else:
            self._late_first(mark, index, event.digest)
        if not says_the_same:
            self._conflicts.reused(identity, half_offset)
        self._marks.half_read(half_offset, mark)

    def _was_parked(self, identity: Identity, index: int) -> bool:
        """Whether this message of a transaction that was given up was parked with the others."""
        transaction = self._by_identity.get(identity)
        if transaction is not None:
            return not transaction.digest or index in (transaction.further or ())
        return self._finished.was_parked(identity, index)

    def _late_message(
        self, transaction: Transaction, mark: Transaction, index: int, resumed_count: int
    ) -> None:
        """A half of one that was given up before this message of it was read: park it as well."""
        mark.stored_at_ms = transaction.stored_at_ms
        mark.size_bytes = transaction.size_bytes // transaction.message_count
        self._late.park(mark, index, transaction.digest_of(index), resumed_count)

    def _late_first(self, mark: Transaction, index: int, digest: int) -> None:
        """A half that the end did not know: what comes next under its index is compared with it.

        An end that says nothing of any message is an older release's: this may be but a copy.
        """
        if not digest or not any(mark.digests) or mark.digest_of(index):
            return
        self._late.first(mark, index, digest)
        transaction = self._by_identity.get(mark.identity)
        if transaction is not None:
            transaction.learn(index, digest)
        self._finished.learn(mark.identity, index, digest)

    def _late_read(self, event: DoneRead) -> None:
        """A mark was read, and tells more of what came late than was known."""
        if self._late.is_idle:
            return
        if others := self._late.done_read(event):
            self._conflicts.same_after_all(event.identity)
            for half_offset in others:
                self._conflicts.reused(event.identity, half_offset)
        for index, mark in self._late.firsts(event.identity).items():
            self._finished.learn(event.identity, index, mark.digest_of(index))

    def _late_decision(self, event: DecisionRead, ending: int) -> None:
        self._late.repeat(event.identity, ending, event.op_offset, self._digests(event.identity))
        if ending == GIVEN_UP:
            self._notes.add(event)
        elif (event.resolution is Resolution.COMMIT) is not (ending != ROLLED_BACK):
            self._conflicts.add(event.identity, event.op_offset, event)

    def _finished_before_us(self, transaction: Transaction, ending: int) -> None:
        """Replay: somebody finished it. Copies that came after his mark need one of their own."""
        identity = transaction.identity
        self.foreign_count += 1
        self.checks.decided(transaction)
        if transaction.resolution is not None:
            self._decided_count -= 1
            if (transaction.ending == ROLLED_BACK) is not (ending == ROLLED_BACK):
                # The winner lies below where this replay began, and all that lost against it is on
                # record: what won here is one of those, and what lost against that did not lose.
                self._conflicts.withdraw(identity)
        transaction.move(Trigger.DONE_READ)
        memory, digests = self._finished.first_op_offset, self._finished.digests(identity)
        firsts = dict(transaction.messages())
        # What seemed to be the first message of an index was another one, as the mark tells now:
        # then those that were judged by it are not. With the right one the judgement stands.
        wrong = {
            index
            for index, known in enumerate(digests)
            if known and transaction.digest_of(index) not in (0, known)
        }
        if wrong:
            self._conflicts.same_after_all(identity)
        for index, half_offset in transaction.indexed_halves():
            if self._marks.holder(half_offset) is transaction:
                mark = self._late.copy(identity, ending, index, half_offset, memory, digests)
                self._marks.hand_over(half_offset, mark)
                if ending == GIVEN_UP and index and not self._finished.was_parked(identity, index):
                    self._late_message(transaction, mark, index, 0)
                elif firsts.get(index) == half_offset:
                    self._late_first(mark, index, transaction.digest_of(index))
                if index in wrong and firsts.get(index) == half_offset:
                    self._conflicts.reused(identity, half_offset)

    def _copied_before_us(self, event: DoneRead) -> None:
        """The transaction goes on with newer copies; our own mark finds nothing to do."""
        self._marks.done_read(event.op_offset, event.half_offsets)
        for half_offset in event.half_offsets:
            holder = self._marks.holder(half_offset)
            if holder is not None and holder.identity == event.identity:
                self.foreign_count += 1
                holder.drop(half_offset)
                self._marks.half_done(half_offset)

    # -- lives: a transaction that was parked may be put back -------------------------------------

    def _former_life(self, transaction: Transaction) -> None:
        """A half of its next life was read: it is parked, although its mark was not read yet."""
        memory, identity = self._finished.first_op_offset, transaction.identity
        resumed_count = transaction.resumed_count
        for index, half_offset in transaction.indexed_halves():
            if self._marks.holder(half_offset) is transaction:
                # All but late ones have a mark, which is still to be read.
                mark = self._late.copy(identity, GIVEN_UP, index, half_offset, memory)
                self._marks.hand_over(half_offset, mark)
                is_known = not resumed_count and self._finished.digest(identity, index)
                if index and transaction.digest_of(index) and not is_known:
                    # Unless a mark says that it was: a replay reads those after the halves.
                    self._late_message(transaction, mark, index, resumed_count)
        self.checks.decided(transaction)
        if transaction.state is State.WRITTEN:
            self._written_count -= 1
        elif transaction.resolution is not None:
            self._decided_count -= 1
        transaction.move(Trigger.DONE_READ)

    def _is_of_former_life(self, event: DoneRead) -> bool:
        """Whether the mark of one that was put back speaks of a life before the present one.

        All marks up to the note that it was put back do; after it only those of late copies and of
        late decisions of that time, which name no half of the present life.
        """
        transaction = self._by_identity[event.identity]
        if event.op_offset <= transaction.fence:
            return True
        named = set(event.half_offsets)
        return event.ending < 0 and named.isdisjoint(transaction.half_offsets())

    def _former_mark(self, event: DoneRead) -> None:
        self._marks.done_read(event.op_offset, event.half_offsets)
        for half_offset in event.half_offsets:
            holder = self._marks.holder(half_offset)
            if holder is not None and holder.identity == event.identity:
                holder.move(Trigger.DONE_READ)  # a late copy: the present life is not named
                self._marks.half_done(half_offset)
        self._late_read(event)

    def _decided_too_late(self, event: DoneRead) -> None:
        """It ended without its halves being seen here; so did what was decided too late for it."""
        if event.ending == GIVEN_UP:
            early = list(self._early.take(event.identity))
            gave_up = [decision.resolution is Resolution.PARK for decision in early]
            # Those before it were not meant for it; with none here it lies below the replay.
            for decision in early[gave_up.index(True) if True in gave_up else 0 :]:
                self._notes.add(decision)
        else:
            for op_offset in self._early.losers(event.identity, event.ending):
                self._conflicts.add(event.identity, op_offset)

    # -- what other threads may ask ----------------------------------------------------------------

    def standing(self, identity: Identity) -> Standing:
        """May be asked from another thread: single dictionary look-ups, a moment old at worst."""
        transaction = self._by_identity.get(identity)
        if transaction is None:
            ending = self._finished.ending(identity)
            if ending is not None:
                return Standing.of_ending(ending)
            return Standing.EARLY if self._early.has(identity) else Standing.UNKNOWN
        if transaction.resolution is None:
            return Standing.PENDING
        if transaction.state in (State.WRITTEN, State.FINISHED):
            return Standing.of_ending(transaction.ending)
        return Standing.of_resolution(transaction.resolution)

    def covered_count(self, identity: Identity) -> int:
        """How many messages its commit covers; 0 when it is not known to be committed.

        May be asked from another thread, as `standing`.
        """
        transaction = self._by_identity.get(identity)
        if transaction is None:
            return max(0, self._finished.ending(identity) or 0)
        return transaction.covered_count if transaction.resolution is Resolution.COMMIT else 0

    def is_reused(self, half_offsets: Sequence[int]) -> bool:
        """Whether one of these halves says another thing than the first one of its id and index.

        As far as it is remembered; may be asked from another thread.
        """
        return self._conflicts.is_reused(half_offsets)

    def differs(self, identity: Identity, first_index: int, digests: Sequence[int]) -> bool:
        """Whether messages with these digests are others than those that the id stands for.

        May be asked from another thread. What is not known differs from nothing.
        """
        for index, digest in enumerate(digests, first_index):
            known = self._digest(identity, index)
            if known and digest and known != digest:
                return True
        # What a decision that is carried out does not cover cannot come to it any more.
        ending = self._finished.ending(identity)
        return ending is not None and 0 < ending < first_index + len(digests)

    def _digest(self, identity: Identity, index: int) -> int:
        transaction = self._by_identity.get(identity)
        if transaction is None:
            return self._finished.digest(identity, index)
        return transaction.digest_of(index)

    def _digests(self, identity: Identity) -> tuple[int, ...]:
        transaction = self._by_identity.get(identity)
        return self._finished.digests(identity) if transaction is None else transaction.digests


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
