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
    """`left`: how many messages are left at each look; `raised` by the next poll."""

    def __init__(self, *left: int, raised: Exception | None = None) -> None:
        self.left = list(left)
        self.raised = raised
        self.calls: list[str] = []
        self.may_end = threading.Event()

    def __len__(self) -> int:
        if not self.left:
            self.may_end.wait(30)
            return 0
        return self.left.pop(0)

    def purge(self) -> None:
        self.calls.append("purge")

    def poll(self, wait_s: float) -> None:
        assert wait_s < 0.2, "the binding would go on to serve callbacks with an exception set"
        self.calls.append("poll")
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised


def let_go(producer: Any) -> None:
    letting_go.let_go(producer)


def test_what_is_under_way_is_waited_for() -> None:
    producer = StrawProducer(3, 1, 0)
    let_go(producer)
    assert producer.calls == ["purge", "poll", "poll"]


@pytest.mark.parametrize("raised", [FENCED, SystemError("returned NULL")])
def test_its_fatal_error_is_no_reason_to_end_it_early(raised: Exception) -> None:
    producer = StrawProducer(2, 1, 0, raised=raised)
    let_go(producer)
    assert producer.calls == ["purge", "poll", "poll"]


def test_one_that_was_closed_is_done() -> None:
    producer = StrawProducer(1, 1, raised=RuntimeError("Producer has been closed"))
    let_go(producer)
    assert producer.calls == ["purge", "poll"]


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
