"""A life of several instances: who works when, what goes wrong when, and when it is over."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from harness.simulation.apps import Apps
from harness.simulation.cluster import HALF, OP, PARKED
from harness.simulation.several.instance import Author, Instance
from harness.simulation.several.plan import planned
from harness.simulation.several.watch import Watch
from harness.simulation.several.world import World
from harness.simulation.strangers import Strangers
from harness.simulation.timeline import Timeline
from harness.simulation.twin import Twin

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.simulation.desk import Sent

#: After the last fault everything that is decided must be where it belongs within this time.
RECOVERY_MS = 60_000
_SLACK_MS = 180_000
_STEP_MS = 2_000
_EVENTS_MAX = 400_000


class SeveralTimeline(Timeline):
    """Knows whether anything but waiting threads and clocks is still to come."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        super().__init__(seed, is_traced=is_traced)
        self._foreground_count = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._foreground_count += 1

        def act() -> None:
            self._foreground_count -= 1
            action()

        super().after(delay_ms, act)

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """What goes on for ever."""
        super().after(delay_ms, action)

    @property
    def is_quiet(self) -> bool:
        return self._foreground_count == 0


class SeveralLife:
    """See the module's text. What was wrong is raised; `timeline` tells what has happened."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.timeline = timeline = SeveralTimeline(seed, is_traced=is_traced)
        self.more_dice = Random(f"{seed}, later")
        old_dice = Random(f"{seed}, old watermarks")
        self.log_dice = Random(f"{seed}, what is left of logs")
        self.plan = plan = planned(timeline.dice, self.more_dice, old_dice, self.log_dice)
        cluster: Any
        self.world = cluster = World(timeline, plan, old_dice)
        self.apps = Apps(cluster)
        self.twin = Twin(cluster)
        self.sent: list[Sent] = []
        self.takeover_ms: dict[int, list[int]] = {p: [] for p in range(plan.partitions)}
        self.completed: dict[int, Author] = {}
        self.calm_ms = self.quiet_ms = 0
        self._author_count = 0
        self.instances = [Instance(self, f"i-{n}") for n in range(plan.instances)]
        self.world.instances = {instance.name: instance for instance in self.instances}
        self.watch = Watch(self)
        self.world.on_old_pair = self.watch.forget_positions
        places = [(topic, p) for topic in (HALF, OP, OP) for p in range(plan.partitions)]
        self.strangers = Strangers(cluster, [*places, ("orders", 0)])
        for instance in self.instances:
            timeline.later(timeline.dice.choice([0, 0, 8_000]), instance.start)
        self.apps.begin()
        self._schedule()
        self._schedule_refusals()
        self._tick()
        self._look()

    # -- owners -----------------------------------------------------------------------------------

    def new_author(self, instance: Instance, partition: int) -> Author:
        self._author_count += 1
        member = instance.consumer._member if instance.consumer is not None else None
        name = member.name if member is not None else None
        author = Author(instance.name, partition, self._author_count, name)
        self.timeline.note("{} takes over", author)
        return author

    def took_over(self, author: Author) -> None:
        author.is_complete = True
        self.completed[author.partition] = author
        self.takeover_ms[author.partition].append(self.timeline.now_ms)
        self.timeline.note("{} has taken over", author)

    # -- what happens by itself -------------------------------------------------------------------

    def _tick(self) -> None:
        self.world.group.tick()
        self.timeline.later(500 if self.world.is_faulty else 1_500, self._tick)

    def _look(self) -> None:
        self.world.kafka.look_for_old_ones()
        self.timeline.later(self.timeline.dice.randint(500, 5_000), self._look)

    def _schedule(self) -> None:
        timeline, plan, dice = self.timeline, self.plan, self.timeline.dice
        kinds: list[tuple[int, Callable[[], None]]] = [
            (plan.cuts, self._cut),
            (plan.deafs, self._deafen),
            (plan.restarts, self._restart),
            (plan.kills, self._kill),
            (plan.stops, self._stop),
            (plan.lost_offsets, self._change_offsets),
            (plan.aways, self._go_away),
            (plan.redis_faults, self.twin.fail),
            (plan.churn, self._churn),
        ]
        for times, action in kinds:
            for _ in range(times):
                timeline.after(dice.randint(0, plan.active_ms), action)
        for group in self.apps.groups.values():
            group.live_count = dice.choice([0, 1, 2])
            group.mood = dice.choice(["answers", "answers", "hangs", "breaks"])
        timeline.after(plan.active_ms, self._calm_down)
        self.strangers.schedule(plan.strangers, plan.active_ms)
        for _ in range(plan.regresses):
            begins_ms = self.log_dice.randint(plan.active_ms // 2, plan.active_ms)
            timeline.after(begins_ms, self._regress)

    def _schedule_refusals(self) -> None:
        """Of topics, by right and by size. They begin while others work, and do not end with it."""
        plan, world, dice = self.plan, self.world, self.more_dice
        lasting: list[tuple[bool, Callable[[str], None], str]] = [
            (plan.closed_target, world.close, "stock"),
            (plan.closed_parked, world.close, PARKED),
            (plan.narrow_parked, world.narrow_down, PARKED),
            (plan.narrow_half, world.narrow_down, HALF),
        ]
        for is_planned, act, topic in lasting:
            if is_planned:
                self.timeline.after(dice.randint(0, plan.active_ms), partial(act, topic))
        for is_planned, topic in ((plan.closed_half, HALF), (plan.closed_op, OP)):
            if is_planned:
                begin_ms = dice.randint(0, plan.active_ms)
                self.timeline.after(begin_ms, partial(world.close, topic))
                end_ms = begin_ms + dice.choice([3_000, 20_000])
                self.timeline.after(end_ms, partial(world.closed.discard, topic))

    def _one(self, name: str) -> Instance:
        instance = self.timeline.dice.choice(self.instances)
        self.timeline.count[name] += 1
        self.timeline.note("{}: {}", name, instance.name)
        return instance

    def _cut(self) -> None:
        ms = self.timeline.dice.choice([3_000, 12_000, 30_000])
        self._one("instances cut off").cut_until_ms = self.timeline.now_ms + ms

    def _deafen(self) -> None:
        """The group takes it for dead; it works on, and does not know."""
        ms = self.timeline.dice.choice([12_000, 30_000])
        self._one("instances not heard of").deaf_until_ms = self.timeline.now_ms + ms

    def _restart(self) -> None:
        instance = self._one("instances that stop in order")
        if instance.is_running:
            instance.stop()

    def _kill(self) -> None:
        self._one("instances killed").die()

    def _stop(self) -> None:
        instance = self._one("instances stopped for a while")
        instance.process.stop_for(self.timeline.dice.choice([2_000, 8_000, 14_000, 30_000]))

    def _go_away(self) -> None:
        topic = self.timeline.dice.choice(["orders", "stock"])
        self.timeline.count["targets that go away"] += 1
        self.timeline.note("{} goes away", topic)
        self.world.away_topics.add(topic)
        ms = self.timeline.dice.choice([3_000, 20_000])
        ms *= 10 if self.plan.long_aways else 1
        self.timeline.after(ms, lambda: self.world.away_topics.discard(topic))

    def _regress(self) -> None:
        topics = self.log_dice.choice([(HALF,), (OP,), (HALF, OP)])
        self.begin_earlier(topics, self.log_dice.randrange(self.plan.partitions))

    def begin_earlier(self, topics: tuple[str, ...], partition: int) -> None:
        """A broker that died begins a log where it knew last that it began."""
        for topic in topics:
            log = self.world.kafka.log(topic, partition)
            self.timeline.count["logs that begin earlier"] += log.start > 0
            log.start = self.log_dice.randint(0, log.start)
            self.timeline.note("{} {} begins at {} again", topic, partition, log.start)

    def _change_offsets(self) -> None:
        topics = self.timeline.dice.choice([(HALF, OP), (HALF,), (OP,)])
        if self.plan.regresses and topics == (HALF,):
            topics = (HALF, OP)  # alone it is lost with its topic, and then the log is another one
        self.lose_offsets(topics)

    def lose_offsets(self, topics: tuple[str, ...] = (HALF, OP)) -> None:
        """The group's offsets are gone: everything that is left is read again."""
        self.timeline.count["offsets lost"] += 1
        self.timeline.note("the group's offsets are lost: {}", topics)
        for partition in range(self.plan.partitions):
            for topic in topics:
                self.world.kafka.change_position((topic, partition), None)
        self.watch.forget_positions()

    def _churn(self) -> None:
        dice = self.timeline.dice
        group = dice.choice(list(self.apps.groups.values()))
        group.live_count = dice.choice([0, 0, 1, 2])
        group.mood = dice.choice(["answers", "answers", "hangs", "breaks", "dies"])

    def _calm_down(self) -> None:
        """No faults any more; what is on its way still arrives."""
        self.world.is_faulty = False
        self.strangers.end_all()
        self.world.away_topics.clear()
        self.twin.is_lying = self.twin.is_away = False
        self.calm_ms = now_ms = self.timeline.now_ms
        dice = self.timeline.dice
        for group in self.apps.groups.values():
            group.live_count = dice.choice([0, 1, 1, 2])
            group.mood = dice.choice(["answers", "answers", "hangs"])
        for instance in self.instances:
            instance.cut_until_ms = instance.deaf_until_ms = 0
        stopped_ms = [instance.process.stopped_until_ms for instance in self.instances]
        self.quiet_ms = max(now_ms + 20_000, *stopped_ms)
        self.timeline.note("calm")

    # -- the driver -------------------------------------------------------------------------------

    def live(self) -> None:
        """From the first transaction until nothing is undecided any more."""
        rules = self.plan.rules
        self.pass_until(lambda: self.quiet_ms > 0, self.plan.active_ms + _STEP_MS)
        self.pass_for(self.quiet_ms - self.timeline.now_ms + RECOVERY_MS)
        self.watch.all_decided_are_done(self.quiet_ms)
        self.world.mend()
        self.pass_until(self._is_settled, 800_000 + 2 * (rules.age_ms_max + _SLACK_MS))
        self.pass_for(20_000)

    def pass_for(self, ms: int) -> None:
        timeline, violations = self.timeline, self.world.violations
        until_ms = timeline.now_ms + ms
        for _ in range(_EVENTS_MAX):
            if timeline.now_ms >= until_ms:
                return
            timeline.pass_one(until_ms)
            if violations:
                raise AssertionError(violations[0])
        raise AssertionError("I11: it never comes to rest")

    def pass_until(self, is_over: Callable[[], bool], ms: int) -> None:
        until_ms = self.timeline.now_ms + ms
        while not is_over():
            if self.timeline.now_ms > until_ms:
                raise AssertionError(f"I11: not settled in time: {self.state()}")
            self.pass_for(_STEP_MS)

    def _is_settled(self) -> bool:
        return self.timeline.is_quiet and not any(self.state().values())

    def state(self) -> dict[str, int]:
        """What is still there of the unfinished; all zero in the end."""
        result: dict[str, int] = {}
        for partition in range(self.plan.partitions):
            ledger = self._ledger(partition)
            if ledger is None:
                result[f"{partition}: no owner"] = 1
                continue
            pending, decided, early, _ = ledger.counts
            result[f"{partition}: pending"] = pending
            result[f"{partition}: decided"] = decided
            result[f"{partition}: early"] = early
            result[f"{partition}: written"] = ledger._written_count
            result[f"{partition}: to write"] = (
                len(ledger._ready) + bool(ledger._notes) + bool(ledger._conflicts)
            )
        result["open Kafka transactions"] = self.world.kafka.open_count
        return result

    def _ledger(self, partition: int) -> Any:
        name = self.world.group.owner_of(partition)
        if name is None:
            return None
        return self.world.instances[name.split(".")[0]].ledger_of(partition)

    def restart_all(self) -> None:
        """Everybody stops in order and comes back."""
        for instance in self.instances:
            if instance.is_running:
                instance.stop()
        self.pass_for(60_000)
