"""The owner's side of the check-back: what is due, who may be asked, what goes into the step.

Belongs to one owner and its thread. From other threads come only `report` (what became of a check)
and `ask` (questions of people); both leave something in a queue that the next turn empties.

A turn: `begin` (time, reports, giving up, permits) -> the step is planned with those permits ->
`records` (the copies that the step appends) -> `sent_after` when the step is committed, `put_back`
when it is not.
"""

import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.model import HalfOffset, Identity, ProducerGroup
from halfhitch.core.transaction import Transaction
from halfhitch.crash_points import reached
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import (
    Clock,
    Doubt,
    DoubtIndex,
    Observer,
    PartitionReader,
    TargetRecord,
    WriteResult,
)
from halfhitch.service.api import Filter, Undecided
from halfhitch.service.checking.api import COUNTED, OUTCOME_OF, CheckGate, CheckOutcome, CheckReport
from halfhitch.service.checking.policy import POLICY_NAMES, GiveUpPolicy
from halfhitch.service.owner.calendar import Calendar
from halfhitch.service.owner.copying import Copying
from halfhitch.service.owner.listing import Listing
from halfhitch.service.owner.many import Named, names_of
from halfhitch.service.owner.numbers import CheckNumbers, check_numbers
from halfhitch.service.owner.payloads import PayloadCache
from halfhitch.service.owner.questions import CheckQuestions, born_ms, topics_of
from halfhitch.service.owner.told_index import ToldIndex
from halfhitch.service.owner.turn_lookups import TurnLookups
from halfhitch.wire.check import Check

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Transactions that are given up in one turn; their topics may have to be read back.
_GIVE_UP_MAX: Final = 100
#: Groups that are remembered as known to those who may know somebody.
_NOTICED_MAX: Final = 10_000
_NOTICE_AGAIN_S: Final = 10.0
#: Reports that wait for the owner; they are no more than permits.
_REPORTS_MAX: Final = 1_000_000
#: Kafka is asked for the op log's end this often at most.
_CURRENT_S: Final = 0.25
#: A check whose step took longer than this waits until decisions are known again.
_STALE_S: Final = 2.0


class CheckBack:
    """See the module's text."""

    def __init__(
        self,
        partition: int,
        *,
        gate: CheckGate,
        index: DoubtIndex | None,
        policy: GiveUpPolicy,
        questions: CheckQuestions,
        observer: Observer,
        clock: Clock,
        payloads: PayloadCache,
        reader: PartitionReader,
        on_nobody: Callable[[ProducerGroup], None] | None = None,
    ) -> None:
        """`on_nobody` is told of each group that has to be asked and has nobody live, and again
        after a while: who answers by a URL may have been forgotten among too many groups."""
        self._partition = partition
        self._gate = gate
        self._index = index
        self._told_index = ToldIndex(partition, index)
        self._policy = policy
        self._questions = questions
        self._observer = observer
        self._clock = clock
        self._payloads = payloads
        self._reader = reader
        self._on_nobody = on_nobody
        self.calendar = Calendar(partition, clock)
        self._copying = Copying(partition, half_topic=questions.half_topic, clock=clock)
        self._noticed: set[ProducerGroup] = set()
        self._noticed_s = 0.0
        self._reports: deque[CheckReport] = deque(maxlen=_REPORTS_MAX)
        self._asked = TurnLookups(partition, reader.wake)
        self.listing = Listing(
            partition, payloads=payloads, reader=reader, clock=clock, view=self.view
        )
        self._given_up: set[Identity] = set()  # told of, and not known to be decided
        self._rooms: dict[ProducerGroup, int] = {}
        self._held: dict[ProducerGroup, int] = {}  # permits of the checks in the step that is out
        self._questions_out: list[Check] = []
        self.numbers = CheckNumbers()
        self._numbers_s = 0.0
        self._op_goal: int | None = None  # where the op log ended at `_op_goal_s`: to be reached
        self._op_goal_s = 0.0
        self._op_known_s: float | None = None  # all that was stored before this was read
        self._begun_s = 0.0  # when the permits of this turn were taken
        self._scale_ms = 0  # the ledger's time at `_scale_s` of our clock
        self._scale_s = 0.0
        self.on_report: Callable[[CheckReport], None] = lambda _: None  # on the owner's thread

    # -- from other threads ----------------------------------------------------------------------

    def report(self, report: CheckReport) -> None:
        """What became of a check."""
        self._reports.append(report)

    def ask(self, question: Callable[[Ledger], T]) -> "Future[T]":
        """Have this answered in the owner's next turn: see TurnLookups."""
        return self._asked.ask(question)

    # -- the owner's thread ----------------------------------------------------------------------

    def start_clock(self, newest_ms: int) -> None:
        """The replay is over; the last half is of this broker time (0: there was none).

        The earlier one of two clocks counts: neither a broker nor this machine with a clock that is
        ahead may make a transaction look older than it is. After this no clock but ours is looked
        at, and of ours only how much time passes.
        """
        wall_ms = self._clock.wall_ms()
        self._scale_ms = min(newest_ms, wall_ms) if newest_ms > 0 else wall_ms
        self._scale_s = self._clock.monotonic_s()
        self._op_goal = self._op_known_s = None
        self.calendar.clear()
        if self._index is not None:
            self._index.owns(self._partition, is_owned=True, by=self)

    def now_ms(self) -> int:
        """On the ledger's scale."""
        return self._scaled_ms(self._clock.monotonic_s())

    def _scaled_ms(self, monotonic_s: float) -> int:
        return self._scale_ms + int((monotonic_s - self._scale_s) * 1000)

    def tick(self, ledger: Ledger) -> None:
        """Before anything is fed: what is read now was stored before now."""
        ledger.tick(self.now_ms(), self.calendar.now_ms())

    def begin(self, ledger: Ledger, *, is_fed: bool = True) -> dict[ProducerGroup, int]:
        """Everything before the plan; gives the permits that the plan may use.

        `is_fed`: nothing that was read waits to be fed.
        """
        while self._reports:
            self._apply(ledger, self._reports.popleft())
        self._asked.answer(ledger)
        self._give_up(ledger)
        self._tell_index(ledger)
        self._count(ledger)
        self._rooms = {}
        self._take_permits(ledger, is_fed=is_fed)
        has_copies = bool(self._rooms) or ledger.checks.has_renewals
        ledger.checks.copies_max = self._copying.share(has_copies=has_copies)
        return self._rooms

    def _take_permits(self, ledger: Ledger, *, is_fed: bool) -> None:
        if not ledger.checks.counts()[0]:
            return
        known_s = self._known_s(is_fed=is_fed)
        if known_s is None:
            return
        ledger.checks.known_ms = self._scaled_ms(known_s)
        self._begun_s = self._clock.monotonic_s()
        if self._begun_s - self._noticed_s > _NOTICE_AGAIN_S or len(self._noticed) > _NOTICED_MAX:
            self._noticed, self._noticed_s = set(), self._begun_s
        for group, wanted_count in ledger.checks.demand().items():
            granted = self._gate.take(group, wanted_count)
            if granted:
                self._rooms[group] = granted
            elif self._on_nobody is not None and group not in self._noticed:
                self._noticed.add(group)
                self._on_nobody(group)
        if self._rooms:
            self._send_again(ledger)

    @property
    def is_alone(self) -> bool:
        """Whether the step of this turn is to have nothing but copies."""
        return self._copying.is_alone

    @property
    def trouble(self) -> str | None:
        """What keeps transactions from being checked, in a sentence. From any thread."""
        return self._copying.trouble

    def _known_s(self, *, is_fed: bool) -> float | None:
        """The moment up to which all stored decisions were read, on our monotonic clock.

        An owner whose step has waited for a slow target finds transactions due whose decisions it
        has not read yet. Asking about what was decided before it was due would break a promise. So
        only those are asked about that were due when Kafka was asked where the op log ends, once it
        has been read to there. An owner that lags behind asks later, but it asks: the end that was
        asked for stands until it is reached.
        """
        now_s, known_s = self._clock.monotonic_s(), self._op_known_s
        if self._op_goal is None and (known_s is None or now_s - known_s >= _CURRENT_S):
            try:
                self._op_goal = self._reader.op_end()
            except KafkaUnavailable:
                return known_s
            self._op_goal_s = now_s
        if self._op_goal is not None and is_fed and self._reader.op_read_to() >= self._op_goal:
            self._op_goal, self._op_known_s = None, self._op_goal_s
        return self._op_known_s

    def planned(self, step: Step | None) -> None:
        """The plan is made; permits that it did not use go back."""
        for group, count in self._rooms.items():
            if count:
                self._gate.give_back(group, count)
        self._rooms = {}
        self._held = {}
        for order in step.copies if step is not None else ():
            if order.is_check:
                group = order.transaction.identity[0]
                self._held[group] = self._held.get(group, 0) + 1

    def wanted(self, step: Step) -> list[HalfOffset]:
        """Half offsets whose payloads the step's copies need."""
        return [o for order in step.copies for _, o in order.transaction.messages()]

    def records(self, step: Step, payload: dict[int, Any]) -> list[TargetRecord]:
        """The copies that the step appends."""
        now_ms, wall_ms = self.now_ms(), self._clock.wall_ms()
        records: list[TargetRecord] = []
        self._questions_out = []
        for order in step.copies:
            transaction = order.transaction
            records += self._questions.copies(transaction, order.number, payload)
            if order.is_check:
                self._questions_out.append(
                    self._questions.question(
                        transaction,
                        order.number,
                        payload,
                        age_ms=max(0, now_ms - transaction.aged_from_ms),
                        wall_ms=wall_ms,
                        lag_ms=max(0, now_ms - transaction.due_ms),
                    )
                )
        return records

    def sent_after(self, step: Step) -> None:
        """The step is committed: its numbers are in the log, now they may be delivered."""
        self._copying.succeeded(step)
        questions = self._questions_out
        if questions and self._clock.monotonic_s() - self._begun_s > _STALE_S:
            # Kafka was slow or we stood still, and a decision may have come meanwhile.
            self.put_back()
            self._reports.extend(
                CheckReport(q.identity, q.number, CheckOutcome.UNDELIVERED, "") for q in questions
            )
        elif questions:
            self._questions_out, self._held = [], {}
            reached("before_check_sent")
            self._gate.send(questions)
            reached("after_check_sent")
        if renewed := len(step.copies) - len(questions):
            self._observer.renewed(renewed)

    def refused(self, ledger: Ledger, step: Step, result: WriteResult) -> bool:
        """The step is aborted; True: for its copies, and the next one is another one."""
        return self._copying.refused(ledger, step, result)

    def put_back(self) -> None:
        """The step is not committed, or nobody knows; also when the owner ends."""
        for group, count in [*self._held.items(), *self._rooms.items()]:
            if count:
                self._gate.give_back(group, count)
        self._held, self._rooms, self._questions_out = {}, {}, []

    def end(self) -> None:
        """The owner goes: nobody will answer."""
        self.put_back()
        if self._index is not None:
            self._index.owns(self._partition, is_owned=False, by=self)
        self._asked.end()

    # -- parts of a turn -------------------------------------------------------------------------

    def _apply(self, ledger: Ledger, report: CheckReport) -> None:
        self.on_report(report)
        transaction = ledger.find(report.identity)
        what = report.number, report.outcome.value, report.by
        if transaction is not None:
            ledger.checks.reported(
                transaction,
                *what,
                is_counted=report.outcome in COUNTED,
                is_lost=report.outcome is CheckOutcome.LOST,
                since_ms=int(report.since_s * 1000),
                reason=report.reason,
            )

    def _send_again(self, ledger: Ledger) -> None:
        before = dict(self._rooms)
        again = ledger.checks.again(self._rooms)
        if not again:
            return
        # Held until they are handed over: reading the payloads back may fail.
        self._held = {group: count - self._rooms[group] for group, count in before.items()}
        wanted = [o for transaction in again for _, o in transaction.messages()]
        payload = self._payloads.all_of(wanted, self._reader)
        now_ms, wall_ms = self.now_ms(), self._clock.wall_ms()
        self._gate.send(
            [
                self._questions.question(
                    transaction,
                    transaction.check_count,
                    payload,
                    age_ms=max(0, now_ms - transaction.aged_from_ms),
                    wall_ms=wall_ms,
                    is_repeat=True,
                )
                for transaction in again
            ]
        )
        self._held = {}

    def _give_up(self, ledger: Ledger) -> None:
        for transaction in ledger.checks.given_up(_GIVE_UP_MAX):
            halves = [half_offset for _, half_offset in transaction.messages()]
            payload = self._payloads.all_of(halves, self._reader)
            resolution = self._policy.of(topics_of(halves, payload))
            too_old = transaction.check_count < ledger.checks.rules.count_max
            reason = "too old" if too_old else f"no decision after {transaction.check_count} checks"
            self._gate.decide(
                self._partition,
                transaction.identity,
                resolution,
                transaction.messages()[-1][0] + 1,
                tuple(halves),
                reason,
            )
            ledger.checks.postpone(transaction)
            if transaction.identity in self._given_up:
                continue  # the decision was not stored, or not read yet: said before
            self._given_up.add(transaction.identity)
            self._observer.given_up(
                POLICY_NAMES[resolution], "too_old" if too_old else "checks_exhausted", 1
            )
            logger.warning(
                "transaction %s of group %s is given up (%s): %s",
                transaction.identity[1],
                transaction.identity[0],
                POLICY_NAMES[resolution],
                reason,
                extra={"action": "transaction_given_up"},
            )

    def _count(self, ledger: Ledger) -> None:
        """Once a second: whoever scrapes must not look into the ledger from another thread."""
        if (now_s := self._clock.monotonic_s()) - self._numbers_s < 1.0:
            return
        self._numbers_s = now_s
        self.calendar.look()
        self.numbers = check_numbers(ledger, self.listing.age_s)

    def _tell_index(self, ledger: Ledger) -> None:
        checks, index = ledger.checks, self._index
        if checks.settled:
            settled = [identity for identity, _ in checks.settled]
            self._gate.forget(settled, [OUTCOME_OF[answer] for _, answer in checks.settled])
            self._copying.forget(settled)
            checks.settled = []
            self._given_up.difference_update(settled)
            if index is not None:
                index.settled(self._partition, settled)
        self._told_index.tell(ledger, self.doubt)

    # -- for people ------------------------------------------------------------------------------

    def view(self, transaction: Transaction) -> tuple[int, float | None, str | None]:
        """Check count, seconds until the next, the last answer. For other threads."""
        next_s: float | None = None
        if transaction.is_told and not transaction.is_waiting:
            next_s = max(0.0, (transaction.due_ms - self.now_ms()) / 1000)
        return transaction.check_count, next_s, (transaction.answer or (None,))[0]

    def doubt(self, transaction: Transaction) -> Doubt:
        """One undecided transaction, as people see it; times on the wall clock."""
        scale_ms = self._clock.wall_ms() - self.now_ms()
        halves = [half_offset for _, half_offset in transaction.messages()]
        present = self._payloads.present(halves)
        immune_ms = transaction.aged_from_ms if transaction.check_count else transaction.due_ms
        return Doubt(
            transaction.identity,
            topics_of(halves, present),
            transaction.message_count or transaction.missing_count,
            tuple(halves),
            born_ms(transaction, present),
            immune_ms + scale_ms,
            transaction.due_ms + scale_ms,
            transaction.check_count,
            transaction.check_count - (not transaction.is_delivered),
            None,
            *(transaction.answer or ()),
        )

    def undecided(self, wanted: Filter) -> "Future[tuple[list[Undecided], int]]":
        """Pending transactions that match, oldest first, and how many. For other threads."""
        return self.ask(lambda ledger: self.listing.page(ledger, wanted))

    def names(self, wanted: Filter) -> "Future[tuple[list[Named], int]]":
        """Their names alone."""
        return self.ask(
            lambda ledger: names_of(self.listing.matching(ledger, wanted), wanted.count_max)
        )

    def hasten(self, identity: Identity) -> "Future[bool]":
        """Check this one as soon as possible; False when it is not pending, or has had them all."""

        def do(ledger: Ledger) -> bool:
            transaction = ledger.find(identity)
            return transaction is not None and ledger.checks.hasten(transaction)

        return self.ask(do)
