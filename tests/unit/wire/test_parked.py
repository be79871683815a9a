"""Parked records: the half record whole, and why it was given up."""

import pytest

from halfhitch.wire.half import Garbage, HalfRecord, Headers, read_record, system_headers
from halfhitch.wire.parked import (
    CHECKS_EXHAUSTED,
    INCOMPLETE,
    LATE,
    TOO_OLD,
    UNDELIVERABLE,
    LateDecision,
    Parked,
    Resumed,
    note_headers,
    parked_headers,
    read_parked,
)

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
        b'1{"kind":"message","reason":"expired","detail":"nobody answered","half_partition":3,'
        b'"half_offset":17}'
    )
    why = Parked("expired", "nobody answered", 3, 17)
    assert parked_headers([], why) == [("HALFHITCH_PARKED", written)]


def test_what_was_given_up_undecided_keeps_its_counts_and_who_was_asked_last() -> None:
    why = Parked(CHECKS_EXHAUSTED, "15 checks", 3, 17, None, 15, 1_700_000_000_000, "silent", "p-1")
    (header,) = parked_headers([], why)
    assert header[1] == (
        b'1{"kind":"message","reason":"checks_exhausted","detail":"15 checks","half_partition":3,'
        b'"half_offset":17,"check_count":15,"stored_ms":1700000000000,"last_answer":"silent",'
        b'"asked":"p-1"}'
    )
    assert read_parked(0, [header]) == why


def test_the_reasons_are_words_that_never_change() -> None:
    assert [UNDELIVERABLE, CHECKS_EXHAUSTED, TOO_OLD, INCOMPLETE, LATE] == [
        "undeliverable",
        "checks_exhausted",
        "too_old",
        "incomplete",
        "late",
    ]


def test_a_late_decision_is_a_note_and_looks_like_this() -> None:
    note = LateDecision("orders", "T1", "c", 3, 99)
    headers = note_headers(note)
    assert headers == [
        (
            "HALFHITCH_PARKED",
            (
                b'1{"kind":"decision","producer_group":"orders","transaction_id":"T1",'
                b'"decision":"c","half_partition":3,"op_offset":99}'
            ),
        )
    ]
    assert read_parked(0, headers) == note


@pytest.mark.parametrize("decision", [None, "c", "r"])
def test_a_resumption_names_what_it_has_put_back_and_by_whom(decision: str | None) -> None:
    note = Resumed("orders", "T1", 3, [(0, 7), (2, 9)], 1, "fixed", "ann", decision)
    headers = note_headers(note)
    assert len(headers) == 1
    assert (headers[0][1] or b"").startswith(b'1{"kind":"resumed",')
    assert read_parked(0, headers) == note


def test_a_record_without_its_kind_or_of_another_one_is_garbage() -> None:
    for body in (
        b'1{"reason":"x","detail":"","half_partition":0,"half_offset":0}',
        b'1{"kind":"other"}',
        b'1{"kind":null}',
        b'1{"kind":"resumed"}',
    ):
        assert isinstance(read_parked(7, [("HALFHITCH_PARKED", body)]), Garbage)


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
