"""What a step has done, in the numbers that dashboards show.

Pure: takes the step as it was written, after the forwarder has parked what cannot be delivered.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from halfhitch.core.model import ConflictKind, Resolution
from halfhitch.core.step import Step

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_ROLLBACK: Final = Resolution.ROLLBACK


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
