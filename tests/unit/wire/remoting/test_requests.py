"""What a request is made of."""

import pytest

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.requests import Form, Frame


def frame(flag: int = 0, raw_fields: bytes = b"") -> Frame:
    return Frame(10, 1, flag, 0, 1, None, b"", Form.BINARY, raw_fields)


def written(**fields: str) -> bytes:
    parts = []
    for name, value in fields.items():
        parts += [len(name).to_bytes(2, "big"), name.encode()]
        parts += [len(value.encode()).to_bytes(4, "big"), value.encode()]
    return b"".join(parts)


def test_fields_are_read_when_somebody_asks_and_once() -> None:
    it = frame(raw_fields=written(topic="orders", key="\u00fc"))
    assert it.known_fields is None
    assert it.fields == {"topic": "orders", "key": "\u00fc"}
    assert it.fields is it.fields


def test_bytes_that_make_no_sense_are_told_when_somebody_asks() -> None:
    it = frame(raw_fields=b"\x00\xff")
    with pytest.raises(RemotingError):
        _ = it.fields


@pytest.mark.parametrize(
    ("flag", "is_response", "is_one_way"),
    [
        (0, False, False),
        (codes.RESPONSE_FLAG, True, False),
        (codes.ONE_WAY_FLAG, False, True),
        (codes.RESPONSE_FLAG | codes.ONE_WAY_FLAG, True, True),
    ],
)
def test_flags(flag: int, is_response: bool, is_one_way: bool) -> None:
    it = frame(flag)
    assert (it.is_response, it.is_one_way) == (is_response, is_one_way)
