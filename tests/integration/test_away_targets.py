"""A target whose broker is down or hangs holds up others for a moment only, on real brokers."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import NewTopic

from halfhitch.core.model import Resolution
from halfhitch.embedded import EmbeddedKafka
from halfhitch.engine import Engine
from halfhitch.errors import TooManyWaiting
from halfhitch.service.api import OutgoingMessage
from halfhitch.service.owner.away_targets import AwayTargets
from harness.bare_engine import running, until
from harness.defaults import intake_limits
from harness.kafka import admin_client, create_topics, fresh_name, is_settled, read_all

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("owner_way")]

DEADLINE_S = 90.0
#: Three times message.timeout.ms: by default the owner's Kafka transactions live for 15 s.
TRANSACTION_MS = 6_000
#: Of two steps that meet it, the audit topic's and the target's own, message.timeout.ms each, and
#: what a busy machine takes for two aborts. Who waited for the broker would wait for ever.
OTHERS_DELAYED_MAX_S = 2 * 2.0 + 16.0
AWAY_COUNT = 30
#: So often it is found to be away still.
LOOKS = 3


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, short_lived=True, heap_mib=320) as cluster:
        yield cluster


def create_on(bootstrap: str, name: str, broker_id: int) -> None:
    wanted = NewTopic(name, 1, replica_assignment=[[broker_id]])
    admin = admin_client(bootstrap)
    for future in admin.create_topics([wanted], operation_timeout=DEADLINE_S).values():
        future.result(DEADLINE_S)


def leaders(brokers: EmbeddedKafka, *topics: str) -> set[int]:
    found = admin_client(brokers.bootstrap).list_topics(timeout=DEADLINE_S).topics
    return {p.leader for topic in topics for p in found[topic].partitions.values()}


def pick_victim(brokers: EmbeddedKafka, prefix: str) -> int | None:
    """A broker that leads nothing which the coordinator itself needs, if there is one.

    Neither are the coordinators of its group and its Kafka transactions such: without them
    everybody waits, which is another matter (chaos). The audit topic it may lead: nobody waits for
    that.
    """
    ours = [prefix + name for name in ("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")]
    needed = leaders(brokers, *ours, "__consumer_offsets", "__transaction_state")
    return next((n for n in brokers.broker_ids if n not in needed), None)


@asynccontextmanager
async def with_a_victim(brokers: EmbeddedKafka) -> AsyncIterator[tuple[Engine, int]]:
    """Kafka spreads leaders by chance: topics are made until a broker is free."""
    for _ in range(20):
        prefix = fresh_name("p") + "."
        # Who measures the others' wait wants no prepare refused for it (limits.lag_s_max).
        limits = intake_limits(lag_s_max=DEADLINE_S)
        async with running(
            brokers.bootstrap, prefix, deadline_s=DEADLINE_S,
            transaction_timeout_ms=TRANSACTION_MS, intake_limits=limits,
        ) as engine:  # fmt: skip
            victim = pick_victim(brokers, prefix)
            if victim is not None:
                yield engine, victim
                return
    raise AssertionError("no broker is free of what the coordinator needs")


async def commit(engine: Engine, topic: str, value: bytes, *, wait_visible: bool) -> None:
    message = OutgoingMessage(topic, b"k", value, [])
    prepared = await engine.transactions.prepare(producer_group="g", messages=(message,))
    await engine.transactions.end(prepared.handle, Resolution.COMMIT, wait_visible=wait_visible)


class Looks:
    """How often an owner has met a topic's broker away, or looked whether it is back."""

    def __init__(self, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("failed", "postpone"):
            monkeypatch.setattr(AwayTargets, name, self._around(getattr(AwayTargets, name), topic))

    def _around(self, method: Callable[..., Any], topic: str) -> Callable[..., Any]:
        def counting(targets: AwayTargets, topics: Iterable[str], *args: Any, **named: Any) -> Any:
            topics = list(topics)
            self.count += topic in topics
            return method(targets, topics, *args, **named)

        return counting


async def others_go_on(
    engine: Engine, topic: str, values: list[bytes], is_over: Callable[[], bool]
) -> float:
    """Commit one after the other until it is over; the longest wait for one to appear."""
    longest_s, give_up_s = 0.0, time.monotonic() + DEADLINE_S
    while not is_over():
        assert time.monotonic() < give_up_s, "it was not looked for again"
        began_s = time.monotonic()
        value = b"%d" % len(values)
        async with asyncio.timeout(DEADLINE_S):
            await commit(engine, topic, value, wait_visible=False)
            await until(lambda: engine.partitions()[0].decided_count <= AWAY_COUNT, DEADLINE_S)
        values.append(value)
        longest_s = max(longest_s, time.monotonic() - began_s)
        await asyncio.sleep(0.05)
    return longest_s


@pytest.mark.parametrize("how", ["killed", pytest.param("hung", marks=pytest.mark.long)])
async def test_others_wait_for_a_moment_while_the_broker_of_one_target_is(
    brokers: EmbeddedKafka, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starved, healthy = fresh_name("starved"), fresh_name("healthy")
    looks = Looks(starved, monkeypatch)
    async with with_a_victim(brokers) as (engine, victim):
        create_on(brokers.bootstrap, starved, victim)
        create_topics(brokers.bootstrap, {healthy: 1})
        await commit(engine, starved, b"before", wait_visible=True)
        await commit(engine, healthy, b"before", wait_visible=True)
        (brokers.kill_broker if how == "killed" else brokers.pause_broker)(victim)
        try:
            for n in range(AWAY_COUNT):
                await commit(engine, starved, b"%d" % n, wait_visible=False)
            values: list[bytes] = []
            longest_s = await others_go_on(
                engine, healthy, values, lambda: looks.count > LOOKS and len(values) > LOOKS
            )
            print(f"{how}: others waited {longest_s:.1f} s at most, {len(values)} went on")
            await until(
                lambda: engine.partitions()[0].waiting_by_topic == {starved: AWAY_COUNT}, DEADLINE_S
            )
        finally:
            (brokers.restart_broker if how == "killed" else brokers.resume_broker)(victim)
        began_s = time.monotonic()
        await until(lambda: engine.partitions()[0].decided_count == 0, DEADLINE_S)
        print(f"{how}: all of them appeared {time.monotonic() - began_s:.1f} s after it was back")
        assert engine.partitions()[0].waiting_by_topic == {}
    assert longest_s < OTHERS_DELAYED_MAX_S
    # A Kafka transaction is committed before its markers are written.
    await until(lambda: is_settled(brokers.bootstrap, starved), DEADLINE_S)
    found = [record.value for record in read_all(brokers.bootstrap, starved)]
    assert found == [b"before"] + [b"%d" % n for n in range(AWAY_COUNT)]
    found = [record.value for record in read_all(brokers.bootstrap, healthy)]
    assert found == [b"before", *values]


async def commit_for_ever(engine: Engine, topic: str, taken: list[bytes]) -> None:
    """Until it is refused, or for long."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            value = b"%d" % len(taken)
            await commit(engine, topic, value, wait_visible=False)
            taken.append(value)
            await asyncio.sleep(0.1)


@pytest.mark.long
async def test_what_waits_for_a_broker_that_is_gone_is_bounded_and_comes_when_it_is_back(
    brokers: EmbeddedKafka,
) -> None:
    """It was in no bound, and filled the memory of owner after owner."""
    starved, healthy = fresh_name("starved"), fresh_name("healthy")
    async with with_a_victim(brokers) as (engine, victim):
        create_on(brokers.bootstrap, starved, victim)
        create_topics(brokers.bootstrap, {healthy: 1})
        await commit(engine, starved, b"before", wait_visible=True)
        await commit(engine, healthy, b"before", wait_visible=True)
        engine.intake._limits = intake_limits(undecided_group_max=10, lag_s_max=DEADLINE_S)
        taken = [b"before"]
        brokers.kill_broker(victim)
        try:
            with pytest.raises(TooManyWaiting, match=f"wait for topic {starved} in half") as error:
                await commit_for_ever(engine, starved, taken)
            assert error.value.retry_after_s == 5
            assert len(taken) > 10
            told = f"takes no new transactions for topic {starved}"
            assert [reason for reason in engine.degraded_reasons() if told in reason]
            await commit(engine, healthy, b"after", wait_visible=True)
        finally:
            brokers.restart_broker(victim)
        await until(lambda: not engine.intake.troubles(), DEADLINE_S)
        await commit(engine, starved, b"again", wait_visible=True)
    found = [record.value for record in read_all(brokers.bootstrap, starved)]
    assert found == [*taken, b"again"]
