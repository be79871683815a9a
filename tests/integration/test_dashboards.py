"""Every expression of dashboards and alerts gives data on a real Prometheus that scrapes a sidecar.

What gives none where all is well is listed beside its panel (`rare`), or here, with the reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from harness.monitoring import grafana, panels, rules
from harness.prometheus import NAMESPACE, EmbeddedPrometheus
from harness.tracing import TRACE
from harness.watched import filled_in, watched

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

_LOAD_S = 12.0
QUERIES = [
    pytest.param(panel, query, id=f"{dashboard.name}: {panel.title}: {query.legend}")
    for dashboard in panels.DASHBOARDS
    for panel in dashboard.panels()
    for query in panel.queries
]
#: Series of alerts that are not there where all is well -> why.
ONLY_IN_TROUBLE = {"halfhitch_identities_file_broken": "auth.identities_file is not set"}


@pytest.fixture(scope="module")
def prometheus(
    kafka: Any, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedPrometheus]:
    folder = tmp_path_factory.mktemp("watched")
    with watched(kafka.bootstrap, redis_server.url, folder, _LOAD_S) as found:
        yield found


@pytest.mark.parametrize(("panel", "query"), QUERIES)
def test_every_expression_of_a_dashboard_gives_data(
    panel: Any, query: Any, prometheus: EmbeddedPrometheus
) -> None:
    found = prometheus.query(filled_in(grafana.expression(query)))
    assert found or panel.rare, query.expr
    wanted = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
    assert all(wanted <= set(one["metric"]) for one in found), "the legend names what is not there"


@pytest.mark.parametrize("alert", rules.ALERTS, ids=lambda alert: alert.name)
def test_every_series_of_an_alert_is_there(alert: Any, prometheus: EmbeddedPrometheus) -> None:
    series = re.findall(r"(?:namespace:)?\bhalfhitch_\w+(?::\w+)?(?:\{[^}]*\})?", alert.expr)
    assert series
    for one in set(series) - set(ONLY_IN_TROUBLE):
        assert prometheus.query(one), one


@pytest.mark.parametrize("recorded", rules.RECORDED, ids=lambda recorded: recorded.name)
def test_every_recorded_series_is_recorded(recorded: Any, prometheus: EmbeddedPrometheus) -> None:
    (found,) = prometheus.query(recorded.name)
    assert found["metric"]["namespace"] == NAMESPACE
    assert float(found["value"][1]) > 0


def test_prometheus_has_every_rule_and_none_of_them_fails(prometheus: EmbeddedPrometheus) -> None:
    groups = prometheus.ask("rules")["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    assert len(found) == len(rules.ALERTS) + len(rules.RECORDED)
    assert [rule["name"] for rule in found if rule["health"] == "err"] == []


def test_what_was_left_is_seen_and_its_alert_is_on_its_way(prometheus: EmbeddedPrometheus) -> None:
    (dead,) = prometheus.query('halfhitch_unreachable_transactions{group="gone"}')
    assert float(dead["value"][1]) == 5
    alerts = prometheus.ask("alerts")["alerts"]
    waiting = [one for one in alerts if one["labels"]["alertname"] == "HalfHitchNobodyToAsk"]
    assert "gone" in [one["labels"]["group"] for one in waiting]


@pytest.mark.parametrize(
    "query",
    [query for _, query in (param.values for param in QUERIES) if grafana.has_examples(query)],
    ids=lambda query: query.legend or query.expr[:60],
)
def test_the_traces_of_a_latency_are_found(query: Any, prometheus: EmbeddedPrometheus) -> None:
    now_s = float(prometheus.ask("query", query="time()")["result"][1])
    found = prometheus.ask(
        "query_exemplars",
        query=filled_in(grafana.expression(query)),
        start=now_s - 600,
        end=now_s,
    )
    assert {e["labels"]["trace_id"] for one in found for e in one["exemplars"]} == {TRACE}
