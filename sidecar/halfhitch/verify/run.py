"""Reading everything in an order that makes no false alarms while the system is at work.

Owns `Logs` (what it needs of Kafka) and `verify`. The order, and why:

1. the stored watermarks, before any log: whatever they have passed must have its done mark by now;
2. the op log to its end. Every commit it speaks of has its records on the targets already, perhaps
   not visible yet: so targets are read up to where they end *for everybody* after this;
3. the half log and the targets, to ends taken after 2. The op log is followed meanwhile: it is
   trimmed from below while the system works, and the readers must not be overtaken;
4. the op log again, to an end taken after 3: every record that was seen has its done mark by now;
5. the parked topic, to an end taken after 4: what was put back and forwarded has its note by now;
6. where the half log begins, and the watermarks again: owners delete nothing above them.

What looks wrong is looked at once more a moment later, with everything that was written since; only
what was found both times is told. Nothing here writes.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from halfhitch.verify.account import Account, Layout, LogRecord, Place
from halfhitch.verify.bounds import Rules
from halfhitch.verify.gone import gone
from halfhitch.verify.judge import judge
from halfhitch.verify.report import Findings, Unjudged

Take = Callable[[Sequence[LogRecord]], None]
#: What lay below this log offset was deleted while it was being read.
Skipped = Callable[[Place, int], None]


class Logs(Protocol):
    """The topics of one installation. Everything raises KafkaUnavailable when Kafka is away."""

    def layout(self) -> Layout:
        """What there is, the stored watermarks included."""
        ...

    def watermarks(self) -> Mapping[int, int]:
        """The stored half watermarks as they are now, 0 where none is stored.

        Empty without the right to see them.
        """
        ...

    def unread(self, topics: Collection[str]) -> Mapping[str, Unjudged]:
        """Why these are no targets, although halves name them; left out: there is no such topic."""
        ...

    def starts(self, topic: str, since_ms: int) -> Mapping[Place, tuple[int, bool]]:
        """Where each partition begins (at `since_ms`, if that is not 0); is it trimmed there?"""
        ...

    def ends(self, topics: Collection[str]) -> dict[Place, int]:
        """Where partitions end for readers to whom open Kafka transactions are visible."""
        ...

    def follow(self, starts: Mapping[Place, int]) -> None:
        """Read these too from now on, committed records only."""
        ...

    def read_to(self, ends: Mapping[Place, int], take: Take, skipped: Skipped) -> frozenset[Place]:
        """Read all that is followed until these ends are reached; the places where they were not.

        A place whose end lies behind an open Kafka transaction is given up after a while.
        """
        ...

    def leave(self, topics: Collection[str]) -> None:
        """Follow these no longer; `follow` may begin again where they were left."""
        ...

    def pause(self) -> None:
        """A moment: what is on its way may arrive."""
        ...


#: Targets are read from so long before `since_ms`: the clock of whoever wrote may be wrong.
SINCE_MARGIN_MS = 7_200_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found, and the account it was found in."""

    findings: Findings
    account: Account


def verify(
    logs: Logs,
    *,
    rules: Rules | None = None,
    since_ms: int = 0,
    limit: int = 100,
    group: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Read all, judge, and look again at what seems wrong. `tell` hears how far it is."""
    layout = logs.layout()
    account = Account(layout, since_ms=since_ms)
    reading = _Reading(logs, account, tell)
    targets = sorted(layout.targets)
    reading.begin([layout.op_topic])
    reading.read([layout.op_topic])
    account.cut()
    target_since_ms = max(0, since_ms - SINCE_MARGIN_MS)
    reading.begin([layout.half_topic])
    reading.begin(targets, target_since_ms)
    reading.read([layout.half_topic, *targets])
    logs.leave([layout.half_topic, *targets])
    reading.read([layout.op_topic])
    reading.begin([layout.parked_topic])
    reading.read([layout.parked_topic])
    account.unread = logs.unread([t for t in account.topics if t not in layout.targets])
    reading.look_for_gone()
    findings = judge(account, rules, limit=limit, group=group)
    if not findings.is_clean:
        logs.pause()
        reading.again(targets)
        reading.read(targets)
        logs.leave(targets)
        reading.read([layout.op_topic])
        reading.read([layout.parked_topic])
        reading.look_for_gone()
        findings = judge(account, rules, limit=limit, group=group, before=findings)
    return Outcome(findings, account)


class _Reading:
    def __init__(self, logs: Logs, account: Account, tell: Callable[[str], None]) -> None:
        self._logs = logs
        self._account = account
        self._tell = tell
        self._open: dict[str, frozenset[Place]] = {}  # by topic: places with a hidden end

    def begin(self, topics: Sequence[str], since_ms: int = 0) -> None:
        """Follow these from their starts."""
        found: dict[Place, int] = {}
        for topic in topics:
            for place, (log_offset, is_trimmed) in self._logs.starts(topic, since_ms).items():
                self._account.begins(place, log_offset, is_trimmed=is_trimmed)
                found[place] = log_offset
        self._logs.follow(found)

    def again(self, topics: Sequence[str]) -> None:
        """Follow these on from where they were left."""
        places = [place for topic in topics for place in self._account.of_topic(topic)]
        self._logs.follow({place.place: place.next_log_offset for place in places})

    def look_for_gone(self) -> None:
        """Behind the op log's last reading. Watermarks come last: owners delete below them."""
        topic = self._account.layout.half_topic
        ends = self._logs.ends([topic])
        starts = {place: start for place, (start, _) in self._logs.starts(topic, 0).items()}
        self._account.gone_count = gone(self._account, starts, ends, self._logs.watermarks())

    def read(self, topics: Sequence[str]) -> None:
        """Read them to where they end now."""
        ends = self._logs.ends(topics)
        left = sum(max(0, end - self._account.place(p).next_log_offset) for p, end in ends.items())
        self._tell(f"reading {_named(topics)}: {left:,} records at most")
        hidden = self._logs.read_to(ends, self._account.take, self._account.skipped)
        for topic in topics:
            self._open[topic] = frozenset(place for place in hidden if place[0] == topic)
        self._account.hides(frozenset().union(*self._open.values()))


def _named(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:3])
    return shown if len(topics) <= 3 else f"{shown} and {len(topics) - 3} more topics"
