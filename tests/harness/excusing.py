"""What is done to a world, for verify to excuse or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halfhitch.core.model import (
    Resolution,
)
from halfhitch.verify.bounds import Rules
from halfhitch.verify.report import Findings
from halfhitch.verify.run import verify
from harness.verify_logs import WorldLogs
from harness.verify_world import (
    Life,
    World,
)

if TYPE_CHECKING:
    pass

C, R, P = Resolution.COMMIT, Resolution.ROLLBACK, Resolution.PARK
RULES = Rules(step_ms=10, memory_ms=100, grown_ms=100)
LONG_MS = RULES.memory_ms + RULES.step_ms + 1_000


def look(world: World, **given: Any) -> Findings:
    return verify(WorldLogs(world, patience=40, **given), rules=RULES).findings


def ended(world: World, resolution: Resolution = C, messages: Any = (), **more: Any) -> Life:
    life = world.prepare(messages=messages, **more)
    world.decide(life, resolution)
    world.settle()
    return life


def to(topic: str, partition: int | None = None, key: bytes | None = None) -> Any:
    return [(topic, key, b"v", partition)]


def remove(world: World, life: Life) -> None:
    for record in world.records_of(life):
        record.state = "aborted"


def lost(world: World, messages: Any) -> Life:
    life = ended(world, messages=messages)
    remove(world, life)
    return life


def cut(world: World, *places: tuple[str, int], at: int | None = None) -> None:
    """What lies there now, or below, is deleted."""
    for place in places:
        log = world.logs[place]
        log.start = len(log.records) if at is None else at
