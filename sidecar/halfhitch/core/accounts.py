"""What the ledger of a half partition holds, what it can be asked, and how transactions leave it.

Owns the collections: unfinished transactions, the memory of finished ones, watermarks, conflicts,
notes. How transactions come in and move is ledger.py.
"""

from collections.abc import Iterator

from halfhitch.core.answers import Answers
from halfhitch.core.check_rules import CheckRules
from halfhitch.core.checks import Checks
from halfhitch.core.finished import Finished
from halfhitch.core.late import LateMarks
from halfhitch.core.model import (
    GIVEN_UP,
    ROLLED_BACK,
    DecisionRead,
    DoneRead,
    HalfRead,
    Identity,
    Resolution,
    TimestampMs,
)
from halfhitch.core.notes import LateNotes
from halfhitch.core.ready import Ready
from halfhitch.core.step import Step
from halfhitch.core.transaction import State, Transaction, Trigger
from halfhitch.core.watermarks import Watermarks


class Accounts(Answers):
    """State of a ledger; positions are those of the next record to be read."""

    def __init__(
        self,
        *,
        half_position: int,
        op_position: int,
        horizon_ms: int,
        finished_max: int,
        rules: CheckRules | None = None,
    ) -> None:
        super().__init__(Finished(horizon_ms=horizon_ms, count_max=finished_max))
        self._ready = Ready()
        self._decided_count = self._written_count = 0
        self._marks = Watermarks(half_position, op_position)
        self._late = LateMarks(self._ready, self._marks)
        self._notes = LateNotes()
        self._step: Step | None = None
        self._stored_ms = TimestampMs(-1)  # of the transaction that began last
        self.checks = Checks(rules or CheckRules())
        self.unknown_decision_count = 0  # early decisions that expired; read and reset by the owner
        #: Done marks of what we have not written: a predecessor's, or, when the replay is over,
        #: those of somebody who owns the partition now.
        self.foreign_count = 0
        #: Their halves were appended anew by us, and the copies have not been read back yet.
        self.unread_copies: set[Identity] = set()

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
            self._conflicts.add(event.identity, event.op_offset)

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
