"""The section of docs/reliability.md about soaks, from their record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT = (
    "`make soak N=1000000` runs that many transactions of the mixed load on three brokers and two"
    " sidecars, under one fault after another. It compares, for each transaction, what its"
    " application was told with what a reader finds at the end. One sidecar is never stopped. What"
    " it uses in the last third of the run may not be more than in the first (finished transactions"
    " are remembered for only a minute here, so that their number stops growing). This is I12."
)

_COLUMNS = (
    *("when", "transactions", "a second", "faults", "lost", "doubled", "invented", "torn"),
    *("other", "memory, MiB", "descriptors", "threads", "verdict"),
)


def soak_lines(soaks: Sequence[dict[str, Any]]) -> list[str]:
    """The section; short while there is no run."""
    lines = ["## Soak", "", _TEXT, ""]
    if not soaks:
        return [*lines, "No run is on record.", ""]
    lines += [
        f"| {' | '.join(_COLUMNS)} |",
        "|---" * len(_COLUMNS) + "|",
    ]
    for run in soaks:
        found, use = run["found"], run["use"]
        other = found.get("corrupted", 0) + found.get("misrouted", 0)
        cells = [
            run["at"],
            f"{run['transactions']:,}",
            str(run["counters"].get("per_second", "")),
            str(sum(run["faults"].values())),
            *(str(found.get(kind, "")) for kind in ("lost", "doubled", "invented", "torn")),
            str(other),
            *(_growth(use.get(what)) for what in ("memory, MiB", "descriptors", "threads")),
            run["verdict"] if run["verdict"] == "green" else f"**red**: {_short(run['reason'])}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, "", *_last(soaks[-1])]


def _growth(use: dict[str, Any] | None) -> str:
    return "" if use is None else f"{use['first']:.0f} to {use['last']:.0f}"


def _short(reason: str) -> str:
    return reason.splitlines()[0][:160].replace("|", "/") if reason else ""


def _last(run: dict[str, Any]) -> list[str]:
    faults = ", ".join(f"{name} {times}" for name, times in sorted(run["faults"].items()))
    counters = run["counters"]
    told = (
        f"The last run: {counters.get('committed', 0):,} committed,"
        f" {counters.get('rolled_back', 0):,} rolled back, {counters.get('parked', 0):,} parked;"
        f" {counters.get('takeovers', 0):,} takeovers, {counters.get('steps_aborted', 0):,} aborted"
        f" Kafka transactions. Faults: {faults}. Memory of the sidecar that was never stopped, by"
        f" tenths of the run, in MiB: {', '.join(map(str, run['memory_by_tenth']))}."
    )
    clients = run.get("clients_by_tenth")
    if clients:
        told += f" Its Kafka clients: {', '.join(map(str, clients))}."
    return [told, ""]
