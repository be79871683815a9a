"""What an instance's metrics come to between two looks. Pure.

Invariants: a counter that is smaller than before belongs to a process that has begun anew, and
gives no rate; what is not told is None, not 0.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

#: What is shown -> the counter, and which of its lines.
COUNTERS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "prepared": ("halfhitch_prepared_transactions_total", {}),
    "committed": ("halfhitch_decisions_total", {"resolution": "commit"}),
    "rolled back": ("halfhitch_decisions_total", {"resolution": "rollback"}),
    "messages visible": ("halfhitch_commit_messages_total", {}),
    "checks sent": ("halfhitch_checks_sent_total", {}),
    "given up": ("halfhitch_given_up_transactions_total", {}),
    "prepares refused": ("halfhitch_prepare_refused_total", {}),
}
_UNREADABLE: Final = "halfhitch_unreadable_records"
_VISIBLE: Final = "halfhitch_visible_latency_seconds"
_NAMES: Final = (_UNREADABLE, _VISIBLE, *sorted({name for name, _ in COUNTERS.values()}))
#: Of what was seen before, for the lines of little bars.
LOOKS_KEPT: Final = 60
_BARS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Numbers:
    """Of one scrape; `at_s` is a clock that never goes back."""

    at_s: float
    counts: Mapping[str, float]
    #: Topic and partition -> records behind an open Kafka transaction.
    unreadable: Mapping[tuple[str, str], float]
    #: Upper bound in seconds -> samples up to it.
    visible: Mapping[float, float]


@dataclass(slots=True)
class Pace:
    """Rates between the last two scrapes, and those before."""

    rates: dict[str, float | None] = field(default_factory=dict)
    past: dict[str, deque[float]] = field(default_factory=dict)
    unreadable: Mapping[tuple[str, str], float] = field(default_factory=dict)
    #: Median and 99th percentile since the look before, in seconds.
    visible_s: tuple[float, float] | None = None
    _last: Numbers | None = None

    def feed(self, numbers: Numbers) -> None:
        """The next scrape."""
        last, self._last = self._last, numbers
        self.unreadable = numbers.unreadable
        if last is None or numbers.at_s <= last.at_s:
            return
        passed_s = numbers.at_s - last.at_s
        for name in COUNTERS:
            rate = _rate(last.counts.get(name), numbers.counts.get(name), passed_s)
            self.rates[name] = rate
            if rate is not None:
                self.past.setdefault(name, deque(maxlen=LOOKS_KEPT)).append(rate)
        self.visible_s = _quantiles(last.visible, numbers.visible)


def _rate(before: float | None, now: float | None, passed_s: float) -> float | None:
    if before is None or now is None or now < before:
        return None
    return (now - before) / passed_s


def _quantiles(
    before: Mapping[float, float], now: Mapping[float, float]
) -> tuple[float, float] | None:
    added = [(bound, count - before.get(bound, 0.0)) for bound, count in sorted(now.items())]
    if not added or added[-1][1] <= 0 or any(count < 0 for _, count in added):
        return None
    return _quantile(added, 0.5), _quantile(added, 0.99)


def _quantile(added: list[tuple[float, float]], share: float) -> float:
    """As Prometheus does it: evenly spread within a bucket; beyond the last bound, that bound."""
    wanted = share * added[-1][1]
    low_s, low_count = 0.0, 0.0
    for bound_s, count in added:
        if count >= wanted:
            if bound_s == inf or count == low_count:
                return low_s
            return low_s + (bound_s - low_s) * (wanted - low_count) / (count - low_count)
        low_s, low_count = bound_s, count
    return low_s


def read(text: str, at_s: float) -> Numbers:
    """Of what /metrics says. Raises ValueError where that is something else."""
    counts: dict[str, float] = {}
    unreadable: dict[tuple[str, str], float] = {}
    visible: dict[float, float] = {}
    for name, labels, value in _samples(text):
        if name == _UNREADABLE:
            unreadable[labels.get("topic", ""), labels.get("partition", "")] = value
        elif name == f"{_VISIBLE}_bucket":
            visible[float(labels["le"])] = value
        for shown, (counter, wanted) in COUNTERS.items():
            if name == counter and all(labels.get(key) == its for key, its in wanted.items()):
                counts[shown] = counts.get(shown, 0.0) + value
    return Numbers(at_s, counts, unreadable, visible)


def _samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    # Of a thousand lines a few dozen are wanted: the others need not be understood.
    wanted = "\n".join(line for line in text.split("\n") if line.startswith(_NAMES))
    for family in text_string_to_metric_families(wanted + "\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def bars(values: list[float], width: int) -> str:
    """The last of them as little bars, the highest as high as a line; 0 is a line on the ground."""
    seen = values[-width:]
    highest = max(seen, default=0.0)
    if highest <= 0:
        return _BARS[0] * len(seen)
    return "".join(_BARS[round(value / highest * (len(_BARS) - 1))] for value in seen)
