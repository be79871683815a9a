"""Findings on clusters that a test cannot start: many copies, missing brokers, missing rights."""

from collections.abc import Mapping
from typing import cast

import pytest
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import topic_checks
from halfhitch.adapters.kafka.admin import Layout, PartitionLayout
from halfhitch.adapters.kafka.topic_checks import (
    Finding,
    Severity,
    in_sync_min_for,
    required_config,
)
from halfhitch.wire.topics import InternalTopics

NAMES = InternalTopics("shop.")
NOBODY = cast("AdminClient", None)


def verify(
    monkeypatch: pytest.MonkeyPatch,
    *,
    partition: PartitionLayout = PartitionLayout(1, 3, 3),  # noqa: B008 - frozen
    copies: int = 3,
    config: Mapping[str, str] | None = None,
    refusal: str | None = None,
    parked: Mapping[str, str] | None = None,
) -> list[Finding]:
    """Findings that are not ok, when the cluster looks like this."""
    layout: Layout = (PartitionLayout(1, copies, copies), partition)
    configs = {
        topic: {
            **required_config(NAMES, topic, message_bytes_max=1_000, replication_factor=3),
            **(config or {}),
        }
        for topic in NAMES.all
    }
    configs[NAMES.parked].update(parked or {})
    monkeypatch.setattr(topic_checks, "topic_layouts", lambda *_: dict.fromkeys(NAMES.all, layout))
    monkeypatch.setattr(
        topic_checks, "topic_configs", lambda *_: ({}, refusal) if refusal else (configs, None)
    )
    found = topic_checks.verify(NOBODY, NAMES, message_bytes_max=1_000)
    assert all(finding.remedy for finding in found if finding.severity is not Severity.OK)
    return [finding for finding in found if finding.severity is not Severity.OK]


@pytest.mark.parametrize(("copies", "in_sync"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2)])
def test_two_copies_must_confirm_wherever_one_broker_may_be_away(copies: int, in_sync: int) -> None:
    assert in_sync_min_for(copies) == in_sync
    config = required_config(NAMES, NAMES.half, message_bytes_max=1, replication_factor=copies)
    assert config["min.insync.replicas"] == str(in_sync)


def test_three_copies_as_required_have_nothing_to_find(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify(monkeypatch) == []
    assert verify(monkeypatch, config={"max.message.bytes": "99999999"}) == []
    assert verify(monkeypatch, config={"segment.bytes": "1073741824"}) == []


def test_one_confirming_copy_of_three_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify(monkeypatch, config={"min.insync.replicas": "1"})
    assert [finding.severity for finding in found] == [Severity.WARN] * 3
    assert "confirm a message and then lose it" in found[0].sentence


def test_a_minimum_that_leaves_no_broker_to_spare_is_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = verify(monkeypatch, config={"min.insync.replicas": "3"})
    assert [finding.severity for finding in found] == [Severity.WARN] * 3
    assert "while one broker is away" in found[0].sentence
    assert "min.insync.replicas to 2" in found[0].remedy


def test_two_copies_are_a_warning_whatever_their_minimum(monkeypatch: pytest.MonkeyPatch) -> None:
    two = PartitionLayout(1, 2, 2)
    found = verify(monkeypatch, partition=two, copies=2, config={"min.insync.replicas": "1"})
    assert [finding.severity for finding in found] == [Severity.WARN] * 3
    assert "then lose what it confirmed" in found[0].sentence
    found = verify(monkeypatch, partition=two, copies=2, config={"min.insync.replicas": "2"})
    assert ["while one broker is away" in f.sentence for f in found] == [True] * 3


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        (PartitionLayout(None, 3, 2), "Partition 1 of shop.RMQ_SYS_TRANS_HALF_TOPIC has no leader"),
        (PartitionLayout(1, 3, 1), "fewer than 2 copies in sync"),
    ],
)
def test_missing_brokers_fail_the_check_but_may_pass(
    monkeypatch: pytest.MonkeyPatch, partition: PartitionLayout, words: str
) -> None:
    found = verify(monkeypatch, partition=partition)
    assert {(finding.severity, finding.may_pass) for finding in found} == {(Severity.FAIL, True)}
    assert words in found[0].sentence


def test_a_copy_fewer_in_sync_than_there_are_is_still_good(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verify(monkeypatch, partition=PartitionLayout(2, 3, 2)) == []


def test_a_parked_topic_that_takes_less_than_the_half_topic_is_a_failure_and_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the half topic had taken could not be parked, and waited for ever."""
    wide = {"max.message.bytes": "5000000"}
    (found,) = verify(monkeypatch, config=wide, parked={"max.message.bytes": "4999999"})
    assert (found.check, found.severity) == (NAMES.parked, Severity.FAIL)
    assert "max.message.bytes=4999999" in found.sentence
    assert f"{NAMES.half} has 5000000" in found.sentence
    assert "--repair" in found.remedy
    assert not found.may_pass
    assert verify(monkeypatch, config=wide) == []
    assert verify(monkeypatch, config=wide, parked={"max.message.bytes": "5000001"}) == []


def test_settings_that_may_not_be_read_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    found = verify(monkeypatch, refusal="not allowed")
    assert [finding.severity for finding in found] == [Severity.WARN] * 3
    assert "DescribeConfigs" in found[0].remedy


def test_the_parked_topic_keeps_the_times_its_writers_give(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = verify(monkeypatch, config={"message.timestamp.type": "CreateTime"})
    assert {finding.check for finding in found} == {NAMES.half, NAMES.op}
    assert {finding.severity for finding in found} == {Severity.FAIL}
