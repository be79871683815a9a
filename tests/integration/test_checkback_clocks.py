"""Wall clocks an hour wrong, or jumping: no check comes early, none is lost, no decision is wrong.

HALFHITCH_TEST_LIBFAKETIME names a libfaketime.so.1 with which the processes are run then, so that
their C code sees the wrong time too; otherwise only Python's clocks are wrong.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.system import SystemClock
from halfhitch.engine import Engine
from harness.check_sidecars import Application, CheckSidecar, Remote
from harness.check_site import CheckSite
from harness.check_witness import PLANS, UNDECIDED
from harness.engines import GROUP, until, until_working

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded import EmbeddedRedis

pytestmark = pytest.mark.kafka

#: Tests see no setting from outside; this is asked for before they do.
LIBFAKETIME = os.environ.get("HALFHITCH_TEST_LIBFAKETIME")
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


@pytest.mark.parametrize("shift_s", [HOUR_S, -HOUR_S])
async def test_a_wall_clock_that_jumps_changes_nothing_for_those_that_wait(
    site: CheckSite, shift_s: float
) -> None:
    """It jumps while they are immune, at a takeover, and back again between two checks."""
    clock = WrongClock(0)
    first = Engine(site.options(), site.observer, clock)
    await first.start()
    await until_working(first)
    for kind in KINDS:
        await site.orphan(first, f"{kind}-0", PLANS[kind])
    immune = await site.orphan(first, "immune", UNDECIDED, immunity_s=3)
    clock.shift_s = shift_s
    site.link(first)
    await until(lambda: len(site.witness.asked) >= len(KINDS), "the first checks")
    await first.stop()
    assert site.witness.of("immune") == []

    clock.shift_s = -shift_s
    second = Engine(site.options(), site.observer, clock)
    await second.start()
    try:
        await until_working(second)
        site.link(second)
        clock.shift_s = shift_s
        await until(lambda: site.witness.numbers("immune") == [1], "its immunity ends", 15)
        asked = site.witness.of("immune")[0]
        assert asked.at_s - site.witness.prepared_s["immune"] >= 3.0
        assert immune.transaction_id == "immune"
        await site.until_pending(second)
        # A takeover in between may repeat a number, and only that.
        await site.judged()
    finally:
        await second.stop()


@pytest.mark.timeout(120)
async def test_two_sidecars_two_hours_apart_check_in_time_and_decide_rightly(
    site: CheckSite, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        ahead, behind = (
            stack.enter_context(CheckSidecar(site, tmp_path, name, **shifted(tmp_path, shift_s)))
            for name, shift_s in (("ahead", HOUR_S), ("behind", -HOUR_S))
        )
        for sidecar in (ahead, behind):
            await asyncio.to_thread(sidecar.wait_working, 1)
        async with Remote(ahead) as through_ahead, Remote(behind) as through_behind:
            for kind in KINDS:
                for n, remote in enumerate((through_ahead, through_behind)):
                    await site.orphan(remote, f"{kind}-{n}", PLANS[kind])
            stack.enter_context(Application(site.witness, GROUP, ahead.address, "client"))
            stack.enter_context(Application(site.witness, GROUP, behind.address, "client"))
            await until(lambda: len(site.witness.by_id()) == 10, "all are asked", 10)
            # The one that is ahead goes: what is undecided there has new owners.
            for n, remote in enumerate((through_ahead, through_behind)):
                await site.orphan(remote, f"late-{n}", PLANS["commit"], immunity_s=2)
            assert await asyncio.to_thread(ahead.terminate) == 0
            await site.until_pending(through_behind)
            await site.judged()
            for n in range(2):
                asked = site.witness.of(f"late-{n}")
                assert 2.0 <= asked[0].at_s - site.witness.prepared_s[f"late-{n}"] < 12.0
    for sidecar, shift_s in ((ahead, HOUR_S), (behind, -HOUR_S)):
        log = sidecar.log.read_text()
        assert "Traceback" not in log
        said = datetime.fromisoformat(log.split()[0])
        assert abs((said - datetime.now(UTC)).total_seconds() - shift_s) < 120, "it is wrong indeed"


def shifted(folder: Path, shift_s: int) -> dict[str, str]:
    """The environment in which a process's wall clock is wrong by so much."""
    if LIBFAKETIME:
        return {
            "LD_PRELOAD": LIBFAKETIME,
            "FAKETIME": f"{shift_s:+d}",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
    place = folder / f"clock{shift_s}"
    place.mkdir()
    place.joinpath("sitecustomize.py").write_text(
        "import time\n"
        "true_s, true_ns = time.time, time.time_ns\n"
        f"time.time = lambda: true_s() + {shift_s}\n"
        f"time.time_ns = lambda: true_ns() + {shift_s} * 10**9\n"
    )
    return {"PYTHONPATH": str(place)}
