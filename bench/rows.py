"""Rows of the check-back as text. Pure, as figures.py is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: As it stands in the file of results; `kind` says what else is in it.
Row = dict[str, Any]

DRAIN_HEAD = (
    "orphans, their producer is back", "count", "decided s", "visible s", "checks/s",
    "asked twice", "outcomes", "us/tx sidecar", "client", "broker", "others",
)  # fmt: skip


def typical(runs: Sequence[Row]) -> Row:
    """The drain of the middle duration (of an even number, the slower)."""
    ordered = sorted(runs, key=lambda run: -run["decided_s"])
    return ordered[(len(ordered) - 1) // 2]


def drain_row(row: Row) -> tuple[str, ...]:
    """As DRAIN_HEAD says."""
    cpu = row["cpu_us"]
    return (
        row["mode"],
        f"{row['transaction_count']:,}",
        f"{row['decided_s']:.2f}",
        f"{row['visible_s']:.2f}",
        f"{row['checks_per_s']:,.0f}",
        str(row["repeated_count"]),
        _counts(row["outcomes"]),
        f"{cpu['sidecar']:.0f}",
        f"{cpu['client']:.0f}" if "client" in cpu else "-",
        f"{cpu['broker']:.0f}",
        f"{row['others_percent']:.0f} %",
    )


def line(row: Row) -> str:
    """One row as a sentence."""
    return {"drain": _drain, "hung": _hung, "lag": _lag, "memory": _memory}[row["kind"]](row)


def _drain(row: Row) -> str:
    return "  ".join(drain_row(row))


def _hung(row: Row) -> str:
    ratio = row["ratio"]
    return (
        f"beside a hung group ({row['silent_count']} silent checks) "
        f"{row['transaction_count']:,} orphans take {ratio['median']:.2f} times as long as alone "
        f"({ratio['low']:.2f} to {ratio['high']:.2f} in {ratio['count']} pairs)"
    )


def _lag(row: Row) -> str:
    return (
        f"checks among {row['pending_count']:,} pending, {row['checks_per_s']:.0f}/s due, beside "
        f"{row['committed_per_s']:,.0f} commits/s: late by {row['lag_p50_ms']:.0f} ms (p50), "
        f"{row['lag_p99_ms']:.0f} ms (p99), {row['lag_max_ms']:.0f} ms at most; "
        f"{_counts(row['outcomes'])}; coordinator {row['rss_mib']:.0f} MiB"
    )


def _memory(row: Row) -> str:
    return (
        f"{row['count']:,} pending in a ledger: {row['each_bytes']:.0f} bytes each, process "
        f"{row['rss_mib']:.0f} MiB, looked through for garbage in {row['collected_s']:.2f} s"
    )


def _counts(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
