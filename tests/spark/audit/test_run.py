"""The audit on Spark, on a real Kafka: what verify says, and every class of wrong is found."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from chaos.kit.losing import LOSSES, RULES, a_life, played
from chaos.kit.losses import LOSSES as ALL
from halfhitch.core.model import ConflictKind, ConflictMark, OpOffset
from halfhitch.errors import ConfigurationError
from halfhitch.verify.kafka_logs import KafkaVerifyLogs, verify_consumer
from halfhitch.verify.kafka_targets import Wanted as VerifyWanted
from halfhitch.verify.report import Findings, Kind, Unjudged, Verdict
from halfhitch.verify.run import verify
from halfhitch.wire import op as op_wire
from halfhitch.wire.topics import InternalTopics
from halfhitch_spark.audit import Given, audit, command
from halfhitch_spark.audit.plan import Wanted
from halfhitch_spark.audit.tables import tables, write_tables
from harness.kafka import admin_client, fresh_name
from harness.stored_world import store_world
from harness.verified import told
from harness.verify_world import OP

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from halfhitch.embedded import EmbeddedKafka
    from halfhitch_spark.audit import Result
    from harness.verify_world import World

#: Several jobs each, of dozens of short tasks: ten minutes on a machine with ten times its load.
pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600)]

assert ALL is LOSSES
#: One of each class, and what must be said of it.
SEEDED = {
    "the message of a single": Kind.LOST,
    "parked and not kept": Kind.LOST,
    "one message of several": Kind.TORN,
    "parked in part": Kind.TORN,
    "left out though its commit counts it": Kind.TORN,
    "doubled": Kind.DOUBLED,
    "parked and committed": Kind.DOUBLED,
    "invented": Kind.PHANTOM,
    "rolled back and visible": Kind.PHANTOM,
    "another value": Kind.CORRUPTED,
    "another topic": Kind.MISROUTED,
}


def by_spark(spark: SparkSession, bootstrap: str, prefix: str, **more: Any) -> Result:
    wanted = Wanted(InternalTopics(prefix), (prefix + "*",), open_wait_s=1.0, **more)
    return audit(spark, Given(bootstrap, wanted, RULES))


def by_verify(bootstrap: str, prefix: str) -> Findings:
    """What `halfhitch verify` says."""
    consumer = verify_consumer(
        {"bootstrap.servers": bootstrap}, group=InternalTopics(prefix).owner_group
    )
    try:
        wanted = VerifyWanted(allow=(prefix + "*",))
        names = InternalTopics(prefix)
        logs = KafkaVerifyLogs(consumer, admin_client(bootstrap), names=names, wanted=wanted)
        return verify(logs, rules=RULES, limit=1_000).findings
    finally:
        consumer.close()


def conflict(world: World) -> tuple[str, str]:
    """A decision that came after another one had won."""
    life = world.committed()[0]
    mark = ConflictMark(life.identity, ConflictKind.CONTRARY, OpOffset(7), [])
    ((value, headers, _),) = op_wire.write_step([], [mark])
    world.append((OP, life.partition), None, value, headers)
    return life.identity


@pytest.mark.long
def test_a_system_that_worked_is_clean_and_what_is_trimmed_is_excused(
    spark: SparkSession, kafka: EmbeddedKafka, rng: random.Random
) -> None:
    prefix = fresh_name("clean") + "."
    world = played(rng.randrange(2**32), prefix=prefix)
    gone = a_life(world, 1, messages=[("orders", b"k", b"v", 0)])
    store_world(world, kafka.bootstrap, prefix)
    result = by_spark(spark, kafka.bootstrap, prefix)
    whole = result.whole
    assert whole.violations == []
    assert result.verdict(1.0) is Verdict.CLEAN, whole
    assert whole.committed_judged == len(world.committed())
    assert told(whole) == told(by_verify(kafka.bootstrap, prefix))

    topic = prefix + "orders"
    trimmed = TopicPartition(topic, 0, world.records_of(gone)[0].at + 1)
    admin = admin_client(kafka.bootstrap)  # a client that nobody holds answers nothing
    for future in admin.delete_records([trimmed]).values():
        future.result(30.0)
    whole = by_spark(spark, kafka.bootstrap, prefix).whole
    assert whole.violations == []
    assert whole.unjudged[Unjudged.TARGET_TRIMMED] >= 1
    assert told(whole) == told(by_verify(kafka.bootstrap, prefix))


@pytest.mark.long
def test_a_system_that_was_spoiled_is_told_of_as_by_verify(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    rng: random.Random,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prefix = fresh_name("spoiled") + "."
    world = played(rng.randrange(2**32), prefix=prefix)
    contrary = conflict(world)
    hurt = {name: LOSSES[name].spoil(world).lives for name in SEEDED}
    undecided = world.prepare(2)
    store_world(world, kafka.bootstrap, prefix)
    result = by_spark(spark, kafka.bootstrap, prefix)
    whole = result.whole
    said = {(v.kind, v.producer_group, v.transaction_id) for v in whole.violations}
    for name, kind in SEEDED.items():
        assert {(kind, *life.identity) for life in hurt[name]} <= said, name
    assert undecided.identity in {
        (u.producer_group, u.transaction_id) for u in whole.unfinished if u.state == "undecided"
    }
    (found,) = (c for c in result.conflicts if c.kind == "contrary")
    assert (found.producer_group, found.transaction_id) == contrary
    assert result.conflict_counts[contrary[0], "contrary"] == 1
    assert told(whole) == told(by_verify(kafka.bootstrap, prefix))
    assert result.verdict(0.5) is Verdict.NOT_CLEAN
    for group, findings in result.findings.items():
        assert {v.producer_group for v in findings.violations} <= {group}

    monkeypatch.setattr(command, "_session", lambda _: spark)
    folder, shown = tmp_path / "out", tmp_path / "audit.html"
    arguments = ["--kafka-bootstrap", kafka.bootstrap, "--topics-prefix", prefix]
    arguments += ["--topics-allow", prefix + "*", "--out", folder.as_uri(), "--page", str(shown)]
    assert command.main(arguments) == 3
    assert "NOT CLEAN" in shown.read_text()
    for table in tables(result, 0.5):
        rows = spark.read.parquet(f"{folder.as_uri()}/{table.name}")
        assert rows.columns == table.columns
        assert table.name in ("not_judged", "summary") or rows.count() == len(table.rows)
    with pytest.raises(ConfigurationError, match="--out"):
        write_tables(spark, result, 0.5, folder.as_uri())
