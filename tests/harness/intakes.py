"""What an intake is told of half partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.service.api import PartitionPhase, PartitionState
from halfhitch.service.transactions.intake import Intake
from halfhitch.wire.burden import Burden
from harness.defaults import intake_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIMITS = intake_limits(undecided_max=1_000, undecided_group_max=500, lag_s_max=8.0)
WORKING, TAKING_OVER = PartitionPhase.WORKING, PartitionPhase.TAKING_OVER


def state(
    partition: int, count: int = 0, *, phase: PartitionPhase = WORKING, lag_s: float = 0.0,
    waiting: dict[str, int] | None = None, **groups: int,
) -> PartitionState:  # fmt: skip
    waiting = waiting or {}
    return PartitionState(
        partition, phase, count, 0, 0, 0, 0, 0, 0, 0, None, pending_by_group=groups, lag_s=lag_s,
        waiting_by_topic=waiting, waiting_count=sum(waiting.values()),
    )  # fmt: skip


def intake(
    *states: PartitionState,
    heard: Mapping[int, Burden] | None = None,
    team_of: Callable[[str], str | None] = lambda _: None,
) -> Intake:
    it = Intake(LIMITS)
    it.team_of = team_of
    it.look(states, heard or {})
    return it
