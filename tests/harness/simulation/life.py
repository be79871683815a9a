"""One life: the coordinator's process with the real owner in it, and everything around it.

The driver does what service.owner.worker does: take over, turn by turn, begin anew after whatever
goes wrong. A crash ends the process; what was on its way to producers may still arrive.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from halfhitch.errors import HalfHitchError
from halfhitch.service.checking.policy import GiveUpPolicy
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.service.owner.questions import CheckQuestions
from halfhitch.service.owner.turn import PartitionOwner, StepFailedError
from halfhitch.service.topic_policy import TopicPolicy
from harness.audit import AUDIT, stories_of
from harness.defaults import owner_limits
from harness.simulation.apps import Apps
from harness.simulation.cluster import (
    HALF,
    OP,
    PARKED,
    Cluster,
    CoordinatorClock,
    Crash,
    SimulatedReader,
    SimulatedWriter,
)
from harness.simulation.desk import Desk, Sent
from harness.simulation.operators import Operators
from harness.simulation.plan import HORIZON_MS, HOUR_MS, SLEEP_MS, planned
from harness.simulation.strangers import Strangers
from harness.simulation.timeline import Timeline
from harness.simulation.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.core.ledger import Ledger
    from halfhitch.core.model import Identity
    from halfhitch.ports import PartitionReader
    from halfhitch.service.checking.api import CheckReport
    from halfhitch.service.owner.payloads import PayloadCache

#: Beyond what the plan's own times add up to, nothing may stay undecided longer.
SLACK_MS = 120_000
_TURNS_MAX = 60_000


class Observed:
    """ports.Observer: counts."""

    def __init__(self, count: Counter[str]) -> None:
        self._count = count

    def renewed(self, count: int) -> None:
        self._count["renewals"] += count

    def parked(self, count: int, _message_count: int) -> None:
        self._count["undeliverable or incomplete, parked"] += count

    def conflict(self, kind: Any, count: int) -> None:
        self._count[f"conflicts, {kind.value}"] += count

    def takeover(self, partition: int, elapsed_s: float, replayed_count: int) -> None:
        self._count["takeovers"] += 1
        self._count["records replayed"] += replayed_count

    def old_watermarks(self, partition: int) -> None:
        self._count["takeovers from a proven pair"] += 1

    def given_up(self, policy: str, reason: str, count: int) -> None:
        self._count[f"given up: {reason}, {policy}"] += count

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


class Life:
    """See the module's text. What was wrong is raised; `timeline` tells what has happened."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.timeline = timeline = Timeline(seed, is_traced=is_traced)
        self.plan = plan = planned(timeline.dice)
        self.cluster = Cluster(timeline, plan)
        self.apps = Apps(self.cluster)
        self.twin = Twin(self.cluster)
        self.sent: list[Sent] = []
        self.hastened: set[Identity] = set()
        self.takeover_ms: list[int] = []
        self.owner: PartitionOwner | None = None
        self.coordinator_ahead_ms = 0
        self.is_ending = False
        self.calm_ms = 0
        self.idle_wait_s = 6.0
        self._quiet_turns = 0
        self._begin_process()
        self.apps.begin()
        self.operators = Operators(self.cluster, self.apps, self._hasten)
        self.strangers = Strangers(self.cluster, [(HALF, 0), (OP, 0), (OP, 0), ("orders", 0)])
        self._schedule()

    # -- what happens by itself -------------------------------------------------------------------

    def _schedule(self) -> None:
        timeline, plan, dice = self.timeline, self.plan, self.timeline.dice
        kinds: list[tuple[int, Callable[[], None]]] = [
            (plan.broker_jumps, self._broker_jumps),
            (plan.coordinator_jumps, self._coordinator_jumps),
            (plan.redis_faults, self.twin.fail),
            (plan.churn, self._churn),
            (plan.operators, self.operators.act),
        ]
        for times, action in kinds:
            for _ in range(times):
                timeline.after(dice.randint(0, plan.active_ms), action)
        for _ in range(plan.operators // 2):
            timeline.after(int(plan.active_ms * (1 + dice.random() * 3)), self.operators.act)
        for group in self.apps.groups.values():
            group.live_count = dice.choice([0, 1, 2])
            group.mood = dice.choice(["answers", "answers", "hangs", "breaks"])
        timeline.after(plan.active_ms, self._calm_down)
        self.strangers.schedule(plan.strangers, plan.active_ms)

    def _broker_jumps(self) -> None:
        jump_ms = self.timeline.dice.choice([-1, 1]) * self.plan.jump_ms
        self.cluster.clock.ahead_ms += jump_ms
        self._jumped("broker jumps")
        self.timeline.count["brokers set back"] += jump_ms < 0

    def _coordinator_jumps(self) -> None:
        self.coordinator_ahead_ms += self.timeline.dice.choice([-1, 1]) * self.plan.jump_ms
        self.clock.ahead_ms = self.coordinator_ahead_ms
        self._jumped("coordinator jumps")

    def _jumped(self, name: str) -> None:
        self.timeline.count[name] += 1
        self.timeline.count["clocks that jump by days"] += self.plan.jump_ms > HOUR_MS
        self.timeline.note(name)

    def _churn(self) -> None:
        dice = self.timeline.dice
        group = dice.choice(list(self.apps.groups.values()))
        group.live_count = dice.choice([0, 0, 1, 2])
        group.mood = dice.choice(["answers", "answers", "hangs", "breaks", "dies"])
        self.timeline.count["groups that change"] += 1
        self.timeline.note("group {}: {} live, {}", group.name, group.live_count, group.mood)

    def _calm_down(self) -> None:
        """No faults any more. Some groups never come back, some never answer."""
        self.cluster.is_faulty = False
        self.twin.is_lying = self.twin.is_away = False
        self.strangers.end_all()
        self.is_ending = True
        self.calm_ms = self.timeline.now_ms
        dice = self.timeline.dice
        for group in self.apps.groups.values():
            group.live_count = dice.choice([0, 1, 1, 2])
            group.mood = dice.choice(["answers", "answers", "hangs"])
            self.timeline.note("at the end group {}: {} live, {}",
                               group.name, group.live_count, group.mood)  # fmt: skip

    # -- the process ------------------------------------------------------------------------------

    def _begin_process(self) -> None:
        self.clock = CoordinatorClock(self.timeline, self.coordinator_ahead_ms)
        self.desk = Desk(
            self.cluster,
            self.apps,
            self.twin,
            self._report,
            self.life_of,
            self.sent,
            permits_max=self.timeline.dice.choice([1, 3, 100]),
        )

    def _report(self, report: CheckReport) -> None:
        if self.owner is not None:
            self.owner.checkback.report(report)

    def _hasten(self, identity: Identity) -> None:
        if self.owner is not None and self.owner.is_working:
            self.timeline.count["hastened"] += 1
            self.hastened.add(identity)
            self.owner.checkback.hasten(identity)

    def life_of(self, identity: Identity) -> int:
        """How often it was put back, as its owner knows it."""
        assert self.owner is not None
        assert self.owner._ledger is not None
        found = self.owner._ledger.find(identity)
        return 0 if found is None else found.resumed_count

    def make_owner(self) -> PartitionOwner:
        plan, reader = self.plan, SimulatedReader(self.cluster)
        observer: Any = Observed(self.timeline.count)
        policy = GiveUpPolicy(
            plan.give_up, [f"{topic}={name}" for topic, name in plan.policy_of_topic.items()]
        )

        def make_checkback(payloads: PayloadCache, reader: PartitionReader) -> CheckBack:
            questions = CheckQuestions(
                0,
                half_topic=HALF,
                sign=lambda handle: ",".join(map(str, handle.half_offsets)),
                number_max=plan.rules.count_max,
            )
            return CheckBack(
                0,
                gate=self.desk,
                index=self.twin if plan.has_redis else None,  # type: ignore[arg-type]
                policy=policy,
                questions=questions,
                observer=observer,
                clock=self.clock,
                payloads=payloads,
                reader=reader,
            )

        return PartitionOwner(
            0,
            reader=reader,
            writer=SimulatedWriter(self.cluster),
            policy=TopicPolicy(internal_topics=(HALF, OP, PARKED, AUDIT), allow=("*",)),
            parked_topic=PARKED,
            observer=observer,
            clock=self.clock,
            limits=owner_limits(
                batch_count_max=plan.batch_count_max,
                payload_cache_bytes=plan.payload_cache_bytes,
                horizon_ms=HORIZON_MS,
                check_rules=replace(plan.rules),
            ),
            on_done=lambda partition, marks: self.cluster.crash_point("before anybody is told"),
            make_checkback=make_checkback,
            stories=stories_of(
                self.cluster.kafka, 0, observer=observer, clock=self.clock, doubts_max=10**9
            ),
        )

    # -- the driver -------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        assert self.owner is not None
        assert self.owner._ledger is not None
        return self.owner._ledger

    def live(self) -> None:
        """From the first transaction until nothing is undecided any more."""
        self._drive(self._is_settled, self._deadline_ms())

    def drive_for(self, ms: int) -> None:
        """Go on for so long."""
        until_ms = self.timeline.now_ms + ms
        self._drive(lambda: self.timeline.now_ms >= until_ms, until_ms + SLACK_MS)

    def _deadline_ms(self) -> int:
        """When everything must be decided: faults are over, and every age limit has passed."""
        rules, plan = self.plan.rules, self.plan
        # A resume begins a new life with a new age; so do takeovers of a quiet partition.
        lives_ms = 2 * (rules.age_ms_max + rules.incomplete_ms)
        slept_ms = plan.sleeps * SLEEP_MS
        return (
            self.timeline.now_ms + 4 * plan.active_ms + lives_ms + slept_ms + SLACK_MS + 2 * HOUR_MS
        )

    def _drive(self, is_over: Callable[[], bool], deadline_ms: int) -> None:
        turns = 0
        while True:
            owner = self.owner = self.owner or self.make_owner()
            try:
                if not owner.is_working:
                    self.desk.owner += 1
                    self.takeover_ms.append(self.timeline.now_ms)
                    self.timeline.note("take over")
                    owner.take_over()
                while True:
                    turns += 1
                    assert turns < _TURNS_MAX, "the owner never comes to rest"
                    if self.timeline.now_ms > deadline_ms:
                        raise AssertionError(f"not settled in time: {self.state()}")
                    if is_over():
                        return
                    self._turn(owner)
            except Crash:
                self.desk.die()
                self.owner = None
                self._pass(self.timeline.dice.choice([10, 3_000, 20_000]))
                self._maybe_sleep()
                self._begin_process()
                self._maybe_reset_offsets()
            except HalfHitchError as error:
                self.timeline.note("owner fails: {}", error)
                self.timeline.count[f"owner ends: {type(error).__name__}"] += 1
                owner.close()
                self.owner = None
                self._pass(self.timeline.dice.randint(1, 2_000))

    def _turn(self, owner: PartitionOwner) -> None:
        dice = self.timeline.dice
        wait_s = self.idle_wait_s if self.is_ending else dice.choice([0.0, 0.5, 2.0])
        try:
            owner.turn(wait_s)
        except StepFailedError:
            self._pass(dice.randint(1, 500))

    def _pass(self, ms: int) -> None:
        self.timeline.pass_until(self.timeline.now_ms + ms)

    def _maybe_sleep(self) -> None:
        """The sidecars are stopped; whatever else was to happen happens meanwhile."""
        if self.plan.sleeps and self.cluster.is_faulty:
            self.plan.sleeps -= 1
            self.timeline.count["sleeps of days"] += 1
            self.timeline.note("nobody is there for days")
            self._pass(SLEEP_MS)

    def _maybe_reset_offsets(self) -> None:
        """The group's offsets are gone: everything that is left is read again."""
        if self.plan.offset_resets and self.cluster.is_faulty:
            self.plan.offset_resets -= 1
            self.reset_offsets()

    def reset_offsets(self) -> None:
        self.timeline.count["offset resets"] += 1
        self.timeline.note("offsets are reset to earliest")
        for topic in (HALF, OP):
            self.cluster.kafka.store_position(topic, 0, None)

    def restart(self) -> None:
        """A clean stop, and another process."""
        if self.owner is not None:
            self.owner.close()
        self.desk.die()
        self.owner = None
        self._begin_process()

    # -- whether it is over -----------------------------------------------------------------------

    def _is_settled(self) -> bool:
        if not self.is_ending or not self.timeline.is_quiet or self.owner is None:
            self._quiet_turns = 0
            return False
        self._quiet_turns += 1
        if self.plan.late_adds and self._quiet_turns < 20:
            return False  # the last decision is not read yet
        return not any(self.state().values())

    def state(self) -> dict[str, int]:
        """What is still there of the unfinished; all zero in the end."""
        ledger = self.ledger
        pending, decided, early, _ = ledger.counts
        log = self.cluster.kafka.log
        unread = log(HALF, 0).stable_end - ledger.positions[0] if pending else 0
        return {
            "pending": pending,
            "decided": decided,
            "early": early,
            "unread": max(0, unread) if decided else 0,
            "written": ledger._written_count,
            "to write": len(ledger._ready) + bool(ledger._notes) + bool(ledger._conflicts),
            "permits": sum(self.desk.granted.values()),
        }
