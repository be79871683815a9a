"""The broker that coordinates the owners' group is killed in the middle of a step, on real ones."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from halfhitch import crash_points
from halfhitch.adapters.kafka.clients import OwnerProducer, base, owner_producer
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.adapters.watchdog import HUNG_S
from halfhitch.embedded import EmbeddedKafka
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import TargetRecord, WriteOutcome
from harness.kafka import admin_client, fresh_name, read_all, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halfhitch.ports import WriteResult

pytestmark = pytest.mark.kafka

DEADLINE_S = 90.0


@pytest.fixture(scope="module")
def brokers() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(brokers=3, short_lived=True, heap_mib=320) as cluster:
        yield cluster


class Bench:
    """One writer, and all the producers that it has made."""

    def __init__(self, brokers: EmbeddedKafka) -> None:
        self._brokers = brokers
        self.half, self.op, self.orders = (fresh_name(kind) for kind in ("half", "op", "orders"))
        self.group = fresh_name("group")
        self.admin = admin_client(brokers.bootstrap)
        wanted = [NewTopic(name, 1, 3) for name in (self.half, self.op, self.orders)]
        for future in self.admin.create_topics(wanted, operation_timeout=DEADLINE_S).values():
            future.result(DEADLINE_S)
        self.made: list[weakref.ref[Producer]] = []
        self.visible: list[bytes] = []
        self._consumer = Consumer(
            {"bootstrap.servers": brokers.bootstrap, "group.id": self.group, "log_level": 0}
        )
        metadata = self._consumer.consumer_group_metadata()
        self.writer = KafkaPartitionWriter(
            self._make,
            make_resumer=self._make,
            admin=self.admin,
            group_metadata=lambda: metadata,
            half_topic=self.half,
            op_topic=self.op,
            partition=0,
            transaction_timeout_ms=15_000,
        )

    def _make(self) -> OwnerProducer:
        producer = owner_producer(
            base(self._brokers.bootstrap, "owner", {"log_level": 0}),
            transactional_id=self.group,
            transaction_timeout_ms=15_000,
        )
        assert producer.client is not None
        self.made.append(weakref.ref(producer.client))
        return producer

    def fence(self) -> None:
        """As an owner does, again and again."""

        def is_fenced() -> bool:
            try:
                self.writer.fence()
            except KafkaUnavailable:
                return False
            return True

        wait_until(is_fenced, DEADLINE_S, what="the fence")

    def write(self, value: bytes, watermark: int) -> WriteResult:
        target = TargetRecord(self.orders, 0, None, value, [])
        result = self.writer.write([target], [(b"1,", [], None)], watermark, watermark)
        if result.outcome is WriteOutcome.OK:
            self.visible.append(value)
        return result

    def write_well(self, watermark: int) -> None:
        """With a producer that nothing speaks against: it knows the coordinator afterwards."""

        def is_well() -> bool:
            self.fence()
            result = self.write(b"well %d" % len(self.made), watermark)
            return result.outcome is WriteOutcome.OK and not result.is_suspect

        wait_until(is_well, DEADLINE_S, what="a step without trouble")

    def coordinator(self) -> int:
        found = self.admin.list_topics("__consumer_offsets", DEADLINE_S).topics
        return int(found["__consumer_offsets"].partitions[0].leader)

    def stored(self) -> int:
        (found,) = self._consumer.committed([TopicPartition(self.half, 0)], DEADLINE_S)
        return int(found.offset)

    def close(self) -> None:
        self.writer.close()
        self._consumer.close()


@pytest.fixture
def bench(brokers: EmbeddedKafka) -> Iterator[Bench]:
    made = Bench(brokers)
    yield made
    made.close()


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_step_does_not_hang_for_ever_when_the_groups_coordinator_is_killed(
    brokers: EmbeddedKafka, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka's client had given up its handle of that broker, and waited for it to connect."""
    bench.write_well(1)
    victim = bench.coordinator()
    left = bench.made[-1]
    acts = ["kill"]

    def reached(point: str) -> None:
        if point != "after_produce" or not acts:
            return
        acts.clear()
        producer: Any = left()
        # Stored before, or on a busy machine they run out of time first: another failure.
        assert producer.flush(DEADLINE_S) == 0
        brokers.kill_broker(victim)
        wait_until(
            lambda: victim not in producer.list_topics(timeout=DEADLINE_S).brokers,
            DEADLINE_S,
            what="Kafka's metadata names the dead broker no more",
        )

    monkeypatch.setattr(crash_points, "_hook", reached)
    results: list[WriteResult] = []
    began_s = time.monotonic()
    step = threading.Thread(target=lambda: results.append(bench.write(b"never", 2)), daemon=True)
    step.start()
    try:
        wait_until(lambda: not acts, DEADLINE_S, what="the broker is killed")
        step.join(HUNG_S + 15)
        assert results, f"the step hangs; the watchdog would have ended it after {HUNG_S:g} s"
        failed_s = time.monotonic() - began_s
        bench.write_well(3)
        print(f"FAIL after {failed_s:.1f} s, a step is through {time.monotonic() - began_s:.1f} s")
        (result,) = results
        assert result.outcome is WriteOutcome.FAIL
        assert "did not come back from sending the watermarks" in result.reason
        assert (result.is_ours, result.poisoned, result.away_topics) == (True, {}, frozenset())
        wait_until(lambda: left() is None, DEADLINE_S, what="the producer that was left has ended")
        assert bench.stored() == 3
        found = [record.value for record in read_all(brokers.bootstrap, bench.orders)]
        assert found == bench.visible
        assert b"never" not in found
    finally:
        brokers.restart_broker(victim)
