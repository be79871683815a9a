"""DescribeProducers, as bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.kafka.open_producers import NoAnswer, OpenProducer, parse, request

if TYPE_CHECKING:
    pass


def answer(*producers: tuple[int, int, int], code: int = 0) -> bytes:
    """Of one partition."""
    rows = b"".join(
        struct.pack(">qiiqiq", number, epoch, 0, 0, 0, start) + b"\x00"
        for number, epoch, start in producers
    )
    partition = struct.pack(">ih", 2, code) + b"\x00" + bytes([len(producers) + 1]) + rows + b"\x00"
    return (
        struct.pack(">i", 1)
        + b"\x00"
        + struct.pack(">i", 0)
        + b"\x02\x07orders\x02"
        + (partition + b"\x00\x00")
    )


def test_the_request_is_what_the_protocol_says() -> None:
    frame = request(("orders", 2))
    assert struct.unpack(">i", frame[:4]) == (len(frame) - 4,)
    assert struct.unpack(">hhi", frame[4:12]) == (61, 0, 1)
    assert frame.endswith(b"\x00\x02\x07orders\x02\x00\x00\x00\x02\x00\x00")


def test_only_producers_with_an_open_kafka_transaction_are_given() -> None:
    found = parse(answer((1, 0, -1), (4001, 3, 17), (4002, 0, 30)))
    assert found == [OpenProducer(4001, 3, 17), OpenProducer(4002, 0, 30)]


def test_an_error_is_no_answer() -> None:
    with pytest.raises(NoAnswer):
        parse(answer(code=29))


@pytest.mark.parametrize("length", range(0, 40, 3))
def test_a_cut_answer_is_an_error_and_never_a_producer(length: int) -> None:
    with pytest.raises((struct.error, IndexError, NoAnswer)):
        parse(answer((4001, 3, 17))[:length])
