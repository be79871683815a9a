"""Findings on brokers that a test cannot start: old ones, odd ones, silent ones."""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import brokers
from halfhitch.adapters.kafka.admin import PartitionLayout
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.errors import ConfigurationError, KafkaUnavailable

GOOD = {
    "transaction.partition.verification.enable": "true",
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
    "offsets.retention.minutes": "10080",
    "transactional.id.expiration.ms": "604800000",
    "producer.id.expiration.ms": "86400000",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
}
Config = Mapping[str, str]
Answer = Config | Exception
#: Copies, and the topic's own settings; or why it cannot be described.
StateTopic = tuple[int, Config] | ConfigurationError


class _Admin:
    """Hands out questions that `answer` below knows to answer."""

    def describe_cluster(self, **_: object) -> str:
        return "cluster"

    def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, str]:
        return {resource: resource.name for resource in resources}


Look = Callable[..., dict[str, Finding]]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    def look(*answers: Answer, state: StateTopic | None = None) -> dict[str, Finding]:
        by_broker = {str(number): config for number, config in enumerate(answers, 1)}

        def answer(future: str, *_: object) -> object:
            if future == "cluster":
                nodes = [SimpleNamespace(id=int(number)) for number in reversed(by_broker)]
                return SimpleNamespace(nodes=nodes, cluster_id=None, controller=None)
            config = by_broker[future]
            if isinstance(config, Exception):
                raise config
            return {key: SimpleNamespace(value=value) for key, value in config.items()}

        def layouts(_: object, topics: list[str], __: float) -> dict[str, Any]:
            if isinstance(state, ConfigurationError):
                raise state
            layout = None if state is None else (PartitionLayout(1, state[0], state[0]),)
            return dict.fromkeys(topics, layout)

        def configs(_: object, topics: list[str], __: float) -> tuple[dict[str, Config], None]:
            known = isinstance(state, tuple)
            return dict.fromkeys(topics, state[1]) if known else {}, None

        monkeypatch.setattr(brokers, "answer", answer)
        monkeypatch.setattr(brokers, "topic_layouts", layouts)
        monkeypatch.setattr(brokers, "topic_configs", configs)
        found = brokers.inspect_brokers(
            cast("AdminClient", _Admin()), transaction_timeout_ms=15_000, session_timeout_ms=10_000
        )
        assert all(f.remedy for f in found if f.severity is not Severity.OK)
        return {finding.check: finding for finding in found}

    return look


def bad(found: Mapping[str, Finding]) -> list[Finding]:
    return [finding for finding in found.values() if finding.severity is not Severity.OK]


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
        ({"offsets.retention.minutes": "60"}, "positions", Severity.WARN),
        ({"transactional.id.expiration.ms": "3600000"}, "transactional ids", Severity.WARN),
        ({"producer.id.expiration.ms": "60000"}, "producer ids", Severity.WARN),
        (
            {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "60000"},
            "frozen owner",
            Severity.WARN,
        ),
    ],
)
def test_each_unfit_setting_is_found_and_mended_by_name(
    look: Look, change: Mapping[str, str | None], check: str, severity: Severity
) -> None:
    config = {k: v for k, v in {**GOOD, **change}.items() if v is not None}
    assert [(f.check, f.severity) for f in bad(look(config))] == [(check, severity)]


def test_the_worst_broker_is_told_with_its_number(look: Look) -> None:
    found = look(GOOD, GOOD, {**GOOD, "transaction.max.timeout.ms": "14999"})
    (finding,) = bad(found)
    assert finding.severity is Severity.FAIL
    assert "Broker 3" in finding.sentence


def test_a_broker_that_does_not_answer_is_told_and_hides_no_other(look: Look) -> None:
    away = KafkaUnavailable("Could not read the settings of broker 1: timed out.")
    found = look(away, {**GOOD, "offsets.retention.minutes": "60"}, GOOD)
    assert {finding.check for finding in bad(found)} == {"positions", "broker settings"}
    assert "[1]" in found["broker settings"].sentence
    with pytest.raises(KafkaUnavailable):
        look(away, away)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ((1, {"min.insync.replicas": "1"}), "1 of 3 possible copies"),
        ((3, {"min.insync.replicas": "1"}), "min.insync.replicas=1"),
        (
            (3, {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}),
            "unclean.leader.election.enable=true",
        ),
    ],
)
def test_the_brokers_own_topics_must_outlast_a_broker(
    look: Look, state: StateTopic, words: str
) -> None:
    found = bad(look(GOOD, GOOD, GOOD, state=state))
    assert [finding.check for finding in found] == ["transaction log", "positions log"]
    assert all(finding.severity is Severity.WARN for finding in found)
    assert all(words in finding.sentence for finding in found)
    assert bad(look(GOOD, GOOD, GOOD, state=(3, {"min.insync.replicas": "2"}))) == []


def test_topics_that_are_still_to_be_made_are_judged_by_the_brokers_settings(look: Look) -> None:
    thin = {**GOOD, "transaction.state.log.replication.factor": "1"}
    (finding,) = bad(look(thin, thin, thin))
    assert finding.check == "transaction log"
    lonely = {**GOOD, "transaction.state.log.min.isr": "1"}
    (finding,) = bad(look(lonely, lonely, lonely))
    assert "transaction.state.log.min.isr" in finding.remedy


def test_one_broker_can_have_no_more_than_one_copy(look: Look) -> None:
    assert bad(look(GOOD, state=(1, {"min.insync.replicas": "1"}))) == []


def test_settings_that_may_not_be_read_are_one_warning(look: Look) -> None:
    (finding,) = look(ConfigurationError("not allowed.")).values()
    assert finding.severity is Severity.WARN
    assert "DescribeConfigs" in finding.remedy


def test_kafkas_own_topics_that_may_not_be_described_hide_no_setting(look: Look) -> None:
    unfit = {**GOOD, "transaction.max.timeout.ms": "1"}
    found = bad(look(unfit, state=ConfigurationError("Could not describe it: not allowed.")))
    state_topics = [finding for finding in found if "not allowed" in finding.sentence]
    assert [finding.check for finding in state_topics] == ["transaction log", "positions log"]
    assert all(finding.severity is Severity.WARN for finding in state_topics)
    assert "Describe" in state_topics[0].remedy
    assert "__transaction_state" in state_topics[0].remedy
    assert len(found) > len(state_topics)
