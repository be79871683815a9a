"""Instances that come, go, restart and hang: partitions move, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.model import Resolution
from halfhitch.engine import Engine
from halfhitch.errors import BackendError, ConfigurationError
from harness.checkers import Fate
from harness.engines import (
    DEADLINE_S,
    PARTITION_COUNT,
    SESSION_MS,
    Site,
    is_working,
    until,
    until_idle,
    until_working,
)
from harness.hanging import Hang, hanging_engine, until_hanging

if TYPE_CHECKING:
    import random

pytestmark = pytest.mark.kafka
C, R = Resolution.COMMIT, Resolution.ROLLBACK


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


def workers(engine: Engine) -> dict[int, Any]:
    """The very workers: who stays is not made anew."""
    return dict(engine._parts.ownership._workers)


def owned(engine: Engine) -> set[int]:
    return {state.partition for state in engine.partitions()}


class Load:
    """Transactions through an instance that owns nothing, until it is told to end."""

    def __init__(self, site: Site, front: Engine, rng: random.Random) -> None:
        self.count = 0
        self._site = site
        self._front = front
        self._rng = rng
        self._ending = False
        self._tasks = [asyncio.ensure_future(self._work(n)) for n in range(6)]

    async def _work(self, worker: int) -> None:
        n = 0
        while not self._ending:
            name = f"L{worker}-{n}"
            n += 1
            fate = self._rng.choice([Fate.COMMITTED, Fate.COMMITTED, Fate.ROLLED_BACK])
            messages = self._site.pair(name)
            while True:  # every request here may be repeated
                try:
                    prepared = await self._site.prepare(self._front, messages, name)
                    self._site.note(name, messages, Fate.UNKNOWN)
                    resolution = C if fate is Fate.COMMITTED else R
                    await self._front.transactions.end(prepared.handle, resolution)
                except BackendError:
                    await asyncio.sleep(0.05)
                else:
                    break
            self._site.note(name, messages, fate)
            self.count += 1

    async def more(self, count: int) -> None:
        """So many more have ended."""
        target = self.count + count
        await until(lambda: self.count >= target, "the load goes on")

    async def end(self) -> None:
        self._ending = True
        await asyncio.gather(*self._tasks)


@pytest.mark.timeout(120)
async def test_instances_join_and_leave_under_load_and_what_stays_goes_on_working(
    site: Site, rng: random.Random
) -> None:
    # Whoever waited for a session to end would meet the deadline first.
    six = {"partition_count": 6, "session_timeout_ms": int(2_000 * DEADLINE_S)}
    async with (
        site.engine(owner_enabled=False, working=None, **six) as front,
        site.engine(working=6, **six) as first,
    ):
        await until(lambda: not front.unready_reasons(), "ready")
        load = Load(site, front, rng)
        await load.more(30)
        alone = workers(first)
        async with site.engine(working=3, **six) as second:
            await until_working(first, 3)
            kept = workers(first)
            assert kept.items() <= alone.items(), "what stays is not taken over anew"
            await load.more(30)
            async with site.engine(working=2, **six) as third:
                await until(
                    lambda: is_working(first, 2) and is_working(second, 2), "two each", DEADLINE_S
                )
                assert workers(first).items() <= kept.items()
                assert owned(first) | owned(second) | owned(third) == set(range(6))
                await load.more(30)
                shared = workers(first)
            await until(
                lambda: len(owned(first)) == len(owned(second)) == 3
                and is_working(first, 3) and is_working(second, 3),
                "three each",
            )  # fmt: skip
            assert shared.items() <= workers(first).items()
            await load.more(30)
        await until_working(first, 6)
        await load.more(30)
        await load.end()
        await until_idle(first)
        await site.until_faultless()
    assert load.count >= 150
    assert {truth.fate for truth in site.truths} == {Fate.COMMITTED, Fate.ROLLED_BACK}


@pytest.mark.parametrize("late", [False, True], ids=["before", "with the generation in hand"])
async def test_an_owner_that_hangs_while_its_partition_is_revoked_is_left_behind_and_harmless(
    site: Site, caplog: pytest.LogCaptureFixture, late: bool
) -> None:
    hang = Hang(late=late)
    async with hanging_engine(site, hang, stop_wait_s_max=1.0) as first:
        hang.hold.set()
        for n in range(12):
            await site.run(first, site.pair(f"T{n}"), Fate.COMMITTED)
        await until_hanging(hang, PARTITION_COUNT)
        async with site.engine(working=1) as second:
            (moved,) = owned(second)
            assert owned(first) == set(range(PARTITION_COUNT)) - {moved}
            lines = [record.getMessage() for record in caplog.records]
            left_behind = [line for line in lines if "is left behind" in line]
            assert len(left_behind) == 1
            assert f"half partition {moved} did not stop" in left_behind[0]
            await until_idle(second)
            hang.hold.clear()
            hang.release.set()
            await until_idle(first, second)
            for n in range(12, 18):
                await site.run(first, site.pair(f"T{n}"), Fate.COMMITTED, wait_visible=True)
            await site.until_faultless()


async def test_a_static_member_that_restarts_within_its_session_finds_its_partition_waiting(
    site: Site,
) -> None:
    async with site.engine(group_instance_id="a") as staying:
        async with site.engine(working=1, group_instance_id="b") as leaving:
            await until_working(staying, 1)
            mine, others = workers(staying), owned(leaving)
            pending = [await site.prepare(leaving, site.pair(f"T{n}")) for n in range(8)]
        for n, prepared in enumerate(pending):
            await staying.transactions.end(prepared.handle, C)
            site.note(prepared.transaction_id, site.pair(f"T{n}"), Fate.COMMITTED)
        async with site.engine(working=1, group_instance_id="b") as back:
            assert owned(back) == others
            assert workers(staying) == mine, "nothing moved meanwhile"
            await until_idle(staying, back)
            await site.until_faultless()
    assert len(site.observer.of("takeover")) == PARTITION_COUNT + 2, "one by b at first, one after"


async def test_a_static_member_that_stops_for_good_holds_its_partition_for_its_session(
    site: Site,
) -> None:
    """Why it is not the default: the dynamic member's partitions move at once."""
    async with site.engine(group_instance_id="a") as staying:
        async with site.engine(working=1, group_instance_id="b"):
            await until_working(staying, 1)
        gone_s = time.monotonic()
        await until_working(staying, PARTITION_COUNT)
        assert time.monotonic() - gone_s > SESSION_MS / 1000 / 2


async def test_a_second_process_under_one_static_name_puts_the_first_out_and_that_is_told(
    site: Site,
) -> None:
    async with site.engine(group_instance_id="same") as first:
        for n in range(8):
            await site.run(first, site.pair(f"A{n}"), Fate.COMMITTED)
        async with site.engine(group_instance_id="same") as second:
            error = await asyncio.wait_for(first.failed(), DEADLINE_S)
            assert isinstance(error, ConfigurationError)
            assert "instance.id" in error.message
            assert first.unready_reasons() == [error.message]
            await until(lambda: owned(first) == set(), "the first has let go")
            for n in range(8):
                await site.run(second, site.pair(f"B{n}"), Fate.COMMITTED, wait_visible=True)
            await site.until_faultless()
            assert is_working(second, PARTITION_COUNT), "and the second is left in peace"
