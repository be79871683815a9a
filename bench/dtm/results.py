"""From runs to figures: medians, ratios of the two runs of a round, tables. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.dtm.plan import DTM, HALF_HITCH
from bench.figures import table
from bench.rocketmq.results import Middle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Run:
    """One measured load, as it stands in the file of results."""

    side: str
    round: int
    connections: int
    per_s: float
    transaction_count: int
    request_p50_ms: float
    request_p99_ms: float
    #: Until everything was carried out; beside `seconds` it says how far behind a side was.
    settled_s: float
    seconds: float
    cpu_us: Mapping[str, float]  # for each transaction, by process; the load is `wrk`
    rss_mib: Mapping[str, float]  # at the peak
    others_percent: float
    seen_count: int
    faults: Sequence[str]

    @property
    def server_us(self) -> float:
        """Processor time of everything but the load."""
        return sum(us for name, us in self.cpu_us.items() if name != "wrk")


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of connections: runs of each side, in the order of rounds."""

    connections: int
    runs: Mapping[str, Sequence[Run]]

    def ratio(self, of: str) -> Middle | None:
        """Ours by theirs of `per_s` or `server_us`, within each round that has both."""
        theirs = {run.round: getattr(run, of) for run in self.runs.get(DTM, ())}
        ours = {run.round: getattr(run, of) for run in self.runs.get(HALF_HITCH, ())}
        pairs = [ours[n] / theirs[n] for n in sorted(theirs.keys() & ours.keys()) if theirs[n]]
        return Middle.of(pairs) if pairs else None


def cells(runs: Sequence[Run]) -> list[Cell]:
    """In the order in which they were measured."""
    return [
        Cell(
            connections,
            {
                side: [r for r in runs if (r.side, r.connections) == (side, connections)]
                for side in (DTM, HALF_HITCH)
            },
        )
        for connections in dict.fromkeys(run.connections for run in runs)
    ]


HEAD: Final = (
    "connections", "server", "transactions/s", "to dtm", "request p50 ms", "p99 ms",
    "us/tx servers", "to dtm's", "of it", "us/tx wrk", "peak MiB",
)  # fmt: skip


def rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """As HEAD says: a row for each cell and side."""
    return [
        _row(cell, side) for cell in cells(runs) for side in (DTM, HALF_HITCH) if cell.runs[side]
    ]


def _row(cell: Cell, side: str) -> tuple[str, ...]:
    runs = cell.runs[side]
    rate = cell.ratio("per_s") if side == HALF_HITCH else None
    cost = cell.ratio("server_us") if side == HALF_HITCH else None
    parts = {name: median(run.cpu_us[name] for run in runs) for name in runs[0].cpu_us}
    wrk_us = parts.pop("wrk")
    return (
        str(cell.connections),
        side,
        Middle.of(run.per_s for run in runs).text(),
        rate.text(".2f") if rate else "",
        Middle.of(run.request_p50_ms for run in runs).text(".1f"),
        Middle.of(run.request_p99_ms for run in runs).text(".0f"),
        Middle.of(run.server_us for run in runs).text(),
        cost.text(".2f") if cost else "",
        ", ".join(f"{name} {us:.0f}" for name, us in parts.items()),
        f"{wrk_us:.0f}",
        ", ".join(f"{name} {max(run.rss_mib[name] for run in runs):.0f}" for name in parts),
    )


def line(run: Run) -> str:
    """One run while it goes on."""
    shares = ", ".join(f"{name} {us:.0f}" for name, us in run.cpu_us.items())
    return (
        f"round {run.round}, {run.connections} connections, {run.side}: {run.per_s:,.0f}/s, "
        f"request p50 {run.request_p50_ms:.1f} ms, us/tx {shares}; carried out after "
        f"{run.settled_s:.1f} s; others {run.others_percent:.0f} %; "
        + ("; ".join(run.faults) or f"{run.seen_count:,} came out, each once")
    )


def faults(runs: Sequence[Run]) -> list[str]:
    """Everything that must not be, on either side: figures of what loses are worth nothing."""
    return [
        f"round {run.round}, {run.connections} connections, {run.side}: {fault}"
        for run in runs
        for fault in run.faults
    ]


def sums(runs: Sequence[Run]) -> str:
    """What was counted at the ends."""
    ours, theirs = (
        sum(run.seen_count for run in runs if run.side == side) for side in (HALF_HITCH, DTM)
    )
    return (
        f"A read_committed reader found {ours:,} messages of Half Hitch's, and dtm's subscriber "
        f"was called for {theirs:,} transactions: each that was committed, once"
    )


def busy_percent(runs: Sequence[Run]) -> tuple[float, float]:
    """What others took of the machine: in the middle run and in the worst one."""
    shares = [run.others_percent for run in runs]
    return (median(shares), max(shares)) if shares else (0.0, 0.0)


def report(runs: Sequence[Run]) -> str:
    """For people."""
    middle, worst = busy_percent(runs)
    wrong = faults(runs)
    return "\n".join(
        [
            table(HEAD, rows(runs)),
            "",
            f"others took {middle:.0f} % of the machine (median; at most {worst:.0f} %)",
            "NOT AS IT MUST BE, see below" if wrong else sums(runs),
        ]
    )


def markdown(runs: Sequence[Run]) -> str:
    """For the page: two tables are read more easily than one that is too wide."""
    parts = []
    for columns in (slice(2, 6), slice(6, None)):
        shown = [(*row[:2], *row[columns]) for row in (HEAD, *rows(runs))]
        head, *lines = [f"| {' | '.join(row)} |" for row in shown]
        parts.append("\n".join([head, f"|{'---|' * len(shown[0])}", *lines]))
    return "\n\n".join(parts)
