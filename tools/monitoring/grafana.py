"""Dashboards as Grafana's JSON, of schema 42: Grafana 12 and newer.

Grafana's own generator knows every panel there is; these are two kinds, and whoever reads the JSON
finds nothing in it that is not here. Every panel has a unit and says what it shows; queries are
relative to `$namespace` and `$instance`; no data source is named, for `$datasource` is chosen. The
form is that of the types in Grafana's package @grafana/schema, by which it was checked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from rules import selected

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SELECTION: Final = 'namespace=~"$namespace", instance=~"$instance"'
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24
#: Histograms that carry the traces of some that they count.
_TRACED: Final = (
    "halfhitch_http_request_seconds",
    "halfhitch_prepare_seconds",
    "halfhitch_decide_seconds",
    "halfhitch_visible_latency_seconds",
    "halfhitch_check_lag_seconds",
)


@dataclass(frozen=True, slots=True)
class Query:
    """An expression without a selection, and how its lines are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """`rare`: why its expressions may be without data where all is well."""

    title: str
    shows: str
    unit: str
    queries: tuple[Query, ...]
    kind: Literal["timeseries", "stat"] = "timeseries"
    #: From which value on it is red; of stats.
    red: float | None = None
    rare: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`name` is its file's and, with a prefix, its uid: links to it stay."""

    name: str
    title: str
    rows: Sequence[Row]
    #: Whose series every namespace and instance has that it is about.
    told_by: str = "halfhitch_build_info"

    def panels(self) -> Iterator[Panel]:
        """All of them."""
        for row in self.rows:
            yield from row.panels


def expression(query: Query) -> str:
    """As Grafana sends it, its variables not yet filled in."""
    return selected(query.expr, SELECTION)


def laid_out(dashboard: Dashboard) -> Iterator[tuple[Panel | None, dict[str, int]]]:
    """Each panel and its place, in Grafana's 24 columns; None is the heading of the next row."""
    y = 0
    for row in dashboard.rows:
        yield None, {"h": 1, "w": _COLUMNS, "x": 0, "y": y}
        y += 1
        x = height = 0
        for panel in row.panels:
            width, tall = (4, 4) if panel.kind == "stat" else (8, 8)
            if x + width > _COLUMNS:
                x, y, height = 0, y + height, 0
            yield panel, {"h": tall, "w": width, "x": x, "y": y}
            x, height = x + width, max(height, tall)
        y += height


def dashboard_text(dashboard: Dashboard, others: Sequence[Dashboard]) -> str:
    """The file of a dashboard; `others` are linked at its top."""
    panels: list[dict[str, Any]] = []
    titles = iter(dashboard.rows)
    for panel, place in laid_out(dashboard):
        number = len(panels) + 1
        panels.append(
            _row(next(titles), number, place) if panel is None else _panel(panel, number, place)
        )
    found = {
        "uid": f"halfhitch-{dashboard.name}",
        "title": f"Half Hitch / {dashboard.title}",
        "tags": ["halfhitch"],
        "schemaVersion": 42,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "",
        "annotations": {"list": [_restarts()]},
        "links": [_link(other) for other in others if other is not dashboard],
        "templating": {"list": list(_variables(dashboard.told_by))},
        "panels": panels,
    }
    return json.dumps(found, indent=1) + "\n"


def _row(row: Row, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": place,
        "panels": [],
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    is_stat = panel.kind == "stat"
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": expression(query),
            "legendFormat": query.legend or "__auto",
            "instant": is_stat,
            "range": not is_stat,
            **({"exemplar": True} if not is_stat and has_examples(query) else {}),
        }
        for index, query in enumerate(panel.queries)
    ]
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red is not None:
        steps.append({"color": "red", "value": panel.red})
    defaults: dict[str, Any] = {
        "unit": panel.unit,
        **({} if panel.unit == "s" and "clock" in panel.title.lower() else {"min": 0}),
        "thresholds": {"mode": "absolute", "steps": steps},
        "color": {"mode": "thresholds" if is_stat else "palette-classic"},
        "custom": {} if is_stat else {"fillOpacity": 8, "lineWidth": 1, "showPoints": "never"},
    }
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.shows,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": _STAT if is_stat else _LINES,
        "targets": targets,
    }


def has_examples(query: Query) -> bool:
    """Whether its points shall have traces: one of a panel's shares of a histogram asks for all."""
    return "quantile(0.99," in query.expr and any(name in query.expr for name in _TRACED)


_STAT: Final = {
    "colorMode": "value",
    "graphMode": "none",
    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
}
_LINES: Final = {
    "legend": {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True},
    "tooltip": {"mode": "multi", "sort": "desc"},
}


def _variables(told_by: str) -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
    }
    for name, label, within in (
        ("namespace", "Namespace", ""),
        ("instance", "Instance", '{namespace=~"$namespace"}'),
    ):
        query = f"label_values({told_by}{within}, {name})"
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": name},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            # Whoever has no such label has it empty, which this finds too.
            "allValue": ".*",
            "current": {"text": ["All"], "value": ["$__all"]},
        }


def _restarts() -> dict[str, Any]:
    expr = (
        f"time() - process_start_time_seconds{{{SELECTION}}} < 60"
        " and on (namespace, instance) halfhitch_build_info"
    )
    return {
        "name": "Starts",
        "datasource": _SOURCE,
        "enable": True,
        "iconColor": "blue",
        "target": {"refId": "Anno", "expr": expr, "interval": "30s"},
        "titleFormat": "start of {{instance}}",
    }


def _link(other: Dashboard) -> dict[str, Any]:
    return {
        "title": other.title,
        "type": "link",
        "url": f"/d/halfhitch-{other.name}",
        "icon": "dashboard",
        "tooltip": "",
        "tags": [],
        "asDropdown": False,
        "targetBlank": False,
        "keepTime": True,
        "includeVars": True,
    }
