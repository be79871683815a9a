"""A call that does not return is left with its producer, which is served until it has ended."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from halfhitch.adapters.kafka import left_calls
from halfhitch.adapters.kafka.left_calls import CallHangs, SideThread, leave, may_leave, outdate
from harness.kafka import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S = 20.0
LOG = ("op", 3)


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    assert left_calls._left == {}
    yield
    wait_until(lambda: left_calls._left == {}, DEADLINE_S, what="nobody is left")


class Hanging:
    """A producer in a call that comes back when a record of its is refused, as librdkafka's."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.is_in_call = threading.Event()
        self.is_told = threading.Event()
        self.takes_records = True

    def send(self) -> None:
        self.is_in_call.set()
        assert self.is_told.wait(DEADLINE_S)
        self.calls.append("returned")
        raise KafkaException(KafkaError(KafkaError._FENCED, "why", fatal=True))

    def produce(self, topic: str, value: bytes, *, partition: int) -> None:
        assert (topic, partition, value) == (*LOG, b"")
        if not self.takes_records:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self.is_told.set()

    def poll(self, wait_s: float) -> None:
        self.calls.append("poll")

    def abort_transaction(self, wait_s: float) -> None:
        self.calls.append("abort")
        raise KafkaException(KafkaError(KafkaError._FENCED, "why", fatal=True))

    def purge(self) -> None:
        self.calls.append("let go")

    def __len__(self) -> int:
        return 0


def left_in_call(producer: Any) -> None:
    side = SideThread("side")
    with pytest.raises(CallHangs):
        side.call(producer.send, 0.05)
    leave(producer, side, LOG)


def settled(producer: Hanging) -> list[str]:
    wait_until(lambda: "let go" in producer.calls, DEADLINE_S, what="the producer is let go")
    return [call for call in producer.calls if call != "poll"]


def test_what_a_call_raises_is_raised_where_it_was_asked_for() -> None:
    side = SideThread("side")
    threads: list[threading.Thread] = []
    side.call(lambda: threads.append(threading.current_thread()), DEADLINE_S)
    with pytest.raises(ZeroDivisionError):
        side.call(lambda: 1 // 0, DEADLINE_S)
    side.call(lambda: threads.append(threading.current_thread()), DEADLINE_S)
    assert threads[0] is threads[1] is not threading.current_thread()
    side.end()
    threads[0].join(DEADLINE_S)
    assert not threads[0].is_alive()


def test_the_side_thread_does_not_keep_the_producer_of_its_last_call() -> None:
    """Until the next call it waits; the producer must be able to end before."""
    producer = Hanging()
    producer.is_told.set()
    side = SideThread("side")
    with pytest.raises(KafkaException):
        side.call(producer.send, DEADLINE_S)
    gone = weakref.ref(producer)
    del producer
    wait_until(lambda: gone() is None, DEADLINE_S, what="the producer is gone")
    side.end()


def test_a_left_producer_is_served_and_lives_until_its_call_has_returned() -> None:
    producer = Hanging()
    left_in_call(producer)
    wait_until(lambda: producer.calls.count("poll") > 1, DEADLINE_S, what="it is served")
    assert set(producer.calls) == {"poll"}, "it was ended in its call"
    producer.is_told.set()
    assert settled(producer) == ["returned", "abort", "let go"]


def test_whoever_counts_is_told_when_one_is_left_and_when_it_is_gone() -> None:
    producer = Hanging()
    side, told = SideThread("side"), []
    hanging: Any = producer
    with pytest.raises(CallHangs):
        side.call(hanging.send, 0.05)
    leave(hanging, side, LOG, told.append)
    assert told == [True]
    outdate(LOG)
    wait_until(lambda: len(told) > 1, DEADLINE_S, what="it is gone")
    assert told == [True, False]
    assert "let go" in producer.calls, "it is told behind its end"


def test_a_left_producer_is_told_once_a_later_one_has_been_fenced_in() -> None:
    producer = Hanging()
    left_in_call(producer)
    outdate(("op", 4))
    wait_until(lambda: producer.calls.count("poll") > 1, DEADLINE_S, what="it is served")
    assert not producer.is_told.is_set(), "another partition's fence says nothing about it"
    outdate(LOG)
    assert settled(producer) == ["returned", "abort", "let go"]


def test_one_that_takes_no_records_is_served_all_the_same() -> None:
    producer = Hanging()
    producer.takes_records = False
    left_in_call(producer)
    outdate(LOG)
    with_records = Hanging()
    left_in_call(with_records)
    outdate(LOG)
    assert settled(with_records) == ["returned", "abort", "let go"]
    assert not producer.is_told.is_set()
    assert settled_after_return(producer) == ["returned", "abort", "let go"]


def settled_after_return(producer: Hanging) -> list[str]:
    producer.is_told.set()
    return settled(producer)


def test_only_so_many_are_left_for_one_half_partition() -> None:
    """Each has threads and memory; if the fence does not free them, the process has to end."""
    producers = [Hanging() for _ in range(left_calls.LEFT_MAX)]
    for producer in producers:
        assert may_leave(LOG)
        left_in_call(producer)
    assert not may_leave(LOG)
    assert may_leave(("op", 4))
    outdate(LOG)
    for producer in producers:
        settled(producer)
    wait_until(lambda: may_leave(LOG), DEADLINE_S, what="there is room again")
