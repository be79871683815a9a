"""Desks of several instances, with links, presence and inboxes in memory, and a clock of our own.

What it simplifies: presence is known at once everywhere, an inbox message arrives when the test
says so (`World.deliver`), in order, unless the test loses it, and the half log is read at once,
unless the test holds the reading (`World.readings`) or says that it cannot be (`World.unread`).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from halfhitch.adapters.memory import MemoryClock, MemoryKafka, MemoryRecordLog
from halfhitch.core.model import Identity, ProducerGroup, TransactionId
from halfhitch.service.checking.desk import Desk
from halfhitch.service.checking.limits import DeskLimits
from halfhitch.service.transactions.op_appends import DecisionLog
from halfhitch.wire.check import Check, CheckMessage
from harness.defaults import desk_limits
from harness.twin import RecordingObserver

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from halfhitch.service.checking.api import CheckOutcome, CheckReport
    from halfhitch.service.checking.halves import Filled

GROUP = ProducerGroup("orders")
OWN = "instance-1"


def check(
    transaction_id: str = "T1",
    *,
    group: str = GROUP,
    number: int = 1,
    instance: str = OWN,
    is_repeat: bool = False,
    lag_ms: int = 0,
) -> Check:
    """A check of one small message."""
    return Check(
        0,
        (ProducerGroup(group), TransactionId(transaction_id)),
        number,
        15,
        "handle",
        6_000,
        instance,
        [CheckMessage("orders", b"key", b"value", [])],
        is_repeat,
        lag_ms,
        (7,),
    )


class FakeLink:
    """api.ProducerLink: keeps what it is offered; `room` bounds what it takes before `answered`."""

    def __init__(self, group: str = GROUP, name: str = "producer", room: int = 1_000_000) -> None:
        self.producer_group = ProducerGroup(group)
        self.name = name
        self.room = room
        self.at_once = 1_000_000
        self.offered: list[Check] = []
        self.refused_count = 0
        #: Called from within `offer`; False: after all it does not take the check.
        self.within: Callable[[Check], object] | None = None

    def offer(self, check: Check) -> bool:
        if self.room <= 0:
            self.refused_count += 1
            return False
        self.room -= 1
        self.offered.append(check)
        return self.within is None or self.within(check) is not False

    @property
    def ids(self) -> list[str]:
        return [check.identity[1] for check in self.offered]


@dataclass
class Sink:
    """api.ReportSink that keeps every report."""

    reports: list[tuple[int, CheckReport]] = field(default_factory=list)
    on_report: Callable[[CheckReport], None] | None = None

    def report(self, partition: int, report: CheckReport) -> None:
        self.reports.append((partition, report))
        if self.on_report is not None:
            self.on_report(report)

    def outcomes(self, transaction_id: str | None = None) -> list[CheckOutcome]:
        return [
            report.outcome
            for _, report in self.reports
            if transaction_id in (None, report.identity[1])
        ]

    def counts(self) -> Counter[tuple[Identity, int]]:
        return Counter((report.identity, report.number) for _, report in self.reports)


@dataclass
class FakeIndex:
    """What desks ask of ports.DoubtIndex: who was delivered what."""

    numbers: dict[Identity, int] = field(default_factory=dict)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False

    def __post_init__(self) -> None:
        self.gate.set()

    async def delivered(
        self, partition: int, identity: Identity, half_offsets: tuple[int, ...]
    ) -> int:
        await self.gate.wait()
        if self.fails:
            raise RuntimeError("a broken index")
        return self.numbers.get(identity, 0)


class FakePresence:
    """ports.Presence of one instance in a World."""

    def __init__(self, world: World, instance: str) -> None:
        self._world = world
        self._instance = instance
        self.announcements: list[set[str]] = []

    def announce(self, producer_groups: Collection[str]) -> None:
        self.announcements.append(set(producer_groups))
        self._world.live[self._instance] = set(producer_groups)

    def instances(self, producer_group: str) -> Sequence[str]:
        if self._world.is_redis_broken:
            raise RuntimeError("a broken adapter")
        return [
            instance
            for instance, groups in self._world.live.items()
            if producer_group in groups and instance != self._instance
        ]

    def post(self, instance: str, kind: str, body: bytes) -> bool:
        if self._world.is_redis_broken:
            raise RuntimeError("a broken adapter")
        if self._world.is_redis_away:
            return False
        self._world.posts.append((instance, kind, body))
        return True


class FakeHalves:
    """halves.AskedHalves: every question is about the message that `check` speaks of."""

    def __init__(self, world: World) -> None:
        self._world = world

    def fill(self, check: Check, filled: Filled) -> None:
        assert not check.messages, "no message travels"
        assert check.handle == "", "no handle travels"
        world = self._world
        messages = [CheckMessage("orders", b"key", b"value", [])]
        whole = replace(check, handle="handle", messages=messages)
        answer = None if check.identity[1] in world.unread else whole
        if world.readings is None:
            filled(answer)
        else:
            world.readings.append(lambda: filled(answer))


class World:
    """Desks that share a clock and a Redis."""

    def __init__(self) -> None:
        self.clock = MemoryClock()
        self.live: dict[str, set[str]] = {}
        self.posts: list[tuple[str, str, bytes]] = []
        self.is_redis_away = False
        self.is_redis_broken = False
        self.desks: dict[str, OneDesk] = {}
        self.unread: set[str] = set()  # transaction ids
        self.readings: list[Callable[[], object]] | None = None

    def desk(
        self,
        instance: str = OWN,
        *,
        limits: DeskLimits | None = None,
        has_redis: bool = True,
        dice: Callable[[], float] = lambda: 0.0,
    ) -> OneDesk:
        """Start one more instance. Needs a running loop."""
        one = OneDesk(self, instance, limits or desk_limits(), has_redis, dice)
        self.desks[instance] = one
        return one

    def deliver(self) -> int:
        """Hand over every inbox message, also those that are posted meanwhile."""
        count = 0
        while self.posts:
            instance, kind, body = self.posts.pop(0)
            if instance in self.desks:
                self.desks[instance].desk.on_inbox(kind, body)
            count += 1
        return count

    def sweep(self) -> None:
        """Every desk looks at the clock."""
        for one in self.desks.values():
            while one.desk.sweep(self.clock.monotonic_s()):
                pass

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.sweep()
        await turn()


class OneDesk:
    """A desk with everything it talks to."""

    def __init__(
        self,
        world: World,
        instance: str,
        limits: DeskLimits,
        has_redis: bool,
        dice: Callable[[], float],
    ) -> None:
        self.world = world
        self.kafka = MemoryKafka(world.clock, partition_count=1)
        self.observer = RecordingObserver()
        self.sink = Sink()
        self.index = FakeIndex()
        self.presence = FakePresence(world, instance)
        self.checked_now: list[tuple[int, Identity]] = []
        self.decisions = DecisionLog(MemoryRecordLog(self.kafka))
        self.desk = Desk(
            loop=asyncio.get_running_loop(),
            instance=instance,
            index=self.index if has_redis else None,  # type: ignore[arg-type]
            presence=self.presence if has_redis else None,
            decisions=self.decisions,
            observer=self.observer,
            clock=world.clock,
            reports=self.sink,
            limits=limits,
            halves=FakeHalves(world),
            check_now=lambda partition, identity: self.checked_now.append((partition, identity)),
            dice=dice,
        )

    def link(
        self, name: str = "producer", *, group: str = GROUP, room: int = 1_000_000
    ) -> FakeLink:
        """A producer connects, and everybody knows at once."""
        link = FakeLink(group, name, room)
        self.desk.connect(link)
        self.desk.sweep(self.world.clock.monotonic_s())
        return link

    async def ask(self, *checks: Check) -> None:
        """Take permits as an owner would, and send; all of them must be granted."""
        for group, count in Counter(check.identity[0] for check in checks).items():
            assert self.desk.take(group, count) == count
        self.desk.send(checks)
        await turn()

    def permits(self, group: str = GROUP) -> tuple[int, int]:
        """Granted and not used, outstanding."""
        for state in self.desk.describe():
            if state.producer_group == group:
                return state.permits.granted_count, state.permits.outstanding_count
        return 0, 0

    def breaker(self, group: str = GROUP) -> str:
        [state] = [state for state in self.desk.describe() if state.producer_group == group]
        return state.permits.breaker.value


async def turn(count: int = 5) -> None:
    """Let the loop do what waits for its next turns."""
    for _ in range(count):
        await asyncio.sleep(0)


def seeded_dice(rng: random.Random) -> Callable[[], float]:
    return rng.random
