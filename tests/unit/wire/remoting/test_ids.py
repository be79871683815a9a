"""Offset message ids: RocketMQ's own, for both kinds of address."""

from __future__ import annotations

import pytest

from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.ids import MessageIds, read_message_id

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
