"""One instance: the real member, ownership, workers and owners, on simulated threads."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfhitch.adapters.kafka.membership import GroupMembership
from halfhitch.errors import BelowLogError, HalfHitchError, InvariantViolation
from halfhitch.service.checking.policy import GiveUpPolicy
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.service.owner.ownership import Ownership
from halfhitch.service.owner.questions import CheckQuestions
from halfhitch.service.owner.turn import PartitionOwner
from halfhitch.service.owner.worker import PartitionWorker
from halfhitch.service.topic_policy import TopicPolicy
from harness.audit import AUDIT, stories_of
from harness.defaults import owner_limits
from harness.simulation.cluster import HALF, OP, PARKED, CoordinatorClock
from harness.simulation.desk import Desk
from harness.simulation.life import Observed
from harness.simulation.several.group import MemberConsumer
from harness.simulation.several.ports import SeveralReader, SeveralWriter
from harness.simulation.several.tasks import Flag, Killed, Process, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from halfhitch.core.ledger import Ledger
    from halfhitch.ports import PartitionReader
    from halfhitch.service.checking.api import CheckReport
    from halfhitch.service.owner.payloads import PayloadCache
    from harness.simulation.several.life import SeveralLife


@dataclass(eq=False)
class Author:
    """Who wrote: one takeover of one partition by one instance."""

    instance: str
    partition: int
    number: int
    member: str | None
    is_complete: bool = False

    def __str__(self) -> str:
        return f"{self.instance}/{self.partition}#{self.number}"


class ObservedOwner(Observed):
    """Tells the account when a takeover is complete."""

    def __init__(self, life: SeveralLife, author: Author) -> None:
        super().__init__(life.timeline.count)
        self._life = life
        self._author = author

    def takeover(self, partition: int, elapsed_s: float, replayed_count: int) -> None:
        super().takeover(partition, elapsed_s, replayed_count)
        self._life.took_over(self._author)


class SimulatedWorker(PartitionWorker):
    """The real one, but its thread is a task and its pauses are simulated."""

    def __init__(self, instance: Instance, partition: int, make_owner: Any) -> None:
        super().__init__(partition, make_owner)
        self._instance = instance
        self._task: Task | None = None
        flag: Any = Flag(instance.world.tasks)
        self._stopping = flag

    def start(self) -> None:
        instance = self._instance
        self._task = instance.world.tasks.start(instance.process, self._run)

    def join(self, wait_s: float) -> bool:
        world, task = self._instance.world, self._task
        until_ms = world.timeline.now_ms + round(wait_s, 1) * 1000
        while task is not None and not task.has_ended:
            if world.timeline.now_ms >= until_ms:
                world.timeline.count["workers left behind"] += 1
                return False
            world.tasks.sleep(50)
        return True

    def _failed(self, error: Exception, action: str) -> None:
        world = self._instance.world
        if isinstance(error, InvariantViolation) or not isinstance(error, HalfHitchError):
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            world.red(f"a bug in {self._instance.name}/{self.partition}, {place}: {error!r}")
        if isinstance(error, BelowLogError) and self._is_owner:
            world.red(f"I11: nothing was deleted from outside, and yet it stops: {error}")
        world.timeline.count[f"owner ends: {type(error).__name__}"] += 1
        world.timeline.note("{}/{} fails: {}", self._instance.name, self.partition, error)
        super()._failed(error, action)

    @property
    def _is_owner(self) -> bool:
        """Whether nobody else can have moved the watermarks meanwhile."""
        owner = self._instance.world.group.owner_of(self.partition)
        return owner is not None and owner.split(".")[0] == self._instance.name


class Instance:
    """It starts, stops, is killed, stopped for a while or cut off; its name stays."""

    def __init__(self, life: SeveralLife, name: str) -> None:
        self.life = life
        self.world = life.world
        self.name = name
        self.cut_until_ms = self.deaf_until_ms = 0
        self._ahead_ms = 0
        #: Its own door takes less than others: of size, and of topics.
        self.is_small = life.plan.instances_differ and name == "i-0"
        self.is_running = False
        self.process = Process(self.world.tasks, name)
        self.process.is_dead = True

    @property
    def is_cut_off(self) -> bool:
        return self.world.timeline.now_ms < self.cut_until_ms

    @property
    def is_deaf(self) -> bool:
        return self.world.timeline.now_ms < self.deaf_until_ms

    def start(self) -> None:
        life, world = self.life, self.world
        world.timeline.note("{} starts", self.name)
        world.timeline.count["starts"] += 1
        self.is_running = True
        self.process = Process(world.tasks, self.name)
        self.clock = CoordinatorClock(world.timeline, self._ahead_ms)
        self.desk = Desk(
            life.world,  # type: ignore[arg-type]
            life.apps,
            life.twin,
            self._report,
            lambda identity: 0,
            life.sent,
            permits_max=world.timeline.dice.choice([3, 100]),
        )
        self.ownership = Ownership(
            self._make_worker,
            on_lost=lambda partition: None,
            instance=self.name,
            stop_wait_s=world.plan.stop_wait_ms / 1000,
        )
        consumer: Any = partial(MemberConsumer, self, world.group, world.tasks)
        self.consumer: MemberConsumer | None = None

        def make_consumer() -> Any:
            self.consumer = consumer()
            return self.consumer

        self.membership = GroupMembership(
            make_consumer,
            half_topic=HALF,
            listener=self.ownership,
            session_s=world.plan.session_ms / 1000,
            now_s=lambda: world.timeline.now_ms / 1000,
            leave_to_itself=lambda close: close(),
        )
        flag: Any = Flag(world.tasks)
        self.membership._stopping = flag
        world.tasks.start(self.process, self._member)

    def _member(self) -> None:
        self.membership._run()
        self.die()
        raise Killed

    def stop(self) -> None:
        """SIGTERM: everything is given up in order."""
        self.membership._stopping.set()

    def die(self) -> None:
        """kill -9, or the end of a stop in good order."""
        if self.is_running:
            self.is_running = False
            self.desk.die()
            self.process.kill()
            back_ms = self.world.timeline.dice.choice([500, 5_000, 20_000])
            self.world.timeline.later(back_ms, self.start)

    def end(self) -> None:
        """The life is over: its threads unwind."""
        self.is_running = False
        self.process.is_dead = True
        for thread in list(self.process.threads):
            thread.unwind()

    def _report(self, report: CheckReport) -> None:
        if self.is_running:
            partition = self.world.partition_of(report.identity[1])
            self.ownership.report(partition, report)

    def ledger_of(self, partition: int) -> Ledger | None:
        """Of its working owner."""
        worker = self.ownership._workers.get(partition) if self.is_running else None
        owner = worker.owner if worker is not None else None
        return owner._ledger if owner is not None else None

    # -- its owners -------------------------------------------------------------------------------

    def _make_worker(self, partition: int) -> PartitionWorker:
        return SimulatedWorker(self, partition, partial(self._make_owner, partition))

    @property
    def _allowed(self) -> tuple[str, ...]:
        return ("orders",) if self.is_small else ("*",)

    def _make_owner(self, partition: int, may_write: Callable[[], bool]) -> PartitionOwner:
        life, world, plan = self.life, self.world, self.world.plan
        author = life.new_author(self, partition)
        observer: Any = ObservedOwner(life, author)
        reader: Any = SeveralReader(world, partition)
        writer: Any = SeveralWriter(
            world, partition, author, partial(self.membership.metadata, may_write)
        )
        writer.is_small = self.is_small

        def make_checkback(payloads: PayloadCache, reader: PartitionReader) -> CheckBack:
            questions = CheckQuestions(
                partition,
                half_topic=HALF,
                sign=lambda handle: ",".join(map(str, handle.half_offsets)),
                number_max=plan.rules.count_max,
            )
            return CheckBack(
                partition,
                gate=self.desk,
                index=life.twin if plan.has_redis else None,  # type: ignore[arg-type]
                policy=GiveUpPolicy(plan.give_up, []),
                questions=questions,
                observer=observer,
                clock=self.clock,
                payloads=payloads,
                reader=reader,
            )

        return PartitionOwner(
            partition,
            reader=reader,
            writer=writer,
            policy=TopicPolicy(internal_topics=(HALF, OP, PARKED, AUDIT), allow=self._allowed),
            parked_topic=PARKED,
            observer=observer,
            clock=self.clock,
            limits=owner_limits(
                batch_count_max=plan.batch_count_max,
                payload_cache_bytes=plan.payload_cache_bytes,
                horizon_ms=plan.memory_ms,
                check_rules=replace(plan.rules),
            ),
            on_done=lambda partition, marks: world.crash_point("before anybody is told"),
            make_checkback=make_checkback,
            stories=stories_of(
                world.kafka,
                partition,
                observer=observer,
                clock=self.clock,
                index_partition=plan.partitions,
                instance=self.name,
                doubts_max=10**9,
            ),
        )
