"""What verifying finds, as plain values."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What is wrong. The texts are a contract: programs read them."""

    LOST = "lost"  # committed or parked, and nothing of it is there
    TORN = "torn"  # some of its messages are there, others are not
    DOUBLED = "doubled"  # one message is there more than once
    PHANTOM = "phantom"  # there, although it was never committed
    MISROUTED = "misrouted"  # not on the topic or partition that its half names
    CORRUPTED = "corrupted"  # its key, value or headers differ from its half


class Unjudged(StrEnum):
    """Why something could not be judged. The value is for programs, `SENTENCES` for people."""

    TARGET_TRIMMED = "target_trimmed"
    TARGET_UNKNOWN = "target_unknown"
    TARGET_GONE = "target_gone"
    TARGET_OUTSIDE = "target_outside"
    TARGET_UNREADABLE = "target_unreadable"
    TARGET_OPEN = "target_open"
    OLD_FORWARD = "old_forward"
    NO_MARK = "no_mark"
    PARKED_TRIMMED = "parked_trimmed"
    OP_GAP = "op_gap"


SENTENCES = {
    Unjudged.TARGET_TRIMMED: "not found, but their targets have deleted records of that time",
    Unjudged.TARGET_UNKNOWN: "not found where was looked; their halves are gone, so which topic "
    "they went to is not known, and not every allowed topic was read",
    Unjudged.TARGET_GONE: "their target topic does not exist any more",
    Unjudged.TARGET_OUTSIDE: "outside topics.allow as it was given here: their target is there, "
    "but was not read",
    Unjudged.TARGET_UNREADABLE: "not readable: this user lacks the right to read a topic that they "
    "may be on, or its settings (Describe, Read, DescribeConfigs)",
    Unjudged.TARGET_OPEN: "an open Kafka transaction hides the end of a topic they may be on",
    Unjudged.OLD_FORWARD: "forwarded before the op log begins, as far as can be told: judged for "
    "doubles and gaps only",
    Unjudged.NO_MARK: "a commit without an ending whose half is gone: repeated long after the end, "
    "or lost; the op log does not reach back far enough to say which",
    Unjudged.PARKED_TRIMMED: "records of the parked topic were deleted",
    Unjudged.OP_GAP: "the op log was trimmed faster than it was read",
}

#: With any of these the answer is incomplete: a moment later, or with more rights, there is one.
PASSING = frozenset({Unjudged.TARGET_OPEN, Unjudged.OP_GAP, Unjudged.TARGET_UNREADABLE})


@dataclass(frozen=True, slots=True)
class Where:
    """One record."""

    topic: str
    partition: int
    log_offset: int


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not be. `where` may be empty: what is lost lies nowhere."""

    kind: Kind
    producer_group: str
    transaction_id: str
    indexes: tuple[int, ...]
    where: tuple[Where, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A transaction that has not ended: lawful, unless it is old."""

    producer_group: str
    transaction_id: str
    state: str  # undecided, committing, rolling_back or giving_up
    message_count: int
    stored_ms: int
    where: Where  # its first half
    reason: str | None = None  # of its decision, in words of whoever decided


@dataclass(slots=True)
class Findings:
    """What the judge says. Lists hold at most `limit` of each kind; the counters count all."""

    limit: int
    only: frozenset[int] | set[int] | None = None  # hashes of what may be found
    found: set[int] = field(default_factory=set)  # hashes of all that was found
    violations: list[Violation] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    violation_counts: Counter[Kind] = field(default_factory=Counter)
    unfinished_counts: Counter[str] = field(default_factory=Counter)
    unjudged: Counter[Unjudged] = field(default_factory=Counter)
    examples: dict[Unjudged, list[tuple[str, str]]] = field(default_factory=dict)
    #: Transactions by how they ended.
    endings: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    #: Committed ones whose messages were all looked for.
    committed_judged: int = 0
    #: Forwarded records whose right to be there was looked for.
    forwards_judged: int = 0

    def violate(self, violation: Violation) -> None:
        """Note one."""
        key = hash((violation.kind, violation.producer_group, violation.transaction_id))
        if self.only is not None and key not in self.only:
            return
        self.found.add(key)
        self.violation_counts[violation.kind] += 1
        if self.violation_counts[violation.kind] <= self.limit:
            self.violations.append(violation)

    def pass_over(self, why: Unjudged, identity: tuple[str, str]) -> None:
        """Note one that cannot be judged."""
        self.unjudged[why] += 1
        known = self.examples.setdefault(why, [])
        if len(known) < min(self.limit, 5):
            known.append(identity)

    def goes_on(self, unfinished: Unfinished) -> None:
        """Note one that has not ended; the oldest are kept."""
        self.unfinished_counts[unfinished.state] += 1
        self.unfinished.append(unfinished)
        if len(self.unfinished) >= 2 * self.limit + 1_000:
            self._cut()

    def finish(self) -> None:
        """Nothing more comes."""
        self._cut()
        self.violations.sort(key=lambda v: (v.kind, v.producer_group, v.transaction_id))

    def _cut(self) -> None:
        self.unfinished.sort(key=lambda one: one.stored_ms)
        del self.unfinished[self.limit :]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with what was judged."""
        return not self.violation_counts

    @property
    def is_complete(self) -> bool:
        """Whether everything was judged that lasts long enough to be judged."""
        return not PASSING & self.unjudged.keys()
