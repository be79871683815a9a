"""The ranges of an audit: ends in verify's order, and what an open Kafka transaction hides."""

from __future__ import annotations

import random

from chaos.kit.losing import a_life, played
from halfhitch_spark.audit.plan import Wanted, make_plan
from harness.spark_audit import NAMES, WorldOffsets, by_spark
from harness.verify_world import BEGAN_MS, OP, TARGETS


def test_ends_are_taken_in_the_order_that_makes_no_false_alarms(rng: random.Random) -> None:
    kafka = WorldOffsets(played(rng.randrange(2**32)))
    plan = make_plan(kafka, Wanted(NAMES, tuple(TARGETS)))
    assert kafka.asked == [
        *(NAMES.op, NAMES.half, "orders", "points", NAMES.op),
        NAMES.parked,
    ]
    assert set(plan.cuts) == {(NAMES.op, 0), (NAMES.op, 1)}
    assert plan.layout.has_all_targets
    assert plan.record_count == sum(end - plan.starts[p][0] for p, end in plan.ends.items())


def test_what_an_open_kafka_transaction_hides_is_waited_for_and_then_left(
    rng: random.Random,
) -> None:
    world = played(rng.randrange(2**32))
    record = world.records_of(a_life(world, 1))[0]
    record.state = "open"
    waited: list[float] = []
    wanted = Wanted(NAMES, tuple(TARGETS), open_wait_s=1.0)
    plan = make_plan(WorldOffsets(world), wanted, sleep=waited.append)
    assert plan.hidden == {record.place}
    assert plan.ends[record.place] == record.at
    assert 0.9 < sum(waited) < 1.3
    found = by_spark(world, open_wait_s=0.0)
    assert found.whole.violations == []
    assert found.whole.unjudged == {"target_open": 1}

    def commits(_: float) -> None:
        record.state = "visible"

    record.state = "open"
    plan = make_plan(WorldOffsets(world), wanted, sleep=commits)
    assert not plan.hidden
    assert plan.ends[record.place] == len(world.logs[record.place].records)


def test_with_a_time_only_what_ended_since_is_read(rng: random.Random) -> None:
    world = played(rng.randrange(2**32))
    middle = world.logs[OP, 0].records[len(world.logs[OP, 0].records) // 2].time_ms
    everything = make_plan(WorldOffsets(world), Wanted(NAMES, tuple(TARGETS)))
    since = Wanted(NAMES, tuple(TARGETS), since_ms=middle)
    plan = make_plan(WorldOffsets(world), since)
    first, is_trimmed = plan.starts[NAMES.op, 0]
    assert 0 < first < everything.ends[NAMES.op, 0]
    assert not is_trimmed
    # Targets are read from two hours before.
    assert plan.starts["orders", 0] == (0, False)
    world.logs[OP, 0].start = 1
    never = Wanted(NAMES, tuple(TARGETS), since_ms=BEGAN_MS * 2)
    late = make_plan(WorldOffsets(world), never)
    assert late.starts[NAMES.op, 0][0] == late.ends[NAMES.op, 0]
