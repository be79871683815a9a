"""A header name that is no text ended the process of whoever read it."""

from __future__ import annotations

from typing import Any

from halfhitch.adapters.kafka.log_consumer import PlainLogConsumer
from halfhitch.adapters.kafka.readable import headers_of


class Message:
    """As confluent-kafka gives a record of which a header's name is not UTF-8."""

    def __init__(self) -> None:
        self._headers: list[Any] | None = None

    def headers(self) -> list[Any]:
        if self._headers is None:
            self._headers = ["a pair with nothing in it"]
            raise SystemError("returned a result with an exception set")
        return self._headers

    def set_headers(self, headers: list[Any]) -> None:
        self._headers = headers

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return "half"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7


class Client:
    def __init__(self, message: Message) -> None:
        self._message = message

    def poll(self, _: float) -> Message:
        return self._message

    def consume(self, _: int, __: float) -> list[Message]:
        return []


def test_headers_that_cannot_be_read_are_none_and_are_never_touched_again() -> None:
    message = Message()
    assert headers_of(message) is None
    assert message.headers() == []


def test_a_half_with_a_header_name_that_is_no_text_does_not_end_its_owner() -> None:
    client: Any = Client(Message())
    (half,) = PlainLogConsumer(client, "half").take(0.0, 10).half
    assert half.headers() == []
