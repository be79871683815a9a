"""The rates as a picture (SVG, written by hand: no library is worth two bar charts). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.rocketmq.plan import HALF_HITCH, ROCKETMQ
from bench.rocketmq.results import Middle, cells

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.rocketmq.results import Cell, Run

_COLOURS: Final = {ROCKETMQ: "#8a8f98", HALF_HITCH: "#1f6feb"}
_TITLES: Final = {
    "commit": "every transaction committed",
    "mix": "5 % rolled back, 1 % left for a check",
}
_PANEL, _HEIGHT, _LEFT, _TOP, _BOTTOM = 380, 320, 56, 64, 44
_PLOT: Final = _HEIGHT - _TOP - _BOTTOM
_BAR, _GAP = 34, 6
_TEXT: Final = 'font-family="system-ui, sans-serif" fill="#24292f"'


def draw(runs: Sequence[Run]) -> str:
    """Two bars for each number of threads, a panel for each load; whiskers from least to most."""
    found = cells(runs)
    loads = list(dict.fromkeys(cell.load for cell in found))
    step = _step(max((run.tps for run in runs), default=1.0))
    top = step * (int(max((run.tps for run in runs), default=1.0) * 1.08 // step) + 1)
    width = _PANEL * len(loads)
    size = f'viewBox="0 0 {width} {_HEIGHT}" width="{width}" height="{_HEIGHT}"'
    said = "Transactions per second of RocketMQ and of Half Hitch"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{said}">',
        f'<rect width="{width}" height="{_HEIGHT}" fill="#ffffff"/>',
        *_legend(),
    ]
    for number, load in enumerate(loads):
        of_load = [cell for cell in found if cell.load == load]
        parts += _panel(_PANEL * number, load, of_load, step, top)
    return "\n".join([*parts, "</svg>", ""])


def _step(most: float) -> int:
    """Between two lines of the grid."""
    return next((step for step in (500, 1_000, 2_000, 5_000, 10_000) if most / step <= 8), 20_000)


def _legend() -> list[str]:
    parts, x = [], _LEFT
    for side, colour in _COLOURS.items():
        parts.append(f'<rect x="{x}" y="12" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="22" font-size="13" {_TEXT}>{_words(side)}</text>')
        x += 150
    return parts


def _words(side: str) -> str:
    return "RocketMQ 5.5.0" if side == ROCKETMQ else "Half Hitch, Kafka acks=all"


def _panel(x: int, load: str, found: Sequence[Cell], step: int, top: int) -> list[str]:
    title = _TITLES.get(load, load)
    parts = [f'<text x="{x + _LEFT}" y="48" font-size="13" {_TEXT}>{title}</text>']
    for rate in range(0, top + 1, step):
        y = _y(rate, top)
        parts.append(
            f'<line x1="{x + _LEFT}" y1="{y:.1f}" x2="{x + _PANEL - 12}" y2="{y:.1f}" '
            f'stroke="#d0d7de" stroke-width="1"/>'
        )
        parts.append(_label(x + _LEFT - 6, y + 4, f"{rate:,}", "end", 11))
    room = (_PANEL - _LEFT - 12) / max(1, len(found))
    for number, cell in enumerate(found):
        parts += _bars(cell, x + _LEFT + room * (number + 0.5), top)
    return parts


def _bars(cell: Cell, centre: float, top: int) -> list[str]:
    parts = [_label(centre, _HEIGHT - _BOTTOM + 18, f"{cell.threads} threads", "middle", 12)]
    highest = 0.0
    for place, side in ((-1, ROCKETMQ), (1, HALF_HITCH)):
        runs = cell.runs.get(side)
        if not runs:
            continue
        rate = Middle.of(run.tps for run in runs)
        highest = max(highest, rate.high)
        left = centre - _BAR - _GAP / 2 if place < 0 else centre + _GAP / 2
        y, middle = _y(rate.median, top), left + _BAR / 2
        parts.append(
            f'<rect x="{left:.1f}" y="{y:.1f}" width="{_BAR}" '
            f'height="{_y(0, top) - y:.1f}" fill="{_COLOURS[side]}"/>'
        )
        parts.append(
            f'<line x1="{middle:.1f}" y1="{_y(rate.low, top):.1f}" x2="{middle:.1f}" '
            f'y2="{_y(rate.high, top):.1f}" stroke="#24292f" stroke-width="1.5"/>'
        )
    if cell.ratio is not None:
        parts.append(
            _label(centre, _y(highest, top) - 7, f"&#215; {cell.ratio.median:.2f}", "middle", 13)
        )
    return parts


def _y(rate: float, top: int) -> float:
    return _TOP + _PLOT * (1 - rate / top)


def _label(x: float, y: float, text: str, anchor: str, size: int) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f"<text {place} {_TEXT}>{text}</text>"
