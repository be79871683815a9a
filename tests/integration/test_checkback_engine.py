"""The whole check-back on real servers: whoever is asked, on whatever way, every plan is met."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from harness.callback_server import CallbackServer, ok
from harness.check_sidecars import Application, CheckSidecar, Remote
from harness.check_site import CheckSite
from harness.check_witness import PLANS, Answer, repeated
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
        for kind, plan in PLANS.items():
            for n, name in enumerate(names(kind)):
                await site.orphan((owner, other)[n % 2], name, plan)
        await site.until_pending(owner)
        await site.judged()
        assert other.partitions() == []
    assert repeated(site.witness) == []
    assert len(site.witness.asked) == EACH * (1 + 1 + 2 + 2 + 3 + 3)


async def test_the_instance_that_took_the_prepare_is_asked_first_then_the_other(
    site: CheckSite,
) -> None:
    async with (
        site.engine(instance="owner") as owner,
        site.doorkeeper(instance="other") as other,
    ):
        site.link(owner, "at owner")
        site.link(other, "at other")
        await site.until_seen(owner, "other")
        await site.orphans(owner, names("o"), PLANS["later_commit"])
        await site.orphans(other, names("p"), PLANS["later_commit"])
        await site.until_pending(owner)
        await site.judged()
    for n in range(EACH):
        assert [a.by for a in site.witness.of(f"o-{n}")] == ["at owner", "at other"]
        assert [a.by for a in site.witness.of(f"p-{n}")] == ["at other", "at owner"]


@pytest.mark.parametrize("way", ["stream", "callback"])
async def test_every_plan_is_met_by_the_shipped_program_through_a(
    site: CheckSite, tmp_path: Path, way: str
) -> None:
    callback = CallbackServer(answer=answering(site))
    await callback.start()
    settings = {"HALFHITCH_CHECKS_URL": callback.url} if way == "callback" else {}
    with CheckSidecar(site, tmp_path, **settings) as sidecar:
        await asyncio.to_thread(sidecar.wait_working)
        async with Remote(sidecar) as remote:
            for kind, plan in PLANS.items():
                for name in names(kind, 3):
                    await site.orphan(remote, name, plan)
            with ExitStack() as stack:
                if way == "stream":
                    application = Application(site.witness, GROUP, sidecar.address, "client")
                    stack.enter_context(application)
                await site.until_pending(remote)
                await site.judged()
        sent = sidecar.metric("halfhitch_checks_sent_total")
        assert sidecar.terminate() == 0
    await callback.stop()
    assert repeated(site.witness) == []
    assert sent == 3 * (1 + 1 + 2 + 2 + 3 + 3)
    # The client does not call a check function again while it is still busy with the question.
    called_twice_less = 3 * 2 if way == "stream" else 0
    assert len(site.witness.asked) == sent - called_twice_less


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
