"""The tables of docs/sizing.md, made from what is kept of each curve."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from bench.curves.points import Curve
from bench.page import with_part

if TYPE_CHECKING:
    from bench.curves.points import Point

RECORDS: Final = Path(__file__).with_name("records")
_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "sizing.md"

#: Of each curve: what a place is called, and the columns: head, name, form.
_Columns = tuple[tuple[str, str, str], ...]
_LOADED: Final[_Columns] = (
    ("transactions/s", "commits_per_s", ",.0f"),
    ("least to most", "commits_per_s_low", ",.0f"),
    ("us/tx sidecar", "sidecar_us", ",.0f"),
    ("us/tx Kafka", "Kafka_us", ",.0f"),
    ("prepare p50 ms", "prepare_p50_ms", ",.1f"),
    ("commit p50", "commit_p50_ms", ",.1f"),
    ("visible p50", "visible_p50_ms", ",.0f"),
    ("p99", "visible_p99_ms", ",.0f"),
    ("Kafka transactions/s", "steps_per_s", ",.0f"),
    ("messages in one", "per_step", ",.1f"),
    ("sidecar MiB", "sidecar_mib", ",.0f"),
    ("Kafka MiB", "Kafka_mib", ",.0f"),
)
_STANDING: Final[_Columns] = (
    ("taken over after s", "takeover_s", ",.2f"),
    ("ready after s", "ready_s", ",.1f"),
    ("processor s", "start_cpu_s", ",.1f"),
    ("records read", "records", ",.0f"),
    ("MiB", "sidecar_mib", ",.0f"),
    ("peak", "peak_mib", ",.0f"),
    ("bytes each", "each_bytes", ",.0f"),
    ("idle, % of a core", "idle_percent", ".1f"),
)
TABLES: Final[dict[str, tuple[str, _Columns]]] = {
    "partitions": ("half partitions", (*_LOADED, ("idle, % of a core", "idle_percent", ".1f"))),
    "payload": ("KiB", (*_LOADED, ("MiB/s", "mib_per_s", ",.1f"))),
    "undecided": ("undecided", _STANDING),
    "replay": ("transactions in the log", tuple(c for c in _STANDING if c[1] != "each_bytes")),
    "instances": ("instances", _LOADED),
}
_SPREAD: Final = "commits_per_s_low"


def read(name: str) -> Curve | None:
    """What is kept of a curve, if it was ever measured."""
    path = RECORDS / f"{name}.json"
    return Curve.read(json.loads(path.read_text())) if path.exists() else None


def write() -> None:
    """Every part whose curve is kept."""
    text = _PAGE.read_text()
    for name in TABLES:
        curve = read(name)
        if curve is not None:
            text = with_part(text, f"make bench-curves ({name})", figures(curve))
    _PAGE.write_text(text)


def figures(curve: Curve) -> str:
    """A table, and on what it was measured."""
    called, columns = TABLES[curve.name]
    head = [called, *(column[0] for column in columns)]
    lines = [head, ["---"] * len(head), *(_row(point, columns) for point in curve.points)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    facts = curve.machine
    others = [p.values["others_percent"] for p in curve.points if "others_percent" in p.values]
    busy = f"; other programs took {median(others):.0f} % of the machine" if others else ""
    fast = "with the fast path of a release" if facts["is_fast"] else "interpreted"
    return (
        f"![{called}](curve-{curve.name}.svg)\n\n{table}\n\n"
        f"{facts['cores']} cores ({facts['processor']}), Kafka {facts['kafka']}, Half Hitch "
        f"{facts['halfhitch']} {fast}{busy}. {threads(curve)}"
    )


def _row(point: Point, columns: _Columns) -> list[str]:
    row = [f"{point.at:,.10g}"]
    for _, name, form in columns:
        if name not in point.values:
            row.append("")
        elif name == _SPREAD:
            most = point.values["commits_per_s_high"]
            row.append(f"{point.values[name]:{form}} to {most:{form}}")
        else:
            row.append(f"{point.values[name]:{form}}")
    return row


def threads(curve: Curve) -> str:
    """Who is busiest at both ends: a bend has its reason there."""
    if not curve.points:
        return ""
    ends = [curve.points[0], curve.points[-1]]
    shown = [
        f"at {point.at:,.10g}: "
        + ", ".join(f"{name} {100 * share:.0f} %" for name, share in point.threads.items())
        for point in ends
    ]
    return f"Busiest threads, by their share of the servers' processor time: {'; '.join(shown)}."
