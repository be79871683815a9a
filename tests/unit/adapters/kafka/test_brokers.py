"""Findings on brokers that a test cannot start: old ones, odd ones, silent ones."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import brokers
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.errors import ConfigurationError

GOOD = {
    "transaction.partition.verification.enable": "true",
    "transaction.max.timeout.ms": "900000",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "offsets.retention.minutes": "10080",
    "transactional.id.expiration.ms": "604800000",
}


class _Admin:
    """Gives whatever `answer` below hands out; counts nothing."""

    def describe_cluster(self, **_: object) -> str:
        return "cluster"

    def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, str]:
        assert [resource.name for resource in resources] == ["1"]
        return dict.fromkeys(resources, "configs")


Look = Callable[[Mapping[str, str] | ConfigurationError], dict[str, Finding]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    def look(config: Mapping[str, str] | ConfigurationError) -> dict[str, Finding]:
        def answer(future: str, *_: object) -> object:
            if future == "cluster":
                nodes = [SimpleNamespace(id=2), SimpleNamespace(id=1)]
                return SimpleNamespace(nodes=nodes, cluster_id=None, controller=None)
            if isinstance(config, ConfigurationError):
                raise config
            return {key: SimpleNamespace(value=value) for key, value in config.items()}

        monkeypatch.setattr(brokers, "answer", answer)
        found = brokers.inspect_brokers(
            cast("AdminClient", _Admin()), transaction_timeout_ms=15_000, session_timeout_ms=10_000
        )
        return {finding.check: finding for finding in found}

    return look


def test_a_fit_broker_has_nothing_to_find(look: Look) -> None:
    found = look(GOOD)
    assert {finding.severity for finding in found.values()} == {Severity.OK}
    assert found["Kafka version"].sentence == "4.0 or newer."
    older = look({**GOOD, "inter.broker.protocol.version": "3.7-IV4"})
    assert "3.7-IV4" in older["Kafka version"].sentence


def test_limits_that_are_not_told_are_not_held_against_the_broker(look: Look) -> None:
    found = look({"transaction.partition.verification.enable": "true"})
    assert {finding.severity for finding in found.values()} == {Severity.OK}


@pytest.mark.parametrize(
    ("change", "check", "severity"),
    [
        ({"transaction.partition.verification.enable": None}, "Kafka version", Severity.FAIL),
        ({"transaction.partition.verification.enable": "false"}, "Kafka version", Severity.FAIL),
        ({"transaction.max.timeout.ms": "14999"}, "transaction timeout", Severity.FAIL),
        ({"group.max.session.timeout.ms": "9999"}, "session timeout", Severity.FAIL),
        ({"group.min.session.timeout.ms": "10001"}, "session timeout", Severity.FAIL),
        ({"offsets.retention.minutes": "60"}, "expiry", Severity.WARN),
        ({"transactional.id.expiration.ms": "3600000"}, "expiry", Severity.WARN),
    ],
)
def test_each_unfit_setting_is_found_and_mended_by_name(
    look: Look, change: Mapping[str, str | None], check: str, severity: Severity
) -> None:
    config = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    bad = [f for f in look(config).values() if f.severity is not Severity.OK]
    assert [(finding.check, finding.severity) for finding in bad] == [(check, severity)]
    assert bad[0].remedy


def test_settings_that_may_not_be_read_are_one_warning(look: Look) -> None:
    (finding,) = look(ConfigurationError("not allowed.")).values()
    assert finding.severity is Severity.WARN
    assert "DescribeConfigs" in finding.remedy
