"""Named fields: what is missing, what is no number, what is too large."""

from __future__ import annotations

import pytest

from halfhitch.wire.remoting import codes, fields
from halfhitch.wire.remoting.faults import RemotingError


def test_an_empty_field_counts_as_missing() -> None:
    assert fields.text({"a": "b"}, "a") == "b"
    assert fields.optional_text({"a": ""}, "a") is None
    assert fields.optional_text({}, "a") is None
    for given in ({}, {"a": ""}):
        with pytest.raises(RemotingError, match="the field a is missing") as caught:
            fields.text(given, "a")
        assert caught.value.response_code == codes.INVALID_PARAMETER
        assert fields.int32(given, "a", 7) == 7
        with pytest.raises(RemotingError, match="the field a is missing"):
            fields.int32(given, "a")


@pytest.mark.parametrize("text", ["0", "-1", "+5", "2147483647", "-2147483648"])
def test_whole_numbers_are_read(text: str) -> None:
    assert fields.int32({"a": text}, "a") == int(text)
    assert fields.int64({"a": text}, "a") == int(text)


@pytest.mark.parametrize("text", ["", " 1", "1_0", "٣", "-", "1.0", "x", "1" * 20, "--1"])
def test_what_java_would_not_read_is_refused(text: str) -> None:
    with pytest.raises(RemotingError, match="the field a is"):
        fields.int64({"a": text}, "a")


def test_numbers_have_a_size() -> None:
    assert fields.int64({"a": "9223372036854775807"}, "a") == 2**63 - 1
    with pytest.raises(RemotingError, match="does not fit 64 bits"):
        fields.int64({"a": "9223372036854775808"}, "a")
    with pytest.raises(RemotingError, match="does not fit 32 bits"):
        fields.int32({"a": "-2147483649"}, "a")


def test_only_true_is_yes() -> None:
    assert fields.yes({"a": "true"}, "a")
    assert fields.yes({"a": "TRUE"}, "a")
    assert not fields.yes({"a": "1"}, "a")
    assert not fields.yes({}, "a")


def test_an_error_carries_its_answer() -> None:
    error = RemotingError(codes.SYSTEM_BUSY, "try again")
    assert (error.response_code, error.remark, str(error)) == (2, "try again", "try again")
