"""Properties: read as kindly as RocketMQ reads them, written so that they can be read back."""

from __future__ import annotations

import pytest

from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.properties import read_properties, write_properties


def test_both_endings_are_read() -> None:
    for text in ("TRAN_MSG\1true\2KEYS\1a b", "TRAN_MSG\1true\2KEYS\1a b\2"):
        assert read_properties(text) == {"TRAN_MSG": "true", "KEYS": "a b"}


def test_odd_pieces_are_read_as_the_java_client_reads_them() -> None:
    assert read_properties("a\1b\1c\2\2\1x\2y\1\2z\2k\1v") == {"a": "b\1c", "k": "v"}
    assert read_properties("") == {}
    assert read_properties("a\0011\2a\0012") == {"a": "2"}


def test_they_are_written_with_a_separator_at_the_end() -> None:
    assert write_properties({"TRAN_MSG": "true", "größe": "5"}) == "TRAN_MSG\1true\2größe\0015\2"
    assert write_properties({}) == ""


@pytest.mark.parametrize(
    ("name", "value"), [("", "a"), ("a", ""), ("a\1", "b"), ("a\2", "b"), ("a", "b\2")]
)
def test_what_could_not_be_read_back_is_refused(name: str, value: str) -> None:
    with pytest.raises(RemotingError, match="is empty or has a separator"):
        write_properties({name: value})
