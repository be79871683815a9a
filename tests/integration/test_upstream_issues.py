"""What users of RocketMQ have reported, as it is to be here: each test is named after its thread.

The numbers are those of github.com/apache/rocketmq/issues.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from halfhitch.core.model import Resolution
from halfhitch.core.model import ResolutionSource as Source
from halfhitch.errors import ContraryDecision, TransactionParked
from halfhitch.service.api import TransactionState
from halfhitch.wire import headers as names
from harness.check_site import RULES, CheckSite
from harness.check_witness import COMMIT, LATER_COMMIT, ROLLBACK, SILENT, UNDECIDED, repeated
from harness.checkers import Fate
from harness.defaults import desk_limits
from harness.engines import GROUP, until, until_idle
from harness.kafka import admin_client, create_topics, fresh_name

if TYPE_CHECKING:
    from halfhitch.embedded import EmbeddedRedis

pytestmark = pytest.mark.kafka

C, R = Resolution.COMMIT, Resolution.ROLLBACK
EACH = 5


@pytest.fixture
def site(kafka: Any, redis_server: EmbeddedRedis) -> CheckSite:
    rules = replace(RULES, immunity_ms=250, interval_ms=350, doubt_ms=100)
    made = CheckSite(kafka.bootstrap, redis_url=redis_server.url, rules=rules)
    made.create_targets()
    return made


async def test_8158_a_final_state_is_final_and_ends_the_checks(site: CheckSite) -> None:
    """There: double commits, commits after rollbacks, checks after either, commits after the last
    check, all of them delivered."""
    async with site.engine() as engine:
        link = site.link(engine)
        end = engine.transactions.end
        once_checked = [
            await site.orphan(engine, f"{kind}-{n}", UNDECIDED)
            for kind in ("committed", "rolled-back")
            for n in range(EACH)
        ]
        given_up = await site.orphan(engine, "given-up", UNDECIDED)
        await until(lambda: len(site.witness.by_id()) == 2 * EACH + 1, "all have been checked once")
        # The handles name the offsets of the first copies; the halves lie elsewhere by now.
        # At once: one after the other, the last was given up before it, on a machine that was slow.
        await asyncio.gather(
            *[
                site.end(
                    engine,
                    prepared.handle,
                    C if prepared.transaction_id.startswith("c") else R,
                    wait_visible=True,
                )
                for prepared in once_checked
            ]
        )
        for prepared in once_checked:
            is_committed = prepared.transaction_id.startswith("c")
            again = await end(prepared.handle, C if is_committed else R, wait_visible=True)
            assert again.state is not TransactionState.PENDING
            with pytest.raises(ContraryDecision):
                await end(prepared.handle, R if is_committed else C)
        asked = [len(site.witness.of(prepared.transaction_id)) for prepared in once_checked]
        await site.until_pending(engine)
        with pytest.raises(TransactionParked):
            await end(given_up.handle, C)
        await until_idle(engine)
        await site.judged()
        link.disconnect()
    # Once each before the end, or twice where the machine was slow; and not again since.
    assert [len(site.witness.of(p.transaction_id)) for p in once_checked] == asked
    assert site.witness.numbers("given-up") == [1, 2, 3]
    assert len(site.observer.of("conflict")) > 0


async def test_5574_an_end_that_is_sent_twice_delivers_once(site: CheckSite) -> None:
    async with site.engine() as engine, site.doorkeeper() as other:
        handles = [(await site.orphan(engine, f"t{n}", COMMIT)).handle for n in range(EACH)]
        await asyncio.gather(
            *[
                site.end(door, handle, C, source=source)
                for handle in handles
                for door in (engine, other)
                for source in (Source.PRODUCER, Source.CHECK, Source.PRODUCER)
            ]
        )
        await site.until_pending(engine)
        await site.judged()


async def test_2694_a_commit_after_a_checks_rollback_delivers_nothing(site: CheckSite) -> None:
    async with site.engine() as engine:
        site.link(engine)
        prepared = [await site.orphan(engine, f"t{n}", ROLLBACK) for n in range(EACH)]
        await site.until_pending(engine)
        for one in prepared:  # the local transaction has been slow, and commits now
            with pytest.raises(ContraryDecision):
                await engine.transactions.end(one.handle, C)
        await until_idle(engine)
        await site.judged()


async def test_615_8311_9320_immunity_burns_no_checks_and_a_commit_during_it_ends_them(
    site: CheckSite,
) -> None:
    """There: each pass during the immunity stores the message anew and uses up a check, so that a
    long one is never checked; and a commit in between is overlooked."""
    async with site.engine() as engine:
        site.link(engine)
        begin_s = time.monotonic()
        for n in range(EACH):
            await site.orphan(engine, f"waits-{n}", COMMIT, immunity_s=2)
        ended = [
            await site.orphan(engine, f"ends-{n}", UNDECIDED, immunity_s=2) for n in range(EACH)
        ]
        at_rest = len(site.observer.of("kafka_transaction"))
        # Several intervals pass, and there are as many passes as that over there.
        await until(lambda: time.monotonic() > begin_s + 1.2, "four intervals")
        assert len(site.observer.of("kafka_transaction")) == at_rest, "nothing was written"
        for prepared in ended:
            await site.end(engine, prepared.handle, C)
        await site.until_pending(engine)
        await site.judged()
    first = [site.witness.of(f"waits-{n}") for n in range(EACH)]
    assert [[a.number for a in asked] for asked in first] == [[1]] * EACH
    for n, (asked,) in enumerate(first):
        assert asked.at_s - site.witness.prepared_s[f"waits-{n}"] >= 2.0
    assert not any(site.witness.of(p.transaction_id) for p in ended)


async def test_475_1789_an_outage_of_producers_uses_up_no_checks(site: CheckSite) -> None:
    """There: after fifteen intervals without a producer everything undecided is thrown away."""
    async with site.engine() as engine:
        for n in range(EACH):
            await site.orphan(engine, f"t{n}", LATER_COMMIT)
        begin_s = time.monotonic()
        outage_s = (site.rules.count_max + 2) * site.rules.interval_ms / 1000
        await until(lambda: time.monotonic() > begin_s + outage_s, "more intervals than checks")
        assert set((await site.undecided(engine)).values()) == {0}
        site.link(engine)
        await site.until_pending(engine)
        await site.judged()
    assert [site.witness.numbers(f"t{n}") for n in range(EACH)] == [[1, 2]] * EACH
    assert site.parked() == {}


async def test_9640_1517_what_was_committed_is_never_checked(site: CheckSite) -> None:
    """There: with a short immunity, 14,031 checks in ten seconds of nothing but commits."""
    site.rules = replace(site.rules, immunity_ms=1_000, interval_ms=1_000)
    async with site.engine() as engine:
        site.link(engine)
        begin_s = time.monotonic()
        room = asyncio.Semaphore(32)

        async def one(number: int) -> None:
            async with room:
                name = f"t{number}"
                prepared = await site.orphan(engine, name, UNDECIDED, [site.message(value=b"v")])
                await site.end(engine, prepared.handle, C)

        await asyncio.gather(*[one(number) for number in range(1_500)])
        await site.until_pending(engine)
        await until(lambda: time.monotonic() > begin_s + 2.5, "the time of a check has passed")
        await site.until_faultless()
    assert site.witness.asked == []


async def test_9791_the_instance_that_took_the_prepare_is_asked_first(
    site: CheckSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There: any producer of the group is asked, also one that knows nothing of the topic."""
    # An instance that a busy machine has kept silent for 3 s is not asked, and rightly so; nor does
    # one deliver what has lain in its inbox for 2 s, or whose halves (of which there are copies by
    # then) were deleted before it could read them. Here none of it may be why another is first.
    site.desk_limits = desk_limits(answer_s=30.0, inbox_age_s=60.0, inbox_grace_s=60.0)
    monkeypatch.setattr("halfhitch.service.owner.trimming._PAUSE_S", 600.0)
    monkeypatch.setattr("halfhitch.adapters.redis.presence._HEARD_S", 60.0)
    monkeypatch.setattr("halfhitch.adapters.redis.writer.PRESENCE_S", 60.0)
    async with (
        site.engine(instance="owner") as owner,
        site.doorkeeper(instance="other") as other,
    ):
        site.link(owner, "at owner")
        at_other = site.link(other, "at other")
        await site.until_seen(owner, "other")
        for n in range(EACH):
            await site.orphan(owner, f"o{n}", LATER_COMMIT)
            await site.orphan(other, f"p{n}", LATER_COMMIT)
        await site.until_pending(owner)
        await site.judged()
        for n in range(EACH):
            assert [a.by for a in site.witness.of(f"o{n}")] == ["at owner", "at other"]
            assert [a.by for a in site.witness.of(f"p{n}")] == ["at other", "at owner"]
        # Once it is gone the next best is asked.
        await site.orphan(other, "left", COMMIT)
        at_other.disconnect()
        await site.until_pending(owner)
    assert [a.by for a in site.witness.of("left")] == ["at owner"]


async def test_1694_a_check_that_cannot_be_written_is_not_lost(site: CheckSite) -> None:
    """There: it is dropped, and counted, when the producer's channel is not writable."""
    async with site.engine() as engine:
        full = site.link(engine, "full", room=0)
        for n in range(3):
            await site.orphan(engine, f"t{n}", LATER_COMMIT)
        await until(lambda: full.refused_count >= 4, "each is refused several times", 10)
        assert max((await site.undecided(engine)).values()) <= 1
        full.room = None
        await site.until_pending(engine)
        await site.judged()
    assert [site.witness.numbers(f"t{n}") for n in range(3)] == [[1, 2]] * 3


async def test_9500_1568_a_broken_record_stalls_nothing(site: CheckSite) -> None:
    """There: an exception in the pass leaves its position where it was, for ever."""
    gone = fresh_name("gone")
    create_topics(site.bootstrap, {gone: 1})
    async with site.engine() as engine:
        for n in range(EACH):
            await site.orphan(engine, f"before-{n}", LATER_COMMIT)
        await site.orphan(engine, "deleted", COMMIT, [site.message(gone, value=b"x")])
        await asyncio.to_thread(break_logs, site)
        admin = admin_client(site.bootstrap)
        for future in admin.delete_topics([gone], operation_timeout=10).values():
            future.result(10)
        for n in range(EACH):
            await site.orphan(engine, f"behind-{n}", LATER_COMMIT)
        site.link(engine)
        await site.until_pending(engine)
        site.truths = [t for t in site.truths if t.transaction_id != "deleted"]
        await site.until_faultless()
        assert site.witness.faults(site.rules) == {}
        assert [why.reason for _, why in site.parked()["deleted"]] == ["undeliverable"]
        # The watermarks have passed what is broken.
        await until(
            lambda: all(s.half_watermark == s.half_position for s in engine.partitions()),
            lambda: f"watermarks: {engine.partitions()}",
        )
    assert sum(count for _, count in site.observer.of("garbage")) >= 2 * 6


def break_logs(site: CheckSite) -> None:
    """What a stranger, or a bug, might leave in both logs of each partition."""
    half = [(names.UNIQ_KEY, b"t"), (names.PGROUP, GROUP.encode())]
    producer = Producer({"bootstrap.servers": site.bootstrap, "log_level": 0})
    for partition in range(2):
        for topic in (site.names.half, site.names.op):
            producer.produce(topic, b"not ours", partition=partition)
            producer.produce(topic, None, b"k", partition, headers=[("\u00e4", None)])
            producer.produce(topic, b"17,18,", partition=partition, headers=half)
    assert producer.flush(10) == 0


async def test_9431_any_instance_can_end_a_transaction(site: CheckSite) -> None:
    """There: only the proxy that took the prepare can, for thirty seconds, until it restarts."""
    async with site.engine(instance="owner") as owner:
        async with site.doorkeeper(instance="first") as first:
            ended = [await site.orphan(first, f"ended-{n}", UNDECIDED) for n in range(EACH)]
            checked = [await site.orphan(first, f"checked-{n}", SILENT) for n in range(EACH)]
        async with site.doorkeeper(instance="second") as second:
            link = site.link(owner, "at owner")
            await until(lambda: len(site.witness.by_id()) == 2 * EACH, "all are asked")
            for one in ended:
                await site.end(second, one.handle, C, wait_visible=True)
            # Asked at the owner, answered at another one.
            for one in checked:
                await site.end(second, one.handle, C, source=Source.CHECK)
            await site.until_pending(owner)
            await site.judged()
            link.disconnect()
    assert repeated(site.witness) == []
    assert {t.fate for t in site.truths} == {Fate.COMMITTED}
