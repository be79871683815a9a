"""The whole check-back on real servers: whoever is asked, on whatever way, every plan is met."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from harness.callback_server import CallbackServer, ok
from harness.check_sidecars import Application, CheckSidecar, Remote
from harness.check_site import CheckSite
from harness.check_witness import PLANS, SILENT, Answer, repeated
from harness.engines import GROUP

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.embedded import EmbeddedRedis

pytestmark = pytest.mark.kafka

EACH = 5


@pytest.fixture
def site(kafka: Any, redis_server: EmbeddedRedis) -> CheckSite:
    made = CheckSite(kafka.bootstrap, redis_url=redis_server.url)
    made.create_targets()
    return made


def names(kind: str, count: int = EACH) -> list[str]:
    return [f"{kind}-{n}" for n in range(count)]


async def test_every_plan_is_met_through_a_link_in_the_process(site: CheckSite) -> None:
    async with site.engine() as engine:
        site.link(engine)
        for kind, plan in PLANS.items():
            for name in names(kind):
                await site.orphan(engine, name, plan)
        await site.until_pending(engine)
        await site.judged()
    assert repeated(site.witness) == []
    counts = {kind: site.witness.numbers(f"{kind}-0") for kind in PLANS}
    assert counts == {
        "commit": [1],
        "rollback": [1],
        "later_commit": [1, 2],
        "later_rollback": [1, 2],
        "undecided": [1, 2, 3],
        "silent": [1, 2, 3],
    }
    answers = {why.last_answer for there in site.parked().values() for _, why in there}
    assert answers == {"unknown", "silent"}


async def test_every_plan_is_met_through_an_instance_that_owns_nothing(site: CheckSite) -> None:
    async with (
        site.engine(instance="owner") as owner,
        site.doorkeeper(instance="other") as other,
    ):
        site.link(other)
        plans = {kind: plan for kind, plan in PLANS.items() if plan != SILENT}
        for kind, plan in plans.items():
            for n, name in enumerate(names(kind)):
                await site.orphan((owner, other)[n % 2], name, plan)
        await site.until_pending(owner)
        await site.judged()
        assert other.partitions() == []
    assert repeated(site.witness) == []
    assert len(site.witness.asked) == EACH * (1 + 1 + 2 + 2 + 3)


async def test_every_plan_is_met_by_the_shipped_program_through_streams_and_a_callback(
    site: CheckSite, tmp_path: Path
) -> None:
    """One group's producers hold a stream, another's answer where the sidecar calls them."""
    callback = CallbackServer(answer=answering(site))
    await callback.start()
    settings = {"HALFHITCH_CHECKS_URL": callback.url, "HALFHITCH_CHECKS_URL_GROUPS": "called"}
    with CheckSidecar(site, tmp_path, **settings) as sidecar:
        await asyncio.to_thread(sidecar.wait_working)
        async with Remote(sidecar) as remote:
            for kind, plan in PLANS.items():
                for name in names(kind, 3):
                    await site.orphan(remote, f"{name}-s", plan)
                    await site.orphan(remote, f"{name}-c", plan, group="called")
            with Application(site.witness, GROUP, sidecar.address, "client"):
                await site.until_pending(remote)
                await site.judged()
        sent = sidecar.metric("halfhitch_checks_sent_total")
        assert sidecar.terminate() == 0
    await callback.stop()
    assert repeated(site.witness) == []
    assert sent == 2 * 3 * (1 + 1 + 2 + 2 + 3 + 3)
    by = Counter((a.by, a.transaction_id[-1]) for a in site.witness.asked)
    # The client does not call a check function again while it is still busy with the question.
    assert by == {("callback", "c"): sent / 2, ("client", "s"): sent / 2 - 3 * 2}


def answering(site: CheckSite) -> Any:
    """A callback's server that answers as the witness tells it."""

    async def answer(asked: Any, writer: asyncio.StreamWriter) -> None:
        check = asked.check
        told = site.witness.ask(check["transaction_id"], check["check_number"], "callback")
        if told is Answer.SILENT:
            await asyncio.sleep(60)
        writer.write(ok({"state": told.name}))
        await writer.drain()

    return answer


async def test_an_instance_that_has_stopped_in_good_order_is_not_asked_any_more(
    site: CheckSite,
) -> None:
    """What it prepared would wait for its silence; every restart would cost that much."""
    async with site.engine() as owner:
        site.link(owner, "at owner")
        async with site.doorkeeper(instance="other") as other:
            site.link(other, "at other")
            await site.until_seen(owner, "other")
            for name in names("t"):
                await site.orphan(other, name, PLANS["commit"], immunity_s=2)
        await site.until_pending(owner)
        await site.judged()
    silence_s = site.desk_limits.answer_s + site.desk_limits.inbox_grace_s
    for name in names("t"):
        (asked,) = site.witness.of(name)
        assert asked.by == "at owner"
        assert asked.at_s - site.witness.prepared_s[name] < 2 + silence_s - 1
