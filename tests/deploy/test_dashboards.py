"""The dashboards' files are what Grafana wants, and ask for metrics that exist."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest
import yaml

from harness.charts import CHARTS, rendered
from harness.monitoring import grafana, panels, rules
from harness.places import ROOT
from harness.streams import KNOWN

FOLDER = ROOT / "dashboards"
FILES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
#: Without these the chart says what is missing.
NEEDED = yaml.safe_load((CHARTS / "halfhitch" / "ci" / "everything-values.yaml").read_text())
#: Grafana 12's DashboardLink and AnnotationQuery.
LINK: dict[str, type] = {
    "title": str, "type": str, "icon": str, "tooltip": str, "url": str, "tags": list,
    "asDropdown": bool, "targetBlank": bool, "includeVars": bool, "keepTime": bool,
}  # fmt: skip
ANNOTATION = {"name", "datasource", "enable", "iconColor", "target", "titleFormat"}
PANELS = [
    pytest.param(panel, id=f"{dashboard.name}: {panel.title}")
    for dashboard in panels.DASHBOARDS
    for panel in dashboard.panels()
]


def test_there_is_a_file_for_each_dashboard() -> None:
    assert set(FILES) == {dashboard.name for dashboard in panels.DASHBOARDS}
    assert {"overview", "checks", "partitions", "doors", "streams"} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_dashboard_asks_the_chosen_data_source_and_belongs_to_nobody(name: str) -> None:
    found = FILES[name]
    assert found["uid"] == f"halfhitch-{name}", "links to it stay"
    assert "id" not in found
    assert found["editable"] is False
    assert found["graphTooltip"] == 1
    variables = [variable["name"] for variable in found["templating"]["list"]]
    assert variables == ["datasource", "namespace", "instance"]
    sources = [target["datasource"] for panel in drawn(found) for target in panel["targets"]]
    assert {source["uid"] for source in sources} == {"${datasource}"}
    linked = {link["url"].removeprefix("/d/halfhitch-") for link in found["links"]}
    assert linked == set(FILES) - {name}


@pytest.mark.parametrize("name", FILES)
def test_the_form_was_not_that_of_grafanas_own_types(name: str) -> None:
    """Of what @grafana/schema says must be there, and of what kind; fields that were missing."""
    found = FILES[name]
    for link in found["links"]:
        assert link.keys() == LINK.keys()
        assert all(isinstance(link[field], kind) for field, kind in LINK.items())
    for annotation in found["annotations"]["list"]:
        assert annotation.keys() <= ANNOTATION
        assert {"refId", "expr"} <= annotation["target"].keys()
    for panel in drawn(found):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["thresholds"]["mode"] in ("absolute", "percentage")
        assert defaults["color"]["mode"] in ("thresholds", "palette-classic")
        assert defaults["thresholds"]["steps"][0]["value"] is None
        assert None not in defaults.values()
        assert panel["type"] == "stat" or panel["options"]["legend"]["calcs"] == []
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)
        asking = [target for target in panel["targets"] if target.get("exemplar")]
        assert len(asking) <= 1 or len({target["expr"] for target in asking}) == len(asking)


@pytest.mark.parametrize("name", FILES)
def test_panels_do_not_overlap_and_are_told_apart(name: str) -> None:
    seen: Counter[tuple[int, int]] = Counter()
    for panel in FILES[name]["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            seen.update((x, y) for y in range(place["y"], place["y"] + place["h"]))
    assert seen.most_common(1)[0][1] == 1
    numbers = [panel["id"] for panel in FILES[name]["panels"]]
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_of_metrics_that_exist(panel: Any) -> None:
    assert panel.shows.endswith(".")
    assert panel.unit in {"none", "s", "ops", "reqps", "bytes", "percentunit"}
    for alert in re.findall(r"\bHalfHitch\w+", panel.shows):
        assert alert in {one.name for one in rules.ALERTS}
    for query in panel.queries:
        names = re.findall(r"\bhalfhitch_\w+", query.expr)
        assert names
        for name in names:
            plain = re.sub(r"_bucket$", "", name)
            assert plain in KNOWN, name
            labels = {*KNOWN[plain].labels, "instance", "namespace", "le"}
            by = ",".join(re.findall(r"\b(?:by|on) \(([^)]*)\)", query.expr))
            assert {part.strip() for part in by.split(",") if part.strip()} <= labels
            assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= labels
            is_counter = KNOWN[plain].kind == "counter" or name != plain
            assert is_counter == bool(re.search(rf"(rate|increase)\({name}\b", query.expr))
        asked = re.findall(r"\b(?:halfhitch|process)_\w+", query.expr)
        expression = grafana.expression(query)
        assert expression.count('namespace=~"$namespace"') == len(asked), "others are in it"


def test_the_chart_has_them_as_config_maps_where_they_are_wanted() -> None:
    ours = {"enabled": True, "annotations": {"grafana_folder": "Kafka"}}
    found = {
        one["metadata"]["name"]: one
        for one in rendered(CHARTS / "halfhitch", {**NEEDED, "dashboards": ours})
        if "grafana_dashboard" in one["metadata"].get("labels", {})
    }
    assert set(found) == {f"demo-halfhitch-dashboard-{name}" for name in FILES}
    for name, dashboard in FILES.items():
        one = found[f"demo-halfhitch-dashboard-{name}"]
        assert json.loads(one["data"][f"halfhitch-{name}.json"]) == dashboard
        assert one["metadata"]["annotations"] == {"grafana_folder": "Kafka"}
    others = rendered(CHARTS / "halfhitch", NEEDED)
    assert not [one for one in others if "dashboard" in one["metadata"]["name"]]


def drawn(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]
