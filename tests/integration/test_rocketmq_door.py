"""The RocketMQ door on a real Kafka: what is promised to unmodified producers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.native import carrier
from halfhitch.adapters.system import SystemClock
from halfhitch.composition import App
from halfhitch.composition.rocketmq import native_way
from halfhitch.config import load
from halfhitch.core.model import Resolution
from halfhitch.doors.rocketmq import RocketmqDoor, RocketmqOptions
from halfhitch.errors import HalfHitchError
from halfhitch.wire.digest import digest_of
from halfhitch.wire.half import digest_in
from halfhitch.wire.remoting import codes
from harness.defaults import check_rules, intake_limits, owner_limits, rocketmq_limits
from harness.engines import DEADLINE_S, GROUP, Site, until, until_working
from harness.kafka import fresh_name
from harness.native import native, needs_native
from harness.remoting_client import RemotingClient, Sent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from random import Random

pytestmark = pytest.mark.kafka

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
RULES = check_rules(immunity_ms=400, interval_ms=400, jitter=0.0, count_max=3)


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


@pytest.fixture(autouse=True, params=["interpreted", pytest.param("native", marks=needs_native)])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways through the door."""
    make = native.Native if request.param == "native" else None
    monkeypatch.setattr(carrier, "load", lambda: make)
    return str(request.param)


@asynccontextmanager
async def served(site: Site, **options: Any) -> AsyncIterator[tuple[Any, RocketmqDoor]]:
    """An engine with a RocketMQ door."""
    door_options = options.pop("door", {})
    async with site.engine(**options) as engine:
        limits = rocketmq_limits()
        door = RocketmqDoor(
            engine.transactions,
            engine.transactions.sends,
            engine.topic_directory,
            wall_ms=SystemClock().wall_ms,
            desk=engine.desk,
            unready_reasons=engine.unready_reasons,
            options=RocketmqOptions(port=0, **door_options),
            limits=limits,
            lending=native_way(engine, site.observer, limits, carrier.load()),
        )
        await door.start()
        try:
            yield engine, door
        finally:
            await door.stop(drain_s=2)


def client_of(door: RocketmqDoor) -> RemotingClient:
    assert door.port is not None
    return RemotingClient(door.port)


async def until_written(site: Site, wanted: set[bytes], topic: str | None = None) -> None:
    def written() -> list[bytes]:
        return sorted(record.value for record in site.read(topic or site.orders))

    give_up_s = asyncio.get_running_loop().time() + DEADLINE_S
    while (found := await asyncio.to_thread(written)) != sorted(wanted):
        assert asyncio.get_running_loop().time() < give_up_s, (found, wanted)
        await asyncio.sleep(0.05)


async def test_what_is_committed_is_on_kafka_exactly_once_and_nothing_else_is(
    site: Site, rng: Random
) -> None:
    committed: set[bytes] = set()
    async with served(site) as (_, door), client_of(door) as client, client_of(door) as other:

        async def one(n: int) -> None:
            body, unique = b"message %d" % n, f"{site.orders}-{n}"
            fate = rng.choice([COMMIT, COMMIT, ROLLBACK])
            tries = rng.choice([1, 1, 2])  # a client that met a timeout sends it again
            for _ in range(tries):
                sent = await client.half(
                    GROUP, site.orders, body, {"KEYS": f"k{n % 5}"}, unique=unique, e=str(n % 3)
                )
                assert sent.code == 0, sent.remark
            ending = rng.choice([client, other])
            if rng.random() < 0.5:
                ending.end(GROUP, sent, fate)
            else:
                assert (await ending.end_sync(GROUP, sent, fate)).code == 0
            if fate == COMMIT:
                committed.add(body)

        await asyncio.gather(*[one(n) for n in range(120)])
        await until_written(site, committed)
    assert len(committed) > 40
    records = site.read(site.orders)
    assert all(record.partition == int(record.value.split()[1]) % 3 for record in records)
    headers = dict(records[0].headers)
    assert headers["UNIQ_KEY"].startswith(site.orders.encode())
    assert (headers["PGROUP"], headers["KEYS"]) == (GROUP.encode(), records[0].key)
    for record in records:  # by this `halfhitch verify` tells whether a message was changed
        said = digest_in(record.headers[-1][1] or b"")
        users = record.headers[:-3]
        assert said == digest_of(site.orders, None, record.key, record.value, users) != 0


async def test_a_group_that_ends_nothing_is_told_to_wait_and_another_one_is_served(
    site: Site,
) -> None:
    limits = intake_limits(undecided_max=500, undecided_group_max=100)
    async with served(site, intake_limits=limits) as (engine, door), client_of(door) as client:
        taken: list[Sent] = []
        busy: list[str | None] = []
        while len(busy) < 100:
            number = len(taken) + len(busy)
            sent = await client.half("hog", site.orders, b"x", unique=f"{number:04}")
            if sent.code == 0:
                taken.append(sent)
            else:
                assert sent.code == codes.SYSTEM_BUSY, sent.remark
                busy.append(sent.remark)
            await asyncio.sleep(0.02)
            assert len(taken) < 2 * (100 + 50 * 8), "nothing is refused"
        assert (busy[-1] or "").startswith("[OVERLOAD] too_many_undecided: group hog has ")
        for number in range(20):
            sent = await client.half("shop", site.orders, b"%d" % number, unique=f"s{number}")
            assert sent.code == 0, sent.remark
            client.end("shop", sent, COMMIT)
        for sent in taken:
            client.end("hog", sent, ROLLBACK)
        await until(lambda: not engine.intake.troubles(), "room again")
        sent = await client.half("hog", site.orders, b"last", unique="last")
        assert sent.code == 0, sent.remark
        client.end("hog", sent, COMMIT)
        await until_written(site, {b"last", *(b"%d" % number for number in range(20))})


async def test_a_silent_producer_is_asked_and_its_answer_decides(site: Site) -> None:
    limits = owner_limits(check_rules=RULES)
    async with served(site, owner_limits=limits) as (_, door), client_of(door) as client:
        halves = {
            name: await client.half(GROUP, site.orders, name, {"TAGS": "t"}, unique=name.decode())
            for name in (b"commit", b"rollback", b"later", b"never")
        }
        assert {sent.code for sent in halves.values()} == {0}
        asked: dict[bytes, list[str]] = {}

        async def answer() -> None:
            while True:
                question, message = await client.next_check()
                assert message.properties["TAGS"] == "t"
                assert question.transaction_id == message.body.decode()
                numbers = asked.setdefault(message.body, [])
                numbers.append(message.properties["TRANSACTION_CHECK_TIMES"])
                if message.body == b"commit":
                    client.end(GROUP, question, COMMIT)
                elif message.body == b"rollback":
                    client.end(GROUP, question, ROLLBACK)
                elif message.body == b"later":
                    client.end(GROUP, question, COMMIT if len(numbers) == 2 else UNKNOWN)
                else:
                    client.end(GROUP, question, UNKNOWN)

        answering = asyncio.ensure_future(answer())
        try:
            await until_written(site, {b"commit", b"later"})
            parked = site.names.parked

            def is_parked() -> bool:
                return [r.value for r in site.read(parked)] == [b"never"]

            await until(is_parked, "the one that is never answered to be parked")
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)
        assert asked == {
            b"commit": ["1"],
            b"rollback": ["1"],
            b"later": ["1", "2"],
            b"never": ["1", "2", "3"],
        }


async def test_ends_went_the_slow_way_while_a_check_was_out(site: Site, way: str) -> None:
    """One of them is of what was asked about: the question ends with it."""
    limits = owner_limits(check_rules=RULES)
    async with served(site, owner_limits=limits) as (engine, door), client_of(door) as client:
        asked = await client.half(GROUP, site.orders, b"asked", unique="asked")
        await client.next_check()  # which is never answered
        other = await client.half(GROUP, site.orders, b"other", unique="other")
        assert engine.desk.is_asking
        client.end(GROUP, asked, COMMIT)
        client.end(GROUP, other, COMMIT)
        await until_written(site, {b"asked", b"other"})
        await until(lambda: not engine.desk.is_asking, "the end of the question")
        # What is carried out natively is counted a moment later.
        ends = ("end_transaction", 0)
        await until(lambda: door.snapshot().requests.get(ends) == 2, "the count of the ends")
        # The end of what is asked about is the loop's.
        assert door.snapshot().native_count == (1 if way == "native" else 0)
        outcomes = {values[1] for values in site.observer.of("check_settled")}
        assert outcomes == {"decided"}


async def test_a_decision_that_was_told_to_stand_lost_to_a_one_way_end_beside_it(
    site: Site, way: str
) -> None:
    """Five of 177 did: native threads have a producer of their own, and records of two have no
    order. So what the loop has looked at is the loop's to end."""
    rng = Random(17)
    stood: set[bytes] = set()
    races: list[asyncio.Task[None]] = []
    async with served(site) as (engine, door), client_of(door) as client:
        names = [f"D{number}" for number in range(400)]
        halves = {
            name: await client.half(GROUP, site.orders, name.encode(), unique=name)
            for name in names
        }
        await until(
            lambda: sum(state.pending_count for state in engine.partitions()) == len(names),
            "the owners to know all of them",
        )

        async def race(name: str) -> None:
            deciding = asyncio.ensure_future(
                engine.operations.decide(
                    GROUP, name, Resolution.COMMIT, reason="it has paid", operator="ann"
                )
            )
            await asyncio.sleep(rng.uniform(0, 0.006))
            client.end(GROUP, halves[name], ROLLBACK)
            try:
                await deciding
            except HalfHitchError:
                pass  # the producer was quicker
            else:
                stood.add(name.encode())

        for name in names:
            races.append(asyncio.ensure_future(race(name)))
            await asyncio.sleep(0.001)
        await asyncio.gather(*races)
        assert stood
        await until_written(site, stood)


async def test_another_producer_of_the_group_answers_for_one_that_is_gone(site: Site) -> None:
    limits = owner_limits(check_rules=RULES)
    async with served(site, owner_limits=limits) as (_, door), client_of(door) as other:
        async with client_of(door) as gone:
            sent = await gone.half(GROUP, site.orders, b"orphan", unique="O1")
            assert sent.code == 0
        await other.heartbeat(GROUP)
        question, message = await other.next_check()
        assert message.body == b"orphan"
        assert (await other.end_sync(GROUP, question, COMMIT)).code == 0
        await until_written(site, {b"orphan"})


async def test_an_end_is_taken_after_the_door_has_started_anew(site: Site) -> None:
    async with served(site) as (_, door), client_of(door) as client:
        sent = await client.half(GROUP, site.orders, b"before", unique="R1")
    async with served(site) as (_, door), client_of(door) as client:
        assert (await client.end_sync(GROUP, sent, COMMIT)).code == 0
        await until_written(site, {b"before"})


async def test_ends_that_were_made_up_decide_nothing_and_checks_settle_what_they_meant(
    site: Site,
) -> None:
    """Group, id and where a half lies were enough, whichever door had taken it."""
    limits = owner_limits(check_rules=RULES)
    async with (
        served(site, owner_limits=limits) as (engine, door),
        client_of(door) as client,
        client_of(door) as stranger,
    ):
        halves = {
            name: await stranger.half(GROUP, site.orders, name, unique=name.decode())
            for name in (b"first", b"second", b"third")  # the later ones may go the native way
        }
        places = {name: sent.commit_log_offset for name, sent in halves.items()}
        message = site.message(site.orders, b"key", b"http")
        elsewhere = await site.prepare(engine, [message], "http")
        places[b"http"] = elsewhere.partition << 48 | elsewhere.half_offsets[0]
        for name, position in places.items():
            for state in (0, position & 0xFFFF_FFFF_FFFF, halves[b"first"].state_offset):
                if name == b"first" and state == halves[name].state_offset:
                    continue
                fields = {"msgId": f"{position:032X}", "queueOffset": str(state)}
                forged = Sent(0, None, {**fields, "transactionId": name.decode()})
                stranger.end(GROUP, forged, ROLLBACK)
                assert (await stranger.end_sync(GROUP, forged, ROLLBACK)).code == codes.SYSTEM_ERROR
        await until(
            lambda: door.snapshot().failed_one_way_ends == {"foreign_end": 11}, "all are counted"
        )
        await client.heartbeat(GROUP)

        async def answer(asked: RemotingClient) -> None:
            while True:
                question, _ = await asked.next_check()
                asked.end(GROUP, question, COMMIT)

        answering = [asyncio.ensure_future(answer(each)) for each in (client, stranger)]
        try:
            await until_written(site, set(places))
        finally:
            for each in answering:
                each.cancel()
            await asyncio.gather(*answering, return_exceptions=True)


async def test_plain_messages_and_batches_go_to_kafka_at_once(site: Site) -> None:
    async with served(site) as (_, door), client_of(door) as client:
        first = await client.put(GROUP, site.orders, b"plain", {"KEYS": "k"}, unique="P1", e="1")
        assert (first.code, first.fields["queueId"], first.fields["queueOffset"]) == (0, "1", "0")
        answer = await client.ask(codes.GET_MAX_OFFSET, {"topic": site.orders, "queueId": "1"})
        assert answer.fields == {"offset": "1"}
        await until_written(site, {b"plain"})
    (record,) = site.read(site.orders)
    assert (record.partition, record.key) == (1, b"k")
    assert dict(record.headers) == {"KEYS": b"k", "UNIQ_KEY": b"P1"}


async def test_a_topic_that_is_asked_for_is_made_when_the_setting_says_so(site: Site) -> None:
    door_options = {"create_topics": True, "create_partitions": 2}
    async with served(site, door=door_options) as (_, door), client_of(door) as client:
        topic = fresh_name("asked-for")
        code, route = await client.route(topic)
        assert (code, route["queueDatas"][0]["writeQueueNums"]) == (0, 2)
        assert (await client.put(GROUP, topic, b"x", e="1")).code == 0
        await until_written(site, {b"x"}, topic)


async def test_the_program_serves_rocketmq_when_its_setting_says_so(site: Site) -> None:
    settings = load(
        {
            "kafka.bootstrap": site.bootstrap,
            "handle.key": ["k" * 32],
            "topics.prefix": site.prefix,
            "topics.replication_factor": 1,
            "http.port": 0,
            "admin.port": 0,
            "rocketmq.enabled": True,
            "rocketmq.port": 0,
            "rocketmq.access_keys": ["shop:a-long-secret"],
            "rocketmq.advertised": "127.0.0.1:9999",
            "drain.s_max": 2,
        }
    )
    app = App(settings, create_topics=True)
    await app.start()
    try:
        await until_working(app.engine, settings.topics.partitions)
        await until(lambda: not app.engine.unready_reasons(), "its producers have reached Kafka")
        door = app.rocketmq
        assert door is not None
        assert door.port is not None
        async with RemotingClient(
            door.port, access_key="shop", secret_key="a-long-secret"
        ) as client:
            _, route = await client.route(site.orders)
            assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:9999"}
            sent = await client.half(GROUP, site.orders, b"signed", unique="S1")
            assert (await client.end_sync(GROUP, sent, COMMIT)).code == 0
            await until_written(site, {b"signed"})
        shown = app.metrics.render([]).decode()
        assert 'halfhitch_rocketmq_requests_total{code="0",request="end_transaction"} 1.0' in shown
        assert "halfhitch_rocketmq_in_flight_requests 0.0" in shown
    finally:
        await app.stop()
