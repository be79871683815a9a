"""A wall clock that jumps by hours: no check comes early, none is lost, no decision is wrong.

Whole sidecars with wrong clocks: see test_checkback_killed.py.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.system import SystemClock
from halfhitch.engine import Engine
from harness.check_site import CheckSite
from harness.check_witness import COMMIT, PLANS
from harness.engines import until, until_working

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from halfhitch.embedded import EmbeddedRedis

pytestmark = pytest.mark.kafka

HOUR_S = 3600
KINDS = ("commit", "rollback", "later_commit", "later_rollback", "undecided")


@pytest.fixture
def site(kafka: Any, redis_server: EmbeddedRedis) -> CheckSite:
    made = CheckSite(kafka.bootstrap, redis_url=redis_server.url)
    made.create_targets()
    return made


class WrongClock(SystemClock):
    """The machine's, with a wall clock that can be set."""

    def __init__(self, shift_s: float) -> None:
        self.shift_s = shift_s

    def wall_ms(self) -> int:
        return super().wall_ms() + round(self.shift_s * 1000)


async def test_a_wall_clock_that_jumps_changes_nothing_for_those_that_wait(site: CheckSite) -> None:
    """It jumps while they are immune, is wrong the other way at a takeover, and jumps again."""
    clock = WrongClock(0)
    async with running(site, clock) as first:
        for kind in KINDS:
            await site.orphan(first, f"{kind}-0", PLANS[kind])
        await site.orphan(first, "immune", COMMIT, immunity_s=2)
        clock.shift_s = HOUR_S
        site.link(first)
        await until(lambda: len(site.witness.asked) >= len(KINDS), "the first checks")
    assert site.witness.of("immune") == []
    clock.shift_s = -HOUR_S
    async with running(site, clock) as second:
        site.link(second)
        clock.shift_s = HOUR_S
        await site.until_pending(second)
        await site.judged()
    # To a clock that is behind, at the takeover it was as old as nothing: the immunity began anew.
    (asked,) = site.witness.of("immune")
    assert 2.0 <= asked.at_s - site.witness.prepared_s["immune"] < 2.0 + 10.0


@asynccontextmanager
async def running(site: CheckSite, clock: WrongClock) -> AsyncIterator[Engine]:
    engine = Engine(site.options(), site.observer, clock)
    await engine.start()
    try:
        await until_working(engine)
        yield engine
    finally:
        await engine.stop()
