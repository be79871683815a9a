"""Distributions: classes that add up, quantiles that are right, and what the audit topic says."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from chaos.kit.losing import C
from halfhitch.wire import story
from halfhitch_spark.audit.measures import (
    CHECKS,
    TO_DECISION_MS,
    TO_END_MS,
    Measures,
    class_of,
    measure_stories,
    upper_of,
)
from harness.spark_audit import by_spark
from harness.verify_world import World


@pytest.mark.parametrize("number", [0, 1, 15, 16, 17, 100, 12_345, 86_400_000, 10**15])
def test_a_number_is_in_its_class(number: int) -> None:
    upper = upper_of(class_of(number))
    assert number <= upper * 1.000_001 + 0.000_001
    assert upper <= number * 1.05 + 0.001


def test_quantiles_are_right_to_within_a_class(rng: random.Random) -> None:
    numbers = sorted(rng.randrange(1, 100_000) for _ in range(1_000))
    halves = Measures(), Measures()
    for number in numbers:
        halves[number % 2].note(TO_END_MS, "g", ["orders"], number)
    halves[0].join(halves[1])
    (found,) = halves[0].distributions()
    assert found.count == 1_000
    assert found.quantile(0.5) == pytest.approx(numbers[499], rel=0.05)
    assert found.quantile(1.0) == pytest.approx(numbers[-1], rel=0.05)


def told(log_offset: int, *entries: Any) -> Any:
    """A record of the audit topic."""
    (value,) = story.write(5, "i", [msgspec.json.encode(entry) for entry in entries])
    return record(log_offset, value, story.story_headers())


def record(log_offset: int, value: bytes | None, headers: Any) -> Any:
    methods = {
        "value": lambda: value,
        "headers": lambda: headers,
        "off" + "set": lambda: log_offset,
    }
    return SimpleNamespace(**methods)


def ended(*topics: str, checks: int = 0, decided_ms: int = 1_500) -> story.Ended:
    targets = [story.Target(topic) for topic in topics]
    return story.Ended(
        "g", "t", 1, 0, "", 1_000, decided_ms, 4, "check", None, checks, 1, 3, targets
    )


def test_the_audit_topic_tells_of_decisions_and_checks() -> None:
    event = story.Event("g", "t", story.ASKED, 1)
    records = [
        told(0, ended("orders", "points", "orders", checks=2), event),
        record(1, b"garbage", None),
        told(2, ended(decided_ms=0)),
    ]
    measures = measure_stories(records)
    found = {(d.measure, d.topic): d for d in measures.distributions()}
    assert set(found) == {
        *((CHECKS, topic) for topic in ("orders", "points", "")),
        *((TO_DECISION_MS, topic) for topic in ("orders", "points")),
    }
    assert found[CHECKS, "orders"].quantile(1.0) == 2
    assert found[TO_DECISION_MS, "points"].quantile(0.5) == pytest.approx(500, rel=0.05)
    assert measures.deciders == {("g", "check"): 2}


def test_the_logs_tell_how_long_it_took_where_the_halves_are_there(rng: random.Random) -> None:
    world = World(rng)
    life = world.prepare(1, messages=[("orders", b"k", b"v", 0)])
    world.now_ms += 5_000
    world.decide(life, C)
    world.settle()
    (found,) = by_spark(world).measures.distributions()
    assert (found.measure, found.topic, found.count) == (TO_END_MS, "orders", 1)
    assert found.quantile(0.5) == pytest.approx(5_000, rel=0.06)
