"""Kafka goes away and comes back, and forgets who wanted to join the owners' group meanwhile."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import pytest

from chaos.kit.proxy import ApiKey, Frame, KafkaProxy, one_proxied
from halfhitch.embedded import EmbeddedKafka
from halfhitch.observability.metrics import Metrics
from harness.checkers import Fate
from harness.engines import SESSION_MS, Site, until, until_idle, until_working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from halfhitch.engine import Engine

pytestmark = pytest.mark.kafka

FOUR = {"partition_count": 4}
#: Longer than a session: whoever owned something has lost it.
AWAY_S = SESSION_MS / 1000 + 2
LIMIT_S = SESSION_MS / 1000 + 5
LINES_MAX = 25


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[EmbeddedKafka, KafkaProxy]]:
    with one_proxied() as found:
        yield found


def with_a_name() -> Callable[[Frame], bool]:
    """Of joinings, the second: the first one is answered with a name to join under."""
    seen: list[Frame] = []

    def test(frame: Frame) -> bool:
        seen.append(frame)
        return len(seen) == 2

    return test


def owned_gauges(engine: Engine) -> list[str]:
    metrics = Metrics()
    metrics.membership(engine.membership)
    lines = metrics.render(engine.partitions()).decode().splitlines()
    return [line for line in lines if line.startswith("halfhitch_partition_owned{")]


async def until_kafka_answers(engine: Engine) -> float:
    await until(lambda: not engine.unready_reasons(), "Kafka answers")
    return time.monotonic()


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_an_outage_after_which_a_joining_is_forgotten_is_over_within_session_and_5_s(
    proxied: tuple[EmbeddedKafka, KafkaProxy], caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody owned anything for 65 s, nobody said so, and it was told in 1,100 lines."""
    kafka, proxy = proxied
    site = Site(kafka.proxy_bootstrap)
    await asyncio.to_thread(site.create_targets)
    began_s = time.monotonic()
    async with site.engine(working=4, **FOUR) as engine:
        # So long it takes on this machine to own all when nothing is wrong.
        start_s = time.monotonic() - began_s
        for n in range(8):
            await site.run(engine, site.pair(f"B{n}"), Fate.COMMITTED, wait_visible=True)
        caplog.clear()
        caplog.set_level(logging.INFO)
        await asyncio.to_thread(kafka.kill_broker)
        held = proxy.hold(ApiKey.JOIN_GROUP, where=with_a_name())
        await asyncio.sleep(AWAY_S)  # the outage
        assert engine.partitions() == []
        await asyncio.to_thread(kafka.restart_broker)
        back_s = await until_kafka_answers(engine)
        assert owned_gauges(engine) == [f'halfhitch_partition_owned{{partition="{p}"}} 0.0'
                                        for p in range(4)]  # fmt: skip
        assert any("owns no half partition" in told for told in engine.degraded_reasons())
        await until_working(engine, 4)
        took_s = time.monotonic() - back_s
        lines = [record.getMessage() for record in caplog.records]
        assert held.frames, "a joining was kept from Kafka"
        held.drop()
        assert took_s < LIMIT_S + start_s
        await until(lambda: not engine.degraded_reasons(), "nothing is wrong any more")
        for n in range(8):
            await site.run(engine, site.pair(f"A{n}"), Fate.COMMITTED, wait_visible=True)
        await until_idle(engine)
        await site.until_faultless()
    assert len(lines) < LINES_MAX, "\n".join(lines)
    assert sum("left out" in line for line in lines) >= 1
