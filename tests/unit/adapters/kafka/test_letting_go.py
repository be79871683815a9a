"""A producer ends only when nothing of it is under way any more; the producer is of straw."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from halfhitch.adapters.kafka import letting_go

FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))


class StrawProducer:
    """`left`: how many messages each next flush leaves, or what it raises."""

    def __init__(self, *left: int | Exception) -> None:
        self.left = list(left)
        self.calls: list[str] = []
        self.may_end = threading.Event()

    def purge(self) -> None:
        self.calls.append("purge")

    def flush(self, wait_s: float) -> int:
        self.calls.append("flush")
        if not self.left:
            self.may_end.wait(30)
            return 0
        left = self.left.pop(0)
        if isinstance(left, Exception):
            raise left
        return left


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letting_go, "_PAUSE_S", 0.0)


def let_go(producer: Any) -> None:
    letting_go.let_go(producer)


def test_what_is_under_way_is_waited_for() -> None:
    producer = StrawProducer(3, 1, 0)
    let_go(producer)
    assert producer.calls == ["purge", "flush", "flush", "flush"]


@pytest.mark.parametrize("raised", [FENCED, SystemError("returned NULL")])
def test_its_fatal_error_is_no_reason_to_end_it_early(raised: Exception) -> None:
    producer = StrawProducer(raised, 1, 0)
    let_go(producer)
    assert producer.calls == ["purge", "flush", "flush", "flush"]


def test_one_that_was_closed_is_done() -> None:
    producer = StrawProducer(RuntimeError("Producer has been closed"))
    let_go(producer)
    assert producer.calls == ["purge", "flush"]


def test_one_that_does_not_come_to_an_end_is_held_and_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(letting_go, "_WAIT_S", 0.0)
    producer = StrawProducer(2)
    may_end, is_held = producer.may_end, weakref.ref(producer)
    before = set(threading.enumerate())
    let_go(producer)
    del producer
    (holder,) = set(threading.enumerate()) - before
    assert is_held() is not None
    may_end.set()
    holder.join(30)
    assert not holder.is_alive()
    assert is_held() is None
