"""Kafka's Python client as an owner's reader wants it: by log, and what is no record apart."""

from __future__ import annotations

from typing import Any

from halfhitch.adapters.kafka.log_consumer import PlainLogConsumer


class Message:
    def __init__(self, topic: str, error: object = None) -> None:
        self._topic, self._error = topic, error

    def topic(self) -> str:
        return self._topic

    def error(self) -> object:
        return self._error

    def headers(self) -> None:
        return None


class Client:
    def __init__(self, *messages: Message) -> None:
        self.left = list(messages)

    def poll(self, _: float) -> Message | None:
        return self.left.pop(0) if self.left else None

    def consume(self, count: int, _: float) -> list[Message]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken


def consumer(*messages: Message) -> PlainLogConsumer:
    client: Any = Client(*messages)
    return PlainLogConsumer(client, "half")


def test_records_are_given_by_log_and_errors_apart() -> None:
    half, op, end = Message("half"), Message("op"), Message("half", error="end")
    taken = consumer(half, op, end).take(0.0, 10)
    assert (taken.half, taken.op, taken.others) == ([half], [op], [end])
    assert taken.has_taken_all


def test_one_that_is_full_says_that_there_may_be_more() -> None:
    reader = consumer(*[Message("half")] * 3)
    assert not reader.take(0.0, 2).has_taken_all
    taken = reader.take(0.0, 2)
    assert (taken.half, taken.has_taken_all) == ([], True)
