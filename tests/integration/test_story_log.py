"""The stories of transactions, out of the audit topic of a real broker."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from halfhitch.core.model import Resolution
from halfhitch.service.operators.stories import StoryQuery
from halfhitch.wire import story
from halfhitch.wire.story import Ended, Index, Target
from harness.checkers import Fate
from harness.engines import GROUP, PARTITION_COUNT, Site, until, until_idle
from harness.kafka import create_topics

if TYPE_CHECKING:
    from conftest import GivenKafka
    from halfhitch.engine import Engine
    from halfhitch.service.operators.stories import StoriesPage, TransactionStory

pytestmark = pytest.mark.kafka

COUNT, A_RECORD = 1_000_000, 100
#: All of them were written within it, on the slowest machine.
A_DAY_S = 86_400.0


@pytest.fixture
def site(kafka: GivenKafka) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


async def told(engine: Engine, **query: Any) -> StoriesPage:
    return await engine.stories.stories(StoryQuery(**query))


async def until_told(engine: Engine, state: str, **query: Any) -> TransactionStory:
    """Markers are written after a commit is answered."""
    for _ in range(200):
        page = await told(engine, **query)
        if page.stories and page.stories[0].state == state:
            return page.stories[0]
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{query}: {page}")


async def test_a_transaction_that_has_ended_is_found_by_its_id_and_by_its_key(site: Site) -> None:
    async with site.engine() as engine:
        prepared = await site.prepare(engine, site.pair("mine"), "order-1")
        await engine.transactions.end(prepared.handle, Resolution.COMMIT, reason="paid")
        await site.run(engine, site.pair("another"), Fate.ROLLED_BACK)
        found = await until_told(engine, "committed", transaction_id="order-1")
        assert (found.producer_group, found.decided_by, found.reason) == (GROUP, "producer", "paid")
        assert found.topics == (site.orders, site.points)
        assert [event.what for event in found.events] == ["prepared", "decided", "forwarded"]
        page = await told(engine, topic=site.orders, key=b"mine")
        assert [each.transaction_id for each in page.stories] == ["order-1"]
        assert (await told(engine, topic=site.points, key=b"mine")).stories == []
        ended = await told(engine, since_s=A_DAY_S)
        assert sorted(each.state for each in ended.stories) == ["committed", "rolled_back"]
        assert (await told(engine, since_s=A_DAY_S, topic="none")).stories == []
        unseen = await told(engine, transaction_id="order-1", may_see=lambda _: False)
        assert unseen.stories == []


async def test_what_is_pending_or_parked_has_its_story_too(site: Site) -> None:
    async with site.engine() as engine:
        await site.prepare(engine, site.pair("open"), "open")
        small = site.prefix + "small"
        create_topics(site.bootstrap, {small: 1}, {"max.message.bytes": "1000"})
        message = site.message(small, None, random.Random(5).randbytes(5_000))
        prepared = await site.prepare(engine, [message], "gone")
        await engine.transactions.end(prepared.handle, Resolution.COMMIT)
        found = await until_told(engine, "pending", transaction_id="open")
        assert [event.what for event in found.events] == ["prepared"]
        parked = await until_told(engine, "parked", transaction_id="gone")
        assert parked.events[-1].what == "parked"
        assert "undeliverable" in str(parked.events[-1].reason)


async def test_an_unknown_id_is_told_with_how_far_was_looked(site: Site) -> None:
    async with site.engine() as engine:
        empty = await told(engine, transaction_id="never")
        assert (empty.stories, empty.kept_since_ms) == ([], None)
        await site.run(engine, site.pair("one"), Fate.COMMITTED, wait_visible=True)
        await until_idle(engine)
        for _ in range(100):
            page = await told(engine, transaction_id="never")
            if page.kept_since_ms is not None:
                break
            await asyncio.sleep(0.05)
        assert page.stories == []
        assert page.trouble is None
        assert abs(time.time_ns() / 1e6 - float(page.kept_since_ms or 0)) < 600_000


async def test_where_it_is_switched_off_that_is_said(site: Site) -> None:
    async with site.engine(audit=None) as engine:
        await site.run(engine, site.pair("one"), Fate.COMMITTED, wait_visible=True)
        page = await told(engine, transaction_id="one")
        assert "audit.enabled is false" in str(page.trouble)


def fill(site: Site) -> None:
    """A million endings in both partitions, with their indexes."""
    producer = Producer({"bootstrap.servers": site.bootstrap})
    now_ms = 1_700_000_000_000
    marks: dict[int, list[bytes]] = {p: [] for p in range(PARTITION_COUNT)}
    firsts, nexts = dict.fromkeys(marks, 0), dict.fromkeys(marks, 0)
    for start in range(0, COUNT, A_RECORD):
        partition = start // A_RECORD % PARTITION_COUNT
        pieces = []
        for n in range(start, start + A_RECORD):
            hashed = story.key_hash(b"orders", b"key-%d" % n)
            entry = Ended(
                "shop", f"order-{n}", 1, 0, f"1;0;{now_ms};pod-1;d=0123456789abcdef", now_ms,
                now_ms, n, "producer", None, 0, 1, n, [Target("orders", None, hashed)],
            )  # fmt: skip
            pieces.append(story.encode(entry))
            marks[partition] += [story.mark_of(f"order-{n}"), story.mark_of_key(hashed)]
        (value,) = story.write(now_ms, "pod-1", pieces)
        headers: Any = story.story_headers()
        producer.produce(site.names.audit, value, None, partition, headers=headers)
        nexts[partition] += 1
        if len(marks[partition]) >= 8_192:
            where = partition, firsts[partition], nexts[partition], now_ms, now_ms
            value, headers = story.write_index(Index(*where, b"".join(marks[partition])))
            producer.produce(site.names.audit, value, None, PARTITION_COUNT, headers=headers)
            firsts[partition], marks[partition] = nexts[partition], []
        producer.poll(0)
    producer.flush(60)


async def test_one_among_a_million_is_found_at_once(site: Site) -> None:
    async with site.engine() as engine:
        await until(lambda: engine.stories and not engine.degraded_reasons(), "the topic is there")
        await asyncio.to_thread(fill, site)
        took_s: list[float] = []
        for n in (3, 500_123, 999_999):
            by_key = {"topic": "orders", "key": b"key-%d" % n}
            for query in ({"transaction_id": f"order-{n}"}, by_key):
                began_s = time.perf_counter()
                page = await told(engine, **query)
                took_s.append(time.perf_counter() - began_s)
                assert [each.transaction_id for each in page.stories] == [f"order-{n}"]
        began_s = time.perf_counter()
        assert (await told(engine, transaction_id="never")).stories == []
        took_s.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        newest = await told(engine, since_s=A_DAY_S, count_max=100)
        took_s.append(time.perf_counter() - began_s)
        assert len(newest.stories) == 100
        print([f"{each:.3f}" for each in took_s])
        # A page that wanted the last ten of a group of few read half a million records every time.
        few = await told(engine, since_s=A_DAY_S, count_max=10, producer_group="rare")
        assert (few.stories, few.is_cut) == ([], True)
        many = await told(engine, since_s=A_DAY_S, count_max=100, producer_group="rare")
        assert (many.stories, many.is_cut) == ([], False)
        assert min(took_s) < 1.0, "without an index it is more than two"
