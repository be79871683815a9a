"""Asking where logs end, of a client that knows leaders of yesterday."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.log_ends import LogEnds
from halfhitch.errors import KafkaUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGS = [("half", 0), ("half", 1), ("op", 0)]


class PlayedAdmin:
    """It knows the leaders of a topic again once it has been asked about the topic."""

    def __init__(self, error: int) -> None:
        self._error = KafkaError(error)
        self.looked_at: list[str] = []

    def list_topics(self, topic: str, wait_s: float) -> None:
        assert wait_s > 0
        self.looked_at.append(topic)

    def list_offsets(
        self, asked: Mapping[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {}
        for where in asked:
            answers[where] = future = Future()
            if where.topic in self.looked_at:
                future.set_result(SimpleNamespace(offset=7))
            else:
                future.set_exception(KafkaException(self._error))
        return answers


@pytest.mark.parametrize(
    "error",
    [
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    ],
)
def test_after_a_brokers_restart_the_leaders_are_looked_up_anew_and_nobody_waits_for_that(
    error: int,
) -> None:
    """Takeovers failed for half a minute after each outage: the client kept what it had known."""
    admin: Any = PlayedAdmin(error)
    assert LogEnds(admin).existing(LOGS) == dict.fromkeys(LOGS, 7)
    assert sorted(admin.looked_at) == ["half", "op"]


def test_another_error_is_told_at_once() -> None:
    admin: Any = PlayedAdmin(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaUnavailable, match="does not say where logs end"):
        LogEnds(admin).readable(LOGS)
    assert admin.looked_at == []
