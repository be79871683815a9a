"""A message that its target will never take is parked with the reason; everything else goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from halfhitch.core.model import Resolution
from halfhitch.engine import Engine
from halfhitch.errors import TransactionParked
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import OutgoingMessage, PartitionPhase, TransactionState
from halfhitch.wire.parked import UNDELIVERABLE, Parked, read_parked
from harness.defaults import engine_options
from harness.kafka import admin_client, create_topics, fresh_name, read_all

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("owner_way")]


@asynccontextmanager
async def running(bootstrap: str, prefix: str, **more: Any) -> AsyncIterator[Engine]:
    engine = Engine(
        engine_options(
            bootstrap=bootstrap,
            handle_keys=(b"k" * 32,),
            topic_prefix=prefix,
            partition_count=1,
            create_topics=True,
            **more,
        ),
        Metrics(),
    )
    await engine.start()
    try:
        async with asyncio.timeout(30):
            while [p.phase for p in engine.partitions()] != [PartitionPhase.WORKING]:
                await asyncio.sleep(0.02)
        yield engine
    finally:
        await engine.stop()


def message(topic: str, value: bytes, key: bytes | None = None) -> OutgoingMessage:
    return OutgoingMessage(topic, key, value, [("mine", b"1")])


async def prepare(engine: Engine, *messages: OutgoingMessage) -> str:
    prepared = await engine.transactions.prepare(producer_group="g", messages=messages)
    return prepared.handle


async def commit(engine: Engine, handle: str) -> None:
    await engine.transactions.end(handle, Resolution.COMMIT, wait_visible=True)


def parked_of(bootstrap: str, prefix: str) -> list[tuple[bytes | None, Parked]]:
    found = []
    for record in read_all(bootstrap, prefix + "TRANS_CHECK_MAX_TIME_TOPIC"):
        why = read_parked(record.offset, record.headers)
        assert isinstance(why, Parked), why
        found.append((record.value, why))
    return found


async def test_a_message_too_large_for_its_topic_is_parked_and_its_neighbours_are_delivered(
    kafka: Any,
) -> None:
    small, other, prefix = fresh_name("small"), fresh_name("other"), fresh_name("p") + "."
    create_topics(kafka.bootstrap, {small: 1}, config={"max.message.bytes": "2000"})
    create_topics(kafka.bootstrap, {other: 1})
    async with running(kafka.bootstrap, prefix) as engine:
        good = [await prepare(engine, message(other, b"good %d" % n)) for n in range(20)]
        bad = await prepare(engine, message(other, b"torn?"), message(small, b"x" * 5000))
        ends = [commit(engine, handle) for handle in [*good[:10], bad, *good[10:]]]
        results = await asyncio.gather(*ends, return_exceptions=True)
        assert isinstance(results[10], TransactionParked)
        assert [r for n, r in enumerate(results) if n != 10] == [None] * 20
        seen = await engine.transactions.view(bad)
        assert (seen.state, seen.visible) == (TransactionState.PARKED, False)
    assert sorted(r.value for r in read_all(kafka.bootstrap, other)) == sorted(
        b"good %d" % n for n in range(20)
    )
    assert read_all(kafka.bootstrap, small) == []
    parked = parked_of(kafka.bootstrap, prefix)
    # All messages of the transaction together, none of them on its target.
    assert sorted(value for value, _ in parked) == [b"torn?", b"x" * 5000]
    assert {why.reason for _, why in parked} == {UNDELIVERABLE}


async def test_messages_for_a_deleted_topic_are_parked_and_the_partition_goes_on(
    kafka: Any,
) -> None:
    gone, other, prefix = fresh_name("gone"), fresh_name("other"), fresh_name("p") + "."
    create_topics(kafka.bootstrap, {gone: 1, other: 1})
    async with running(kafka.bootstrap, prefix) as engine:
        doomed = [await prepare(engine, message(gone, b"d%d" % n)) for n in range(5)]
        fine = [await prepare(engine, message(other, b"f%d" % n)) for n in range(5)]
        admin = admin_client(kafka.bootstrap)  # held: a client that goes takes its requests along
        for future in admin.delete_topics([gone], operation_timeout=10).values():
            future.result(10)
        mixed = [handle for pair in zip(doomed, fine, strict=True) for handle in pair]
        results = await asyncio.gather(
            *(commit(engine, handle) for handle in mixed), return_exceptions=True
        )
        assert [type(r) for r in results] == [TransactionParked, type(None)] * 5
    assert len(read_all(kafka.bootstrap, other)) == 5
    assert sorted(v for v, _ in parked_of(kafka.bootstrap, prefix)) == [
        b"d%d" % n for n in range(5)
    ]


async def test_what_was_taken_is_forwarded_whatever_the_owner_itself_would_take(kafka: Any) -> None:
    topic, prefix = fresh_name("orders"), fresh_name("p") + "."
    create_topics(kafka.bootstrap, {topic: 1})
    async with running(kafka.bootstrap, prefix) as engine:
        handle = await prepare(engine, message(topic, b"x" * 500_000))
    stricter = {"allow_topics": ("nothing",), "message_bytes_max": 1_024}
    async with running(kafka.bootstrap, prefix, **stricter) as engine:
        await commit(engine, handle)
    assert [record.value for record in read_all(kafka.bootstrap, topic)] == [b"x" * 500_000]
    assert parked_of(kafka.bootstrap, prefix) == []
