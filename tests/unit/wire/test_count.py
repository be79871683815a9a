"""How many messages a transaction has: on the record that its readers see."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.wire.count import count_in, forwarded, with_count, without_count
from halfhitch.wire.half import (
    INDEX_MAX,
    Forward,
    HalfRecord,
    digest_in,
    instance_of,
    read_forward,
    system_headers,
)

SAYS = b";d=0123456789abcdef"
PLAIN = b"1;0;1700000000000;instance-1"


def test_where_the_count_stands_never_changes() -> None:
    assert with_count(PLAIN + SAYS, 3) == PLAIN + b";n=3" + SAYS
    assert with_count(PLAIN, 1) == PLAIN + b";n=1"


@pytest.mark.parametrize("marker", [PLAIN, PLAIN + SAYS, b"", SAYS, b"1;0;0;;d=short"])
@pytest.mark.parametrize("count", [1, 2, INDEX_MAX + 1])
def test_the_count_comes_back_and_can_be_taken_off(marker: bytes, count: int) -> None:
    counted = with_count(marker, count)
    assert count_in(counted) == count
    assert without_count(counted) == marker
    assert count_in(marker) == 0
    assert without_count(marker) == marker


def test_a_reader_of_an_earlier_release_finds_all_that_it_knows() -> None:
    half = HalfRecord("T", "g", 7, 1_700_000_000_000, "instance-1", "orders", digest=0xFEED)
    forward = read_forward(0, system_headers(half))
    assert isinstance(forward, Forward)
    name, marker = forward.headers[-1]
    counted = with_count(marker or b"", 12)
    assert digest_in(counted) == 0xFEED
    version, index, born_ms, _ = counted.split(b";", 3)
    assert (version, index, born_ms) == (b"1", b"7", b"1700000000000")
    assert instance_of([(name, counted)]) == "instance-1;n=12"  # for people, and only there


@pytest.mark.parametrize(
    "said",
    [b";n=", b";n=0", b";n=-1", b";n=+2", b";n= 2", b";n=2 ", b";n=10000", b";n=1_0", b";N=2"],
)
def test_what_is_no_count_is_none(said: bytes) -> None:
    assert count_in(PLAIN + said) == 0
    assert count_in(PLAIN + said + SAYS) == 0
    assert without_count(PLAIN + said + SAYS) == PLAIN + said + SAYS


def test_of_two_counts_the_last_is_the_owners() -> None:
    hostile = PLAIN + b";n=9"
    assert count_in(with_count(hostile, 2)) == 2
    assert without_count(with_count(hostile, 2)) == hostile


@given(st.binary(max_size=60), st.integers(1, INDEX_MAX + 1))
def test_any_marker_takes_a_count_and_gives_it_back(marker: bytes, count: int) -> None:
    assert count_in(with_count(marker, count)) == count
    assert without_count(with_count(marker, count)) == marker


def test_headers_that_are_no_halfs_are_refused_not_forwarded() -> None:
    """Who forwards must have read the half before: what was garbage there has no forward form."""
    with pytest.raises(ValueError, match="no REAL_TOPIC"):
        forwarded([("color", b"blue")], 1)


def test_a_half_is_forwarded_with_the_users_headers_first_and_its_count() -> None:
    half = HalfRecord("T", "g", 0, 1_700_000_000_000, "instance-1", "orders", digest=0xFEED)
    headers = forwarded([*system_headers(half), ("color", b"blue")], 3)
    assert headers[0] == ("color", b"blue")
    assert count_in(headers[-1][1] or b"") == 3
