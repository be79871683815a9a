"""Audit records: read back as written, total, and open to what later releases add."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.core.model import (
    ConflictKind,
    ConflictMark,
    HalfOffset,
    OpOffset,
    ProducerGroup,
    TransactionId,
)
from halfhitch.wire import story
from halfhitch.wire.half import Garbage
from halfhitch.wire.story import ANSWERED, Ended, Event, Index, Target

ENDED = Ended(
    "shop", "order-1", 2, 0, "1;0;1700000000000;pod-7;d=00ff00ff00ff00ff", 1_700_000_000_100,
    1_700_000_000_900, 77, "check", "the row is there", 1, 2, 40,
    [Target("orders", None, 99), Target("points", 3)],
)  # fmt: skip
EVENT = Event("shop", "order-1", ANSWERED, 1_700_000_000_500, 1, "pod-8", "unknown", "why", 12)
HEADERS = story.story_headers()


def one(*entries: object) -> bytes:
    (value,) = story.write(5, "pod-1", [story.encode(entry) for entry in entries])
    return value


def test_a_record_is_read_as_it_was_written() -> None:
    found = story.read(3, one(ENDED, EVENT), HEADERS)
    assert found == (3, 5, "pod-1", [ENDED, EVENT], 0)
    assert HEADERS == [("TAGS", b"s"), ("HALFHITCH", b"1")]


def test_entries_of_later_releases_are_passed_over_and_counted() -> None:
    later = [b'["z",1]', b"7", story.encode(EVENT)[:-1] + b',"more"]']
    (value,) = story.write(5, "pod-1", [*later, story.encode(ENDED)])
    found = story.read(3, value, HEADERS)
    assert not isinstance(found, Garbage)
    assert (found.entries, found.unknown_count) == ([EVENT, ENDED], 2)


def test_a_record_of_a_later_version_is_told_as_such() -> None:
    found = story.read(3, one(EVENT), [("TAGS", b"s"), ("HALFHITCH", b"2")])
    assert isinstance(found, Garbage)
    assert found.is_newer


@pytest.mark.parametrize(
    "headers",
    [None, [], [("TAGS", b"s")], [("TAGS", b"c"), ("HALFHITCH", b"1")],
     [("TAGS", b"s"), ("x", b"1")], [("TAGS", b"s"), ("HALFHITCH", None)]],
)  # fmt: skip
def test_other_headers_are_garbage(headers: list[tuple[str, bytes | None]] | None) -> None:
    assert isinstance(story.read(3, one(EVENT), headers), Garbage)
    assert isinstance(story.read_index(3, b"", headers), Garbage)


@given(st.none() | st.binary(max_size=200))
def test_any_value_is_read_or_garbage(value: bytes | None) -> None:
    found = story.read(3, value, HEADERS)
    assert isinstance(found, Garbage) or found.log_offset == 3


def test_records_are_cut_before_they_are_too_large() -> None:
    pieces = [story.encode("x" * 300_000) for _ in range(5)]
    values = list(story.write(5, "pod-1", pieces))
    assert [len(msgspec.json.decode(value)[2]) for value in values] == [2, 2, 1]
    assert all(len(value) < story.RECORD_BYTES_MAX + 100 for value in values)
    assert list(story.write(5, "pod-1", [])) == []


@given(st.text(min_size=1, max_size=50), st.text(min_size=1, max_size=50))
def test_the_needle_of_a_name_is_in_each_record_that_names_it(group: str, name: str) -> None:
    value = one(msgspec.structs.replace(EVENT, producer_group=group, transaction_id=name))
    assert story.needle(name) in value
    assert story.needle(group) in value


# -- indexes -------------------------------------------------------------------------------------


def index(first: int, end: int, *names: str) -> Index:
    return Index(2, first, end, 10, 20, b"".join(story.mark_of(name) for name in names))


def test_an_index_is_read_as_it_was_written() -> None:
    written = index(7, 99, "a", "b")
    value, headers = story.write_index(written)
    assert headers == [("TAGS", b"i"), ("HALFHITCH", b"1;2;7;99;10;20")]
    assert story.read_index(0, value, headers) == written
    assert story.read_index(0, None, headers) == written._replace(marks=b"")


@pytest.mark.parametrize("where", [b"1", b"1;2;7;99;10", b"1;2;7;99;10;x", b"1;2;7;99;10;-1"])
def test_a_strangers_index_is_garbage(where: bytes) -> None:
    found = story.read_index(0, b"", [("TAGS", b"i"), ("HALFHITCH", where)])
    assert isinstance(found, Garbage)
    assert not found.is_newer


def test_an_index_of_a_later_version_is_not_believed() -> None:
    found = story.read_index(0, b"", [("TAGS", b"i"), ("HALFHITCH", b"2;something")])
    assert isinstance(found, Garbage)
    assert found.is_newer


def test_a_mark_between_two_marks_is_none() -> None:
    marks = b"\x00\x01\x02\x03\x04\x05\x06\x07"
    assert Index(0, 0, 1, 0, 0, marks).may_name([b"\x04\x05\x06\x07"])
    assert not Index(0, 0, 1, 0, 0, marks).may_name([b"\x02\x03\x04\x05", b"\x01\x02\x03\x04"])
    assert Index(0, 0, 1, 0, 0, b"\x00\x00\x00\x01" + marks[:4]).may_name([marks[:4]])


def test_what_an_index_surely_does_not_name_is_not_read() -> None:
    known = [index(30, 60, "b"), index(10, 30, "a")]
    a, b = [story.mark_of("a")], [story.mark_of("b")]
    assert story.to_read(0, 100, known, a) == [(0, 30), (60, 100)]
    assert story.to_read(0, 100, known, b) == [(0, 10), (30, 100)]
    assert story.to_read(0, 100, known, [*a, *b]) == [(0, 100)]
    assert story.to_read(12, 50, known, a) == [(12, 30)]
    assert story.to_read(0, 100, [], a) == [(0, 100)]
    assert story.to_read(10, 60, known, [story.mark_of("c")]) == []


def test_indexes_that_overlap_or_lie_outside_leave_nothing_out() -> None:
    known = [index(0, 20, "a"), index(10, 40, "b"), index(15, 35, "c"), index(90, 500, "d")]
    assert story.to_read(5, 100, known, [story.mark_of("a")]) == [(5, 20), (40, 90)]
    assert story.to_read(5, 100, known, [story.mark_of("b")]) == [(10, 90)]
    assert story.to_read(5, 100, known, [story.mark_of("d")]) == [(40, 100)]


def test_what_one_index_names_is_read_whatever_another_says() -> None:
    honest, forged = index(0, 20, "a"), index(0, 20)
    for known in ([honest, forged], [forged, honest]):
        assert story.to_read(0, 20, known, [story.mark_of("a")]) == [(0, 20)]


def test_a_key_has_a_hash_with_its_topic() -> None:
    hashed = story.key_hash(b"orders", b"k")
    assert hashed == story.key_hash(b"orders", b"k")
    assert len({hashed, story.key_hash(b"order", b"sk"), story.key_hash(b"orders", b"")}) == 3
    assert len(story.mark_of_key(hashed)) == story.MARK_BYTES


def test_what_lost_says_no_more_than_is_known_of_it() -> None:
    identity = ProducerGroup("g"), TransactionId("t")
    mark = ConflictMark(identity, ConflictKind.UNCOVERED, OpOffset(7), [HalfOffset(3)])
    assert story.conflict(mark, 5) == Event("g", "t", story.CONFLICT, 5, 7, None, "uncovered")
