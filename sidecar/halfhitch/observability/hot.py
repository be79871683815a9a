"""Counters and histograms for what happens thousands of times a second on the event loop.

They count in plain Python and are turned into metrics when somebody looks: the library's own take
a lock for each number, and were an eighth of what a transaction costs at the RocketMQ door. To be
told on one thread, or under a lock of the teller's; a reader on another thread may see one number a
moment older than the rest.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, Exemplar, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from halfhitch.observability.table import METRICS


class Count:
    """One line of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def inc(self, amount: int = 1) -> None:
        """Count."""
        self.value += amount


class HotCounter(Collector):
    """A counter. Label values must come from closed sets: each line stays."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: dict[tuple[str, ...], Count] = {}

    def line(self, *labels: str) -> Count:
        """The line with these label values."""
        return self._lines.setdefault(labels, Count())

    def collect(self) -> Iterator[CounterMetricFamily]:
        """See prometheus_client."""
        row = METRICS[self._name]
        family = CounterMetricFamily(self._name.removesuffix("_total"), row.help, labels=row.labels)
        for labels, count in self._lines.copy().items():
            family.add_metric(labels, count.value)
        yield family


class Buckets:
    """One line of a histogram: counts by upper bound, the last one without.

    Each has the last one that belonged to a trace, as an example to look at.
    """

    __slots__ = ("bounds", "counts", "examples", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        self.examples: dict[int, Exemplar] = {}

    def example(self, value: float, trace_id: str, at_s: float) -> None:
        """One that is counted belongs to this trace; on any thread."""
        place = bisect_left(self.bounds, value)
        self.examples[place] = Exemplar({"trace_id": trace_id}, value, at_s)

    def observe(self, value: float, count: int = 1) -> None:
        """Count one, or so many that are alike."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def observe_all(self, values: Sequence[float]) -> None:
        """Count each of very many: in order, they are counted by bounds and not one by one."""
        ordered = sorted(values)
        before = 0
        for place, bound in enumerate(self.bounds):
            below = bisect_right(ordered, bound, before)
            self.counts[place] += below - before
            before = below
        self.counts[-1] += len(ordered) - before
        self.total += sum(ordered)

    def cumulated(self) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
        """As the text formats want them."""
        found: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
        count = 0
        bounds = (*self.bounds, float("inf"))
        for place, (bound, here) in enumerate(zip(bounds, self.counts, strict=True)):
            count += here
            text = floatToGoString(bound)  # type: ignore[no-untyped-call]
            example = self.examples.get(place)
            line = text, float(count)
            found.append(line if example is None else (*line, example))
        return found


class HotHistogram(Collector):
    """A histogram. Label values must come from closed sets: each line stays."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: dict[tuple[str, ...], Buckets] = {}

    def line(self, *labels: str) -> Buckets:
        """The line with these label values."""
        return self._lines.setdefault(labels, Buckets(METRICS[self._name].buckets))

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """See prometheus_client."""
        row = METRICS[self._name]
        family = HistogramMetricFamily(self._name, row.help, labels=row.labels)
        for labels, buckets in self._lines.copy().items():
            family.add_metric(labels, buckets.cumulated(), buckets.total)
        yield family
