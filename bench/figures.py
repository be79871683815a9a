"""From samples to figures, and from figures to a table. Pure: no clock, no files, no processes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile of values in ascending order: always one that was measured."""
    if not ordered:
        return math.nan
    rank = math.ceil(percent / 100 * len(ordered))
    return ordered[min(max(rank, 1), len(ordered)) - 1]


@dataclass(frozen=True, slots=True)
class Spread:
    """A latency in two numbers."""

    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Of samples in seconds, in any order."""
        ordered = sorted(seconds)
        return cls(percentile(ordered, 50) * 1000, percentile(ordered, 99) * 1000)


@dataclass(frozen=True, slots=True)
class Figures:
    """One measured cell. Processor times are of all threads, until the last message was visible."""

    mode: str
    concurrency: int
    transaction_count: int
    forwarded_per_s: float
    committed_per_s: float
    prepare: Spread
    commit: Spread
    visible: Spread
    cpu_us: dict[str, float]
    broker_compiling_us: float
    rss_mib: float
    rss_peak_mib: float
    #: Share of the whole machine that processes of nobody here took, stolen time included.
    others_percent: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """The second of each pair by the first: the middle of them, and where the middle half lies."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, firsts: Sequence[float], seconds: Sequence[float]) -> Ratio:
        """Of pairs that were measured one after the other, so that what both met cancels out."""
        ordered = sorted(second / first for first, second in zip(firsts, seconds, strict=True))
        low, high = percentile(ordered, 25), percentile(ordered, 75)
        return cls(median(ordered) if ordered else math.nan, low, high, len(ordered))

    def as_dict(self) -> dict[str, float]:
        """For the file of results."""
        return asdict(self)


def forwarded_per_s(started_s: float, arrived_at_s: Sequence[float]) -> float:
    """Messages by the time from the start of the load until the last one was visible."""
    return len(arrived_at_s) / (max(arrived_at_s) - started_s)


def delays_s(acknowledged_at_s: Sequence[float], arrived_at_s: Sequence[float]) -> list[float]:
    """From the acknowledged commit to the consumer, one for each transaction.

    Below zero where the consumer was quicker than the answer.
    """
    return [arrived - acked for acked, arrived in zip(acknowledged_at_s, arrived_at_s, strict=True)]


def typical(runs: Sequence[Figures]) -> Figures:
    """The run of the middle rate among repeats of one cell (of an even number, the slower)."""
    ordered = sorted(runs, key=lambda run: run.forwarded_per_s)
    return ordered[(len(ordered) - 1) // 2]


HEAD = (
    "mode", "conc", "forwarded/s", "prepare p50/p99", "commit p50/p99", "visible p50/p99",
    "us/tx sidecar", "client", "broker (JIT)", "watcher", "RSS MiB (peak)", "others",
)  # fmt: skip


def row(figures: Figures) -> tuple[str, ...]:
    """One line of the table, as HEAD says."""
    cpu = figures.cpu_us
    return (
        figures.mode,
        str(figures.concurrency),
        f"{figures.forwarded_per_s:,.0f}",
        _pair(figures.prepare),
        _pair(figures.commit),
        _pair(figures.visible),
        f"{cpu['sidecar']:.0f}" if "sidecar" in cpu else "-",
        f"{cpu['client']:.0f}" if "client" in cpu else "-",
        f"{cpu['broker']:.0f} ({figures.broker_compiling_us:.0f})",
        f"{cpu['watcher']:.0f}",
        f"{figures.rss_mib:.0f} ({figures.rss_peak_mib:.0f})",
        f"{figures.others_percent:.0f} %",
    )


def _pair(spread: Spread) -> str:
    return f"{spread.p50_ms:.2f} / {spread.p99_ms:.1f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be; the first one to the left, the others to the right."""
    widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
    lines = [_line(head, widths), "  ".join("-" * width for width in widths)]
    return "\n".join([*lines, *(_line(line, widths) for line in rows)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        cell.rjust(width) if i else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([first, *others]).rstrip()
