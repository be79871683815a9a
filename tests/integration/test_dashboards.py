"""Every expression of dashboards and alerts gives data on a real Prometheus that scrapes a sidecar.

What gives none where all is well is listed beside its panel (`rare`), or here, with the reason.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch import LocalTransactionState, TransactionProducer
from harness.kafka import create_topics, fresh_name, wait_until
from harness.monitoring import grafana, panels, rules
from harness.places import ROOT
from harness.prometheus import NAMESPACE, EmbeddedPrometheus
from harness.remoting_client import RemotingClient
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.kafka

_LOAD_S = 12.0
_COMMIT = 8  # MessageSysFlag's
QUERIES = [
    pytest.param(panel, query, id=f"{dashboard.name}: {panel.title}: {query.legend}")
    for dashboard in panels.DASHBOARDS
    for panel in dashboard.panels()
    for query in panel.queries
]
#: Series of alerts that are not there where all is well -> why.
ONLY_IN_TROUBLE = {"halfhitch_identities_file_broken": "auth.identities_file is not set"}


def shop(sidecar: Sidecar, topic: str) -> None:
    """Commits, rollbacks, and what a check has to settle."""
    with TransactionProducer(
        "shop", sidecar.address, check=lambda _: LocalTransactionState.COMMIT
    ) as producer:
        end_s = time.monotonic() + _LOAD_S
        while time.monotonic() < end_s:
            with producer.transaction() as tx:
                tx.send(topic, b"one")
            with producer.transaction() as tx:
                tx.send(topic, b"two")
                tx.rollback()
            producer.transaction().send(topic, b"for a check")
            time.sleep(0.05)


def leave(sidecar: Sidecar, topic: str) -> None:
    """What nobody can be asked about."""
    with TransactionProducer("gone", sidecar.address, on_error="unknown") as producer:
        for _ in range(5):
            producer.transaction().send(topic, b"left")


async def sell(port: int, topic: str) -> None:
    """The same by RocketMQ's door."""
    async with RemotingClient(port) as client:
        end_s = time.monotonic() + _LOAD_S
        while time.monotonic() < end_s:
            sent = await client.half("rocket", topic, b"three")
            await client.end_sync("rocket", sent, _COMMIT)
            await asyncio.sleep(0.1)


@pytest.fixture(scope="module")
def watched(
    kafka: Any, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedPrometheus]:
    folder: Path = tmp_path_factory.mktemp("watched")
    topic = fresh_name("orders")
    create_topics(kafka.bootstrap, {topic: 2})
    sidecar = Sidecar(
        kafka.bootstrap,
        folder,
        HALFHITCH_TOPICS_PREFIX=fresh_name("watched") + ".",
        HALFHITCH_TOPICS_CREATE="true",
        HALFHITCH_TOPICS_PARTITIONS="2",
        HALFHITCH_REDIS_URL=redis_server.url,
        HALFHITCH_ROCKETMQ_ENABLED="true",
        HALFHITCH_ROCKETMQ_PORT="0",
        HALFHITCH_CHECKS_IMMUNITY_S="1",
        HALFHITCH_CHECKS_INTERVAL_S="2",
    )
    with sidecar:
        sidecar.wait_ready()
        sidecar.wait_settled()
        found = re.search(r"rocketmq://127\.0\.0\.1:(\d+)", sidecar.log.read_text())
        assert found is not None
        rules_file = ROOT / "dashboards" / "rules.yaml"
        with EmbeddedPrometheus([sidecar.admin_port], rules_file) as prometheus:
            wait_until(lambda: prometheus.query("halfhitch_build_info"), 20, what="a scrape")
            leave(sidecar, topic)
            shopping = threading.Thread(target=shop, args=(sidecar, topic))
            shopping.start()
            asyncio.run(sell(int(found[1]), topic))
            shopping.join(60)
            yield prometheus


def filled_in(expression: str) -> str:
    """As Grafana sends it when everything is chosen."""
    expression = expression.replace("$__rate_interval", "1m")
    return expression.replace("$namespace", ".*").replace("$instance", ".*")


@pytest.mark.parametrize(("panel", "query"), QUERIES)
def test_every_expression_of_a_dashboard_gives_data(
    panel: Any, query: Any, watched: EmbeddedPrometheus
) -> None:
    found = watched.query(filled_in(grafana.expression(query)))
    assert found or panel.rare, query.expr
    wanted = set(re.findall(r"\{\{(\w+)\}\}", query.legend))
    assert all(wanted <= set(one["metric"]) for one in found), "the legend names what is not there"


@pytest.mark.parametrize("alert", rules.ALERTS, ids=lambda alert: alert.name)
def test_every_series_of_an_alert_is_there(alert: Any, watched: EmbeddedPrometheus) -> None:
    series = re.findall(r"(?:namespace:)?\bhalfhitch_\w+(?::\w+)?(?:\{[^}]*\})?", alert.expr)
    assert series
    for one in set(series) - set(ONLY_IN_TROUBLE):
        assert watched.query(one), one


@pytest.mark.parametrize("recorded", rules.RECORDED, ids=lambda recorded: recorded.name)
def test_every_recorded_series_is_recorded(recorded: Any, watched: EmbeddedPrometheus) -> None:
    (found,) = watched.query(recorded.name)
    assert found["metric"]["namespace"] == NAMESPACE
    assert float(found["value"][1]) > 0


def test_prometheus_has_every_rule_and_none_of_them_fails(watched: EmbeddedPrometheus) -> None:
    groups = watched.ask("rules")["groups"]
    found = [rule for group in groups for rule in group["rules"]]
    assert len(found) == len(rules.ALERTS) + len(rules.RECORDED)
    assert [rule["name"] for rule in found if rule["health"] == "err"] == []


def test_what_was_left_is_seen_and_its_alert_is_on_its_way(watched: EmbeddedPrometheus) -> None:
    (dead,) = watched.query('halfhitch_unreachable_transactions{group="gone"}')
    assert float(dead["value"][1]) == 5
    alerts = watched.ask("alerts")["alerts"]
    waiting = [one for one in alerts if one["labels"]["alertname"] == "HalfHitchNobodyToAsk"]
    assert "gone" in [one["labels"]["group"] for one in waiting]
