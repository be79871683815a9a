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


class Verdict(StrEnum):
    """What all that was found comes to. The texts are a contract."""

    CLEAN = "clean"
    NOT_CLEAN = "not_clean"
    NOT_JUDGED = "not_judged"


class Unjudged(StrEnum):
    """Why something could not be judged. The value is for programs, `SENTENCES` for people."""

    TARGET_TRIMMED = "target_trimmed"
    TARGET_COMPACTED = "target_compacted"
    TARGET_GROWN = "target_grown"
    TARGET_UNKNOWN = "target_unknown"
    TARGET_UNTOLD = "target_untold"
    TARGET_GONE = "target_gone"
    TARGET_IMPOSSIBLE = "target_impossible"
    TARGET_OUTSIDE = "target_outside"
    TARGET_NOT_READ = "target_not_read"
    TARGET_HIDDEN = "target_hidden"
    TARGET_UNREADABLE = "target_unreadable"
    TARGET_OPEN = "target_open"
    LEFT_OUT = "left_out"
    TWO_ENDINGS = "two_endings"
    OLD_FORWARD = "old_forward"
    NO_MARK = "no_mark"
    PARKED_TRIMMED = "parked_trimmed"
    OP_GAP = "op_gap"
    HALF_GONE = "half_gone"


SENTENCES = {
    Unjudged.TARGET_TRIMMED: "not found, but the partition that they may have been on has deleted "
    "records of that time",
    Unjudged.TARGET_COMPACTED: "not found, but their topic is compacted, and a later record of the "
    "same key may have replaced them",
    Unjudged.TARGET_GROWN: "not on the partition that their key leads to now; their topic may have "
    "had fewer partitions when they were sent",
    Unjudged.TARGET_UNKNOWN: "not found where was looked; their halves are gone, so which topic "
    "they went to is not known, and not every allowed topic was read",
    Unjudged.TARGET_UNTOLD: "not found, and their halves are gone, so which topic they went to is "
    "not known; only a topic without any message of ours (a compacted or emptied one, such as a "
    "schema registry's) may have deleted them: if nobody's messages go there, leave it out of "
    "topics.allow",
    Unjudged.TARGET_GONE: "their target topic does not exist any more",
    Unjudged.TARGET_IMPOSSIBLE: "their half names a topic that no message may go to: a stranger "
    "wrote it, or another installation has this prefix",
    Unjudged.TARGET_OUTSIDE: "outside topics.allow as it was given here: their target is there, "
    "but was not read",
    Unjudged.TARGET_NOT_READ: "their target is there, but was not read: --topic left it out, or it "
    "was created since this look began",
    Unjudged.TARGET_HIDDEN: "Kafka shows this user nothing of their target topic, not even whether "
    "it exists: the right Describe is missing",
    Unjudged.TARGET_UNREADABLE: "not readable: this user lacks the right to read a topic that they "
    "may be on, or its settings (Describe, Read, DescribeConfigs)",
    Unjudged.TARGET_OPEN: "an open Kafka transaction hides the end of a topic they may be on",
    Unjudged.LEFT_OUT: "their commit left out messages that lay in the half log: not acknowledged "
    "as far as the log tells (an add that failed looks so); their producer knows",
    Unjudged.TWO_ENDINGS: "two endings under one id: an id that was used twice, or one that was "
    "ended in two ways; the log does not tell which",
    Unjudged.OLD_FORWARD: "forwarded before the op log begins, as far as can be told: judged for "
    "doubles, gaps and content only",
    Unjudged.NO_MARK: "a commit without an ending whose half is gone: repeated long after the end, "
    "or lost; the op log does not reach back far enough to say which",
    Unjudged.PARKED_TRIMMED: "records of the parked topic were deleted",
    Unjudged.OP_GAP: "the op log was trimmed faster than it was read",
    Unjudged.HALF_GONE: "records of the half log were deleted that no ending names: by retention, "
    "by DeleteRecords, or with the topic. What was prepared there and not yet ended is lost, and "
    "nothing tells whose it was",
}

#: With any of these "clean" would be too much to say: a moment later, with more rights, or from
#: somebody else there is an answer.
OPEN_QUESTIONS = frozenset(
    {
        Unjudged.TARGET_OPEN,
        Unjudged.TARGET_UNTOLD,
        Unjudged.OP_GAP,
        Unjudged.TARGET_HIDDEN,
        Unjudged.TARGET_UNREADABLE,
        Unjudged.LEFT_OUT,
        Unjudged.TWO_ENDINGS,
        Unjudged.HALF_GONE,
    }
)
#: What time has taken from all that is old: it says nothing of what ended lately.
_OF_OLD = frozenset({Unjudged.OLD_FORWARD})


@dataclass(frozen=True, slots=True, order=True)
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
    source: str | None = None  # who that is: producer, check, operator or policy


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
    #: Those whose ending was on record before the targets were read to their ends.
    ended: int = 0
    #: Of these: whether each is whole, and right to be where it is, could be said.
    judged: int = 0
    #: Committed ones whose messages were all looked for.
    committed_judged: int = 0
    #: Forwarded records whose right to be there was looked for.
    forwards_judged: int = 0
    _is_doubtful: bool = False  # something of the transaction at hand could not be judged

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
        self._is_doubtful |= why not in _OF_OLD
        self.unjudged[why] += 1
        known = self.examples.setdefault(why, [])
        if len(known) < min(self.limit, 5):
            known.append(identity)

    def pass_over_gone(self, count: int) -> None:
        """Note what cannot be judged because nobody knows whose it was."""
        if count:
            self.unjudged[Unjudged.HALF_GONE] += count
            self.examples[Unjudged.HALF_GONE] = []

    def goes_on(self, unfinished: Unfinished) -> None:
        """Note one that has not ended; the oldest are kept."""
        self.unfinished_counts[unfinished.state] += 1
        self.unfinished.append(unfinished)
        if len(self.unfinished) >= 2 * self.limit + 1_000:
            self._cut()

    def join(self, other: "Findings") -> None:
        """What was found of other transactions. `finish` comes after the last one."""
        self.found |= other.found
        for violation in other.violations:
            if sum(v.kind is violation.kind for v in self.violations) < self.limit:
                self.violations.append(violation)
        self.unfinished += other.unfinished
        self.violation_counts += other.violation_counts
        self.unfinished_counts += other.unfinished_counts
        self.unjudged += other.unjudged
        for why, identities in other.examples.items():
            known = self.examples.setdefault(why, [])
            known += identities[: max(0, min(self.limit, 5) - len(known))]
        self.endings += other.endings
        self.transactions += other.transactions
        self.ended += other.ended
        self.judged += other.judged
        self.committed_judged += other.committed_judged
        self.forwards_judged += other.forwards_judged

    def finish(self) -> None:
        """Nothing more comes."""
        self._cut()
        self.violations.sort(key=lambda v: (v.kind, v.producer_group, v.transaction_id))

    def _cut(self) -> None:
        # Many are stored within one millisecond, and they are judged in no order of their own.
        self.unfinished.sort(key=lambda one: (one.stored_ms, one.where))
        del self.unfinished[self.limit :]

    def begin(self) -> None:
        """What comes now is about the next transaction."""
        self.transactions += 1
        self._is_doubtful = False

    def end(self, *, has_ended: bool) -> None:
        """Nothing more of it comes. `has_ended`: it was to be judged."""
        self.ended += has_ended
        self.judged += has_ended and not self._is_doubtful

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with what was judged."""
        return not self.violation_counts

    @property
    def is_complete(self) -> bool:
        """Whether everything was judged that lasts long enough to be judged."""
        return not OPEN_QUESTIONS & self.unjudged.keys()

    @property
    def share(self) -> float:
        """Of what has ended, how much was judged: 0 to 1."""
        return self.judged / self.ended if self.ended else 0.0

    def verdict(self, share_min: float) -> Verdict:
        """Clean is said only of what was judged: something, and this share of it at least."""
        if not self.is_clean:
            return Verdict.NOT_CLEAN
        is_enough = self.judged > 0 and self.share >= share_min
        return Verdict.CLEAN if self.is_complete and is_enough else Verdict.NOT_JUDGED
