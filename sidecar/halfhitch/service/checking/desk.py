"""The desk of one instance: where owners ask, producers are found, and the clock is looked at.

Owners call from their threads (take, give_back, send, forget, decide); doors, the inbox and the
clock call on the event loop (everything else). What becomes of a check is the matter of `Delivery`.
Nothing here decides a transaction, but for `decide`, which owners ask for.
"""

import logging
import random
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from halfhitch.core.model import Identity, ProducerGroup, Resolution, ResolutionSource
from halfhitch.ports import Clock, DoubtIndex, Observer, Presence
from halfhitch.service.checking import inbox
from halfhitch.service.checking.api import CheckOutcome, ProducerLink, ReportSink
from halfhitch.service.checking.delivery import Delivery
from halfhitch.service.checking.halves import AskedHalves
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.service.checking.loop_queue import LoopQueue
from halfhitch.service.checking.permits import GroupPermits, Permits
from halfhitch.service.checking.ways import Others, Ways
from halfhitch.service.transactions.asked import may_count
from halfhitch.service.transactions.op_appends import Decision, DecisionLog
from halfhitch.wire.check import Check

logger = logging.getLogger(__name__)

_IDLE_LOOK_S: Final = 30.0
_NAMES_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class GroupState:
    """One producer group as the desk sees it, for people."""

    producer_group: str
    links: tuple[str, ...]  # names of some
    link_count: int
    elsewhere: tuple[str, ...]  # instances with producers
    waiting_count: int
    permits: GroupPermits


class Desk:
    """CheckDesk for doors, CheckGate for owners."""

    def __init__(
        self,
        *,
        loop: AbstractEventLoop,
        instance: str,
        index: DoubtIndex | None,
        presence: Presence | None,
        decisions: DecisionLog,
        observer: Observer,
        clock: Clock,
        reports: ReportSink,
        limits: DeskLimits,
        halves: AskedHalves | None = None,
        check_now: Callable[[int, Identity], None] | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._loop = loop
        self._decisions = decisions
        self._clock = clock
        self._limits = limits
        self._check_now = check_now
        self._others = Others(presence)
        self._permits = Permits(
            in_flight_max=limits.in_flight_max,
            answer_s=limits.answer_s,
            breaker=limits.breaker,
            dice=dice,
        )
        self._queue = LoopQueue(loop)
        self._delivery = Delivery(
            loop=loop,
            instance=instance,
            index=index,
            others=self._others,
            permits=self._permits,
            observer=observer,
            clock=clock,
            reports=reports,
            limits=limits,
            halves=halves,
            is_ending=self._is_ending,
        )
        self._is_announced = False
        self._idle_look_s = clock.monotonic_s() + _IDLE_LOOK_S
        self._timer: TimerHandle | None = None
        self._is_stopped = False

    # -- CheckGate: any thread -------------------------------------------------------------------

    def take(self, producer_group: ProducerGroup, wanted_count: int) -> int:
        """See CheckGate."""
        if self._is_stopped:
            return 0
        permits, others = self._permits, self._others
        if not permits.is_live_here(producer_group) and not others.instances(producer_group):
            return 0
        return permits.take(producer_group, wanted_count, self._clock.monotonic_s())

    def give_back(self, producer_group: ProducerGroup, count: int) -> None:
        """See CheckGate."""
        self._permits.give_back(producer_group, count)

    def send(self, checks: Sequence[Check]) -> None:
        """See CheckGate."""
        now_s = self._clock.monotonic_s()
        generations = self._permits.hand_over(checks, now_s)
        sent = list(zip(checks, generations, strict=True))
        accept = self._delivery.accept
        actions = [partial(accept, check, generation, now_s) for check, generation in sent]
        if not self._queue.put(actions):  # no loop any more, nobody who could be told
            for check, generation in sent:
                self._permits.settled(check.identity[0], generation, now_s, None)

    def forget(self, identities: Sequence[Identity], outcomes: Sequence[CheckOutcome] = ()) -> None:
        """See CheckGate."""
        if identities:
            self._queue.put([partial(self._delivery.decided, identities, outcomes)])

    def decide(
        self, partition: int, identity: Identity, resolution: Resolution, covered_count: int,
        half_offsets: tuple[int, ...], reason: str,
    ) -> None:  # fmt: skip
        """See CheckGate."""
        decision = Decision(
            identity, resolution, covered_count, half_offsets, ResolutionSource.POLICY, reason
        )
        self._queue.put([partial(self._append, partition, decision)])

    # -- CheckDesk: on the loop ------------------------------------------------------------------

    def connect(self, link: ProducerLink) -> None:
        """See CheckDesk."""
        if self._delivery.connect(link):
            self._is_announced = False

    def disconnect(self, link: ProducerLink) -> None:
        """See CheckDesk."""
        if self._delivery.disconnect(link):
            self._is_announced = False

    def settle(self, identity: Identity, outcome: CheckOutcome, reason: str | None = None) -> bool:
        """See CheckDesk."""
        return self._delivery.settle(identity, outcome, reason)

    def on_inbox(self, kind: str, body: bytes, age_s: float = 0.0) -> None:
        """A message of another instance, or of an operator, posted `age_s` ago. Never raises."""
        if self._is_stopped:
            return
        try:
            if kind == inbox.QUESTION:
                self._delivery.asked(*inbox.read_question(body), age_s)
            elif kind == inbox.REPORT:
                self._delivery.reported(inbox.read_report(body))
            elif kind == inbox.FORGET:
                self._delivery.forgotten(*inbox.read_forget(body))
            elif kind == inbox.CHECK_NOW:
                partition, identity = inbox.read_check_now(body)
                if self._check_now is not None:
                    self._check_now(partition, identity)
            else:  # of a newer version: what it means is not lost, for an inbox promises nothing
                logger.debug("an inbox message of unknown kind %r is passed over", kind)
        except ValueError as error:
            logger.warning(
                "an inbox message of kind %r cannot be read and is passed over: %s",
                kind,
                error,
                extra={"action": "inbox_garbage"},
            )
        except Exception:
            logger.exception(
                "an inbox message failed; please report this", extra={"action": "check_bug"}
            )

    @property
    def is_asking(self) -> bool:
        """Whether a check has not ended yet."""
        return bool(self._delivery.questions)

    # -- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look at the clock."""
        self._tick()

    def stop(self) -> None:
        """Report everything that is under way; nothing goes out any more."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._delivery.stop()
        self._queue.drain_all()
        self._announce()

    def live_groups(self) -> Collection[str]:
        """Groups with producers at this instance."""
        return [group for group, ways in self._delivery.ways.items() if ways.links]

    def links(self) -> dict[str, int]:
        """See service.api.Reach."""
        return {group: len(ways.links) for group, ways in self._delivery.ways.copy().items()}

    def is_elsewhere(self, producer_group: str) -> bool:
        """See service.api.Reach."""
        return len(self._others.instances(producer_group)) > 0

    def describe(self) -> list[GroupState]:
        """Everything that is known of groups, for people."""
        now_s = self._clock.monotonic_s()
        states = []
        for group in sorted({*self._delivery.ways, *self._permits.groups()}):
            ways = self._delivery.ways.get(group) or Ways(group)
            states.append(
                GroupState(
                    group,
                    tuple(link.name for link in ways.links[:_NAMES_MAX]),
                    len(ways.links),
                    tuple(self._others.instances(group)),
                    len(ways.waiting),
                    self._permits.state(group, now_s),
                )
            )
        return states

    def sweep(self, now_s: float) -> bool:
        """What time brings. True: there is more to do at once."""
        if self._delivery.expire(now_s):
            return True
        if not self._is_announced:  # changes of a quarter of a second go out together
            self._announce()
        if now_s >= self._idle_look_s:
            self._idle_look_s = now_s + _IDLE_LOOK_S
            self._forget_idle(now_s)
        return False

    def _tick(self) -> None:
        if self._is_stopped:
            return
        is_more = False
        try:
            is_more = self.sweep(self._clock.monotonic_s())
        except Exception:  # the clock goes on
            logger.exception(
                "a sweep of the check-back failed; please report this",
                extra={"action": "check_bug"},
            )
        self._timer = self._loop.call_later(0 if is_more else self._limits.sweep_s, self._tick)

    def _announce(self) -> None:
        self._is_announced = self._others.announce(self.live_groups())

    def _forget_idle(self, now_s: float) -> None:
        self._delivery.ways.forget_idle()
        limits = self._limits
        leaking = self._permits.forget_idle(now_s, idle_s=limits.idle_s, grant_s=limits.grant_s)
        for group in leaking:
            logger.warning(
                "permits to check transactions of %r were never used and are taken back; "
                "please report this",
                group,
                extra={"action": "check_permits_leaked"},
            )

    # -- decisions -------------------------------------------------------------------------------

    def _is_ending(self, partition: int, identity: Identity) -> bool:
        first = self._decisions.under_way(partition, identity)
        # What nobody knows of has perhaps decided nothing, and may be remembered for minutes.
        return first is not None and any(it.is_stored is not False for it in may_count(first.order))

    def _append(self, partition: int, decision: Decision) -> None:
        if self._is_ending(partition, decision.identity):
            return  # asked for again too early, or the producer was quicker
        stored = self._decisions.append(partition, decision)
        stored.add_done_callback(partial(_log_failure, decision))


def _log_failure(decision: Decision, stored: "Future[int]") -> None:
    if stored.cancelled() or (error := stored.exception()) is None:
        return
    logger.warning(
        "transaction %s of %r could not be given up and will be tried again: %s",
        decision.identity[1],
        decision.identity[0],
        error,
        extra={"action": "give_up_failed"},
    )
