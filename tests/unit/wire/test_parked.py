"""Parked records: the half record whole, and why it was given up."""

import pytest

from halfhitch.wire.half import Garbage, HalfRecord, Headers, read_record, system_headers
from halfhitch.wire.parked import UNDELIVERABLE, Parked, parked_headers, read_parked

HALF = HalfRecord("T1", "orders", 0, 5, "node-1", "invoices")
HALF_HEADERS: Headers = [*system_headers(HALF), ("trace", b"1")]
WHY = Parked(UNDELIVERABLE, "topic invoices is gone", 3, 17, "c")


def test_a_parked_record_keeps_the_half_record_whole_and_says_why() -> None:
    headers = parked_headers(HALF_HEADERS, WHY)
    assert headers[:-1] == HALF_HEADERS
    assert read_record(0, headers) == HALF
    assert read_parked(0, headers) == WHY


def test_the_reason_stands_in_the_last_header_like_this() -> None:
    written = (
        b'1{"reason":"expired","detail":"nobody answered","half_partition":3,"half_offset":17,'
        b'"decision":null}'
    )
    why = Parked("expired", "nobody answered", 3, 17)
    assert parked_headers([], why) == [("HALFHITCH_PARKED", written)]


def test_a_detail_of_any_length_does_not_make_the_record_too_large() -> None:
    why = Parked(UNDELIVERABLE, "€" * 100_000, 3, 17)
    read = read_parked(0, parked_headers([], why))
    assert isinstance(read, Parked)
    assert read.detail == "€" * 500


def test_a_record_parked_twice_tells_the_last_reason() -> None:
    again = Parked("expired", "a second time", 3, 40)
    assert read_parked(0, parked_headers(parked_headers(HALF_HEADERS, WHY), again)) == again


def test_headers_behind_the_last_reason_do_not_hide_it() -> None:
    assert read_parked(0, [*parked_headers([], WHY), ("added later", b"1")]) == WHY


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        HALF_HEADERS,
        [("HALFHITCH_PARKED", None)],
        [("HALFHITCH_PARKED", b"")],
        [("HALFHITCH_PARKED", b"2{}")],
        [("HALFHITCH_PARKED", b"1{}")],
        [("HALFHITCH_PARKED", b"1{")],
        [("HALFHITCH_PARKED", b"1\xff")],
        [("HALFHITCH_PARKED", b"1" + b"[" * 100_000)],
        [*parked_headers([], WHY), ("HALFHITCH_PARKED", b"1{}")],
    ],
)
def test_what_is_not_a_parked_record_of_ours_is_garbage(headers: Headers | None) -> None:
    read = read_parked(7, headers)
    assert isinstance(read, Garbage)
    assert read.log_offset == 7
    assert len(read.reason) < 200
