"""Alerts ask for what the sidecar really tells: metrics, their labels, headings of the pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from halfhitch.observability.table import METRICS
from harness.charts import CHARTS, rendered
from harness.monitoring import files, rules
from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"\bhalfhitch_\w+")
_RECORDED = re.compile(r"namespace:halfhitch_\w+:\w+")
_ENDINGS = ("_bucket", "_sum", "_count")
#: Labels that Prometheus Operator adds.
_TARGET_LABELS = {"namespace", "pod", "job", "instance", "container", "service", "endpoint"}


def alerts() -> list[dict[str, object]]:
    values = yaml.safe_load((CHARTS / "halfhitch" / "ci" / "everything-values.yaml").read_text())
    objects = [
        one for one in rendered(CHARTS / "halfhitch", values) if one["kind"] == "PrometheusRule"
    ]
    found = [rule for one in objects for group in one["spec"]["groups"] for rule in group["rules"]]
    return [rule for rule in found if "alert" in rule]


ALERTS = alerts()


def metrics_of(expression: str) -> set[str]:
    """The metrics that it names, as the table calls them."""
    found = set()
    for name in _NAME.findall(expression):
        plain = next((name.removesuffix(end) for end in _ENDINGS if name.endswith(end)), name)
        is_histogram = plain in METRICS and METRICS[plain].kind == "histogram"
        found.add(plain if is_histogram else name)
    return found


def strange_labels(expression: str, text: str) -> Iterator[str]:
    """Labels that no metric of the expression has."""
    known = set(_TARGET_LABELS)
    for name in metrics_of(expression):
        known.update(METRICS[name].labels)
    for inner in re.findall(r"\{([^}]*)\}", expression):
        yield from set(re.findall(r"(\w+)\s*[=!]~?", inner)) - known
    for inner in re.findall(r"\bby \(([^)]*)\)", expression):
        yield from {part.strip() for part in inner.split(",")} - known
    yield from set(re.findall(r"\$labels\.(\w+)", text)) - known


def test_there_are_alerts() -> None:
    assert len(ALERTS) > 8
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_metrics_that_exist(rule: dict[str, object]) -> None:
    names = metrics_of(rule["expr"])
    assert names
    assert names - set(METRICS) == set()
    assert list(strange_labels(rule["expr"], str(rule["annotations"]))) == []
    counters = {name for name in names if METRICS[name].kind == "counter"}
    assert all(f"increase({name}" in rule["expr"] for name in counters), "a counter only grows"
    asked = set(_RECORDED.findall(rule["expr"]))
    assert asked - {recorded.name for recorded in rules.RECORDED} == set()


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_where_to_read(rule: dict[str, object]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    page, _, heading = rule["annotations"]["runbook"].partition(", ")
    text = (ROOT / page).read_text()
    assert (page, heading) == ("docs/runbooks.md", f'"{rule["alert"]}"')
    assert f"\n## {rule['alert']}\n" in text


def test_every_runbook_is_of_an_alert() -> None:
    text = (ROOT / "docs" / "runbooks.md").read_text()
    assert re.findall(r"(?m)^## (\w+)$", text) == [alert.name for alert in rules.ALERTS]


def test_the_files_are_what_their_sources_make() -> None:
    old = [str(path) for path, text in files.made() if path.read_text() != text]
    assert not old, f"python tools/monitoring, for {old}"


def test_metrics_and_labels_that_do_not_exist_are_found() -> None:
    assert metrics_of("rate(halfhitch_prepare_seconds_bucket[5m])") == {"halfhitch_prepare_seconds"}
    assert metrics_of("halfhitch_gone_total > 0") - set(METRICS) == {"halfhitch_gone_total"}
    found = strange_labels('halfhitch_redis_up{shard="1"} == 0', "{{ $labels.topic }}")
    assert sorted(found) == ["shard", "topic"]
