"""The checker: what applications know, what the logs say and what readers found, held together.

`check` is pure. Its verdict has classes of violations, each a list of sentences with ids; counters
that show that the run was not empty; and doubts, which are reasons not to believe a green verdict.
A run with a doubt or a zero where something was required is "not run", never green.

The judges stand in judges_content.py (what readers found) and judges_course.py (how it came about);
which promise each class belongs to stands in INVARIANTS.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from chaos.kit import log_model
from chaos.kit.history import Outcome
from harness.checkers import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from chaos.kit.history import Identity, Message, Truth
    from chaos.kit.log_model import Account, LogModel, ParkedNow
    from chaos.kit.readers import Sample, Seen, Stall

#: Class of violations -> the promises that it breaks.
INVARIANTS: dict[str, tuple[str, ...]] = {
    "lost": ("I1", "I3", "I4", "I6", "I16", "I19"),
    "duplicate": ("I1", "I6", "I7", "I14"),
    "phantom": ("I2", "I5", "I7"),
    "torn": ("I1", "I2"),
    "misrouted": ("I1", "I9"),
    "disordered": ("I9",),
    "corrupted": ("I1", "I3"),
    "double-terminal": ("I3", "I5"),
    "early-discarded": ("I3", "I6", "I13", "I16"),
    "over-checked": ("I3", "I5"),
    "early-checked": ("I3", "I10", "I16"),
    "watermark-overrun": ("I8", "I14"),
    "conflict-between-client-and-log": ("I4", "I5"),
    "unfinished": ("I11",),
    "stalled": ("I11",),
    "late": ("I11",),
    "open-transaction-left": ("I19", "I21"),
}

#: Zero in one of these, and the run has shown nothing.
REQUIRED = ("prepares_acked", "commits_acked", "rollbacks_acked", "records_final", "samples")

_SHOWN_MAX = 20


def _nothing_may_be_pending(_: Truth | None) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The settings under which the coordinator ran, and what the run allows."""

    check_count_max: int = 15
    immunity_ms: int = 6_000
    interval_ms: int = 60_000
    age_ms_max: int = 259_200_000
    #: Clocks of brokers and applications against each other.
    clock_slack_ms: int = 1_000
    #: Between the coordinator's clock and the broker's, for the interval between two checks.
    interval_slack_ms: int = 200
    #: How long after an acknowledged decision a check may still be on its way.
    decided_slack_ms: int = 5_000
    #: None: not judged.
    stall_ms_max: int | None = None
    #: From the acknowledgement of a commit until its messages are visible. None: not judged.
    late_ms_max: int | None = None
    #: Target topics whose partition count never changed: keyed records are sought by Java's rule.
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    #: Targets that were made to refuse messages: what they got may be parked.
    refusing_topics: frozenset[str] = frozenset()
    #: When somebody set the stored watermarks back on purpose.
    resets_ms: tuple[int, ...] = ()
    #: No application was killed: what was delivered was also written down.
    deliveries_are_certain: bool = False
    #: Everything had time to end, but for what this says of.
    is_settled: bool = True
    may_be_pending: Callable[[Truth | None], bool] = _nothing_may_be_pending
    is_ordered: bool = True
    required: tuple[str, ...] = REQUIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """What readers found on the targets, and on the parked topic at the end."""

    final: Sequence[Seen]
    committed: Sequence[Seen] = ()  # the concurrent reader
    uncommitted: Sequence[Seen] = ()
    parked: Sequence[Seen] = ()
    stalls: Sequence[Stall] = ()
    open_transactions: Sequence[str] = ()
    gaps: Sequence[str] = ()  # what readers of the logs know they have missed


Place = tuple["Identity", int]  # a message: its transaction and its index


@dataclass(frozen=True)
class Case:
    """Everything a judge may look at, and what most of them need to look it up."""

    truths: Mapping[Identity, Truth]
    model: LogModel
    readings: Readings
    samples: Sequence[Sample]
    limits: Limits

    @cached_property
    def identities(self) -> list[Identity]:
        """Of all transactions that anybody has heard of."""
        return sorted({*self.truths, *self.model.accounts})

    def account(self, identity: Identity) -> Account:
        """What the logs say."""
        return self.model.accounts.get(identity) or log_model.Account(identity)

    @cached_property
    def visible(self) -> list[Seen]:
        """All that was visible to read committed at any time, as it was first seen.

        A record that two readers saw differently is there in both forms.
        """
        found: dict[Hashable, Seen] = {}
        for seen in [*self.readings.committed, *self.readings.final]:
            found.setdefault((seen.place, seen.key, seen.value, seen.headers), seen)
        return list(found.values())

    @cached_property
    def found(self) -> dict[Place, list[Seen]]:
        """Which records the final reader found of each message."""
        return _by_message(self.readings.final)

    @cached_property
    def ever_found(self) -> dict[Place, list[Seen]]:
        """Which records any reader of committed records found of each message."""
        return _by_message(self.visible)

    @cached_property
    def delays_ms(self) -> dict[Place, int]:
        """From the acknowledgement of a commit to the concurrent reader's first sight of it."""
        found: dict[Place, int] = {}
        for place, records in _by_message(self.readings.committed).items():
            truth = self.truths.get(place[0])
            acked = [] if truth is None else truth.acked(Fate.COMMITTED)
            if acked:
                answered_ms = min(a.answered_ms or a.invoked_ms for a in acked)
                found[place] = min(seen.seen_ms for seen in records) - answered_ms
        return found

    @cached_property
    def indexes_found(self) -> dict[Identity, set[int]]:
        """Which messages of a transaction the final reader found."""
        found: dict[Identity, set[int]] = defaultdict(set)
        for identity, index in self.found:
            found[identity].add(index)
        return found

    @cached_property
    def parked(self) -> ParkedNow:
        """The parked topic."""
        return log_model.read_parked(self.readings.parked)

    def first_beyond(self, log: str, partition: int, log_offset: int) -> Sample | None:
        """The first sample in which the log's watermark (half or op) lies behind this record."""
        highest, samples = self._rising.setdefault((log, partition), ([], []))
        if not samples:
            for sample in self.samples:
                at = getattr(sample, log).get(partition, 0)
                if not highest or at > highest[-1]:
                    highest.append(at)
                    samples.append(sample)
        place = bisect_right(highest, log_offset)
        return samples[place] if place < len(samples) else None

    @cached_property
    def _rising(self) -> dict[tuple[str, int], tuple[list[int], list[Sample]]]:
        return {}

    def acknowledged(self, identity: Identity) -> set[int]:
        """Messages that no commit of this transaction may leave out."""
        truth, winner = self.truths.get(identity), self.account(identity).winner
        if truth is None:
            return set()
        is_others = winner is not None and winner.source not in ("producer", "check")
        decided_ms = winner.stored_ms - self.limits.clock_slack_ms if winner and is_others else None
        return truth.surely_committed(decided_ms)

    def surely_committed(self, identity: Identity) -> set[int]:
        """Messages that must be visible because their applications were told so."""
        is_committed = self.account(identity).state == "committed"
        return self.acknowledged(identity) if is_committed else set()

    def sent(self, identity: Identity, index: int) -> list[Message]:
        """What the message may be, as its producer wrote it down; else as the half log has it."""
        truth = self.truths.get(identity)
        known = truth.messages.get(index, []) if truth is not None else []
        if known:
            return known
        half = self.account(identity).last.firsts.get(index)
        return [] if half is None else [half.message]


def _by_message(records: Sequence[Seen]) -> dict[Place, list[Seen]]:
    found: dict[Place, list[Seen]] = defaultdict(list)
    for seen in records:
        place = log_model.identity_and_index(seen.headers)
        if place is not None:
            found[place].append(seen)
    return dict(found)


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one run."""

    violations: dict[str, list[str]]  # only classes in which something was found
    counters: dict[str, int]
    doubts: list[str]
    empty: list[str]  # required counters that are zero

    @property
    def is_vacuous(self) -> bool:
        """Whether a green verdict would mean nothing."""
        return bool(self.empty or self.doubts)

    @property
    def verdict(self) -> str:
        """red, green or not run."""
        if self.violations:
            return "red"
        return "not run" if self.is_vacuous else "green"

    @property
    def invariants(self) -> list[str]:
        """Which promises the violations break."""
        broken = {name for found in self.violations for name in INVARIANTS[found]}
        return sorted(broken, key=lambda name: int(name[1:]))

    def to_json(self) -> dict[str, Any]:
        """For files and tables."""
        return {
            "verdict": self.verdict,
            "invariants": self.invariants,
            "violations": self.violations,
            "counters": self.counters,
            "doubts": self.doubts,
            "empty": self.empty,
        }

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {json.dumps(self.counters)}"]
        for name, found in self.violations.items():
            lines.append(f"{name} ({', '.join(INVARIANTS[name])}): {len(found)}")
            lines += [f"  {sentence}" for sentence in found[:_SHOWN_MAX]]
        lines += [f"doubt: {doubt}" for doubt in self.doubts]
        lines += [f"empty: {name}" for name in self.empty]
        return "\n".join(lines)


def check(
    truths: Mapping[Identity, Truth],
    model: LogModel,
    readings: Readings,
    samples: Sequence[Sample] = (),
    limits: Limits | None = None,
    counters: Mapping[str, int] | None = None,
) -> Report:
    """Judge a run. `counters`: what only the stage knows (faults_injected, takeovers, aborted)."""
    from chaos.kit.judges_content import CONTENT
    from chaos.kit.judges_course import COURSE

    case = Case(truths, model, readings, samples, limits or Limits())
    violations = {}
    for name, judge in {**CONTENT, **COURSE}.items():
        found = sorted(set(judge(case)))
        if found:
            violations[name] = found
    counted = {**_counters(case), **(counters or {})}
    empty = [name for name in case.limits.required if not counted.get(name)]
    return Report(violations, counted, _doubts(case), empty)


def _doubts(case: Case) -> list[str]:
    model = case.model
    doubts = [f"the copy of the logs has a gap: {gap}" for gap in case.readings.gaps]
    doubts += [f"a record of the logs was not understood: {garbage}" for garbage in model.garbage]
    doubts += [f"a parked record was not understood: {found}" for found in case.parked.garbage]
    return doubts


def _counters(case: Case) -> dict[str, int]:
    truths = list(case.truths.values())
    states = Counter(account.state for account in case.model.accounts.values())
    final = {seen.place for seen in case.readings.final}
    asked = [a for truth in truths for a in truth.asked]
    return {
        "transactions": len(case.identities),
        "prepares_acked": sum(t.prepared is Outcome.OK for t in truths),
        "prepares_unknown": sum(t.prepared is Outcome.INFO for t in truths),
        "commits_acked": sum(bool(t.acked(Fate.COMMITTED)) for t in truths),
        "rollbacks_acked": sum(bool(t.acked(Fate.ROLLED_BACK)) for t in truths),
        "ends_unknown": sum(a.outcome is Outcome.INFO and a.source == "producer" for a in asked),
        "contested": sum(t.is_contested for t in truths),
        "checks": sum(len(t.checks) for t in truths),
        "asked_while_growing": sum(
            any(checked.at_ms < max(t.acked_ms.values(), default=0) for checked in t.checks)
            for t in truths
        ),
        "decided_by_check": sum(
            account.winner is not None and account.winner.source == "check"
            for account in case.model.accounts.values()
        ),
        "committed": states["committed"],
        "rolled_back": states["rolled_back"],
        "parked": states["parked"],
        "pending": states["pending"],
        "records_final": len(final),
        "records_seen_live": len(case.readings.committed),
        "records_hidden": len({s.place for s in case.readings.uncommitted} - final),
        "copies": case.model.copied_count,
        "conflicts": case.model.conflict_count,
        "resumed": sum(case.parked.resumed.values()),
        "longest_delay_ms": max(case.delays_ms.values(), default=0),
        "samples": len(case.samples),
        "watermarks_seen": len({tuple(sorted(sample.half.items())) for sample in case.samples}),
    }
