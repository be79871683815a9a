"""Sidecars that are killed in the middle of checking: the same number again, never more of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from harness.check_sidecars import Application, CheckSidecar, Mute, Remote, clock_settings
from harness.check_site import CheckSite
from harness.check_witness import PLANS, repeated
from harness.engines import GROUP, until

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from halfhitch.embedded import EmbeddedRedis

pytestmark = pytest.mark.kafka

HOUR_S = 3600
KINDS = ("commit", "rollback", "later_commit", "later_rollback", "undecided")


@pytest.fixture
def site(kafka: Any, redis_server: EmbeddedRedis) -> CheckSite:
    made = CheckSite(kafka.bootstrap, redis_url=redis_server.url)
    made.create_targets()
    return made


def numbered(site: CheckSite, number: int) -> set[tuple[int, int]]:
    """Where the half records with this check number lie, as far as they have not been deleted."""
    raw = str(number).encode()
    return {
        (record.partition, record.offset)
        for record in site.read(site.names.half)
        if ("TRANSACTION_CHECK_TIMES", raw) in record.headers
    }


@pytest.mark.timeout(120)
async def test_a_kill_while_checks_are_out_leads_to_the_same_numbers_again(
    site: CheckSite, tmp_path: Path
) -> None:
    """The numbers are in the log and with a producer; that they arrived is known to nobody else."""
    with CheckSidecar(site, tmp_path) as sidecar:
        await asyncio.to_thread(sidecar.wait_working)
        async with Remote(sidecar) as remote:
            for kind in KINDS:
                for n in range(3):
                    await site.orphan(remote, f"{kind}-{n}", PLANS[kind])
            with Mute(site.witness, GROUP, sidecar, "mute"):
                await until(lambda: len(site.witness.asked) == 15, "all are asked")
                sidecar.kill()
        assert {a.number for a in site.witness.asked} == {1}
        before = numbered(site, 1)
        assert len(before) == 15 * 2
        sidecar.start()
        async with Remote(sidecar) as remote:
            await asyncio.to_thread(sidecar.wait_working)
            with Application(site.witness, GROUP, sidecar.address, "client"):
                await site.until_pending(remote)
                await site.judged()
    for n in range(3):
        assert {kind: site.witness.numbers(f"{kind}-{n}") for kind in KINDS} == {
            "commit": [1, 1],
            "rollback": [1, 1],
            "later_commit": [1, 1, 2],
            "later_rollback": [1, 1, 2],
            "undecided": [1, 1, 2, 3],
        }
    assert numbered(site, 1) <= before, "it was not written again"


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_a_second_instance_two_hours_apart_takes_over_after_a_kill_at_any_moment(
    site: CheckSite, tmp_path: Path, rng: random.Random
) -> None:
    """The one that is killed is an hour ahead, its successor an hour behind."""
    each, shifts_s = 12, {"a": HOUR_S, "b": -HOUR_S}
    with (
        CheckSidecar(site, tmp_path, "a", **clock_settings(tmp_path, HOUR_S)) as first,
        CheckSidecar(site, tmp_path, "b", **clock_settings(tmp_path, -HOUR_S)) as second,
    ):
        for sidecar in (first, second):
            await asyncio.to_thread(sidecar.wait_ready)
        async with Remote(first) as through_first, Remote(second) as through_second:
            with (
                Application(site.witness, GROUP, first.address, "at a"),
                Application(site.witness, GROUP, second.address, "at b"),
            ):
                for kind in KINDS:
                    for n in range(each):
                        remote = (through_first, through_second)[n % 2]
                        await site.orphan(remote, f"{kind}-{n}", PLANS[kind])
                for n, remote in enumerate((through_first, through_second)):
                    await site.orphan(remote, f"immune-{n}", PLANS["commit"], immunity_s=2)
                await until(lambda: len(site.witness.asked) > each, "the first are asked")
                moment_s = rng.uniform(0.0, 1.5)
                await asyncio.sleep(moment_s)
                first.kill()
                asked_count = len(site.witness.asked)
                await site.until_pending(through_second)
                # A check that went to the dead one first reaches its producer that much later.
                late_s = site.desk_limits.answer_s + site.desk_limits.inbox_grace_s
                await site.judged(slack_s=late_s)
    print(
        f"killed {moment_s:.2f} s after the first checks; {asked_count} before and"
        f" {len(site.witness.asked) - asked_count} after that; with the same number again:"
        f" {len(repeated(site.witness))} of {len(site.witness.plans)}"
    )
    for n in range(2):
        asked = site.witness.of(f"immune-{n}")[0]
        assert 2.0 <= asked.at_s - site.witness.prepared_s[f"immune-{n}"] < 20.0
    for sidecar in (first, second):
        log = sidecar.log.read_text()
        wrong_s = (datetime.fromisoformat(log.split()[0]) - datetime.now(UTC)).total_seconds()
        assert abs(wrong_s - shifts_s[sidecar.folder.name]) < 120, "its clock was wrong indeed"
