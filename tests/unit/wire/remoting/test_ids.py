"""Offset message ids: RocketMQ's own, for both kinds of address."""

from __future__ import annotations

import pytest

from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.ids import MessageIds, maker_of, read_message_id

GOLDEN = [
    ("127.0.0.1", 10_911, 4_823_216_684, "7F00000100002A9F000000011F7C722C"),
    (
        "2001:db8::1",
        9_876,
        3 << 48 | 77,
        "20010DB800000000000000000000000100002694000300000000004D",
    ),
]


@pytest.mark.parametrize(("address", "port", "place", "message_id"), GOLDEN)
def test_an_id_is_made_as_rocketmq_makes_it(
    address: str, port: int, place: int, message_id: str
) -> None:
    ids = MessageIds(address, port)
    assert (ids.address, ids.port) == (address, port)
    assert ids.make(place) == message_id
    assert read_message_id(message_id) == (address, port, place)
    assert read_message_id(message_id.lower()) == (address, port, place)


@pytest.mark.parametrize("text", ["", "7F", "G" * 32, " " * 32, "7F " * 10 + "7F", "é" * 56])
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(RemotingError, match="is no offset message id"):
        read_message_id(text)


def test_an_address_must_be_one() -> None:
    with pytest.raises(ValueError, match="localhost"):
        MessageIds("localhost", 9_876)


@pytest.mark.parametrize(
    ("first", "second", "maker"),
    [
        # address, process, class loader | time, counter
        ("7F0000011A2B18B4AAC20000A1B20001", "7F0000011A2B18B4AAC20000A1B30002", 20),
        (
            "20010DB80000000000000000000000011A2B18B4AAC20000A1B20001",
            "20010DB80000000000000000000000011A2B18B4AAC2000FFFFF0F0F",
            44,
        ),
        # version, hardware address, process | time, counter
        ("0102030405060708090A0B0C0D0E0F1011", "010203040506070809FFFFFFFFFFFFFFFF", 18),
    ],
)
def test_ids_of_one_client_process_begin_alike(first: str, second: str, maker: int) -> None:
    assert maker_of(first) == maker_of(second) == first[:maker]


def test_an_id_of_another_form_stands_for_itself() -> None:
    assert maker_of("order-17") == "order-17"
