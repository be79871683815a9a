"""What an owner counts, for people and dashboards: named, for a swap of two would be silent.

Pure. A step is counted as it was written, after the forwarder has parked what cannot be delivered.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from halfhitch.core.model import ConflictKind, Resolution
from halfhitch.core.step import Step

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_ROLLBACK: Final = Resolution.ROLLBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerNumbers:
    """As service.api.PartitionState has them; nothing yet, unless it is told."""

    pending_count: int = 0
    decided_count: int = 0
    early_count: int = 0
    finished_count: int = 0
    half_watermark: int = 0
    half_position: int = 0
    op_watermark: int = 0
    op_position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckNumbers:
    """The same of the check-back; `due_count` is about right."""

    due_count: int = 0
    checking_count: int = 0
    oldest_age_s: float = 0.0
    pending_by_group: Mapping[str, int] = field(default_factory=dict)


def dropped_count(step: Step) -> int:
    """Messages that nobody will ever see: rolled back, or not covered by their commit.

    Copies of a message (a client's repeated prepare, an older check number) are no messages.
    """
    count = sum(t.message_count for t in step.transactions if t.resolution is _ROLLBACK)
    for conflict in step.conflicts:
        if conflict.kind is ConflictKind.UNCOVERED:
            count += len(conflict.half_offsets)
    return count


def commits_by_time(step: Step) -> Mapping[int, int]:
    """How many transactions were forwarded, by the broker time of their decision, milliseconds.

    Decisions share records, so these are few. What is parked, dropped or only marked once more is
    not among them.
    """
    return Counter(
        [t.decided_ms for t in step.transactions if t.resolution is _COMMIT and not t.parked]
    )
