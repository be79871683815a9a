"""Pictures of the dashboards for the documents: a sidecar under load, scraped by Prometheus.

    PYTHONPATH=tests:. python bench/dashboards.py [--only NAME] [seconds of load]  (`make previews`)

Grafana is no package of Debian's, so each panel's own query is drawn here, where it stands. They
show what is on a dashboard, not how Grafana draws it. The load is that of the tests; its topic is
read by a stream of Spark's, which runs in this process.
"""

from __future__ import annotations

import argparse
import html
import math
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from halfhitch.embedded import spark_connector_jars, spark_java_home
from halfhitch_spark import QueryMetrics, local_session, read_stream
from harness import servers
from harness.monitoring import grafana, panels
from harness.places import ROOT
from harness.watched import filled_in, watched

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = tuple(dashboard.name for dashboard in panels.DASHBOARDS)
_COLUMN, _LINE = 46, 26
_COLORS = ("#3274d9", "#e0752d", "#37872d", "#c4162a", "#8f3bb8", "#b8870b", "#17827b", "#777777")
_FONT = 'font-family="sans-serif"'


def picture(dashboard: Any, ask: Any) -> str:
    """One dashboard as SVG; `ask` gives the lines of a query."""
    boxes, height = [], 0
    laid = grafana.laid_out(dashboard)
    for panel, place in laid:
        x, y = place["x"] * _COLUMN, place["y"] * _LINE + 8
        width, tall = place["w"] * _COLUMN - 8, place["h"] * _LINE - 8
        height = max(height, y + tall + 8)
        if panel is None:
            continue
        inner = (
            stat(panel, ask, width, tall)
            if panel.kind == "stat"
            else lines(panel, ask, width, tall)
        )
        boxes.append(
            f'<g transform="translate({x + 4},{y})"><rect width="{width}" height="{tall}" rx="3" '
            f'fill="#fff" stroke="#d8d9da"/><text x="8" y="17" font-size="12" font-weight="bold" '
            f"{_FONT}>{html.escape(panel.title)}</text>{inner}</g>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{24 * _COLUMN}" height="{height}" '
        f'role="img" aria-label="{dashboard.title}"><rect width="100%" height="100%" '
        f'fill="#f4f5f5"/>{"".join(boxes)}</svg>\n'
    )


def stat(panel: Any, ask: Any, width: int, tall: int) -> str:
    """The last value, large; red from where the panel says."""
    found = [points[-1][1] for _, points in ask(panel.queries[0])]
    value = found[0] if found else 0.0
    color = "#c4162a" if panel.red is not None and value >= panel.red else "#37872d"
    return (
        f'<text x="{width / 2}" y="{tall * 0.72}" font-size="26" text-anchor="middle" {_FONT} '
        f'fill="{color}">{shown(value, panel.unit)}</text>'
    )


def lines(panel: Any, ask: Any, width: int, tall: int) -> str:
    """Lines over time, the highest value at the left, and what they are called below."""
    found = [line for query in panel.queries for line in ask(query)][:24]
    left, top, below = 52, 28, tall - 34
    values = [value for _, points in found for _, value in points]
    most = max([*values, 0.0]) or 1.0
    times = [time for _, points in found for time, _ in points] or [0.0, 1.0]
    first, span = min(times), (max(times) - min(times)) or 1.0
    axis = f'<path d="M{left} {top}V{below}H{width - 8}" fill="none" stroke="#aaa"/>'
    place = f'x="{left - 4}" y="{top + 8}" font-size="10" text-anchor="end" {_FONT}'
    parts = [axis, f"<text {place}>{shown(most, panel.unit)}</text>"]
    legend_x = 8.0
    for index, (name, points) in enumerate(found):
        color = _COLORS[index % len(_COLORS)]
        path = " ".join(
            f"{left + (time - first) / span * (width - 8 - left):.1f},"
            f"{below - value / most * (below - top):.1f}"
            for time, value in points
        )
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}"/>')
        if legend_x + 6 * len(name) < width:
            parts.append(
                f'<text x="{legend_x}" y="{tall - 10}" font-size="10" fill="{color}" {_FONT}>'
                f"{html.escape(name)}</text>"
            )
            legend_x += 6.5 * len(name) + 10
    return "".join(parts)


def shown(value: float, unit: str) -> str:
    """With its unit, short."""
    if unit == "s":
        return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"
    text = f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    return text + {"ops": "/s", "reqps": "/s"}.get(unit, "")


@contextmanager
def running_stream(bootstrap: str, topic: str) -> Iterator[int]:
    """The port with the metrics of a stream that reads this topic, a batch every two seconds."""
    with tempfile.TemporaryDirectory(prefix="halfhitch-previews-") as name:
        folder = Path(name)
        (folder / "spark").mkdir()
        spark = local_session(
            "halfhitch previews",
            jars=spark_connector_jars(),
            java_home=spark_java_home(),
            folder=folder / "spark",
        )
        metrics = QueryMetrics(spark, bootstrap)
        spark.streams.addListener(metrics)
        checkpoint = (folder / "checkpoint").as_uri()
        messages = read_stream(spark, bootstrap, topic, checkpoint=checkpoint)
        writer = messages.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.queryName("orders").trigger(processingTime="2 seconds").start()
        try:
            yield metrics.serve(0)
        finally:
            query.stop()
            spark.stop()
            metrics.close()


def main() -> int:
    """Draw them anew."""
    parser = argparse.ArgumentParser(description="Pictures of the dashboards.")
    parser.add_argument("load_s", nargs="?", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="+", choices=_NAMES, default=_NAMES, metavar="NAME")
    given = parser.parse_args()
    load_s = given.load_s
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.kafka_server() as kafka,
        servers.redis_server() as redis,
        watched(kafka.bootstrap, redis.url, Path(folder), load_s, running_stream) as prometheus,
    ):

        def ask(query: Any) -> list[tuple[str, list[tuple[float, float]]]]:
            expression = filled_in(grafana.expression(query), "10s")
            found = []
            for one in prometheus.lines(expression, load_s, 1.0):
                points = [(float(at), float(text)) for at, text in one["values"]]
                points = [(at, value) for at, value in points if math.isfinite(value)]
                name = query.legend
                for label, value in one["metric"].items():
                    name = name.replace(f"{{{{{label}}}}}", value)
                if points:
                    found.append((name, points))
            return found

        for dashboard in panels.DASHBOARDS:
            if dashboard.name in given.only:
                path = ROOT / "docs" / f"dashboard-{dashboard.name}.svg"
                path.write_text(picture(dashboard, ask))
                print(f"{path} is new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
