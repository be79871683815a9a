"""Forwarded messages are found where they lie, on a real broker."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from halfhitch.adapters.kafka.clients import look_consumer
from halfhitch.adapters.kafka.target_logs import KafkaTargetLogs
from halfhitch.core.model import Resolution
from halfhitch.service.operators.landings import SHOWN_BYTES_MAX, Showing, Wanted
from halfhitch.service.operators.stories import StoryQuery
from halfhitch.wire import headers as names
from harness.checkers import Fate
from harness.engines import GROUP, TARGET_PARTITION_COUNT, Site
from harness.kafka import create_topics

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from conftest import GivenKafka
    from halfhitch.engine import Engine
    from halfhitch.service.operators.landings import Landed
    from halfhitch.service.operators.stories import StoryEvent

pytestmark = pytest.mark.kafka

COUNT, A_SECOND = 1_000_000, 10_000
#: An hour ago: what is older than its topic's retention would be gone.
BEGAN_MS = time.time_ns() // 1_000_000 - 3_600_000


@pytest.fixture
def site(kafka: GivenKafka) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


async def forwarded(engine: Engine, transaction_id: str, *, wanted_count: int) -> StoryEvent:
    """Markers are written after a commit is answered."""
    for _ in range(200):
        page = await engine.stories.stories(
            StoryQuery(transaction_id=transaction_id, with_offsets=True, may_read=lambda _: True)
        )
        if page.stories and len(page.stories[0].events[-1].landed or ()) == wanted_count:
            return page.stories[0].events[-1]
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{page}")


@contextmanager
def target_logs(bootstrap: str) -> Iterator[KafkaTargetLogs]:
    logs = KafkaTargetLogs(
        lambda: look_consumer({"bootstrap.servers": bootstrap}, group="halfhitch-test")
    )
    try:
        yield logs
    finally:
        logs.stop()


def wanted(topics: Sequence[str], name: str = "T", **changes: Any) -> Wanted:
    plain: dict[str, Any] = {
        "producer_group": GROUP, "transaction_id": name, "message_count": 1,
        "forwarded_ms": BEGAN_MS, "places": frozenset((topic, None) for topic in topics),
    }  # fmt: skip
    return Wanted(**{**plain, **changes})


def headers_of(name: str, index: int = 0, group: str = GROUP) -> Any:
    return [
        ("kind", b"order"), (names.UNIQ_KEY, name.encode()), (names.PGROUP, group.encode()),
        (names.HALFHITCH, b"1;%d;%d;pod-1;n=1;d=0123456789abcdef" % (index, BEGAN_MS)),
    ]  # fmt: skip


async def one(logs: KafkaTargetLogs, each: Wanted) -> Landed:
    (found,) = await logs.find([each], Showing())
    return found


async def test_each_message_of_a_commit_is_found_with_its_offset_and_content(site: Site) -> None:
    async with site.engine() as engine:
        for n in range(30):
            await site.run(engine, site.pair(f"other-{n}"), Fate.COMMITTED)
        prepared = await site.prepare(engine, site.pair("mine"), "order-1")
        await engine.transactions.end(prepared.handle, Resolution.COMMIT)
        told = await forwarded(engine, "order-1", wanted_count=2)
    assert told.landed_trouble is None
    messages = told.landed or ()
    assert [(m.topic, m.index) for m in messages] == [(site.orders, 0), (site.points, 1)]
    for message in messages:
        there = [
            (record.partition, record.offset)
            for record in site.read(message.topic)
            if dict(record.headers)[names.UNIQ_KEY] == b"order-1"
        ]
        assert [(message.partition, message.log_offset)] == there
    order = messages[0].content
    assert order is not None
    assert (order.key, order.value) == (b"mine", b"order mine")
    assert list(order.headers) == [("kind", b"order")]


async def test_what_an_aborted_try_has_left_is_not_taken_for_the_message(site: Site) -> None:
    """It has the same headers, and lies before the message."""
    create_topics(site.bootstrap, {(topic := site.prefix + "tries"): 1})
    producer = Producer(
        {"bootstrap.servers": site.bootstrap, "transactional.id": site.prefix + "tries"}
    )
    producer.init_transactions(20)
    for ends in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"v", None, 0, headers=headers_of("T"), timestamp=BEGAN_MS + 5)
        producer.flush(20)
        ends(20)
    with target_logs(site.bootstrap) as logs:
        found = await one(logs, wanted([topic]))
    assert ([m.log_offset for m in found.messages], found.trouble) == ([2], None)


async def test_clocks_that_differ_by_a_minute_hide_nothing(site: Site) -> None:
    producer = Producer({"bootstrap.servers": site.bootstrap})
    for name, after_ms in (("early", -50_000), ("late", 110_000)):
        moment = BEGAN_MS + after_ms
        producer.produce(site.orders, b"v", None, 1, headers=headers_of(name), timestamp=moment)
        producer.flush(20)
    with target_logs(site.bootstrap) as logs:
        for name, log_offset in (("early", 0), ("late", 1)):
            found = await one(logs, wanted([site.orders], name))
            assert [m.log_offset for m in found.messages] == [log_offset]


async def test_what_is_not_there_is_said(site: Site) -> None:
    producer = Producer({"bootstrap.servers": site.bootstrap})
    for name, group in (("other", GROUP), ("T", "another")):
        headers = headers_of(name, group=group)
        producer.produce(site.orders, b"v", None, 1, headers=headers, timestamp=BEGAN_MS)
    producer.produce(site.orders, b"nobody's", None, 0, timestamp=BEGAN_MS)
    producer.flush(20)
    with target_logs(site.bootstrap) as logs:
        found = await one(logs, wanted([site.orders]))
        assert found.messages == []
        assert "0 of 1 found: its topics do not have it" in str(found.trouble)
        gone = await one(logs, wanted([site.prefix + "gone", site.orders], "other"))
        assert [m.partition for m in gone.messages] == [1]
        assert gone.trouble is None
        gone = await one(logs, wanted([site.prefix + "gone"]))
        assert "gone is not there, or may not be seen" in str(gone.trouble)
        fixed = frozenset({(site.orders, 2)})
        assert (await one(logs, wanted([], "other", places=fixed))).messages == []


async def test_a_look_for_offsets_kept_whole_messages_and_so_did_one_for_values(site: Site) -> None:
    """Twenty transactions of 64 messages of a megabyte each were held at once."""
    producer = Producer({"bootstrap.servers": site.bootstrap, "linger.ms": 0})
    for index in range(40):
        value, moment = random.Random(index).randbytes(200_000), BEGAN_MS + index
        producer.produce(
            site.orders, value, None, 0, headers=headers_of("T", index), timestamp=moment
        )
        producer.flush(20)
    with target_logs(site.bootstrap) as logs:
        plain = await one(logs, wanted([site.orders], message_count=40))
        assert len(plain.messages) == 40
        assert [message.content for message in plain.messages] == [None] * 40
        read = await one(logs, wanted([site.orders], message_count=40, shows_content=True))
    contents = [message.content for message in read.messages if message.content is not None]
    assert [content.value_bytes for content in contents] == [200_000] * 40
    assert all(len(content.value or b"") <= SHOWN_BYTES_MAX for content in contents)


async def test_one_among_a_million_is_found_at_once(site: Site) -> None:
    def fill() -> None:
        producer = Producer(
            {"bootstrap.servers": site.bootstrap, "linger.ms": 20, "enable.idempotence": True,
             "queue.buffering.max.messages": 2_000_000}
        )  # fmt: skip
        for n in range(COUNT):
            moment = BEGAN_MS + n * 1_000 // A_SECOND
            producer.produce(
                site.orders, b"x" * 100, None, n % TARGET_PARTITION_COUNT,
                headers=headers_of(f"order-{n}"), timestamp=moment,
            )  # fmt: skip
            if not n % 10_000:
                producer.poll(0)
        producer.flush(120)

    await asyncio.to_thread(fill)
    took_s: list[float] = []
    with target_logs(site.bootstrap) as logs:
        for n in (3, 500_123, 999_999):
            each = wanted([site.orders], f"order-{n}", forwarded_ms=BEGAN_MS + n * 1000 // A_SECOND)
            began_s = time.perf_counter()
            found = await one(logs, each)
            took_s.append(time.perf_counter() - began_s)
            (message,) = found.messages
            assert message.partition == n % TARGET_PARTITION_COUNT
            assert message.log_offset == n // TARGET_PARTITION_COUNT
    print([f"{each:.3f}" for each in took_s])
    assert min(took_s) < 1.0, "without the time index it is more than two"
