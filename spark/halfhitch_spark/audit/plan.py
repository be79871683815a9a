"""What an audit reads, fixed before it reads: each partition from where to where.

Ends are taken in verify's order, for the same reasons (halfhitch/verify/run.py): the stored
watermarks, then the end of the op log, then those of the half log and the targets, the op log's
again, and the parked topic's. Ends are only numbers: what lies below them is read afterwards, all
at once. What is in an open Kafka transaction is waited for before the next ends are taken.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from halfhitch.verify.account import Account, Layout, Place
from halfhitch.verify.run import SINCE_MARGIN_MS
from halfhitch.wire.topics import InternalTopics
from halfhitch_spark.audit.topics import targets_among

_POLL_S: Final = 0.2


class Offsets(Protocol):
    """What a plan asks of Kafka: see Cluster."""

    def partitions(self) -> dict[str, int]:
        """All topics."""
        ...

    def starts(self, places: Collection[Place]) -> dict[Place, int]:
        """Of what is left."""
        ...

    def at_time(self, places: Collection[Place], since_ms: int) -> dict[Place, int]:
        """Below 0: nothing is that young."""
        ...

    def ends(self, places: Collection[Place]) -> dict[Place, int]:
        """Open Kafka transactions included."""
        ...

    def stable_ends(self, places: Collection[Place]) -> dict[Place, int]:
        """Committed records only."""
        ...

    def watermarks(self, group: str, topic: str) -> dict[int, int]:
        """By partition."""
        ...

    def compacted(self, topics: Collection[str]) -> dict[str, int]:
        """And how long each keeps tombstones."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be audited."""

    names: InternalTopics
    allow: Sequence[str] = ("*",)
    only: Sequence[str] = ()
    since_ms: int = 0
    open_wait_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Goes to every task."""

    layout: Layout
    names: InternalTopics
    since_ms: int
    starts: Mapping[Place, tuple[int, bool]]  # first offset; whether something below was deleted
    ends: Mapping[Place, int]
    cuts: Mapping[Place, int]  # of the op log: marks below were there before targets were looked at
    hidden: frozenset[Place]  # an open Kafka transaction hides what lies behind the end
    there: frozenset[str] = field(default=frozenset())  # all topics

    def account(self) -> Account:
        """An account of what is about to be read; places have the same numbers in each."""
        return self.on(Account(self.layout, since_ms=self.since_ms))

    def on(self, account: Account) -> Account:
        """This account, told of all partitions."""
        for place, (first, is_trimmed) in sorted(self.starts.items()):
            if place[0] != self.names.audit:
                account.begins(place, first, is_trimmed=is_trimmed)
        account.hides(self.hidden)
        return account

    @property
    def record_count(self) -> int:
        """Offsets to be read: markers of Kafka transactions have some, too."""
        return sum(max(0, end - self.starts[place][0]) for place, end in self.ends.items())


def make_plan(
    kafka: Offsets, wanted: Wanted, *, sleep: Callable[[float], None] = time.sleep
) -> Plan:
    """Ask Kafka, in this order."""
    names = wanted.names
    there = kafka.partitions()
    targets, has_all = targets_among(names, there, wanted.allow, wanted.only)
    layout = Layout(
        names.half,
        names.op,
        names.parked,
        targets,
        has_all_targets=has_all,
        compacted=kafka.compacted(list(targets)),
        watermarks=kafka.watermarks(names.owner_group, names.half),
    )
    ends = _Ends(kafka, there, wanted.open_wait_s, sleep)
    cuts = ends.take([names.op])
    ends.take([names.half, *targets])
    ends.take([names.op])
    stories = [names.audit] if names.audit in there else []
    ends.take([names.parked, *stories])
    starts = _starts(kafka, [*ends.known], wanted.since_ms, frozenset(targets), names.parked)
    starts = {place: (min(first, ends.known[place]), old) for place, (first, old) in starts.items()}
    return Plan(
        layout,
        names,
        wanted.since_ms,
        starts,
        ends.known,
        cuts,
        frozenset(ends.hidden),
        frozenset(there),
    )


def _starts(
    kafka: Offsets,
    places: Collection[Place],
    since_ms: int,
    targets: frozenset[str],
    parked: str,
) -> dict[Place, tuple[int, bool]]:
    starts = kafka.starts(places)
    if not since_ms:
        return {place: (start, start > 0) for place, start in starts.items()}
    timed: dict[Place, int] = {}
    later = [place for place in places if place[0] in targets]
    logs = [place for place in places if place[0] not in targets and place[0] != parked]
    timed |= kafka.at_time(later, max(0, since_ms - SINCE_MARGIN_MS))
    timed |= kafka.at_time(logs, since_ms)
    ends = kafka.ends(places)
    found = {}
    for place, start in starts.items():
        at = timed.get(place, start)
        first = max(start, at) if at >= 0 else ends[place]
        found[place] = first, first == start > 0
    return found


class _Ends:
    """Ends as they are taken."""

    def __init__(
        self,
        kafka: Offsets,
        there: Mapping[str, int],
        wait_s: float,
        sleep: Callable[[float], None],
    ) -> None:
        self._kafka, self._there, self._wait_s, self._sleep = kafka, there, wait_s, sleep
        self.known: dict[Place, int] = {}
        self.hidden: set[Place] = set()

    def take(self, topics: Sequence[str]) -> dict[Place, int]:
        """Where these end now, once everybody sees what lies below; else where that stops."""
        places = [(topic, p) for topic in topics for p in range(self._there[topic])]
        ends = self._kafka.ends(places)
        waited_s = 0.0
        while True:
            stable = self._kafka.stable_ends(places)
            hidden = {place for place in places if stable[place] < ends[place]}
            if not hidden or waited_s >= self._wait_s:
                break
            self._sleep(_POLL_S)
            waited_s += _POLL_S
        taken = {place: min(ends[place], stable[place]) for place in places}
        self.known |= taken
        self.hidden = (self.hidden - set(places)) | hidden
        return taken
