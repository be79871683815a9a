"""A step that failed blames whom Kafka has named, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from halfhitch.adapters.kafka.blame import Blame
from halfhitch.ports import TargetRecord

TARGETS = [TargetRecord(topic, None, None, b"v", []) for topic in ("orders", "points")]


class Metadata:
    def __init__(self, topics: dict[str, Any]) -> None:
        self.topics = topics


class Partition:
    def __init__(self, leader: int) -> None:
        self.leader = leader


class Topic:
    def __init__(self, leader: int) -> None:
        self.partitions = {0: Partition(leader)}


class Admin:
    """Knows which topics have no leader; refuses nothing."""

    def __init__(self, *leaderless: str) -> None:
        self._leaderless = leaderless

    def list_topics(self, topic: str, _: float) -> Metadata:
        return Metadata({topic: Topic(-1 if topic in self._leaderless else 1)})


@pytest.fixture(autouse=True)
def _open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfhitch.adapters.kafka.blame.unwritable", lambda *_: {})


def blame(*leaderless: str) -> Blame:
    admin: Any = Admin(*leaderless)
    return Blame(admin, "half", "op")


def test_without_a_name_nobody_is_blamed_and_only_what_is_unreported_is_unexplained() -> None:
    reported = blame().result("aborted", TARGETS)
    assert not any((reported.poisoned, reported.away_topics, reported.is_unexplained))
    silent = blame()
    silent.is_unreported = True
    result = silent.result("aborted", TARGETS)
    assert result.is_unexplained
    assert not any((result.poisoned, result.refusing, result.away_topics, result.is_ours))


def test_an_unreported_step_whose_target_has_no_leader_is_explained_by_that() -> None:
    silent = blame("points")
    silent.is_unreported = True
    result = silent.result("late", TARGETS)
    assert (result.away_topics, result.is_unexplained) == (frozenset({"points"}), False)


def test_where_our_own_log_has_no_leader_no_target_is_away() -> None:
    silent = blame("points", "op")
    silent.is_unreported = True
    result = silent.result("late", TARGETS)
    assert (result.away_topics, result.poisoned) == (frozenset(), {})


def test_what_was_refused_for_good_is_blamed_though_others_were_unreported() -> None:
    silent = blame("points")
    silent.is_unreported = True
    silent.refused(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "orders", 0)
    result = silent.result("aborted", TARGETS)
    assert set(result.poisoned) == {0}
    assert (result.away_topics, result.is_unexplained) == (frozenset(), False)


def test_a_write_begins_without_the_blame_of_the_one_before() -> None:
    one = blame()
    one.undelivered(KafkaError(KafkaError._MSG_TIMED_OUT), "orders")
    assert one.result("late", TARGETS).away_topics == {"orders"}
    assert "orders" in one.reason(KafkaException(KafkaError(KafkaError._FAIL)))
    one.forget()
    assert one.result("late", TARGETS).away_topics == frozenset()
    assert "orders" not in one.reason(KafkaException(KafkaError(KafkaError._FAIL)))
