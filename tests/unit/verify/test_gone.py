"""What was prepared is not missing unseen because its half was deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.verify.report import Unjudged, Verdict
from harness.verified import C, ended, look, trim
from harness.verify_world import HALF

if TYPE_CHECKING:
    from harness.verify_world import World


def test_clean_was_said_of_prepared_messages_whose_halves_retention_had_deleted(
    world: World,
) -> None:
    world.prepare(2)
    assert look(world).findings.verdict(0.5) is Verdict.CLEAN
    trim(world, HALF)
    findings = look(world).findings
    assert findings.verdict(0.5) is Verdict.NOT_JUDGED
    assert findings.unjudged[Unjudged.HALF_GONE] >= 2
    assert findings.examples[Unjudged.HALF_GONE] == []


def test_clean_was_said_of_a_half_topic_that_was_made_anew(world: World) -> None:
    for _ in range(3):
        world.prepare(2)
    for place, log in world.logs.items():
        if place[0] == HALF:
            log.records.clear()
    findings = look(world).findings
    assert findings.verdict(0.5) is Verdict.NOT_JUDGED
    assert Unjudged.HALF_GONE in findings.unjudged


def test_a_half_topic_made_anew_is_seen_though_kafka_has_forgotten_its_watermarks(
    world: World,
) -> None:
    for place, log in world.logs.items():
        if place[0] == HALF:
            log.records.clear()
            world.watermarks[place[1]] = 0
    findings = look(world).findings
    assert findings.verdict(0.5) is Verdict.NOT_JUDGED
    assert Unjudged.HALF_GONE in findings.unjudged


def test_what_has_ended_may_be_deleted_above_the_watermark(world: World) -> None:
    """By somebody's retention: the watermark is behind what it could be."""
    for _ in range(50):
        ended(world, C, 1)
    for partition in world.watermarks:
        world.watermarks[partition] = min(1, world.watermarks[partition])
    trim(world, HALF)
    assert Unjudged.HALF_GONE not in look(world).findings.unjudged
