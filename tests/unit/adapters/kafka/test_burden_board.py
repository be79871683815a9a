"""What a group's coordinator answers when a burden is told, late, wrongly or never."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from halfhitch.adapters.kafka import burden_board
from halfhitch.adapters.kafka.burden_board import KafkaBurdenBoard
from halfhitch.errors import ConfigurationError, KafkaUnavailable
from halfhitch.wire.burden import Burden, Over

if TYPE_CHECKING:
    from collections.abc import Callable

OWN = {0: Burden(groups={"hog": Over(120, 100)})}


class ScriptedConsumer:
    """Answers a commit when it is polled, as `answers` says."""

    def __init__(self, on_commit: Callable[..., None]) -> None:
        self._on_commit = on_commit
        self.answers: list[Callable[[list[TopicPartition]], None]] = []
        self.committed: list[list[TopicPartition]] = []
        self.may_close = threading.Event()

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        assert asynchronous, "one that waits would wait for as long as a session lasts"
        self.committed.append(offsets)

    def poll(self, wait_s: float) -> None:
        assert wait_s > 0, "a board that does not wait spins"
        if self.answers:
            self.answers.pop(0)(self.committed[-1])

    def take(self, places: list[TopicPartition]) -> None:
        self._on_commit(None, places)

    def refuse(self, code: int) -> Callable[[list[TopicPartition]], None]:
        return lambda places: self._on_commit(KafkaError(code), places)

    def close(self) -> None:
        self.may_close.wait(30)


class Stage:
    def __init__(self) -> None:
        self.consumers: list[ScriptedConsumer] = []
        self.board = KafkaBurdenBoard(self._make, group="bounds", half_topic="half")

    def _make(self, on_commit: Callable[..., None]) -> Any:
        self.consumers.append(ScriptedConsumer(on_commit))
        return self.consumers[-1]

    @property
    def consumer(self) -> ScriptedConsumer:
        if not self.consumers:
            self.board._client()
        return self.consumers[0]


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(burden_board, "_WAIT_S", 0.05)
    return Stage()


def test_a_burden_is_told_by_the_client_that_hears(stage: Stage) -> None:
    stage.consumer.answers = [stage.consumer.take]
    stage.board.exchange(OWN, [])
    assert len(stage.consumers) == 1
    assert [each.partition for each in stage.consumer.committed[0]] == [0]


def test_a_coordinator_that_does_not_answer_is_away(stage: Stage) -> None:
    with pytest.raises(KafkaUnavailable, match="did not answer"):
        stage.board.exchange(OWN, [])


def test_a_missing_right_is_said(stage: Stage) -> None:
    stage.consumer.answers = [stage.consumer.refuse(KafkaError.GROUP_AUTHORIZATION_FAILED)]
    with pytest.raises(ConfigurationError, match="not allowed"):
        stage.board.exchange(OWN, [])


def test_the_late_answer_of_an_earlier_burden_is_not_the_answer_to_this_one(stage: Stage) -> None:
    """It may have been stored while this one is refused."""
    with pytest.raises(KafkaUnavailable):
        stage.board.exchange(OWN, [])
    consumer = stage.consumer
    earlier = [TopicPartition("half", 0, consumer.committed[0][0].offset - 1)]
    consumer.answers = [
        lambda _: consumer.take(earlier),
        consumer.refuse(KafkaError.GROUP_AUTHORIZATION_FAILED),
    ]
    with pytest.raises(ConfigurationError):
        stage.board.exchange(OWN, [])


def test_an_answer_that_comes_when_nobody_waits_does_no_harm(stage: Stage) -> None:
    with pytest.raises(KafkaUnavailable):
        stage.board.exchange(OWN, [])
    late = stage.consumer.committed[0]
    stage.consumer.take(late)
    stage.consumer.take(late)
    stage.consumer.answers = [stage.consumer.take]
    stage.board.exchange(OWN, [])


def test_a_client_that_does_not_close_while_kafka_hangs_holds_nobody_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(burden_board, "_CLOSE_S", 0.0)
    before = set(threading.enumerate())
    assert stage.consumer is not None
    stage.board.close()
    (closing,) = set(threading.enumerate()) - before
    assert closing.daemon, "or the process would wait for it when it ends"
    stage.consumer.may_close.set()
    closing.join(30)
    assert not closing.is_alive()
