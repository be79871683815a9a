"""What a task makes of pieces: the transactions of its buckets, witnessed and then judged.

This runs on the executors, in Python. A task holds the pieces of its buckets, and unpacks one
bucket at a time. `Case` is what all tasks know.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from halfhitch.verify.account import Account
from halfhitch.verify.bounds import Rules
from halfhitch.verify.facts import Facts
from halfhitch.verify.judge import Witnessed, judge_groups, witness
from halfhitch.verify.pieces import Piece, transactions_of
from halfhitch.verify.report import Findings
from halfhitch_spark.audit.measures import Measures, measure_end
from halfhitch_spark.audit.taking import SEEN, Seen

Pieces = Iterable[tuple[int, Piece | Seen]]


@dataclass(frozen=True, slots=True)
class Case:
    """`account`: all that was read, but for the facts. `only`: what an earlier look has found."""

    account: Account
    rules: Rules
    limit: int
    group: str | None = None
    seen: Witnessed = field(default_factory=Witnessed)
    only: dict[str, set[int]] | None = None


@dataclass(slots=True)
class Judged:
    """What one task has found, by group."""

    findings: dict[str, Findings] = field(default_factory=dict)
    measures: Measures = field(default_factory=Measures)

    def join(self, other: "Judged") -> None:
        """What another one has found: of other transactions."""
        for group, findings in other.findings.items():
            there = self.findings.setdefault(group, findings)
            if there is not findings:
                there.join(findings)
        self.measures.join(other.measures)


def witnessed(case: Case, pieces: Pieces) -> Iterator[Witnessed]:
    """What these transactions tell of the time of others."""
    yield witness(case.account, _transactions(case, pieces), case.rules)


def judged(case: Case, pieces: Pieces) -> Iterator[Judged]:
    """What is wrong with these transactions."""
    result = Judged()

    def wanted() -> Iterator[Facts]:
        for facts in _transactions(case, pieces):
            if case.group is None or facts.identity[0] == case.group:
                measure_end(result.measures, facts, case.account.topics)
                yield facts

    result.findings = judge_groups(
        case.account, wanted(), case.rules, case.seen, limit=case.limit, only=case.only
    )
    yield result


def _transactions(case: Case, pieces: Pieces) -> Iterator[Facts]:
    buckets: dict[int, list[Piece]] = {}
    for bucket, piece in pieces:
        if bucket != SEEN and isinstance(piece, Piece):
            buckets.setdefault(bucket, []).append(piece)
    while buckets:
        _, found = buckets.popitem()
        yield from transactions_of(case.account, found)
