"""Around targets that are away: what an owner's next step contains, and what its failure says.

A step that fails because a target is away would fail again and again, and everything of the half
partition would wait with it. So the transactions that have to wait for the target (away_targets.py
says which) are put aside in the ledger, and the others go on. What waits is decided and undone: it
holds the watermarks, and whoever takes the partition over finds it in the logs.

Not every failure says which target it was. After the second slow one in a row that does not, or the
fifth quick one, steps become smaller until one transaction is alone in a step that fails: then its
targets are taken to be away. That is a guess, for the reason may be another one; as soon as one of
the guessed ones takes a message all are tried again. What is known to be the owner's own trouble
(fenced, a generation that is over, the op topic refuses) is no target's.

The parked topic is a target like others, but what it refuses for good can be put nowhere else: it
counts as away then, and is tried again, until somebody has mended it.

As long as no target is away an owner asks this for its truth, once for each step, and nothing more.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.transaction import State, Transaction
from halfhitch.ports import (
    Clock,
    Observer,
    PartitionReader,
    PartitionWriter,
    TargetRecord,
    WriteResult,
)
from halfhitch.service.owner.away_targets import AwayTargets
from halfhitch.service.owner.forwarding import Forwarder
from halfhitch.service.owner.payloads import PayloadCache
from halfhitch.service.owner.renewals import Renewals

logger = logging.getLogger(__name__)

_READY: Final = State.READY
#: In one turn so many batches are looked through for somebody who need not wait.
_LOOKS_MAX: Final = 4
#: A target may be slow because steps are large: the first ones after a failure are not.
_SMALL_STEP: Final = 100
#: A target that does not answer costs at least as much.
_SLOW_S: Final = 1.0
#: Failures in a row that say nothing, before steps are made smaller: two slow ones, or five quick.
_DOUBT_MAX: Final = 10
_SLOW_DOUBT: Final = 5
_QUICK_DOUBT: Final = 2


class AwaySteps:
    """See the module's text."""

    def __init__(
        self,
        partition: int,
        *,
        forwarder: Forwarder,
        parked_topic: str,
        payloads: PayloadCache,
        reader: PartitionReader,
        writer: PartitionWriter,
        observer: Observer,
        clock: Clock,
        dice: Callable[[], float],
        bytes_max: int,
        renew_s: float,
    ) -> None:
        self._partition = partition
        self._forwarder = forwarder
        self._parked_topic = parked_topic
        self._payloads = payloads
        self._reader = reader
        self._writer = writer
        self._observer = observer
        self._clock = clock
        self._dice = dice
        self._bytes_max = bytes_max
        self._targets = AwayTargets(dice)
        self._news: list[str] = []  # topics that have gone away, to be told of
        self._back: list[str] = []  # topics that are back: who waits for them need not
        # In vain, at the price of a long wait: now it is the turn of the others.
        self._has_probed = False
        self._doubt = 0
        self._renewals = Renewals(renew_s)

    def __bool__(self) -> bool:
        return bool(self._targets) or bool(self._back)

    def clear(self) -> None:
        """A new takeover begins: what waited is read again."""
        for topic in self._targets.waiting_by_topic():
            self._observer.target_away(topic, is_away=False)
        self._targets = AwayTargets(self._dice)
        self._news, self._back = [], []
        self._doubt = 0
        self._renewals.clear()

    @property
    def waiting_by_topic(self) -> dict[str, int]:
        """Topics that are away, and how many transactions wait for each. From any thread."""
        return self._targets.waiting_by_topic()

    @property
    def waiting_count(self) -> int:
        """All that wait, each once. From any thread."""
        return self._targets.waiting_count

    @property
    def trouble(self) -> str | None:
        """What cannot be parked, in a sentence. From any thread."""
        waiting = self._targets.waiting_by_topic()
        for name in (self._forwarder.unparkable, self._parked_topic):
            if name in waiting:
                return (
                    f"{waiting[name]} transactions that can only be parked wait for "
                    f"{self._parked_topic}: {self._targets.reason(name)}"
                )
        return None

    @property
    def takes_notes(self) -> bool:
        """Whether something may be written beside what is parked."""
        return not self._targets.has_closed(self._parked_topic)

    # -- before a step ---------------------------------------------------------------------------

    def choose(self, ledger: Ledger) -> list[Transaction]:
        """Who is to be in the next step: a probe alone, or those that need not wait."""
        probes = self._take_back(ledger)
        if probes:
            return probes
        for _ in range(_LOOKS_MAX):
            found = ledger.ready.look(self._forwarder.messages_max, self._bytes_max)
            free = self._put_aside(ledger, found)
            if free or not found:
                return free
        return []

    def _take_back(self, ledger: Ledger) -> list[Transaction]:
        """All that wait for nothing any more, else a few to probe: those are given."""
        if self._targets.is_owing or self._has_probed or self._renewals.are_unread:
            self._has_probed = False
            return []
        if self._back:
            self._release(ledger)
            return []
        return self._probe(ledger)

    def renewals(self) -> list[Transaction]:
        """Who has waited for so long that he is appended anew, with his decision."""
        targets, renewals = self._targets, self._renewals
        return renewals.choose(
            targets.in_order,
            targets.waiting_count,
            self._clock.monotonic_s(),
            message_count_max=self._forwarder.messages_max // 2,
            bytes_max=self._bytes_max // 2,
        )

    def _put_aside(self, ledger: Ledger, found: Sequence[Transaction]) -> list[Transaction]:
        wanted = [o for transaction in found for o in self._forwarder.halves(transaction)]
        payload = self._payloads.all_of(wanted, self._reader)
        free: list[Transaction] = []
        aside: list[Transaction] = []
        for transaction in found:
            named = self._forwarder.topics_and_keys(transaction, payload)
            (aside if self._targets.holds(transaction, named) else free).append(transaction)
        ledger.ready.put_aside(aside)
        if aside and self._news:
            self._tell_away()
        return free

    def _probe(self, ledger: Ledger) -> list[Transaction]:
        now_s = self._clock.monotonic_s()
        due = self._targets.due(now_s)
        if not due:
            return []
        leaderless = self._writer.leaderless([t for t in due if t != self._forwarder.unparkable])
        self._targets.postpone(leaderless, now_s)
        due = [topic for topic in due if topic not in leaderless]
        if not due:
            return []
        chosen = self._targets.probe(due, self._forwarder.messages_max)
        ledger.ready.take_back(chosen)
        self._targets.ended(t for t in chosen if t.state is not _READY)
        return [transaction for transaction in chosen if transaction.state is _READY]

    def _release(self, ledger: Ledger) -> None:
        free = self._targets.released()
        ledger.ready.take_back(free)
        for topic in self._back:
            self._observer.target_away(topic, is_away=False)
            logger.info(
                "half partition %d: topic %s takes messages again; %d transactions go on, "
                "%d still wait",
                self._partition,
                topic,
                len(free),
                self._targets.waiting_count,
                extra={"action": "target_back"},
            )
        self._back = []

    # -- after a step ----------------------------------------------------------------------------

    def succeeded(self, step: Step, targets: Sequence[TargetRecord]) -> None:
        """The step is committed. Asked before the forwarder forgets what was in it."""
        self._doubt = 0
        self._renewals.written()
        if self._targets:
            self._targets.ended(step.transactions)
            answered = {target.topic for target in targets}
            if any(self._forwarder.is_unparkable(t) for t in step.transactions):
                answered.add(self._forwarder.unparkable)
            self._answered(answered)

    def put_back(self) -> None:
        """The step was aborted for what is no fault of any of its transactions."""
        self._targets.aborted()
        self._renewals.aborted()

    def failed(
        self,
        step: Step,
        targets: Sequence[TargetRecord],
        result: WriteResult,
        elapsed_s: float,
    ) -> bool:
        """The step was aborted. True when the next one is another one, so there is no need to wait.

        `targets` are those of the step's transactions, in the forwarder's order; the forwarder has
        been told already.
        """
        probed = self._targets.probed
        self._targets.aborted()
        if result.is_ours and (result.refusing or result.closed):
            self._renewals.put_off()
        else:
            self._renewals.aborted()
        self._has_probed = bool(probed)
        parked = self._parked_topic
        refused = {targets[n].topic for n in result.poisoned if n < len(targets)}
        if refused:  # for good is not away
            self._answered(refused - {parked})
        topics = {target.topic for target in targets}
        if topics & result.away_topics:
            self._doubt = 0
            self._forwarder.shrink(_SMALL_STEP)
            self._went_away(topics & result.away_topics, result.reason)
            return True
        if parked in result.closed:
            self._went_away([parked], result.closed[parked])
            return True
        if parked in refused | result.refusing.keys() and any(
            self._forwarder.is_unparkable(transaction) for transaction in step.transactions
        ):
            self._went_away([self._forwarder.unparkable], result.reason)
            return True
        if result.poisoned or result.refusing or result.is_ours:
            return False  # the forwarder closes in on it, or there is nothing to close in on
        if probed:
            self._went_away(probed, result.reason, is_guess=True)
            return True
        is_slow = elapsed_s >= _SLOW_S
        self._doubt += _SLOW_DOUBT if is_slow else _QUICK_DOUBT
        if self._doubt < _DOUBT_MAX or not targets:
            return False
        if len(set(self._forwarder.owners)) > 1:
            self._forwarder.halve(step)
            return not is_slow
        self._went_away(topics, result.reason, is_guess=True)
        return False  # it may be Kafka itself

    def _answered(self, topics: Collection[str]) -> None:
        self._back += self._targets.answered(topics, self._clock.monotonic_s())

    def _went_away(self, topics: Collection[str], reason: str, *, is_guess: bool = False) -> None:
        now_s = self._clock.monotonic_s()
        self._news += self._targets.failed(topics, now_s, reason, is_guess=is_guess)

    def _tell_away(self) -> None:
        waiting = self._targets.waiting_by_topic()
        for topic in self._news:
            self._observer.target_away(topic, is_away=True)
            logger.warning(
                "half partition %d: topic %s is away: %s; %d transactions wait for it, all others "
                "go on",
                self._partition,
                topic,
                self._targets.reason(topic),
                waiting.get(topic, 0),
                extra={"action": "target_away"},
            )
        self._news = []
