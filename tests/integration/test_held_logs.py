"""A Kafka transaction that somebody has left open is seen, named and measured; then it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Producer

from halfhitch.adapters.kafka.held_logs import inspect_held
from harness.checkers import Fate
from harness.engines import DEADLINE_S, Site, until
from harness.kafka import admin_client, fresh_name

pytestmark = pytest.mark.kafka


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


def hanging(bootstrap: str, topic: str, partition: int) -> Producer:
    """A stranger's producer with a record in an open Kafka transaction."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": fresh_name("stranger"),
            "transaction.timeout.ms": 300_000,
        }
    )
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"?", partition=partition)
    assert producer.flush(DEADLINE_S) == 0
    return producer


@pytest.mark.parametrize("place", ["half", "op", "target"])
async def test_a_strangers_open_kafka_transaction_is_named_and_nothing_is_lost(
    site: Site, place: str
) -> None:
    async with site.engine(held_after_s=1.0) as engine:
        await site.run(engine, site.pair("before"), Fate.COMMITTED, wait_visible=True)
        topic = {"half": site.names.half, "op": site.names.op, "target": site.orders}[place]
        producer = await asyncio.to_thread(hanging, site.bootstrap, topic, 0)
        await site.run(engine, site.pair("behind"), Fate.COMMITTED)

        def named() -> bool:
            return any(
                f"{topic}-0 can be read up to" in reason
                and "producer " in reason
                and f"abort --topic {topic} --partition 0 --start-offset" in reason
                for reason in engine.degraded_reasons()
            )

        await until(named, "the stranger is named")
        told = [counts for (counts,) in site.observer.of("unreadable")]
        assert told[-1][topic, 0] > 0
        (finding,) = await asyncio.to_thread(
            inspect_held,
            admin_client(site.bootstrap),
            [(topic, 0)],
            bootstrap=site.bootstrap,
            options={},
            after_s=0.2,
        )
        assert f"{topic}-0" in finding.sentence
        await asyncio.to_thread(producer.abort_transaction, DEADLINE_S)
        await until(lambda: not named(), "it is told no more")
        await site.until_faultless()
