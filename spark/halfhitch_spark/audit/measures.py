"""Distributions, by producer group and topic: how long until a decision, until the end, how many
checks.

A distribution is counts in classes, each of which is a sixteenth of a power of two wide: so they
add up over tasks, and a quantile is right to within five percent. Pure.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from halfhitch.ports import KafkaHeaders
from halfhitch.verify.facts import Facts
from halfhitch.wire import story
from halfhitch.wire.half import Garbage

#: From the first half's broker time to the decision's, and to the done mark's; checks that were
#: decided upon. The first and the third are of the audit topic, the second of half and op log.
TO_DECISION_MS: Final = "to_decision_ms"
TO_END_MS: Final = "to_end_ms"
CHECKS: Final = "checks"
NO_TOPIC: Final = ""

_STEPS: Final = 16
#: Up to here each number is a class of its own.
_EXACT: Final = 16


def class_of(number: int) -> int:
    """The class that a number is in."""
    if number <= _EXACT:
        return max(0, number)
    return _EXACT + math.ceil(_STEPS * math.log2(number / _EXACT))


def upper_of(number_class: int) -> float:
    """The largest number in a class."""
    if number_class <= _EXACT:
        return float(number_class)
    return float(_EXACT * 2 ** ((number_class - _EXACT) / _STEPS))


@dataclass(slots=True)
class Measures:
    """Counts by measure, group, topic and class; and of ended transactions, by who decided."""

    counts: Counter[tuple[str, str, str, int]] = field(default_factory=Counter)
    deciders: Counter[tuple[str, str]] = field(default_factory=Counter)

    def note(self, measure: str, group: str, topics: Iterable[str], number: int) -> None:
        """One transaction, for each of its topics."""
        number_class = class_of(number)
        for topic in topics:
            self.counts[measure, group, topic, number_class] += 1

    def join(self, other: "Measures") -> None:
        """Those of other transactions."""
        self.counts += other.counts
        self.deciders += other.deciders

    def distributions(self) -> Iterator["Distribution"]:
        """One for each measure, group and topic."""
        found: dict[tuple[str, str, str], dict[int, int]] = {}
        for (measure, group, topic, number_class), count in self.counts.items():
            found.setdefault((measure, group, topic), {})[number_class] = count
        for key, classes in sorted(found.items()):
            yield Distribution(*key, dict(sorted(classes.items())))


@dataclass(frozen=True, slots=True)
class Distribution:
    """`classes`: counts, from the lowest class on."""

    measure: str
    producer_group: str
    topic: str
    classes: dict[int, int]

    @property
    def count(self) -> int:
        """Transactions."""
        return sum(self.classes.values())

    def quantile(self, share: float) -> float:
        """So much of them took at most this."""
        wanted, reached = share * self.count, 0
        for number_class, count in self.classes.items():
            reached += count
            if reached >= wanted:
                return upper_of(number_class)
        return 0.0


class Told(Protocol):
    """A record of the audit topic."""

    def offset(self) -> int:
        """Position in its log."""
        ...

    def value(self) -> bytes | None:
        """Entries."""
        ...

    def headers(self) -> KafkaHeaders | None:
        """Kind and version."""
        ...


def measure_stories(records: Iterable[Told]) -> Measures:
    """What the audit topic says. Whatever is no story is passed over."""
    measures = Measures()
    for record in records:
        told = story.read(record.offset(), record.value(), record.headers())
        if isinstance(told, Garbage):
            continue
        for entry in told.entries:
            if not isinstance(entry, story.Ended):
                continue
            group = entry.producer_group
            topics = {target.topic for target in entry.targets} or {NO_TOPIC}
            measures.deciders[group, entry.source or "nobody"] += 1
            measures.note(CHECKS, group, topics, entry.check_count)
            if 0 < entry.stored_ms <= entry.decided_ms:
                took_ms = entry.decided_ms - entry.stored_ms
                measures.note(TO_DECISION_MS, group, topics, took_ms)
    return measures


def measure_end(measures: Measures, facts: Facts, topics: list[str]) -> None:
    """How long one transaction took, if its halves are still there; `topics` by their numbers."""
    if not facts.halves or not facts.dones:
        return
    ended_ms = max(mark.stored_ms for mark in facts.dones)
    stored_ms = min(half.stored_ms for half in facts.halves)
    if 0 < stored_ms <= ended_ms:
        named = {topics[half.topic] if half.topic >= 0 else NO_TOPIC for half in facts.halves}
        measures.note(TO_END_MS, facts.identity[0], named, ended_ms - stored_ms)
