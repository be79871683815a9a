"""What an owner counts, for people and dashboards: named, for a swap of two would be silent.

Pure. A step is counted as it was written, after the forwarder has parked what cannot be delivered.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from halfhitch.core.ledger import Ledger
from halfhitch.core.model import ConflictKind, Resolution
from halfhitch.core.step import Step
from halfhitch.core.transaction import Transaction

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_COMMIT: Final = Resolution.COMMIT
_ROLLBACK: Final = Resolution.ROLLBACK

#: What is looked at, once a second, on the thread that forwards: a millisecond at most.
LOOKED_MAX: Final = 5_000
_GROUPS_MAX: Final = 100


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
    oldest_age_by_group: Mapping[str, float] = field(default_factory=dict)


def oldest_by_group(pending: Iterable[Transaction], group_count: int) -> dict[str, Transaction]:
    """The first of each of so many groups, as far as the first LOOKED_MAX tell."""
    found: dict[str, Transaction] = {}
    wanted = min(group_count, _GROUPS_MAX)
    for transaction in islice(pending, LOOKED_MAX):
        if len(found) >= wanted:
            break
        if transaction.is_told:
            found.setdefault(transaction.identity[0], transaction)
    return found


def check_numbers(ledger: Ledger, age_s: Callable[[Transaction], float]) -> CheckNumbers:
    """What the check-back has to tell; `age_s` of a transaction, for people."""
    oldest = next((t for t in ledger.pending() if t.is_told), None)
    groups = {str(group): count for group, count in ledger.checks.told_by_group.items()}
    firsts = oldest_by_group(ledger.pending(), len(groups))
    due, asked = ledger.checks.counts()
    return CheckNumbers(
        due_count=due,
        checking_count=asked,
        oldest_age_s=0.0 if oldest is None else age_s(oldest),
        pending_by_group=groups,
        oldest_age_by_group={group: age_s(first) for group, first in firsts.items()},
    )


def dropped_count(step: Step) -> int:
    """Messages that nobody will ever see: rolled back, or not covered by their commit.

    Copies of a message (a client's repeated prepare, an older check number) are no messages.
    """
    count = sum(t.message_count for t in step.transactions if t.resolution is _ROLLBACK)
    for conflict in step.conflicts:
        if conflict.kind is ConflictKind.UNCOVERED:
            count += len(conflict.half_offsets)
    return count


def first_commit(step: Step) -> Transaction | None:
    """Of those that the next one counts, the one that was decided first: it has waited longest."""
    return next((t for t in step.transactions if t.resolution is _COMMIT and not t.parked), None)


def commits_by_time(step: Step) -> Mapping[int, int]:
    """How many transactions were forwarded, by the broker time of their decision, milliseconds.

    Decisions share records, so these are few. What is parked, dropped or only marked once more is
    not among them.
    """
    return Counter(
        [t.decided_ms for t in step.transactions if t.resolution is _COMMIT and not t.parked]
    )
