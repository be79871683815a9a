"""What a user may do is told in a sentence; the brokers here are scripted."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from halfhitch.adapters.kafka.rights import inspect_rights
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.errors import ConfigurationError, KafkaUnavailable
from halfhitch.wire.topics import InternalTopics

NAMES = InternalTopics("p.")
EVERYTHING = list(AclOperation)


class Broker:
    """Allows everything that `less` does not take away; an error stands for an answer."""

    def __init__(self, **less: Any) -> None:
        self.less = {getattr(NAMES, name, name): what for name, what in less.items()}
        self.trouble: Exception | None = None

    def list_topics(self, **_given: Any) -> Any:
        if self.trouble is not None:
            raise self.trouble
        topics = ("orders", "points", "__consumer_offsets", NAMES.half, NAMES.op)
        return SimpleNamespace(topics=dict.fromkeys(topics))

    def describe_topics(self, topics: Any, **given: Any) -> dict[str, Future[Any]]:
        return self._answers(topics.topic_names, given)

    def stored_offsets(self, group: str) -> Any:
        def ask(*_given: Any) -> None:
            error = self.less.get(group)
            if error is not None:
                raise error

        return SimpleNamespace(of=ask, probe=ask)

    def _answers(self, names: list[str], given: dict[str, Any]) -> dict[str, Future[Any]]:
        assert given["include_authorized_operations"] is True
        return {name: self._answer(name) for name in names}

    def _answer(self, name: str) -> Future[Any]:
        answer: Future[Any] = Future()
        less = self.less.get(name, ())
        if isinstance(less, int):
            answer.set_exception(KafkaException(KafkaError(less)))
        else:
            allowed = None if less is None else [one for one in EVERYTHING if one not in less]
            answer.set_result(SimpleNamespace(authorized_operations=allowed))
        return answer


def found(broker: Any, *, has_audit: bool = True) -> Finding:
    allow = ("orders*", "points", "p.*")
    (one,) = inspect_rights(
        broker, broker.stored_offsets, NAMES, allow, has_audit=has_audit, wait_s=1.0
    )
    return one


def test_who_may_do_everything_is_told_so() -> None:
    told = found(Broker())
    assert told.severity is Severity.OK
    assert told.sentence == (
        "This user may do what a sidecar does with its topics, its groups and 2 targets."
    )


@pytest.mark.parametrize(
    ("name", "severity", "said"),
    [
        ("half", Severity.FAIL, "Write on topic p.RMQ_SYS_TRANS_HALF_TOPIC."),
        ("op", Severity.FAIL, "Write on topic p.RMQ_SYS_TRANS_OP_HALF_TOPIC."),
        ("parked", Severity.WARN, "Write on topic p.TRANS_CHECK_MAX_TIME_TOPIC."),
        ("audit", Severity.WARN, "Write on topic p.RMQ_SYS_TRANS_AUDIT_TOPIC."),
        ("points", Severity.WARN, "Write on topic points."),
    ],
)
def test_a_missing_right_is_named_with_what_it_is_missing_on(
    name: str, severity: Severity, said: str
) -> None:
    told = found(Broker(**{name: [AclOperation.WRITE]}))
    assert told.severity is severity
    assert told.sentence == f"This user has not what a sidecar needs: {said}"
    assert "What Kafka must allow" in told.remedy


def test_a_group_that_may_not_be_used_is_named_and_one_at_work_is_not() -> None:
    told = found(Broker(owner_group=ConfigurationError("no")))
    assert told.severity is Severity.FAIL
    assert "Read on group p.CID_RMQ_SYS_TRANS." in told.sentence
    told = found(Broker(skips_group=ConfigurationError("no")))
    assert told.severity is Severity.WARN
    assert "Describe on group p.CID_RMQ_SYS_TRANS_SKIPS." in told.sentence
    assert found(Broker(owner_group=KafkaUnavailable("members"))).severity is Severity.OK


def test_a_topic_that_may_not_be_described_lacks_all_that_is_needed() -> None:
    told = found(Broker(op=KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert "Read, Write, Delete, DescribeConfigs on topic p.RMQ_SYS_TRANS_OP" in told.sentence


def test_what_is_not_there_and_what_is_not_told_is_no_missing_right() -> None:
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    assert found(Broker(half=unknown, op=None)).severity is Severity.OK
    assert found(Broker(audit=[AclOperation.READ]), has_audit=False).severity is Severity.OK


def test_many_are_counted_and_five_are_named() -> None:
    lacking = {name: [AclOperation.READ] for name in ("half", "op", "parked", "audit")}
    groups = {name: ConfigurationError("no") for name in ("owner_group", "skips_group")}
    told = found(Broker(**lacking, **groups))
    assert told.sentence.count(" on ") == 5
    assert told.sentence.endswith(" and 1 more.")


def test_kafka_away_is_a_finding_that_may_pass() -> None:
    broker = Broker()
    broker.trouble = KafkaException(KafkaError(KafkaError._TRANSPORT))
    told = found(broker)
    assert (told.severity, told.may_pass) == (Severity.WARN, True)
