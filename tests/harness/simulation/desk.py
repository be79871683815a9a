"""The desk of a simulated coordinator: permits, bad ways to producers, reports that get lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from halfhitch.core.model import ResolutionSource
from halfhitch.service.checking.api import CheckOutcome, CheckReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from halfhitch.core.model import Identity, ProducerGroup, Resolution
    from halfhitch.wire.check import Check
    from harness.simulation.apps import Apps
    from harness.simulation.cluster import Cluster
    from harness.simulation.twin import Twin

ANSWER_MS = 10_000
_ANSWERS = {
    "commit": CheckOutcome.COMMIT,
    "rollback": CheckOutcome.ROLLBACK,
    "unknown": CheckOutcome.UNKNOWN,
}


@dataclass(eq=False)
class Sent:
    """A check that an owner handed over, and when it arrived at a producer."""

    identity: Identity
    life: int
    number: int
    sent_ms: int
    is_repeat: bool
    owner: int
    arrived_ms: int | None = None
    is_lost: bool = False


class Desk:
    """service.checking.api.CheckGate, of one process: `die` ends it, reports and all."""

    def __init__(
        self,
        cluster: Cluster,
        apps: Apps,
        twin: Twin,
        report: Callable[[CheckReport], None],
        life_of: Callable[[Identity], int],
        sent: list[Sent],
        permits_max: int,
    ) -> None:
        self._cluster = cluster
        self._timeline = cluster.timeline
        self._apps = apps
        self._twin = twin
        self._report = report
        self._life_of = life_of
        self.sent = sent
        self._permits_max = permits_max
        self.granted: Counter[ProducerGroup] = Counter()
        self.owner = 0  # how many there were; for the account
        self._out: dict[Identity, list[Sent]] = {}
        self._is_dead = False

    def die(self) -> None:
        self._is_dead = True

    # -- CheckGate --------------------------------------------------------------------------------

    def take(self, producer_group: ProducerGroup, wanted_count: int) -> int:
        group = self._apps.groups.get(producer_group)
        if group is None or group.live_count == 0:
            return 0
        count = min(wanted_count, self._permits_max - self.granted[producer_group])
        self.granted[producer_group] += count
        return count

    def give_back(self, producer_group: ProducerGroup, count: int) -> None:
        self.granted[producer_group] -= count
        assert self.granted[producer_group] >= 0, "more permits were given back than taken"

    def send(self, checks: Sequence[Check]) -> None:
        self._cluster.crash_point("between step and delivery")
        for check in checks:
            sent = Sent(
                check.identity,
                self._life_of(check.identity),
                check.number,
                self._timeline.now_ms,
                check.is_repeat,
                self.owner,
            )
            self.sent.append(sent)
            self._out.setdefault(check.identity, []).append(sent)
            self._timeline.count["checks sent"] += 1
            self._timeline.count["checks sent again"] += check.is_repeat
            self._timeline.note("send {} number {}{}", check.identity[1], check.number,
                                " again" if check.is_repeat else "")  # fmt: skip
            delay_ms = self._timeline.dice.randint(0, 20)
            if self._timeline.chance(0.03):
                delay_ms = self._timeline.dice.randint(0, 9_000)  # waits for room at the producer
            offsets = tuple(int(text) for text in check.handle.split(","))
            self._timeline.after(delay_ms, lambda s=sent, o=offsets: self._deliver(s, o))
            self._cluster.crash_point("while checks are delivered")

    def forget(self, identities: Sequence[Identity], outcomes: Sequence[CheckOutcome] = ()) -> None:
        for identity in identities:
            for sent in list(self._out.get(identity, ())):
                self._settle(sent, CheckOutcome.DECIDED)

    def decide(
        self, partition: int, identity: Identity, resolution: Resolution, covered_count: int,
        half_offsets: tuple[int, ...], reason: str,
    ) -> None:  # fmt: skip
        self._timeline.count["give-ups asked for"] += 1
        if self._cluster.fault(self._cluster.plan.decision_lost, "lost give-ups"):
            return

        def append() -> None:
            if self._is_dead:
                return
            source, chance = ResolutionSource.POLICY, self._timeline.chance
            is_race = identity in self._apps.transactions and chance(0.3)
            if is_race and chance(0.6):
                self._apps.end_after_all(identity)
            self._apps.append_decision(identity, resolution, source, half_offsets, covered_count)
            self._apps.given_up(identity, resolution)
            if is_race:
                self._apps.end_after_all(identity)

        self._timeline.after(self._timeline.dice.randint(0, 50), append)

    # -- the way to a producer --------------------------------------------------------------------

    def _deliver(self, sent: Sent, offsets: tuple[int, ...]) -> None:
        timeline, plan = self._timeline, self._cluster.plan
        if self._is_dead and timeline.chance(0.7):
            return  # it had not left yet
        if sent not in self._out.get(sent.identity, ()):
            return  # decided meanwhile
        if sent.is_repeat and self._is_known(sent, offsets):
            timeline.count["not sent again, Redis knows"] += 1
            timeline.note("redis knows {} number {}", sent.identity[1], sent.number)
            self._settle(sent, CheckOutcome.SILENT)
            return
        group = self._apps.groups[sent.identity[0]]
        if group.live_count == 0:
            timeline.count["undelivered checks"] += 1
            self._settle(sent, CheckOutcome.UNDELIVERED)
            return
        if self._cluster.fault(plan.check_lost, "lost checks"):
            if timeline.chance(0.5):
                self._arrive(sent, offsets)  # the way broke behind it
            outcome = CheckOutcome.LOST if timeline.chance(0.7) else CheckOutcome.UNDELIVERED
            if sent.arrived_ms is not None:
                outcome = CheckOutcome.LOST
            sent.is_lost = outcome is CheckOutcome.LOST
            timeline.after(timeline.dice.randint(0, 5_000), lambda: self._settle(sent, outcome))
            return
        if group.mood == "dies":
            group.live_count -= 1
            sent.is_lost = True
            timeline.count["producers died of a check"] += 1
            self._settle(sent, CheckOutcome.LOST)
            timeline.after(3_000, lambda: self._revive(group.name))
            return
        answer = self._arrive(sent, offsets)
        outcome = _ANSWERS.get(answer, CheckOutcome.NO_ANSWER)
        waits_ms = ANSWER_MS if answer == "hangs" else timeline.dice.randint(0, 200)
        if answer == "hangs":
            outcome = CheckOutcome.SILENT
        timeline.after(waits_ms, lambda: self._settle(sent, outcome))

    def _is_known(self, sent: Sent, offsets: tuple[int, ...]) -> bool:
        """Whether Redis says of this very copy that its number was delivered."""
        doubt = self._twin.known(sent.identity)
        if doubt is None or doubt.delivered != sent.number:
            return False
        return set(doubt.half_offsets) == set(offsets)

    def _arrive(self, sent: Sent, offsets: tuple[int, ...]) -> str:
        timeline, group = self._timeline, self._apps.groups[sent.identity[0]]
        sent.arrived_ms = timeline.now_ms
        timeline.count["checks delivered"] += 1
        mood = group.mood
        timeline.note("check {} number {}: {}", sent.identity[1], sent.number, mood)
        if mood == "hangs":
            if timeline.chance(0.3):  # and answers when nobody waits any more
                late_ms = ANSWER_MS + timeline.dice.randint(0, 60_000)
                timeline.count["answers after the time"] += 1
                timeline.after(late_ms, lambda: self._apps.asked(sent.identity, offsets) and None)
            return "hangs"
        return "nothing" if mood == "breaks" else self._apps.asked(sent.identity, offsets)

    def _revive(self, name: ProducerGroup) -> None:
        self._apps.groups[name].live_count += 1

    def _settle(self, sent: Sent, outcome: CheckOutcome) -> None:
        out = self._out.get(sent.identity)
        if out is None or sent not in out:
            return
        out.remove(sent)
        if not out:
            del self._out[sent.identity]
        group = sent.identity[0]
        self.granted[group] -= 1
        if self._is_dead:
            return
        self._timeline.count[f"outcome {outcome.value}"] += 1
        if self._cluster.fault(self._cluster.plan.report_lost, "lost reports"):
            return
        since_ms = self._timeline.now_ms - (sent.arrived_ms or sent.sent_ms)
        report = CheckReport(sent.identity, sent.number, outcome, "p-1", since_ms / 1000)
        self._report(report)
