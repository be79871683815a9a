"""The audit as one page of HTML, with plots, that needs nothing else: no script, no other file.

Every text that comes from Kafka is escaped, and what people would not see in it is written out.
Pure.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

from halfhitch.verify.report import Kind
from halfhitch.wire.plain import shown
from halfhitch_spark.audit.measures import CHECKS, NO_TOPIC, Distribution, upper_of
from halfhitch_spark.audit.run import Result
from halfhitch_spark.audit.tables import VERDICTS, Table, tables

#: More rows of a table, and more plots, make a page that nobody reads: the tables have all.
ROWS_MAX: Final = 200
PLOTS_MAX: Final = 24
_WIDTH, _HEIGHT, _LEFT, _BELOW = 420, 130, 8, 22
#: Classes of a distribution that one bar shows: a power of two and a half.
_CLASSES_PER_BAR: Final = 8
_TITLES: Final = {
    "groups": "Producer groups",
    "topics": "Topics",
    "violations": "Violations",
    "unfinished": "Not ended",
    "conflicts": "Conflicts",
    "not_judged": "Not judged",
    "distributions": "Distributions",
    "deciders": "Who decided",
}
_MEASURES: Final = {
    "to_decision_ms": "from the prepare to the decision",
    "to_end_ms": "from the prepare to the end",
    "checks": "checks needed",
}
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --bar: #3b7dd8; --bad: #c62828; --good: #2e7d32; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem;
  padding: 0 1rem; }
table { border-collapse: collapse; font-size: 13px; }
td, th { border-bottom: 1px solid var(--line); padding: .2rem .6rem; text-align: left;
  overflow-wrap: anywhere; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; } figcaption { font-size: 13px; max-width: 420px; overflow-wrap: anywhere; }
svg { background: #8881; } svg text { font-size: 10px; fill: currentColor; }
svg rect { fill: var(--bar); } svg rect.bad { fill: var(--bad); }
svg line { stroke: currentColor; stroke-dasharray: 3 3; }
.verdict { font-size: 1.6rem; } .clean { color: var(--good); } .not_clean { color: var(--bad); }
"""


def page(result: Result, share_min: float) -> str:
    """The whole text."""
    found = {table.name: table for table in tables(result, share_min)}
    verdict = result.verdict(share_min)
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width'>",
        f"<title>Half Hitch audit</title><style>{_STYLE}</style></head><body>",
        "<h1>Half Hitch audit</h1>",
        f"<p class='verdict {verdict.value}'>{VERDICTS[verdict]}</p>",
        _summary(found["summary"]),
        "<h2>Violations by kind and group</h2>",
        _kinds(result),
        "<h2>How long, and how many checks</h2>",
        _plots(list(result.measures.distributions())),
    ]
    for name, title in _TITLES.items():
        parts.append(f"<h2>{title}</h2>{_table(found[name])}")
    return "\n".join([*parts, "</body></html>\n"])


def text_of(value: Any) -> str:
    """A value of a table, for HTML."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, list):
        return ", ".join(text_of(one) for one in value)
    if isinstance(value, tuple):
        topic, partition, log_offset = value
        return text_of(f"{topic}-{partition}@{log_offset}")
    return escape(shown(str(value)))


def _summary(table: Table) -> str:
    (row,) = table.rows
    cells = zip(table.columns, row, strict=True)
    rows = [f"<tr><th>{_named(name)}</th><td class='n'>{text_of(v)}</td></tr>" for name, v in cells]
    return f"<table>{''.join(rows)}</table>"


def _table(table: Table) -> str:
    if not table.rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{_named(column)}</th>" for column in table.columns)
    rows = []
    for row in table.rows[:ROWS_MAX]:
        kinds = [" class='n'" if _is_number(value) else "" for value in row]
        cells = [f"<td{kind}>{text_of(v)}</td>" for kind, v in zip(kinds, row, strict=True)]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    left = len(table.rows) - ROWS_MAX
    more = f"<p>{left:,} more: see the table {table.name}.</p>" if left > 0 else ""
    return f"<div class='scroll'><table><tr>{head}</tr>{''.join(rows)}</table></div>{more}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _named(column: str) -> str:
    return column.replace("_", " ")


# -- plots ---------------------------------------------------------------------------------------


def _kinds(result: Result) -> str:
    counts = [
        (f"{kind.value}: {group}", findings.violation_counts[kind])
        for kind in Kind
        for group, findings in sorted(result.findings.items())
        if findings.violation_counts[kind]
    ]
    if not counts:
        return "<p>None.</p>"
    counts = sorted(counts, key=lambda pair: -pair[1])[:PLOTS_MAX]
    most = max(count for _, count in counts)
    bars = []
    for number, (name, count) in enumerate(counts):
        width = max(2.0, 240 * count / most)
        at = 18 * number
        bars.append(
            f"<text x='200' y='{at + 13}' text-anchor='end'>{text_of(name[:40])}</text>"
            f"<rect class='bad' x='206' y='{at + 3}' width='{width:.1f}' height='13'/>"
            f"<text x='{212 + width:.1f}' y='{at + 13}'>{count:,}</text>"
        )
    return _svg(540, 18 * len(counts) + 6, bars)


def _plots(found: Sequence[Distribution]) -> str:
    """One for each measure and topic; of all groups."""
    whole: dict[tuple[str, str], Counter[int]] = {}
    for one in found:
        whole.setdefault((one.measure, one.topic), Counter()).update(one.classes)
    if not whole:
        return "<p>Nothing was measured: no audit topic, and no halves that have ended.</p>"
    largest = sorted(whole.items(), key=lambda pair: -pair[1].total())[:PLOTS_MAX]
    plots = [
        _plot(Distribution(measure, "", topic, dict(sorted(classes.items()))))
        for (measure, topic), classes in sorted(largest)
    ]
    return f"<div class='plots'>{''.join(plots)}</div>"


def _plot(one: Distribution) -> str:
    bars, upper = _bars(one)
    most = max(bars.values())
    first, last = min(bars), max(bars)
    step = (_WIDTH - 2 * _LEFT) / (last - first + 1)
    drawn = []
    for number, count in bars.items():
        height = max(1.0, (_HEIGHT - 12) * count / most)
        drawn.append(
            f"<rect x='{_LEFT + (number - first) * step + 1:.1f}' y='{_HEIGHT - height:.1f}' "
            f"width='{max(1.0, step - 2):.1f}' height='{height:.1f}'>"
            f"<title>up to {upper[number]:,.0f}: {count:,}</title></rect>"
        )
    for number in sorted({first, (first + last) // 2, last}):
        anchor = _LEFT + (number - first + 0.5) * step
        label = f"{upper.get(number, upper_of((number + 1) * _per_bar(one))):,.0f}"
        drawn.append(
            f"<text x='{anchor:.1f}' y='{_HEIGHT + 14}' text-anchor='middle'>{label}</text>"
        )
    shares = ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
    told = ", ".join(f"{name} {one.quantile(share):,.0f}" for share, name in shares)
    unit = "" if one.measure == CHECKS else " ms"
    topic = "unknown topics" if one.topic == NO_TOPIC else text_of(one.topic)
    caption = f"{topic}: {_MEASURES[one.measure]} ({one.count:,}; {told}{unit})"
    svg = _svg(_WIDTH, _HEIGHT + _BELOW, drawn)
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


def _per_bar(one: Distribution) -> int:
    return 1 if one.measure == CHECKS else _CLASSES_PER_BAR


def _bars(one: Distribution) -> tuple[dict[int, int], dict[int, float]]:
    """Counts by bar, and the largest number in each."""
    bars: Counter[int] = Counter()
    upper: dict[int, float] = {}
    for number_class, count in one.classes.items():
        number = number_class // _per_bar(one)
        bars[number] += count
        upper[number] = max(upper_of(number_class), upper.get(number, 0))
    return dict(bars), upper


def _svg(width: int, height: int, parts: Iterable[str]) -> str:
    return (
        f"<svg width='{width}' height='{height}' viewBox='0 0 {width} {height}' role='img'>"
        f"{''.join(parts)}</svg>"
    )
