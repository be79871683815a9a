"""The curves as pictures, from what is kept of them: no measuring, and nothing of Half Hitch's.

Run by the Python of build/bench-tools, which has a plotting library (bench.lock):
`python bench/curves/draw.py RECORDS DOCS`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.curves.points import Curve

if TYPE_CHECKING:
    from collections.abc import Sequence


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    lines: Sequence[tuple[str, str]]  # of Point.values, and what it is called
    is_log: bool = False


_RATE: Final = Panel("transactions a second", [("commits_per_s", "committed")])
_COST: Final = Panel(
    "processor time for a transaction, us", [("sidecar_us", "sidecar"), ("Kafka_us", "Kafka")]
)
_MEMORY: Final = Panel(
    "memory at its peak, MiB", [("sidecar_mib", "sidecar"), ("Kafka_mib", "Kafka")]
)
_TAKEOVER: Final = Panel(
    "seconds until the owner works",
    [("ready_s", "from the start"), ("takeover_s", "a half partition")],
    is_log=True,
)
PICTURES: Final[dict[str, tuple[str, bool, Sequence[Panel]]]] = {
    "partitions": (
        "half partitions",
        True,
        [_RATE, _COST, _MEMORY, Panel("idle, percent of a core", [("idle_percent", "sidecar")])],
    ),
    "payload": (
        "KiB of a body",
        True,
        [
            _RATE._replace(is_log=True),
            _COST._replace(is_log=True),
            Panel("MiB a second", [("mib_per_s", "visible")]),
            _MEMORY,
        ],
    ),
    "undecided": (
        "undecided transactions",
        True,
        [
            _TAKEOVER,
            Panel("memory of the sidecar, MiB", [("sidecar_mib", "after"), ("peak_mib", "peak")]),
        ],
    ),
    "replay": (
        "transactions in the log",
        True,
        [
            _TAKEOVER,
            Panel("memory of the sidecar, MiB", [("sidecar_mib", "after"), ("peak_mib", "peak")]),
        ],
    ),
    "instances": ("instances", False, [_RATE, _COST, _MEMORY]),
}


def draw(curve: Curve, path: Path) -> None:
    """One picture, the same bytes for the same figures."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Letters stay letters, so the file is small; no date and no drawn numbers, so it is the same.
    with mpl.rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": curve.name,
            "font.size": 9,
            "font.family": "sans-serif",
        }
    ):
        called, is_log, panels = PICTURES[curve.name]
        figure = Figure(figsize=(3.1 * len(panels), 2.6), layout="constrained")
        for axes, panel in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            _panel(axes, curve, panel, is_log=is_log)
            axes.set_xlabel(called)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    path.write_text(smaller(path.read_text()))


def smaller(text: str) -> str:
    """Without blanks at the ends of lines, and places to a hundredth of a point."""
    stripped = "\n".join(line.strip() for line in text.splitlines())
    return re.sub(r"(?<=\d\.\d\d)\d+", "", stripped) + "\n"


def _panel(axes: Any, curve: Curve, panel: Panel, *, is_log: bool) -> None:
    for name, called in panel.lines:
        places, values = curve.values(name)
        axes.plot(places, values, marker="o", markersize=3, label=called)
        lows, highs = curve.values(f"{name}_low")[1], curve.values(f"{name}_high")[1]
        if lows and len(lows) == len(places):
            axes.fill_between(places, lows, highs, alpha=0.2)
    axes.set_title(panel.title, fontsize=9)
    if is_log:
        axes.set_xscale("log")
    if panel.is_log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    places = [point.at for point in curve.points]
    axes.set_xticks(places, [f"{place:,.10g}" for place in places], rotation=45)
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    if len(panel.lines) > 1:
        axes.legend(fontsize=8)


def main() -> None:
    """All of which something is kept."""
    records, docs = map(Path, sys.argv[1:])
    for name in PICTURES:
        path = records / f"{name}.json"
        if path.exists():
            draw(Curve.read(json.loads(path.read_text())), docs / f"curve-{name}.svg")


if __name__ == "__main__":
    main()
