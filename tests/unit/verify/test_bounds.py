"""What retention and trimming leave to judge."""

from __future__ import annotations

import random
from typing import Any

import pytest

from halfhitch.verify.bounds import CLOCK_MS
from halfhitch.verify.report import Kind, Unjudged
from halfhitch.verify.run import SINCE_MARGIN_MS, verify
from harness.verified import (
    RULES,
    C,
    ended,
    look,
    lose,
    trim,
)
from harness.verify_logs import WorldLogs
from harness.verify_world import (
    BY_BROKER,
    CREATED,
    HALF,
    OP,
    PARKED_TOPIC,
    World,
)


def test_retention_of_a_target_is_not_a_loss(world: World) -> None:
    trim(world, "orders")
    trim(world, "points")
    findings = look(world).findings
    assert findings.is_clean
    assert findings.is_complete
    assert findings.unjudged == {Unjudged.TARGET_TRIMMED: 4}
    assert findings.committed_judged == 0
    assert (findings.judged, findings.ended) == (3, 7)


@pytest.mark.parametrize(("kind", "extra_ms"), [(CREATED, CLOCK_MS), (BY_BROKER, 0)])
def test_a_loss_is_found_where_retention_cannot_explain_it(
    rng: random.Random, kind: int, extra_ms: int
) -> None:
    world = World(rng, target_time=kind)
    for place in [(topic, partition) for topic in ("orders", "points") for partition in (0, 1)]:
        ended(world, C, messages=[(place[0], None, b"v", place[1])])
        kept = ended(world, C, messages=[(place[0], None, b"v", place[1])])
        world.logs[place].start = world.records_of(kept)[0].at
    world.now_ms += extra_ms + RULES.memory_ms + RULES.step_ms - 1_000
    early = lose(world)
    assert look(world).findings.unjudged[Unjudged.TARGET_TRIMMED] >= 1
    world.now_ms += 10_000
    late = lose(world)
    found = {v.transaction_id for v in look(world).findings.violations}
    assert found == {late.identity[1]}
    assert early.identity[1] not in found


def test_a_forward_older_than_the_op_log_is_judged_for_doubles_only(world: World) -> None:
    trim(world, OP)
    trim(world, HALF)
    findings = look(world).findings
    assert findings.is_clean
    assert findings.unjudged[Unjudged.OLD_FORWARD] == 8
    assert findings.forwards_judged == 0


def test_since_leaves_older_ones_unjudged(world: World) -> None:
    old = lose(world)
    world.now_ms += 10 * SINCE_MARGIN_MS
    since_ms = world.now_ms
    new = lose(world)
    findings = look(world, since_ms=since_ms).findings
    assert [v.transaction_id for v in findings.violations] == [new.identity[1]]
    assert look(world).findings.violation_counts == {Kind.LOST: 2}, old


def test_the_op_log_trimmed_under_the_reader_leaves_the_rest_unjudged(world: World) -> None:
    class Overtaken(WorldLogs):
        def starts(self, topic: str, since_ms: int) -> Any:
            if topic == PARKED_TOPIC:
                return super().starts(topic, since_ms)
            if topic == "orders":
                for partition in (0, 1):
                    ended(world, C)
                    world.append((OP, partition), None, None, [], state="aborted")
                trim(world, OP)
            return super().starts(topic, since_ms)

    outcome = verify(Overtaken(world), rules=RULES)
    assert outcome.findings.is_clean
    assert not outcome.findings.is_complete
    assert Unjudged.OP_GAP in outcome.findings.unjudged
