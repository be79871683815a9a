"""Many checks, groups, instances and threads at once: every check ends, once, and in time."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import ProducerGroup
from halfhitch.service.checking.api import CheckOutcome
from halfhitch.service.checking.breaker import BreakerLimits
from harness.defaults import desk_limits
from harness.desks import GROUP, FakeLink, OneDesk, World, check, turn

if TYPE_CHECKING:
    from halfhitch.service.checking.api import CheckReport
    from halfhitch.wire.check import Check

GROUPS = [ProducerGroup(f"group-{number}") for number in range(3)]
LINK_OUTCOMES = [outcome for outcome in CheckOutcome if outcome is not CheckOutcome.SILENT]


class Chaos:
    """Random events on a few instances, and what must hold of them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world = World()
        limits = desk_limits(in_flight_max=12, breaker=BreakerLimits(failure_count=6))
        self.desks = [
            self.world.desk(f"instance-{number}", limits=limits, dice=rng.random)
            for number in range(3)
        ]
        self.links: list[tuple[OneDesk, FakeLink]] = []
        self.asked: list[tuple[OneDesk, Check]] = []
        self.serial = 0

    def send(self) -> None:
        rng, one = self.rng, self.rng.choice(self.desks)
        group = rng.choice(GROUPS)
        granted = one.desk.take(group, rng.randrange(1, 8))
        checks = []
        for _ in range(rng.randrange(granted + 1)):
            self.serial += 1
            # Sometimes a transaction that is asked about already: an owner has come back.
            number = rng.randrange(1, 4)
            name = f"T{self.serial}" if rng.random() < 0.9 else f"T{rng.randrange(self.serial)}"
            origin = rng.choice(["instance-0", "instance-1", "instance-2", "gone"])
            repeats = rng.random() < 0.2
            made = check(name, group=group, number=number, instance=origin, is_repeat=repeats)
            if repeats and rng.random() < 0.3:
                one.index.numbers[made.identity] = number
            checks.append(made)
        self.asked += [(one, made) for made in checks]
        one.desk.send(checks)
        one.desk.give_back(group, granted - len(checks))

    def connect(self) -> None:
        rng, one = self.rng, self.rng.choice(self.desks)
        link = FakeLink(rng.choice(GROUPS), f"link-{self.serial}", rng.choice([0, 1, 5, 1_000]))
        link.within = lambda asked: self.within_offer(one, link, asked)
        self.links.append((one, link))
        one.desk.connect(link)

    def within_offer(self, one: OneDesk, link: FakeLink, asked: Check) -> bool:
        draw = self.rng.random()
        if draw < 0.08:
            one.desk.settle(asked.identity, self.rng.choice(LINK_OUTCOMES))
        elif draw < 0.10:
            one.desk.disconnect(link)
        if self.rng.random() < 0.03:
            raise RuntimeError("a bug in a door")
        return self.rng.random() > 0.1

    def disconnect(self) -> None:
        if self.links:
            one, link = self.rng.choice(self.links)
            one.desk.disconnect(link)  # also for the second time

    def answer(self) -> None:
        for _ in range(5):
            if self.asked:
                one = self.rng.choice(self.desks)
                asked = self.rng.choice(self.asked[-30:])[1]
                one.desk.settle(asked.identity, self.rng.choice(LINK_OUTCOMES))

    def forget(self) -> None:
        if self.asked:
            one, asked = self.rng.choice(self.asked[-30:])
            one.desk.forget([asked.identity])

    def room(self) -> None:
        if self.links:
            self.rng.choice(self.links)[1].room = self.rng.choice([0, 1, 5])

    def deliver(self) -> None:
        posts = self.world.posts
        draw = self.rng.random()
        if draw < 0.1:
            posts.clear()
        elif draw < 0.2:
            self.rng.shuffle(posts)
            posts += posts[: self.rng.randrange(3)]
        else:
            self.world.deliver()

    def redis(self) -> None:
        self.world.is_redis_away = self.rng.random() < 0.3

    async def step(self) -> None:
        events = [
            self.send, self.send, self.send, self.connect, self.disconnect, self.answer,
            self.answer, self.forget, self.room, self.deliver, self.deliver, self.redis,
        ]  # fmt: skip
        self.rng.choice(events)()
        if self.rng.random() < 0.5:
            await turn(self.rng.randrange(4))
        if self.rng.random() < 0.2:
            await self.world.pass_time(self.rng.choice([0.1, 1.0, 4.0]))
        for one in self.desks:
            for group in GROUPS:
                assert sum(one.permits(group)) <= 12

    async def end(self) -> None:
        """Enough time for everything; or a stop."""
        if self.rng.random() < 0.5:
            for one in self.desks:
                one.desk.stop()
        for _ in range(60):
            await self.world.pass_time(1.0)
            self.world.deliver()
            await turn()

    def verify(self) -> None:
        for one in self.desks:
            wanted = Counter((made.identity, made.number) for by, made in self.asked if by is one)
            assert one.sink.counts() == wanted
            assert [one.permits(group) for group in GROUPS] == [(0, 0)] * len(GROUPS)
            delivery = one.desk._delivery
            assert delivery.questions.all() == []
            assert delivery._deadlines._slots == {}
            assert delivery._crowded == {}
            assert delivery._lookups == set()
            assert delivery._foreign_count == 0
            assert [ways.out_count for ways in delivery.ways.values() if ways.out_count] == []
            assert not [link for link in delivery._links.values() if link.out]
            settled = [outcome for _, outcome, _ in one.observer.of("check_settled")]
            assert Counter(settled) == Counter(one.sink.outcomes())


@pytest.mark.parametrize("part", range(8))
async def test_every_check_is_reported_once_and_every_permit_returns(
    rng: random.Random, part: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")  # links that raise are logged with their stacks
    for _ in range(8):
        chaos = Chaos(random.Random(rng.random()))
        for _ in range(250):
            await chaos.step()
        await chaos.end()
        chaos.verify()


class Owner:
    """Keeps as many checks of a group under way as it is granted, as an owner does."""

    def __init__(self, one: OneDesk, group: str, count: int) -> None:
        self.one, self.group, self.left = one, ProducerGroup(group), count

    def turn(self) -> None:
        granted = self.one.desk.take(self.group, min(self.left, 500))
        self.one.desk.send(
            [check(f"{self.group}-{self.left - i}", group=self.group) for i in range(granted)]
        )
        self.left -= granted


def answering(one: OneDesk, group: str, room: int = 64) -> FakeLink:
    """A producer that answers in the loop's next turn, `room` at a time."""
    link = FakeLink(group, room=room)

    def answer(asked: Check) -> None:
        link.room += 1
        one.desk.settle(asked.identity, CheckOutcome.COMMIT)

    loop = asyncio.get_running_loop()
    link.within = lambda asked: loop.call_soon(answer, asked)
    one.desk.connect(link)
    return link


async def rounds_until_done(hung_group_count: int) -> int:
    """Rounds in which 2,000 checks of a group that works are done, beside groups that hang."""
    one = World().desk()
    answering(one, "well")
    owners = [Owner(one, "well", 2_000)]
    for number in range(hung_group_count):
        one.desk.connect(FakeLink(f"hung-{number}"))
        owners.append(Owner(one, f"hung-{number}", 100_000))
    done = Counter()
    one.sink.on_report = lambda report: done.update([report.identity[0]])
    rounds = 0
    while done["well"] < 2_000:
        rounds += 1
        assert rounds < 10_000
        for owner in owners:
            owner.turn()
        await turn(1)
    return rounds


async def test_groups_that_hang_cost_another_group_not_one_round() -> None:
    alone = await rounds_until_done(0)
    beside = await rounds_until_done(20)
    # A burst of 20 * 256 checks of the others is worked off once, in turns of 256.
    assert beside <= alone + 2 * 21


async def test_one_sweep_ends_few_checks_at_a_time() -> None:
    """A thousand deadlines at one moment must not stop the loop."""
    one = World().desk(limits=desk_limits(in_flight_max=1_000))
    one.link()
    await one.ask(*(check(f"T{number}") for number in range(1_000)))
    await turn()
    one.world.clock.advance(11.0)
    sizes = []
    while True:
        before = len(one.sink.reports)
        is_more = one.desk.sweep(one.world.clock.monotonic_s())
        sizes.append(len(one.sink.reports) - before)
        if not is_more:
            break
    assert sum(sizes) == 1_000
    assert max(sizes) <= 256


async def test_a_storm_of_ten_thousand_is_answered_once_each_and_quickly() -> None:
    one = World().desk()
    links = [answering(one, GROUP), answering(one, GROUP)]
    owner = Owner(one, GROUP, 10_000)
    begun_s = time.process_time()
    while len(one.sink.reports) < 10_000:
        owner.turn()
        await turn(1)
    cpu_s = time.process_time() - begun_s
    assert one.sink.outcomes() == [CheckOutcome.COMMIT] * 10_000
    assert set(one.sink.counts().values()) == {1}
    assert [len(link.offered) for link in links] == [5_000, 5_000]
    assert one.permits() == (0, 0)
    print(f"{cpu_s / 10_000 * 1e6:.1f} us of CPU for each check, the fakes' part included")
    assert cpu_s < 5.0  # generous: other work shares the machine


async def test_threads_that_take_send_and_forget_get_a_report_for_each_check(
    rng: random.Random,
) -> None:
    one = World().desk(limits=desk_limits(in_flight_max=64))
    for group in GROUPS:
        answering(one, group)
        one.desk.connect(FakeLink(group, room=0))
    reports: Counter[tuple[object, int]] = Counter()

    def count(report: CheckReport) -> None:
        reports[report.identity, report.number] += 1

    one.sink.on_report = count
    sent: list[list[Check]] = []
    give_up_s = time.monotonic() + 60

    def own(number: int, dice: random.Random) -> None:
        mine: list[Check] = []
        sent.append(mine)
        while len(mine) < 2_000 and time.monotonic() < give_up_s:
            group = dice.choice(GROUPS)
            granted = one.desk.take(group, dice.randrange(1, 40))
            used = dice.randrange(granted + 1)
            begin = len(mine)
            checks = [check(f"T{number}-{begin + i}", group=group) for i in range(used)]
            one.desk.give_back(group, granted - used)
            one.desk.send(checks)
            mine += checks
            if checks and dice.random() < 0.3:
                one.desk.forget([made.identity for made in checks[::3]])
            if not granted:
                time.sleep(0.0002)  # an owner has other things to do meanwhile

    threads = [
        threading.Thread(target=own, args=(number, random.Random(rng.random())))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        one.desk.sweep(one.world.clock.monotonic_s())
        await asyncio.sleep(0.001)
    for _ in range(100):
        one.desk.sweep(one.world.clock.monotonic_s())
        await turn()
    assert sum(len(mine) for mine in sent) >= 8_000
    assert reports == Counter((made.identity, 1) for mine in sent for made in mine)
    assert [one.permits(group) for group in GROUPS] == [(0, 0)] * len(GROUPS)
