"""What a judge reads with does not break off because a broker was killed just before."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from harness import kafka

BOUNDS = ({0: 0}, {0: 7})


@pytest.mark.parametrize("code", kafka._LEADER_CHANGED)
def test_ends_are_asked_for_again_where_a_leader_has_just_changed(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    # A soak of 20,000 transactions ended by it, before anything of it was judged.
    answers = [KafkaException(KafkaError(code)), BOUNDS]

    def answer(*_: str) -> object:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(kafka, "_bounds", answer)
    assert kafka.bounds("kafka:9092", "orders", "read_committed") == BOUNDS


def test_what_else_goes_wrong_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*_: str) -> object:
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    monkeypatch.setattr(kafka, "_bounds", answer)
    with pytest.raises(KafkaException):
        kafka.bounds("kafka:9092", "orders", "read_committed")
