"""Redis is wiped, or away, while transactions are checked: nothing is lost, doubled or overdone.

HALFHITCH_REDIS_DOWN_S=30 makes the outage that long; with HALFHITCH_REDIS_DOWN_WAY=paused it stands
still instead of being killed.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis

from halfhitch.core.model import Resolution
from halfhitch.embedded import EmbeddedRedis
from harness.check_sidecars import Application, CheckSidecar, Remote
from harness.check_site import CheckSite, until_index_matches
from harness.check_witness import PLANS
from harness.engines import GROUP, until

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

DOWN_S = float(os.environ.get("HALFHITCH_REDIS_DOWN_S") or "3")
WAY = os.environ.get("HALFHITCH_REDIS_DOWN_WAY") or "killed"
#: Every fifth is never ended by its producer; of those some are answered late, and some never.
ORPHAN_KINDS = ("commit", "rollback", "later_commit", "later_rollback", "undecided")
#: So many wipes of Redis, and more orphans than these, make a test.
WIPES_MIN, ORPHANS_MIN = 6, 50


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def client(redis: EmbeddedRedis) -> Iterator[Redis]:
    with Redis.from_url(redis.url, protocol=2) as made:
        yield made


@pytest.fixture
def site(kafka: Any, redis: EmbeddedRedis) -> CheckSite:
    made = CheckSite(kafka.bootstrap, redis_url=redis.url)
    made.create_targets()
    return made


@dataclass
class Load:
    """Transactions side by side, until it is told to stop; a fifth of them are orphans."""

    site: CheckSite
    doors: list[Any]
    worker_count: int = 6
    pause_s: float = 0.0
    ended_s: list[float] = field(default_factory=list)
    orphans: dict[str, float] = field(default_factory=dict)
    _is_over: bool = False
    _count: int = 0

    async def run(self) -> None:
        await asyncio.gather(*[self._work(n) for n in range(self.worker_count)])

    def stop(self) -> None:
        self._is_over = True

    async def _work(self, worker: int) -> None:
        site = self.site
        while not self._is_over:
            self._count += 1
            number, door = self._count, self.doors[self._count % len(self.doors)]
            kind = ORPHAN_KINDS[number // 5 % len(ORPHAN_KINDS)] if number % 5 == 0 else "commit"
            name = f"{kind}-{number}"
            prepared = await site.orphan(
                door, name, PLANS[kind], [site.message(value=name.encode())]
            )
            if number % 5 == 0:
                self.orphans[name] = time.monotonic()
            else:
                resolution = Resolution.ROLLBACK if number % 5 == 1 else Resolution.COMMIT
                await site.end(door, prepared.handle, resolution)
                self.ended_s.append(time.monotonic())
            await asyncio.sleep(self.pause_s)

    def rate(self, begin_s: float, end_s: float) -> float:
        """Ended transactions in a second."""
        return sum(begin_s <= at_s < end_s for at_s in self.ended_s) / (end_s - begin_s)


async def test_wipes_at_random_moments_under_load_change_nothing_that_counts(
    site: CheckSite, client: Redis, rng: random.Random
) -> None:
    async with site.engine(instance="owner") as owner, site.doorkeeper(instance="other") as other:
        links = [site.link(owner, "at owner"), site.link(other, "at other")]
        await site.until_seen(owner, "other")
        load = Load(site, [owner, other], pause_s=0.005)
        running = asyncio.ensure_future(load.run())
        wipe_count = 0
        # By what has happened: a busy machine had left 27 orphans within three seconds.
        while wipe_count < WIPES_MIN or len(load.orphans) <= ORPHANS_MIN:
            await asyncio.sleep(rng.uniform(0.05, 0.6))
            await asyncio.to_thread(client.flushall)
            wipe_count += 1
        for link in links:
            link.disconnect()
        await asyncio.sleep(0.3)
        load.stop()
        await running
        await asyncio.to_thread(client.flushall)
        # Nobody is asked any more: what is undecided stays so, and Redis is told all of it anew.
        held = await until_index_matches(client, lambda: site.undecided(owner))
        assert held.due
        for link in links:
            link.connect()
        await site.until_pending(owner)
        await site.judged(slack_s=1.0)
        await until_index_matches(client, lambda: site.undecided(owner))
        orphan_count = len(load.orphans)
    rebuilt = site.observer.of("redis_rebuilt")
    print(
        f"{len(site.truths)} transactions, {orphan_count} orphans, {len(site.witness.asked)}"
        f" checks, {wipe_count + 1} wipes, {len(rebuilt)} rebuilds; {len(held.due)} undecided were"
        " found in Redis after the last"
    )
    assert orphan_count > ORPHANS_MIN
    assert rebuilt


@pytest.mark.timeout(240)
async def test_an_outage_holds_up_neither_transactions_nor_checks_at_the_owner(
    site: CheckSite, redis: EmbeddedRedis, client: Redis, tmp_path: Path
) -> None:
    with CheckSidecar(site, tmp_path) as sidecar:
        await asyncio.to_thread(sidecar.wait_working)
        async with Remote(sidecar) as remote:
            with Application(site.witness, GROUP, sidecar.address, "client"):
                load = Load(site, [remote], worker_count=4)
                running = asyncio.ensure_future(load.run())
                await asyncio.sleep(1.6)
                down_s = time.monotonic()
                redis.kill() if WAY == "killed" else redis.pause()
                await until(lambda: up(sidecar) == 0, "the metric falls", 5)
                status, body = await asyncio.to_thread(sidecar.ask, "/readyz")
                await asyncio.sleep(max(0.0, down_s + DOWN_S - time.monotonic()))
                # Whoever waited for Redis to ask them would wait until it is back.
                meanwhile = {name for name, at_s in load.orphans.items() if at_s > down_s}
                await until(lambda: meanwhile <= asked_since(site, down_s), "all are asked", 20)
                back_s = time.monotonic()
                redis.start() if WAY == "killed" else redis.resume()
                await until(lambda: up(sidecar) == 1, "the metric rises", 20)
                up_again_s = time.monotonic() - back_s
                await asyncio.sleep(1.5)
                load.stop()
                await running
                await site.until_pending(remote)
                await site.judged(slack_s=1.0)
                # Nothing is undecided: nothing of it may be left there.
                await until_index_matches(client, lambda: asyncio.sleep(0, {}))
    rates = [
        load.rate(down_s - 1.5, down_s), load.rate(down_s, back_s),
        load.rate(back_s, back_s + 1.5),
    ]  # fmt: skip
    print(
        f"{WAY} for {back_s - down_s:.1f} s; ended per second before, during and after:"
        f" {', '.join(f'{rate:.0f}' for rate in rates)}; {len(meanwhile)} orphans of the outage,"
        f" all asked during it; healthy {up_again_s:.1f} s after"
    )
    # Whoever waited for Redis would end a few in a second; a busy machine alone halves a rate.
    assert rates[1] > rates[0] / 5
    assert len(meanwhile) > 10
    # A busy machine makes all of them late, and what waits for Redis those of the outage alone.
    late_s = {name: first_asked_s(site, name) - at_s for name, at_s in load.orphans.items()}
    with_redis = [
        late_s[name] for name, at_s in load.orphans.items()
        if at_s + late_s[name] < down_s or at_s > back_s
    ]  # fmt: skip
    assert median(late_s[name] for name in meanwhile) < 2 * median(with_redis)
    assert (status, body) == (200, {"ready": True, "degraded": body["degraded"]})
    assert "Redis" in body["degraded"][0]


def asked_since(site: CheckSite, since_s: float) -> set[str]:
    return {asked.transaction_id for asked in site.witness.asked if asked.at_s > since_s}


def first_asked_s(site: CheckSite, transaction_id: str) -> float:
    return min(asked.at_s for asked in site.witness.of(transaction_id))


def up(sidecar: CheckSidecar) -> float:
    return sidecar.metric("halfhitch_redis_up")
