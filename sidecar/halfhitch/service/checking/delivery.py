"""How checks get to producers, and what becomes of them. Used on the event loop only.

What always holds, whatever happens to links, instances and Redis:
- each question ends in exactly one report and frees exactly one permit (`_finish`);
- a check counts as delivered only if a link has taken it;
- no check waits behind another group's: whatever has to wait does so within its own group.

The life of a question:

    looked up    the same number may have been delivered by a former owner: the index is asked
    out          a link or another instance has it; there is a time for the answer
    waiting      all links are full; it goes out once there is room
    settled      reported; nothing is known of it any more

A link that breaks, or an instance that does not report, makes it LOST: it goes out once more, by
another way, with the same number; after that the owner has to see to it. A question that another
instance asks is tried with the links here, once, and reported back.
"""

import logging
from asyncio import AbstractEventLoop, Task
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Final

from halfhitch.core.model import Identity
from halfhitch.ports import Clock, DoubtIndex, Observer
from halfhitch.service.checking import inbox
from halfhitch.service.checking.api import CheckOutcome, CheckReport, ProducerLink, ReportSink
from halfhitch.service.checking.halves import AskedHalves
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.service.checking.permits import Permits
from halfhitch.service.checking.questions import Deadlines, Question, Questions, last_delivered
from halfhitch.service.checking.ways import AllWays, Link, Others, Ways
from halfhitch.wire.check import Check

logger = logging.getLogger(__name__)

_BUG: Final = {"action": "check_bug"}
#: Deadlines that are met in one turn of the loop.
_SWEEP_MAX: Final = 256
#: Questions of other instances here, for each that one of them may have under way in a group.
_FOREIGN_FACTOR: Final = 16
#: What a producer says itself, through whichever instance.
_ANSWERS: Final = frozenset(
    {CheckOutcome.COMMIT, CheckOutcome.ROLLBACK, CheckOutcome.UNKNOWN, CheckOutcome.DECIDED}
)


class Delivery:
    """All that is under way at this instance."""

    def __init__(
        self, *, loop: AbstractEventLoop, instance: str, index: DoubtIndex | None, others: Others,
        permits: Permits, observer: Observer, clock: Clock, reports: ReportSink,
        limits: DeskLimits, halves: AskedHalves | None, is_ending: Callable[[int, Identity], bool],
    ) -> None:  # fmt: skip
        """`halves`: the half log, for others' questions; None: none of them is put to producers.

        `is_ending`: whether a decision has come in here that its owner has perhaps not read.
        """
        self._loop = loop
        self._instance = instance
        self._index = index
        self._others = others
        self._permits = permits
        self._observer = observer
        self._clock = clock
        self._reports = reports
        self._limits = limits
        self._halves = halves
        self._is_ending = is_ending
        self.questions = Questions()
        self._deadlines = Deadlines(limits.sweep_s)
        self.ways = AllWays()
        self._links: dict[int, Link] = {}  # by id() of the producer link
        self._full: dict[Link, None] = {}
        self._crowded: dict[Ways, None] = {}  # those where questions wait
        self._lookups: set[Task[None]] = set()
        self._foreign_count = 0
        self._is_stopped = False

    # -- producers come and go -------------------------------------------------------------------

    def connect(self, producer_link: ProducerLink) -> bool:
        """True: the first one of its group here."""
        if id(producer_link) in self._links or self._is_stopped:
            return False
        ways = self.ways[producer_link.producer_group]
        link = Link(producer_link, producer_link.name, ways)
        self._links[id(producer_link)] = link
        ways.add(link)
        is_first = len(ways.links) == 1
        self._permits.came(ways.group, self._clock.monotonic_s())
        self._wake_soon(ways)
        return is_first

    def disconnect(self, producer_link: ProducerLink) -> bool:
        """True: the last one of its group here. What was on its way through it is lost."""
        link = self._links.pop(id(producer_link), None)
        if link is None:
            return False
        ways = link.ways
        ways.remove(link)
        is_last = not ways.links
        if is_last:
            self._permits.went(ways.group, self._clock.monotonic_s())
        for question in list(link.out):
            if question.link is link:
                self._lost(question, is_shunned=True)
        self._wake_soon(ways)
        return is_last

    # -- questions come in -----------------------------------------------------------------------

    def accept(self, check: Check, generation: int, accepted_s: float) -> None:
        """An owner here wants to know."""
        question = Question(check, accepted_s, generation)
        self.questions.add(question)
        if self._is_stopped:
            self._finish(question, CheckOutcome.UNDELIVERED, is_telling=False)
        elif check.is_repeat and self._index is not None:
            self._deadlines.put(question, accepted_s + self._limits.answer_s)
            task = self._loop.create_task(self._look_up(self._index, question))
            self._lookups.add(task)
            task.add_done_callback(self._lookups.discard)
        else:
            self._ask(question)

    async def _look_up(self, index: DoubtIndex, question: Question) -> None:
        delivered = await last_delivered(index, question.check)
        if question.is_settled:
            return
        if delivered == question.check.number:  # else it is garbage or old
            # A former owner has delivered it; the answer, if there was one, lies in the op log.
            self._finish(question, CheckOutcome.SILENT, is_telling=False)
        else:
            self._ask(question)

    def _ask(self, question: Question) -> None:
        try:
            ways = self.ways[question.check.identity[0]]
            if ways.waiting and not question.asker:
                self._wait(question, ways)  # not past those that came before
            elif not self._place(question, ways):
                self._unplaced(question, ways, may_wait=True)
        except Exception:
            logger.exception("a check was not delivered; please report this", extra=_BUG)
            self._finish(question, CheckOutcome.LOST)

    # -- the way out -----------------------------------------------------------------------------

    def _place(self, question: Question, ways: Ways) -> bool:
        """Try all ways, best first. False: none takes it. True also when it has ended."""
        check, own = question.check, self._instance
        if self._is_ending(check.partition, check.identity):
            self._needless(question)
            return True
        if question.asker or (check.number == 1 and check.instance == own):
            if self._offer_here(question, ways):
                return True
            if question.asker:
                return False
        for instance in ways.instances(own, self._others.instances(ways.group), check):
            if instance == own:
                if self._offer_here(question, ways):
                    return True
            elif instance not in question.shunned and self._post(question, ways, instance):
                return True
        return False

    def _offer_here(self, question: Question, ways: Ways) -> bool:
        for _ in range(len(ways.rotation)):
            link = ways.next_link(question.shunned)
            if link is None:
                break
            if self._offer(question, link):
                return True
        question.was_refused = question.was_refused or bool(ways.links)
        return False

    def _offer(self, question: Question, link: Link) -> bool:
        """True: nothing more is to be done; the link has it, or it has ended already.

        From within `offer` the link may settle, or go; then the question is somewhere else now.
        """
        if len(link.out) >= link.producer_link.at_once:
            link.ways.fill(link)
            self._full[link] = None
            return False
        question.link = link
        link.out[question] = None
        link.ways.out_count += 1
        is_taken = False
        try:
            is_taken = link.producer_link.offer(question.check)
        except Exception:
            question.is_perhaps_delivered = True
            logger.exception("the link to %s failed; please report this", link.name, extra=_BUG)
        is_here = question.link is link
        if is_taken:
            now_s = self._sent(question)
            if is_here:
                begin_s = question.accepted_s if question.asker else now_s
                self._deadlines.put(question, begin_s + self._limits.answer_s)
        elif is_here:
            self._release(question)
            link.ways.fill(link)
            if link.is_full:
                self._full[link] = None
            return False
        return True

    def _post(self, question: Question, ways: Ways, instance: str) -> bool:
        body = inbox.question_body(self._instance, question.check)
        if not self._others.post(instance, inbox.QUESTION, body):
            return False
        question.instance = instance
        ways.out_count += 1
        limits = self._limits
        now_s = self._sent(question)
        self._deadlines.put(question, now_s + limits.answer_s + limits.inbox_grace_s)
        return True

    def _sent(self, question: Question) -> float:
        now_s = question.sent_s = self._clock.monotonic_s()
        if not question.asker:  # else the instance that asks has counted it
            check = question.check
            lag_s = check.lag_ms / 1000 + now_s - question.accepted_s
            self._observer.check_sent(check.identity[0], max(0.0, lag_s), check.trace_id)
        return now_s

    # -- waiting for room ------------------------------------------------------------------------

    def _unplaced(self, question: Question, ways: Ways, *, may_wait: bool) -> None:
        # Room comes once something that is out has ended; with nothing out it would not come.
        is_worth_it = ways.out_count > 0 and question.was_refused and not question.is_retried
        if may_wait and is_worth_it and not question.asker:
            self._wait(question, ways)
        else:
            self._fail(question)

    def _wait(self, question: Question, ways: Ways) -> None:
        deadline_s = question.accepted_s + self._limits.answer_s
        now_s = self._clock.monotonic_s()
        if now_s >= deadline_s:
            self._fail(question)
            return
        self._deadlines.put(question, deadline_s)
        ways.waiting[question] = None
        question.is_waiting = True
        if ways not in self._crowded:
            self._crowded[ways] = None
            self._permits.hold_back(ways.group, now_s, is_held_back=True)

    def _unwait(self, question: Question, ways: Ways) -> None:
        del ways.waiting[question]
        question.is_waiting = False
        if not ways.waiting:
            self._crowded.pop(ways, None)
            self._permits.hold_back(ways.group, self._clock.monotonic_s(), is_held_back=False)

    def _wake_soon(self, ways: Ways) -> None:
        """In the loop's next turn: what calls this may stand within `offer`."""
        if ways.waiting and not ways.is_waking:
            ways.is_waking = True
            self._loop.call_soon(self._wake, ways)

    def _wake(self, ways: Ways) -> None:
        ways.is_waking = False
        while ways.waiting:
            question = next(iter(ways.waiting))
            question.shunned = ()
            # It keeps its place and its deadline until somebody has taken it.
            if not self._place(question, ways):
                if ways.out_count > 0 and not question.is_settled:
                    return
                self._fail(question)
            elif question.is_waiting:
                self._unwait(question, ways)
            if question.instance:
                return  # whether there was room is not known yet: one at a time

    def _needless(self, question: Question) -> None:
        """Its end has come in here: the owner reads it, or asks again if it cannot be stored."""
        if question.asker:  # it would try the next instance if this one had not delivered
            self._finish(question, CheckOutcome.DECIDED)
        else:
            self._fail(question, is_telling=False)

    def _fail(self, question: Question, *, is_telling: bool = True) -> None:
        """No way is left."""
        if question.is_perhaps_delivered:
            self._finish(question, CheckOutcome.LOST)
        else:
            is_telling = is_telling and question.was_refused
            self._finish(question, CheckOutcome.UNDELIVERED, is_telling=is_telling)

    # -- what becomes of them --------------------------------------------------------------------

    def settle(self, identity: Identity, outcome: CheckOutcome, reason: str | None) -> bool:
        """See CheckDesk."""
        is_awaited = False
        for question in self.questions.of(identity):
            # What is not out was not asked: an answer to an earlier check must not count for it.
            # At another instance it may be out, and the producer's own word come in at this one.
            if question.link is None and (question.instance == "" or outcome not in _ANSWERS):
                continue
            is_awaited = True
            if outcome is CheckOutcome.LOST:
                self._lost(question, is_shunned=True)
            elif outcome is CheckOutcome.UNDELIVERED:
                self._refused(question, may_wait=False)
            else:
                self._tell_to_forget(question)
                question.reason = reason
                self._finish(question, outcome)
        return is_awaited

    def decided(self, identities: Sequence[Identity], outcomes: Sequence[CheckOutcome]) -> None:
        """The questions are needless."""
        known = outcomes or repeat(CheckOutcome.DECIDED)
        for identity, outcome in zip(identities, known, strict=False):
            for question in self.questions.of(identity):
                self._tell_to_forget(question)
                self._finish(question, outcome, is_telling=question.is_out)

    def expire(self, now_s: float) -> bool:
        """What time brings to questions. True: there is more to do at once."""
        due = self._deadlines.due(now_s, _SWEEP_MAX)
        for question in due:
            self._expired(question)
        if len(due) == _SWEEP_MAX:
            return True
        for link in list(self._full):
            self._unfill(link)
        for ways in list(self._crowded):
            self._wake_soon(ways)
        return False

    def _expired(self, question: Question) -> None:
        if question.link is not None:
            self._finish(question, CheckOutcome.SILENT)
        elif question.instance:
            self._lost(question, is_shunned=True)
        else:  # waits for room, or for the index
            question.was_refused = question.is_waiting
            self._fail(question)

    def _lost(self, question: Question, *, is_shunned: bool) -> None:
        """The way it went is broken; once it may go another."""
        way: Link | str = question.link or question.instance
        self._freed(question)
        question.is_perhaps_delivered = True
        if not (question.is_retried or question.asker or self._is_stopped):
            question.is_retried = True
            if is_shunned:
                question.shunned += (way,)
            if self._place(question, self.ways[question.check.identity[0]]):
                return
        self._finish(question, CheckOutcome.LOST, way if isinstance(way, str) else way.name)

    def _refused(self, question: Question, *, may_wait: bool, is_telling: bool = True) -> None:
        """It went out, and surely did not arrive."""
        question.shunned += (question.link or question.instance,)
        self._freed(question)
        question.was_refused = question.was_refused or is_telling
        ways = self.ways[question.check.identity[0]]
        if not self._place(question, ways):
            self._unplaced(question, ways, may_wait=may_wait)

    def _finish(
        self, question: Question, outcome: CheckOutcome, by: str = "", *,
        is_telling: bool = True, is_wanted: bool = True,
    ) -> None:  # fmt: skip
        """The one end of every question."""
        if question.is_settled:
            return
        question.is_settled = True
        check = question.check
        ways = self.ways[check.identity[0]]
        by = by or (question.link.name if question.link is not None else question.instance)
        if question.is_out:
            self._freed(question)
        if question.is_waiting:
            self._unwait(question, ways)
        self.questions.remove(question)
        self._deadlines.drop(question)
        since_s = self._clock.monotonic_s() - question.sent_s if question.sent_s else 0.0
        report = CheckReport(check.identity, check.number, outcome, by, since_s, question.reason)
        if question.asker:
            self._foreign_count -= 1
            if is_wanted:
                has_producers = bool(ways.links) and not question.is_unread
                body = inbox.report_body(self._instance, report, has_producers=has_producers)
                self._others.post(question.asker, inbox.REPORT, body)
            return
        now_s = self._clock.monotonic_s()
        self._permits.settled(
            ways.group, question.generation, now_s, outcome if is_telling else None
        )
        self._observer.check_settled(ways.group, outcome, since_s)
        try:
            self._reports.report(check.partition, report)
        except Exception:
            logger.exception("a report got lost", extra=_BUG)

    def _release(self, question: Question) -> None:
        """It is at no link and at no instance any more."""
        link = question.link
        if link is not None:
            link.out.pop(question, None)
        question.link = None
        question.instance = ""
        self.ways[question.check.identity[0]].out_count -= 1

    def _freed(self, question: Question) -> None:
        """The same, and where it was there is room now."""
        link = question.link
        self._release(question)
        if link is not None:
            self._unfill(link)
        self._wake_soon(self.ways[question.check.identity[0]])

    def _unfill(self, link: Link) -> None:
        if link.is_full:
            self._full.pop(link, None)
            link.ways.unfill(link)

    # -- other instances -------------------------------------------------------------------------

    def asked(self, asker: str, check: Check, age_s: float = 0.0) -> None:
        """Another instance wants it delivered to the producers here, and has wanted it so long."""
        question = Question(check, self._clock.monotonic_s(), asker=asker)
        self.questions.add(question)
        self._foreign_count += 1
        is_stale = age_s > self._limits.inbox_age_s  # we were stopped; it may be decided by now
        is_too_many = self._foreign_count > _FOREIGN_FACTOR * self._limits.in_flight_max
        if is_stale or is_too_many or self._halves is None:
            self._finish(question, CheckOutcome.UNDELIVERED)
        else:
            self._deadlines.put(question, question.accepted_s + self._limits.answer_s)
            self._halves.fill(check, partial(self._filled, question))

    def _filled(self, question: Question, check: Check | None) -> None:
        """Its halves were read here: only now there is something to be asked."""
        if question.is_settled:
            return
        if check is None:
            question.is_unread = True
            self._finish(question, CheckOutcome.UNDELIVERED)
        else:
            question.check = check
            self._ask(question)

    def reported(self, remote: inbox.RemoteReport) -> None:
        """What became of a check that another instance was to deliver."""
        report = remote.report
        for question in self.questions.of(report.identity):
            if question.asker or question.check.number != report.number:
                continue
            by, question.reason = f"{report.by} at {remote.instance}", report.reason
            if report.outcome in _ANSWERS:
                # Also from where it went before it was taken for lost.
                if question.is_out or question.is_perhaps_delivered:
                    self._finish(question, report.outcome, by)
            elif question.instance == remote.instance:
                if report.outcome is CheckOutcome.UNDELIVERED:
                    self._refused(question, may_wait=True, is_telling=remote.has_producers)
                elif report.outcome is CheckOutcome.LOST:
                    self._lost(question, is_shunned=False)
                else:
                    self._finish(question, report.outcome, by)

    def forgotten(self, asker: str, identity: Identity) -> None:
        """Another instance does not want to know any more."""
        for question in self.questions.of(identity):
            if question.asker == asker:
                self._finish(question, CheckOutcome.DECIDED, is_wanted=False)

    def _tell_to_forget(self, question: Question) -> None:
        if question.instance:
            body = inbox.forget_body(self._instance, question.check.identity)
            self._others.post(question.instance, inbox.FORGET, body)

    # -- the end ---------------------------------------------------------------------------------

    def stop(self) -> None:
        """Report everything that is under way; nothing goes out any more."""
        self._is_stopped = True
        for task in list(self._lookups):
            task.cancel()
        for question in self.questions.all():
            is_lost = question.is_out or question.is_perhaps_delivered
            outcome = CheckOutcome.LOST if is_lost else CheckOutcome.UNDELIVERED
            self._finish(question, outcome, is_telling=False)
        for link in list(self._links.values()):
            self.disconnect(link.producer_link)
