"""From runs to figures: medians, spreads, ratios of pairs, and tables. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final, Self

from bench.figures import table
from bench.rocketmq.plan import HALF_HITCH, ROCKETMQ

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as it stands in the file of results. Counts are of the measured time."""

    side: str
    round: int
    load: str
    threads: int
    tps: float
    windows_tps: Sequence[int]
    rt_ms: float
    rt_max_ms: int
    transaction_count: int
    failed_count: int
    check_count: int
    unexpected_count: int  # in the whole life of the load
    duplicated_count: int
    doubtful_count: int  # sent again by the client or failed, in its whole life
    odd_lines: Sequence[str]
    cpu_us: Mapping[str, float]  # for each transaction, by process
    compiling_us: float  # the part of the broker's that went into compiling
    rss_mib: Mapping[str, Sequence[float]]  # peak, and what no file backs, by process
    others_percent: float  # of the machine, taken by processes of nobody here
    forwarded: Mapping[str, Any] | None  # what became visible in Kafka; of Half Hitch
    #: Of those whose answer the client has not waited for, or whose end it could not send, in its
    #: whole life. They have no end, so they are checked; the benchmark had not expected that.
    given_up_count: int = 0

    @property
    def unfounded_count(self) -> int:
        """Checks, at least, of transactions that the client had ended."""
        return max(0, self.unexpected_count - self.given_up_count)

    @property
    def server_us(self) -> float:
        """Processor time of everything but the load."""
        return sum(us for name, us in self.cpu_us.items() if name != "client")

    @property
    def server_mib(self) -> tuple[float, float]:
        """Resident memory of everything but the load: at its peak, and what no file backs."""
        of_servers = [mib for name, mib in self.rss_mib.items() if name != "client"]
        return sum(peak for peak, _ in of_servers), sum(anonymous for _, anonymous in of_servers)


@dataclass(frozen=True, slots=True)
class Middle:
    """The middle of some runs, and the least and the most of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Self:
        """Of at least one value."""
        ordered = sorted(values)
        return cls(median(ordered), ordered[0], ordered[-1])

    def text(self, form: str = ",.0f") -> str:
        """As it stands in a table."""
        if self.low == self.high:
            return f"{self.median:{form}}"
        return f"{self.median:{form}} ({self.low:{form}} - {self.high:{form}})"


@dataclass(frozen=True, slots=True)
class Cell:
    """One load with one number of threads: runs of each side, in the order of rounds."""

    load: str
    threads: int
    runs: Mapping[str, Sequence[Run]]

    @property
    def ratio(self) -> Middle | None:
        """Half Hitch's rate by RocketMQ's, within each round that has both."""
        if not all(self.runs.get(side) for side in (ROCKETMQ, HALF_HITCH)):
            return None
        theirs = {run.round: run.tps for run in self.runs[ROCKETMQ]}
        ours = {run.round: run.tps for run in self.runs[HALF_HITCH]}
        pairs = [ours[n] / theirs[n] for n in sorted(theirs.keys() & ours.keys()) if theirs[n]]
        return Middle.of(pairs) if pairs else None


def cells(runs: Sequence[Run]) -> list[Cell]:
    """In the order in which they were measured."""
    found = dict.fromkeys((run.load, run.threads) for run in runs)
    return [
        Cell(
            load,
            threads,
            {
                side: [r for r in runs if (r.side, r.load, r.threads) == (side, load, threads)]
                for side in (ROCKETMQ, HALF_HITCH)
            },
        )
        for load, threads in found
    ]


HEAD: Final = (
    "load", "threads", "server", "TPS", "to RocketMQ", "avg RT ms", "failed", "checks",
    "unexpected", "duplicated", "us/tx client", "us/tx server", "of it", "RSS MiB (anonymous)",
)  # fmt: skip


def rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """As HEAD says: a row for each cell and side."""
    return [
        _row(cell, side, of_side)
        for cell in cells(runs)
        for side, of_side in cell.runs.items()
        if of_side
    ]


def _row(cell: Cell, side: str, runs: Sequence[Run]) -> tuple[str, ...]:
    ratio = cell.ratio if side == HALF_HITCH else None
    parts = {name: median(run.cpu_us[name] for run in runs) for name in runs[0].cpu_us}
    client_us = parts.pop("client")
    return (
        cell.load,
        str(cell.threads),
        side,
        Middle.of(run.tps for run in runs).text(),
        ratio.text(".2f") if ratio else "",
        Middle.of(run.rt_ms for run in runs).text(".1f"),
        str(sum(run.failed_count for run in runs)),
        f"{sum(run.check_count for run in runs):,}",
        _unexpected(runs),
        str(sum(run.duplicated_count for run in runs)),
        f"{client_us:.0f}",
        f"{median(run.server_us for run in runs):.0f}",
        ", ".join(f"{_called(side, name)} {us:.0f}" for name, us in parts.items() if us >= 0.5)
        + f" (compiling {median(run.compiling_us for run in runs):.0f})",
        "{:,.0f} ({:,.0f})".format(*max(run.server_mib for run in runs)),
    )


def _unexpected(runs: Sequence[Run]) -> str:
    unfounded = sum(run.unfounded_count for run in runs)
    given_up = sum(run.unexpected_count for run in runs) - unfounded
    return f"{unfounded}" + (f" ({given_up} given up)" if given_up else "")


def _called(side: str, name: str) -> str:
    return "Kafka" if (side, name) == (HALF_HITCH, "broker") else name


def line(run: Run) -> tuple[str, ...]:
    """One run while it goes on."""
    alone = _row(Cell(run.load, run.threads, {run.side: [run]}), run.side, [run])
    named = [f"{name} {value}" for name, value in zip(HEAD[3:], alone[3:], strict=True) if value]
    return (
        f"round {run.round} {run.load} {run.threads} {run.side}:",
        *named,
        f"others {run.others_percent:.0f} %",
        *([_account(run.forwarded)] if run.forwarded else []),
        *([f"resent or failed {run.doubtful_count}"] if run.doubtful_count else []),
        *run.odd_lines,
    )


def _account(forwarded: Mapping[str, Any]) -> str:
    told = forwarded["told"]
    return (
        f"visible {forwarded['seen_count']:,}, not visible {forwarded['unseen_count']:,} (rolled "
        f"back {told['rolled_back_count']:,}, pending {told['pending_count']}): "
        + (", ".join(forwarded["faults"]) or "ok")
    )


def sums(runs: Sequence[Run]) -> str:
    """What was counted in Kafka, of all runs."""
    counted = [run.forwarded for run in runs if run.forwarded]
    seen = sum(forwarded["seen_count"] for forwarded in counted)
    return (
        f"After each of the {len(counted)} runs on Half Hitch a read_committed consumer counted: "
        f"{seen:,} committed messages in all, each visible exactly once, none that was rolled back"
    )


def faults(runs: Sequence[Run]) -> list[str]:
    """Everything of Half Hitch that must not be."""
    found = []
    for run in runs:
        if run.side != HALF_HITCH:
            continue
        where = f"round {run.round}, {run.load}, {run.threads} threads: "
        if run.forwarded:
            found += [where + fault for fault in run.forwarded["faults"]]
        for count, what in (
            (run.unfounded_count, "checks nobody expected"),
            (run.duplicated_count, "checks twice"),
            (run.failed_count, "sends failed"),
        ):
            if count:
                found.append(f"{where}{count} {what}")
    return found


def busy_percent(runs: Sequence[Run]) -> float:
    """What others took of the machine in the worst run."""
    return max((run.others_percent for run in runs), default=0.0)


def report(facts: Mapping[str, Any], runs: Sequence[Run]) -> str:
    """For people."""
    lines = [
        ", ".join(f"{name} {fact}" for name, fact in facts.items()),
        "",
        table(HEAD, rows(runs)),
        "",
        f"others took at most {busy_percent(runs):.0f} % of the machine",
    ]
    if any(run.forwarded for run in runs):
        lines.append(sums(runs) if not faults(runs) else "NOT AS IT MUST BE, see below")
    return "\n".join(lines)


#: Two tables are read more easily than one that is too wide for the page.
_RATES: Final = slice(3, 10)
_COSTS: Final = slice(10, None)


def markdown(runs: Sequence[Run]) -> str:
    """The same for the page."""
    return "\n\n".join(_markdown(runs, columns) for columns in (_RATES, _COSTS))


def _markdown(runs: Sequence[Run], columns: slice) -> str:
    shown = [(*row[:3], *row[columns]) for row in (HEAD, *rows(runs))]
    rule = "|".join(["---"] * len(shown[0]))
    head, *lines = [f"| {' | '.join(row)} |" for row in shown]
    return "\n".join([head, f"|{rule}|", *lines])
