"""Contrary ends around a stop of Kafka, on a real one: at most one of two is told it counts."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from chaos.kit.proxy import KafkaProxy, one_proxied
from halfhitch.embedded import EmbeddedKafka
from halfhitch.service.api import PartitionPhase
from harness.engines import SESSION_MS, Site, until, until_idle
from harness.http_ways import Served, end, half, served
from harness.native import needs_native
from harness.raw_http import Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

COUNT = 24
MOMENT_S, LONG_S = 3.0, SESSION_MS / 1000 + 4


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[EmbeddedKafka, KafkaProxy]]:
    with one_proxied() as found:
        yield found


@pytest.fixture(params=["interpreted", pytest.param("native", marks=needs_native)])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def prepared(at: Served, site: Site) -> list[Answer]:
    client = await at.lent(site)
    return [await client.ask(half(site.orders, b"%d" % n)) for n in range(COUNT)]


async def ask_all(at: Served, site: Site, made: list[Answer], how: str) -> list[Answer]:
    """Each over a connection of its own, at the same moment."""

    async def ask(one: Answer) -> Answer:
        client = await at.client()
        client.deadline_s = 90
        return await client.ask(end(one, how))

    return await asyncio.gather(*(ask(one) for one in made))


def both(first: list[Answer], second: list[Answer]) -> Counter[tuple[int, int]]:
    return Counter((a.status, b.status) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("away_s", [MOMENT_S, LONG_S])
@pytest.mark.parametrize("is_stopped_first", [False, True])
async def test_who_contradicts_a_decision_that_was_told_before_kafka_stopped_is_refused(
    proxied: Any, way: str, away_s: float, is_stopped_first: bool
) -> None:
    """The owner had not read it when Kafka stopped, the memory had forgotten it when Kafka came
    back: both were told 200. Or Kafka stopped before the first was stored.
    """
    kafka, proxy = proxied
    site = Site(kafka.proxy_bootstrap)
    await asyncio.to_thread(site.create_targets)
    async with served(site, way) as at:
        made = await prepared(at, site)
        if is_stopped_first:
            proxy.stall()
            first = asyncio.create_task(ask_all(at, site, made, "commit"))
        else:
            told = await ask_all(at, site, made, "commit")
            proxy.stall()
            assert {answer.status for answer in told} == {200}
        await asyncio.sleep(away_s)  # the stop
        second = asyncio.create_task(ask_all(at, site, made, "rollback"))
        await asyncio.sleep(0.2)
        proxy.heal()
        if is_stopped_first:
            told = await first
        answers = await second
        pairs = both(told, answers)
        assert (200, 200) not in pairs, pairs
        await until(lambda: not at.engine.unready_reasons(), "Kafka answers")
        await until_idle(at.engine)
        again = both(*[await ask_all(at, site, made, how) for how in ("commit", "rollback")])
        assert set(again) <= {(200, 409), (409, 200)}, again
        if not is_stopped_first:
            assert set(again) == {(200, 409)}


async def others_end(at: Served, site: Site, for_s: float) -> None:
    """Until all that was decided before is forgotten, both ways."""
    loop, lent, client = asyncio.get_running_loop(), at.clients[0], await at.client()
    give_up_s = loop.time() + for_s
    while loop.time() < give_up_s:
        for each in (lent, client):
            made = await each.ask(half(site.orders, b"another"))
            assert made.status == 201, made
            assert (await each.ask(end(made, "commit"))).status == 200
        # The first one again: its end is the loop's.
        assert (await client.ask(end(made, "commit"))).status == 200


async def takes_over_anew(at: Served, proxy: KafkaProxy) -> None:
    """Kafka stands still until the session is over; then it answers again."""
    proxy.stall()
    await until(lambda: not at.engine.partitions(), "the half partitions to be lost")
    proxy.heal()


@pytest.mark.parametrize("first_again", [False, True])
async def test_in_a_takeover_nobody_is_told_what_was_true_of_the_memory_alone(
    proxied: Any, way: str, *, first_again: bool
) -> None:
    """The first decision was forgotten, for its owner had read it; then the owner knew nothing. A
    contrary end was told 200, and whoever repeated the first one 409 after it.
    """
    kafka, proxy = proxied
    site = Site(kafka.proxy_bootstrap)
    await asyncio.to_thread(site.create_targets)
    async with served(site, way) as at:
        made = await prepared(at, site)
        assert {answer.status for answer in await ask_all(at, site, made, "commit")} == {200}
        await until_idle(at.engine)
        await others_end(at, site, 3.5)
        await takes_over_anew(at, proxy)
        asked = ["rollback", "commit"] if first_again else ["rollback"]
        phases = {state.phase for state in at.engine.partitions()}
        assert PartitionPhase.WORKING not in phases, "too late to be told wrongly"
        answers = [await ask_all(at, site, made, how) for how in asked]
        told = Counter(answer.status for answer in answers[0])
        assert set(told) == {409}, told
        if first_again:
            assert {answer.status for answer in answers[1]} == {200}
        await until(
            lambda: {s.phase for s in at.engine.partitions()} == {PartitionPhase.WORKING}, "owners"
        )
        await until_idle(at.engine)
        again = both(*[await ask_all(at, site, made, how) for how in ("commit", "rollback")])
        assert set(again) == {(200, 409)}
