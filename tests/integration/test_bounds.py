"""A group that ends nothing fills its own share and no other, on a real Kafka and without Redis."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer

from halfhitch.adapters.kafka.burden_board import BELIEVED_S, KafkaBurdenBoard
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.core.model import Resolution
from halfhitch.core.partitioning import half_partition
from halfhitch.embedded import EmbeddedKafka
from halfhitch.errors import BackendError, OwnerLags, TooManyUndecided
from halfhitch.service.api import Filter
from halfhitch.wire.burden import Burden, Over
from harness.check_site import CheckSite
from harness.check_witness import PLANS
from harness.checkers import Fate
from harness.defaults import intake_limits, owner_limits
from harness.engines import PARTITION_COUNT, until
from harness.kafka import create_topics, fresh_name, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from halfhitch.engine import Engine

pytestmark = pytest.mark.kafka

GROUP_MAX = 100
LIMITS = intake_limits(undecided_max=250, undecided_group_max=GROUP_MAX)
HOG, SHOP = "hog", "shop"
#: So many a second, at most: what arrives before a refusal is heard is bounded by it.
PACE = 50
#: A transaction counts after a second; the count is looked at, told, heard within three more. The
#: rest is for a machine that has other things to do.
HEARD_S = 8


@pytest.fixture
def site(kafka: Any) -> CheckSite:
    made = CheckSite(kafka.bootstrap)
    made.create_targets()
    return made


class Hog:
    """Prepares over one instance as long as it is let, keyed, and ends nothing."""

    def __init__(self, site: CheckSite, engine: Engine) -> None:
        self.site, self.engine = site, engine
        self.stored: list[str] = []
        self.refusals: list[TooManyUndecided] = []
        self._number = 0

    async def run(self) -> None:
        while True:
            self._number += 1
            name = f"hog-{self._number}"
            message = self.site.message(key=name.encode(), value=name.encode())
            try:
                await self.site.orphan(
                    self.engine, name, PLANS["rollback"], [message], group=HOG, immunity_s=3_600
                )
            except TooManyUndecided as error:
                self.refusals.append(error)
            else:
                self.stored.append(name)
            await asyncio.sleep(1 / PACE)


def pending_of(engine: Engine, group: str) -> int:
    return sum(state.pending_by_group.get(group, 0) for state in engine.partitions())


@pytest.mark.parametrize(
    "taker", ["the owner", pytest.param("another instance", marks=pytest.mark.long)]
)
async def test_a_hog_is_refused_and_all_others_go_on(site: CheckSite, taker: str) -> None:
    async with (
        site.engine(instance="owner", intake_limits=LIMITS) as owner,
        site.doorkeeper(instance="other", intake_limits=LIMITS) as other,
    ):
        hog = Hog(site, owner if taker == "the owner" else other)
        hogging = asyncio.ensure_future(hog.run())
        try:
            await until(lambda: len(hog.refusals) >= 2 * PACE, "refusals", deadline_s=60)
            # Whatever the hog does, it stays at its bound, in each half partition.
            assert len(hog.stored) <= PARTITION_COUNT * (GROUP_MAX + HEARD_S * PACE)
            assert f"group {HOG} has " in hog.refusals[-1].message
            assert any(f"of group {HOG}" in reason for reason in owner.degraded_reasons())
            for number in range(40):
                name = f"shop-{number}"
                engine = (owner, other)[number % 2]
                handle = (await site.orphan(engine, name, PLANS["undecided"], group=SHOP)).handle
                await site.end(engine, handle, Resolution.COMMIT)
        finally:
            hogging.cancel()
            await asyncio.gather(hogging, return_exceptions=True)
        # Its ends are taken while its prepares are not, and they make room.
        undecided = await owner.operations.undecided(Filter(producer_group=HOG, count_max=10_000))
        assert undecided.total_count == len(hog.stored)
        for transaction in undecided.transactions:
            await owner.operations.decide(
                HOG, transaction.transaction_id, Resolution.ROLLBACK, reason="x", operator="ann"
            )
        await until(lambda: not other.intake.troubles(), "room again")
        await site.orphan(other, "again", PLANS["rollback"], group=HOG)
        site.link(owner, group=HOG)
        await site.until_faultless()


async def test_a_hog_is_drained_by_its_checks_and_taken_again(site: CheckSite) -> None:
    async with site.engine(intake_limits=LIMITS) as engine:
        taken: list[str] = []

        async def refused() -> bool:
            name = f"orphan-{len(taken)}"
            try:
                await site.orphans(engine, [name], PLANS["commit"], group=HOG)
            except TooManyUndecided:
                return True
            taken.append(name)
            return False

        while not await refused():
            await asyncio.sleep(1 / PACE)
        assert len(taken) >= GROUP_MAX
        site.link(engine, group=HOG)
        await until(lambda: not engine.intake.troubles(), "room again")
        await until(lambda: pending_of(engine, HOG) == 0, "every one asked")
        assert not await refused()
        await until(lambda: len(site.witness.asked) >= len(taken), "the last one asked")
        await site.until_faultless()


async def test_an_owner_that_cannot_keep_up_is_given_less(
    site: CheckSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its half partition takes nothing new until it has caught up; the other one does."""
    write = KafkaPartitionWriter.write
    slow = {"half-0"}  # the worker's name

    def slowly(self: KafkaPartitionWriter, *values: Any) -> Any:
        if threading.current_thread().name in slow:
            time.sleep(0.3)
        return write(self, *values)

    monkeypatch.setattr(KafkaPartitionWriter, "write", slowly)
    limits = owner_limits(batch_count_max=1, check_rules=site.rules)
    intake = intake_limits(lag_s_max=1.5)
    async with site.engine(owner_limits=limits, intake_limits=intake) as engine:
        keys = {half_partition(key, None, PARTITION_COUNT): key for key in (b"a", b"b", b"c", b"d")}

        async def taken(key: bytes | None) -> bool:
            message = site.message(key=key)
            try:
                await site.run(engine, [message], Fate.COMMITTED)
            except OwnerLags:
                return False
            return True

        count = 0
        while await taken(keys[0]):
            count += 1
            assert count < 1_000, "nothing is refused"
            await asyncio.sleep(0.02)
        assert engine.partitions()[0].lag_s >= 0.75, "it opens at half of the bound"
        assert await taken(keys[1])
        assert await taken(None)
        slow.clear()
        await until(lambda: not engine.intake.troubles(), "the owner has caught up", 120)
        assert await taken(keys[0])
        await site.until_faultless()


# -- how instances tell each other -----------------------------------------------------------------


BUSY = Burden(groups={HOG: Over(120, 100)})


class Boards:
    """Boards of one group, each of an instance of its own; time is what a test says."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, fresh_name("half"), fresh_name("group")
        create_topics(bootstrap, {self.topic: PARTITION_COUNT})
        self.now_s = 100.0
        self.made: list[KafkaBurdenBoard] = []

    def board(self) -> KafkaBurdenBoard:
        options = {"bootstrap.servers": self.bootstrap, "group.id": self.group}
        self.made.append(
            KafkaBurdenBoard(
                lambda on_commit: Consumer({**options, "on_commit": on_commit}),
                group=self.group,
                half_topic=self.topic,
                now_s=lambda: self.now_s,
            )
        )
        return self.made[-1]


@pytest.fixture
def boards(kafka: Any) -> Any:
    made = Boards(kafka.bootstrap)
    yield made
    for board in made.made:
        board.close()


def exchanged(board: KafkaBurdenBoard, own: Mapping[int, Burden], *others: int) -> Any:
    """What is heard; a group's coordinator may have to be found first."""
    end_s = time.monotonic() + 30
    while True:
        try:
            return board.exchange(own, others)
        except BackendError:
            assert time.monotonic() < end_s
            time.sleep(0.1)


def heard_soon(look: Callable[[], Mapping[int, Burden]]) -> Mapping[int, Burden]:
    end_s = time.monotonic() + 30
    while not (found := look()):
        assert time.monotonic() < end_s, "nothing was heard"
        time.sleep(0.02)
    return found


def test_what_an_owner_tells_again_and_again_is_heard(boards: Boards) -> None:
    owner, other = boards.board(), boards.board()

    def told_and_heard() -> Mapping[int, Burden]:
        exchanged(owner, {1: BUSY})
        found: Mapping[int, Burden] = exchanged(other, {}, 0, 1)
        return found

    assert heard_soon(told_and_heard) == {1: BUSY}


def test_what_is_not_told_again_is_not_believed(boards: Boards) -> None:
    """The owner has gone, or is not burdened any more: nobody takes anything back."""
    owner, other = boards.board(), boards.board()
    exchanged(owner, {0: BUSY})
    assert exchanged(other, {}, 0, 1) == {}, "it may be of any age"
    time.sleep(0.002)  # the number is a time in milliseconds
    exchanged(owner, {0: BUSY})
    assert exchanged(other, {}, 0, 1) == {0: BUSY}
    boards.now_s += BELIEVED_S - 0.1
    assert exchanged(other, {}, 0, 1) == {0: BUSY}
    boards.now_s += 0.2
    assert exchanged(other, {}, 0, 1) == {}
    time.sleep(0.002)
    exchanged(owner, {0: BUSY})
    assert exchanged(other, {}, 0, 1) == {0: BUSY}


def test_a_board_that_is_closed_says_nothing(boards: Boards) -> None:
    board = boards.board()
    exchanged(board, {0: BUSY}, 1)
    board.close()
    assert board.exchange({0: BUSY}, [1]) == {}


_TELLER = """
import sys
from halfhitch.adapters.kafka.burden_board import KafkaBurdenBoard
from halfhitch.adapters.kafka.clients import base, log_consumer
from halfhitch.errors import BackendError
from halfhitch.wire.burden import Burden, Over

bootstrap, group, topic = sys.argv[1:]
common = base(bootstrap, "board", {})
board = KafkaBurdenBoard(
    lambda told: log_consumer(common, group=group, on_commit=told), group=group, half_topic=topic
)
for _ in sys.stdin:
    try:
        board.exchange({0: Burden(groups={"hog": Over(120, 100)})}, [1])
    except BackendError as error:
        print("not told:", error.message, flush=True)
    else:
        print("told", flush=True)
board.close()
print("closed", flush=True)
"""


class Teller:
    """A process that tells of a burden whenever it is asked to: what is looked for would end it."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _TELLER, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("now\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def end(self) -> tuple[str, int]:
        """What it said last, and its status."""
        told, _ = self._process.communicate(timeout=60)
        return told, self._process.returncode


@pytest.mark.timeout(180)
@pytest.mark.parametrize("outage", ["hangs", "is killed"])
def test_an_owner_that_told_while_the_coordinator_was_away_lives_when_it_comes_back(
    outage: str,
) -> None:
    """It was ended by its Kafka client: by an assertion, or by a heap that was damaged earlier."""
    with EmbeddedKafka(short_lived=True) as cluster:
        topic, group = fresh_name("half"), fresh_name("group")
        create_topics(cluster.bootstrap, {topic: PARTITION_COUNT})
        teller = Teller(cluster.bootstrap, group, topic)
        told = lambda: teller.tell() == "told\n"  # noqa: E731 - said in one place
        if outage == "is killed":
            wait_until(told, 60, what="the burden is told")
            cluster.kill_broker()
        else:
            cluster.pause_broker()  # before the coordinator was ever found
        assert [teller.tell()[:9] for _ in range(3)] == ["not told:"] * 3
        if outage == "is killed":
            cluster.restart_broker()
        else:
            cluster.resume_broker()
        wait_until(told, 60, what="the burden is told again")
        assert [teller.tell() for _ in range(3)] == ["told\n"] * 3
        assert teller.end() == ("closed\n", 0)


@pytest.mark.timeout(120)
def test_a_board_lets_go_in_seconds_although_kafka_hangs() -> None:
    with EmbeddedKafka(short_lived=True) as cluster:
        topic, group = fresh_name("half"), fresh_name("group")
        create_topics(cluster.bootstrap, {topic: PARTITION_COUNT})
        teller = Teller(cluster.bootstrap, group, topic)
        wait_until(lambda: teller.tell() == "told\n", 60, what="the burden is told")
        cluster.pause_broker()
        try:
            assert teller.tell().startswith("not told:")
            assert teller.end() == ("closed\n", 0)
        finally:
            cluster.resume_broker()
