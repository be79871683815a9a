"""Worlds that verify looks at, and what is done to them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from halfhitch.core.model import (
    Resolution,
)
from halfhitch.verify.bounds import Rules
from halfhitch.verify.report import Findings, Kind
from halfhitch.verify.run import Outcome, verify
from harness.verify_logs import WorldLogs
from harness.verify_world import (
    Life,
    Stored,
    World,
)

C, R, P = Resolution.COMMIT, Resolution.ROLLBACK, Resolution.PARK
RULES = Rules(step_ms=10, memory_ms=100)


def ended(world: World, resolution: Resolution, count: int = 2, messages: Any = ()) -> Life:
    """One transaction, carried out."""
    life = world.prepare(count, messages=messages)
    world.decide(life, resolution)
    world.settle()
    return life


def look(world: World, **more: Any) -> Outcome:
    given = {name: more.pop(name) for name in ("only", "narrowed", "unclear") if name in more}
    return verify(WorldLogs(world, patience=40, **given), rules=RULES, **more)


def told(findings: Findings) -> dict[str, object]:
    """All that two who judge the same must say alike."""
    return {
        "violations": Counter(map(repr, findings.violations)),
        "unfinished": Counter(map(repr, findings.unfinished)),
        "kinds": findings.violation_counts,
        "unjudged": findings.unjudged,
        "states": findings.unfinished_counts,
        "endings": findings.endings,
        "numbers": (
            findings.transactions,
            findings.ended,
            findings.judged,
            findings.committed_judged,
            findings.forwards_judged,
        ),
    }


def kinds(findings: Findings) -> set[Kind]:
    return set(findings.violation_counts)


def only_violation(world: World, kind: Kind, life: Life, **more: Any) -> Any:
    findings = look(world, **more).findings
    assert [v.kind for v in findings.violations] == [kind], findings.violations
    (violation,) = findings.violations
    assert (violation.producer_group, violation.transaction_id) == life.identity
    assert not findings.is_clean
    return violation


def remove(record: Stored) -> None:
    record.state = "aborted"


def copy_of(world: World, record: Stored, **changes: Any) -> Stored:
    """What a stranger's plain producer writes."""
    values = {"key": record.stored_key, "value": record.stored_value}
    values.update(changes)
    place = values.pop("place", record.place)
    headers = values.pop("headers", record.stored_headers)
    return world.append(place, values["key"], values["value"], headers)


def trim(world: World, topic: str) -> None:
    """All of it is deleted."""
    for place, log in world.logs.items():
        if place[0] == topic:
            log.start = len(log.records)


def lose(world: World) -> Life:
    life = ended(world, C, 1)
    for record in world.records_of(life):
        remove(record)
    return life
