"""What producers were asked, what they answered, and the judges of the check-back.

A `Witness` may stand behind any number of producers, of any kind and in any thread. What a
transaction's producers answer is its `Plan`: one answer for each check number, the last one for all
that follow.

Each judge gives a list of sentences; an empty one means that the promise held.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from harness.checkers import Fate

if TYPE_CHECKING:
    from halfhitch.core.check_rules import CheckRules


class Answer(Enum):
    """What a producer makes of one check."""

    COMMIT = auto()
    ROLLBACK = auto()
    UNKNOWN = auto()
    SILENT = auto()


Plan = tuple[Answer, ...]

COMMIT: Plan = (Answer.COMMIT,)
ROLLBACK: Plan = (Answer.ROLLBACK,)
LATER_COMMIT: Plan = (Answer.UNKNOWN, Answer.COMMIT)
LATER_ROLLBACK: Plan = (Answer.UNKNOWN, Answer.ROLLBACK)
UNDECIDED: Plan = (Answer.UNKNOWN,)
SILENT: Plan = (Answer.SILENT,)

#: By a name that test ids may begin with.
PLANS: dict[str, Plan] = {
    "commit": COMMIT,
    "rollback": ROLLBACK,
    "later_commit": LATER_COMMIT,
    "later_rollback": LATER_ROLLBACK,
    "undecided": UNDECIDED,
    "silent": SILENT,
}


def fate_of(plan: Plan) -> Fate:
    """What becomes of a transaction that is checked to the end."""
    if plan[-1] is Answer.COMMIT:
        return Fate.COMMITTED
    return Fate.ROLLED_BACK if plan[-1] is Answer.ROLLBACK else Fate.PENDING


@dataclass(frozen=True, slots=True)
class Asked:
    """One check as it came to a producer."""

    transaction_id: str
    number: int
    by: str  # the producer
    at_s: float


@dataclass
class Witness:
    """See the module's text. Appending and setting are atomic, so it needs no lock."""

    plans: dict[str, Plan] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    prepared_s: dict[str, float] = field(default_factory=dict)
    decided_s: dict[str, float] = field(default_factory=dict)

    def prepares(self, transaction_id: str, plan: Plan) -> None:
        """Said before the request goes out: no half of it is older than this."""
        self.plans[transaction_id] = plan
        self.prepared_s[transaction_id] = time.monotonic()

    def decided(self, transaction_id: str) -> None:
        """Said when a decision has been acknowledged."""
        self.decided_s.setdefault(transaction_id, time.monotonic())

    def ask(self, transaction_id: str, number: int, by: str) -> Answer:
        """A check has come; what its producer is to make of it."""
        self.asked.append(Asked(transaction_id, number, by, time.monotonic()))
        plan = self.plans[transaction_id]
        return plan[min(number, len(plan)) - 1]

    # -- looking ---------------------------------------------------------------------------------

    def of(self, transaction_id: str) -> list[Asked]:
        """All checks of one transaction."""
        return [a for a in list(self.asked) if a.transaction_id == transaction_id]

    def numbers(self, transaction_id: str) -> list[int]:
        """The numbers of its checks, in the order in which they came."""
        return [a.number for a in self.of(transaction_id)]

    def by_id(self) -> dict[str, list[Asked]]:
        """All checks."""
        found: dict[str, list[Asked]] = defaultdict(list)
        for one in list(self.asked):
            found[one.transaction_id].append(one)
        return dict(found)

    def faults(self, rules: CheckRules, *, slack_s: float = 0.3) -> dict[str, list[str]]:
        """What must never happen, whatever breaks; by the name of the judge."""
        verdicts = {
            "over_checked": over_checked(self, rules),
            "skipped": skipped(self),
            "early": early(self, rules),
            "hurried": hurried(self, rules, slack_s),
            "after_the_decision": after_the_decision(self, slack_s),
        }
        return {name: found for name, found in verdicts.items() if found}


def over_checked(witness: Witness, rules: CheckRules) -> list[str]:
    """Numbers beyond the maximum."""
    return [f"{a} although {rules.count_max} are allowed" for a in witness.asked
            if not 1 <= a.number <= rules.count_max]  # fmt: skip


def repeated(witness: Witness) -> list[str]:
    """Checks that came with the same number as one before: lawful only after a fault."""
    return [
        f"{transaction_id} was asked {[a.number for a in asked]}"
        for transaction_id, asked in witness.by_id().items()
        if len({a.number for a in asked}) != len(asked)
    ]


def skipped(witness: Witness) -> list[str]:
    """Numbers that did not follow one another: a check that was counted and never delivered."""
    result = []
    for transaction_id, asked in witness.by_id().items():
        first_seen = list(dict.fromkeys(a.number for a in asked))
        if first_seen != list(range(1, len(first_seen) + 1)):
            result.append(f"{transaction_id} was asked {[a.number for a in asked]}")
    return result


def early(witness: Witness, rules: CheckRules) -> list[str]:
    """Checks before the immunity has passed since the prepare was asked for."""
    return [
        f"{a} came {a.at_s - witness.prepared_s[a.transaction_id]:.3f} s after the prepare"
        for a in witness.asked
        if a.at_s - witness.prepared_s[a.transaction_id] < rules.immunity_ms / 1000
    ]


def hurried(witness: Witness, rules: CheckRules, slack_s: float) -> list[str]:
    """Next numbers that came sooner than the interval after the number before.

    An interval begins when the number is in the log; the check reaches its producer later, on a
    busy machine by more than any slack. So what came sooner has also to have come before all the
    intervals since the prepare can have passed.
    """
    result = []
    for asked in witness.by_id().values():
        at_s: dict[int, float] = {}
        for one in asked:
            at_s.setdefault(one.number, one.at_s)
            before_s = at_s.get(one.number - 1, float("-inf"))
            earliest_ms = rules.immunity_ms + (one.number - 1) * rules.interval_ms
            is_early = one.at_s - witness.prepared_s[one.transaction_id] < earliest_ms / 1000
            if one.at_s - before_s < rules.interval_ms / 1000 - slack_s and is_early:
                story = [(a.number, a.by, round(a.at_s - asked[0].at_s, 3)) for a in asked]
                result.append(f"{one} came {one.at_s - before_s:.3f} s after the last: {story}")
    return result


def after_the_decision(witness: Witness, slack_s: float) -> list[str]:
    """Checks of transactions whose decision had been acknowledged: one may be on its way then."""
    return [
        f"{a} came {a.at_s - witness.decided_s[a.transaction_id]:.3f} s after the decision"
        for a in witness.asked
        if a.at_s > witness.decided_s.get(a.transaction_id, float("inf")) + slack_s
    ]
