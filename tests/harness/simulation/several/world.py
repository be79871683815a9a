"""What all instances share: brokers, group, the network with its held frames, faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.adapters.memory.kafka import Fenced, StaleGeneration
from halfhitch.errors import KafkaUnavailable
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import Garbage
from harness.audit import AUDIT
from harness.simulation.cluster import HALF, PARKED, POISONED, TARGETS, BrokerClock
from harness.simulation.several.broker import Brokers, Concurrent, WrongState
from harness.simulation.several.group import Group
from harness.simulation.several.tasks import Killed, Tasks

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from halfhitch.ports import KafkaHeaders
    from harness.simulation.apps import Transaction
    from harness.simulation.several.instance import Instance
    from harness.simulation.several.life import SeveralTimeline
    from harness.simulation.several.plan import SeveralPlan

TRANSACTION_TIMEOUT_MS = 10_000
#: Larger values are large.
LARGE_BYTES = 40
#: So long a client's call waits for an answer before it gives up.
ANSWER_MS = 10_000
#: Where a pause tells most: between the fence and what it is for.
_TELLING = ("fencing", "after fencing", "asking for the bounds of the logs")


class World:
    """Has what the cluster of one instance has (apps, desks and Redis know no difference)."""

    def __init__(self, timeline: SeveralTimeline, plan: SeveralPlan, old_dice: Random) -> None:
        self.timeline = timeline
        self.plan = plan
        self.tasks = Tasks(timeline)
        self.clock = BrokerClock(timeline, 0)
        self.kafka = Brokers(
            timeline, self.clock, plan.partitions, timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        self.group = self.kafka.group = Group(timeline, plan.partitions, plan.session_ms)
        self.kafka.marker_ms = self._marker_ms
        self.kafka.create_topic(PARKED, 2)
        self.kafka.create_topic(AUDIT, plan.partitions + 1)
        for topic in TARGETS:
            if topic != POISONED or not plan.poisoned_topic:
                self.kafka.create_topic(topic)
        self.is_faulty = True
        self.stored_at: dict[tuple[str, int, int], int] = {}
        self.violations: list[str] = []
        self.instances: dict[str, Instance] = {}
        self.away_topics: set[str] = set()  # targets that store nothing for the time being
        self.write_count = 0
        self.closed: set[str] = set()  # topics that take nothing, though anybody may describe them
        self.narrow: set[str] = set()  # topics that take nothing large any more
        self.refused: set[str] = set()  # targets that were among the closed ones once
        self._held: dict[str, list[Callable[[], None]]] = {}
        self._old_dice = old_dice
        #: Given instead of what is stored, by half partition, and until when.
        self._old_pairs: dict[int, tuple[int, tuple[dict[tuple[str, int], int], str]]] = {}
        self.kafka.on_positions = self._are_stored
        #: Called when watermarks are given that were stored some time ago.
        self.on_old_pair: Callable[[], None] = lambda: None

    def red(self, text: str) -> None:
        """An invariant does not hold. Raised by the driver: a worker would take it for a bug."""
        self.timeline.note("RED {}", text)
        self.violations.append(text)

    # -- records of everybody but owners ----------------------------------------------------------

    def partition_of(self, transaction_id: str) -> int:
        digits = "".join(c for c in transaction_id if c.isdigit()) or "0"
        return int(digits) % self.plan.partitions

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, headers: KafkaHeaders
    ) -> int:
        if topic == HALF:
            name = next(v for k, v in headers if k == "UNIQ_KEY")
            assert name is not None
            partition = self.partition_of(name.decode())
        else:
            events = op_wire.read(0, 0, value, headers)
            assert not isinstance(events, Garbage)
            partition = self.partition_of(events[0].identity[1])
        log_offset = self.kafka.append(topic, partition, key, value, headers)
        self.stored((topic, partition), log_offset)
        self.kafka.wake_readers(self.kafka.log(topic, partition))
        return log_offset

    def close(self, topic: str) -> None:
        self.timeline.count[f"closed: {topic}"] += 1
        self.timeline.note("{} takes nothing", topic)
        self.closed.add(topic)
        if topic in TARGETS:
            self.refused.add(topic)

    def narrow_down(self, topic: str) -> None:
        self.timeline.count[f"narrowed: {topic}"] += 1
        self.timeline.note("{} takes nothing large", topic)
        self.narrow.add(topic)

    def mend(self) -> None:
        """Somebody has looked at what is shown as degraded."""
        self.timeline.note("topics are mended")
        self.closed.clear()
        self.narrow.clear()

    def is_excused(self, transaction: Transaction) -> bool:
        """Whether it may have to be parked, and the parked topic does not take it."""
        is_large = any(len(m.value or b"") > LARGE_BYTES for m in transaction.messages)
        return PARKED in self.closed or (PARKED in self.narrow and is_large)

    def stored(self, place: tuple[str, int], log_offset: int) -> None:
        self.stored_at[(*place, log_offset)] = self.timeline.now_ms

    # -- faults -----------------------------------------------------------------------------------

    def fault(self, probability: float, name: str) -> bool:
        if self.is_faulty and self.timeline.chance(probability):
            self.timeline.count[name] += 1
            self.timeline.note("fault: {}", name)
            return True
        return False

    def crash_point(self, name: str) -> None:
        """Here a process may end, or stop for a while."""
        task = self.tasks.current
        if task is None or not self.is_faulty:
            return
        dice, process = self.timeline.dice, task.process
        if self.timeline.chance(self.plan.crash):
            self.timeline.count["crashes in a call"] += 1
            self.timeline.note("CRASH of {} {}", process.name, name)
            self.instances[process.name].die()
            raise Killed
        often = 15 if name in _TELLING else 1  # a fence that comes too late, an owner of the past
        if self.timeline.chance(self.plan.stop * often):
            ms = dice.choice([2_000, 8_000, 14_000, 30_000])
            self.timeline.count["stopped in a call"] += 1
            self.timeline.note("STOP of {} for {} ms {}", process.name, ms, name)
            process.stop_for(ms)

    def _marker_ms(self) -> int:
        if self.is_faulty and self.timeline.chance(self.plan.slow_marker):
            return self.timeline.dice.randint(0, 3_000)
        return self.timeline.dice.randint(0, self.plan.marker_ms)

    def old_pair(self, partition: int) -> tuple[dict[tuple[str, int], int], str] | None:
        """What Kafka gives instead of the stored watermarks, with its stamp; mostly nothing."""
        until_ms, given = self._old_pairs.get(partition, (0, None))
        if not self.is_faulty or self.timeline.now_ms < until_ms:
            return given if self.is_faulty else None
        before = self.kafka.stored_before.get(partition, [])[:-1]
        dice = self._old_dice
        if not before or dice.random() >= self.plan.old_pairs:
            return None
        given = dice.choice(before[: (len(before) + 1) // 2])  # old enough to be trimmed
        until_ms = self.timeline.now_ms + dice.choice([200, 5_000, 60_000])
        self._old_pairs[partition] = until_ms, given
        self.timeline.count["old watermarks given"] += 1
        self.timeline.note("old watermarks: {}", given)
        self.on_old_pair()
        return given

    def _are_stored(self, positions: dict[tuple[str, int], int]) -> None:
        """What a coordinator is told now it knows."""
        for _, partition in positions:
            self._old_pairs.pop(partition, None)

    # -- the network ------------------------------------------------------------------------------

    def travel(self, name: str) -> None:
        """One way of a request or an answer, of the task that calls; anything may happen in it."""
        self.crash_point(name)
        ms = self.timeline.dice.randint(0, self.plan.latency_ms)
        often = 15 if name in _TELLING else 1
        if self.fault(self.plan.hang * often, "calls that hang"):
            ms += self.timeline.dice.choice([2_000, 9_000, 25_000])
        self.tasks.sleep(ms)
        task = self.tasks.current
        assert task is not None
        instance = self.instances[task.process.name]
        if instance.is_cut_off:
            self.tasks.sleep(min(ANSWER_MS, instance.cut_until_ms - self.timeline.now_ms))
            if instance.is_cut_off:
                raise KafkaUnavailable("Kafka does not answer")

    def call(self, name: str, request: Callable[[], None]) -> None:
        """Ask a coordinator; while it is busy ask again. KafkaUnavailable: it never answered."""
        give_up_ms = self.timeline.now_ms + ANSWER_MS
        while True:
            self.travel(name)
            try:
                request()
            except Concurrent:
                if self.timeline.now_ms > give_up_ms:
                    raise KafkaUnavailable(f"{name}: it is still busy") from None
                self.tasks.sleep(self.timeline.dice.choice([2, 20, 200]))
                continue
            self.travel(f"after {name}")
            return

    def hold(self, transactional_id: str, name: str, request: Callable[[], None]) -> None:
        """It arrives some time, and nobody hears the answer."""
        dice = self.timeline.dice
        is_used = False

        def arrive() -> None:
            nonlocal is_used
            if is_used:
                return
            is_used = True
            try:
                request()
            except (Fenced, StaleGeneration, WrongState, Concurrent) as error:
                self.timeline.count[f"held {name} refused"] += 1
                self.timeline.note("held {} of {}: {!r}", name, transactional_id, error)
            else:
                self.timeline.count[f"held {name} effective"] += 1
                self.timeline.note("held {} of {} arrives", name, transactional_id)

        self._held.setdefault(transactional_id, []).append(arrive)
        self.timeline.after(
            dice.choice([300, 6_000, 20_000, 60_000]) + dice.randint(0, 500), arrive
        )

    def let_arrive(self, transactional_id: str) -> None:
        """While a Kafka transaction is under way: what was held arrives now, perhaps."""
        held = self._held.get(transactional_id)
        if held and self.timeline.chance(0.15):
            held.pop(0)()
