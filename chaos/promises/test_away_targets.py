"""A target whose broker is down is told from one that never takes a message, on real brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import NewTopic

from halfhitch.adapters.kafka import clients
from halfhitch.embedded import EmbeddedKafka
from halfhitch.ports import TargetRecord, WriteOutcome
from halfhitch.wire.op import StepRecord
from harness.kafka import admin_client, fresh_name, read_all, wait_until
from harness.worlds import KafkaWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

DEADLINE_S = 60.0


class Impatient(KafkaWorld):
    """Gives up a record after two seconds."""

    def _transactional_producer(self, partition: int) -> clients.OwnerProducer:
        return clients.owner_producer(
            self._config(),
            transactional_id=f"{self._names.owner_group}-{partition}",
            transaction_timeout_ms=6_000,
        )


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, short_lived=True, heap_mib=320) as cluster:
        yield cluster


def create_on(bootstrap: str, name: str, broker_id: int) -> None:
    admin = admin_client(bootstrap)
    wanted = NewTopic(name, 1, replica_assignment=[[broker_id]])
    for future in admin.create_topics([wanted], operation_timeout=DEADLINE_S).values():
        future.result(DEADLINE_S)


def test_a_target_whose_broker_is_down_is_away_until_it_is_back(brokers: EmbeddedKafka) -> None:
    """The internal topics of this world have one replica each, so they are laid on living ones."""
    world = Impatient(brokers.bootstrap)
    starved, healthy = fresh_name("starved"), fresh_name("healthy")
    ours = {t: _leaders(brokers, t) for t in (world.half_topic, world.op_topic)}
    victim = next(n for n in brokers.broker_ids if all(n != led[0] for led in ours.values()))
    create_on(brokers.bootstrap, starved, victim)
    create_on(brokers.bootstrap, healthy, ours[world.op_topic][0])
    world.put(world.half_topic, [b"0", b"1"])
    writer = world.writer()
    writer.fence()
    targets = [TargetRecord(topic, 0, None, b"v", []) for topic in (healthy, starved)]
    ops = [StepRecord(b"0,", [("TAGS", b"d")])]
    assert writer.leaderless([starved, healthy]) == frozenset()
    brokers.kill_broker(victim)
    try:
        wait_until(lambda: writer.leaderless([starved, healthy]) == {starved}, DEADLINE_S)
        writer.fence()
        result = writer.write(targets, ops, 1, 0)
        print(f"broker {victim} is down: {result.outcome.value}, {result.reason}")
        assert result.outcome is WriteOutcome.FAIL
        assert result.away_topics == {starved}
        assert (result.poisoned, result.refusing, result.closed) == ({}, {}, {})
        writer.fence()
        result = writer.write(targets[:1], ops, 1, 0)
        assert (result.outcome, result.away_topics) == (WriteOutcome.OK, frozenset())
        # A broker that stays down does not make every new producer suspect.
        assert [writer.write(targets[:1], [], 1, 0).is_suspect for _ in range(3)] == [False] * 3
    finally:
        brokers.restart_broker(victim)
    wait_until(lambda: writer.leaderless([starved]) == frozenset(), DEADLINE_S)
    writer.fence()
    assert writer.write(targets[1:], ops, 2, 0).outcome is WriteOutcome.OK
    assert [record.value for record in read_all(brokers.bootstrap, starved)] == [b"v"]
    world.close()


def _leaders(brokers: EmbeddedKafka, topic: str) -> list[int]:
    found = admin_client(brokers.bootstrap).list_topics(topic, timeout=DEADLINE_S).topics[topic]
    return [found.partitions[n].leader for n in sorted(found.partitions)]
