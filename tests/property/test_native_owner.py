"""What owners read and forward natively is as Python would have read and written it, or its own."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from halfhitch.core.model import HalfRead
from halfhitch.service.owner.payloads import PlainPayload, payload_of
from halfhitch.service.owner.stories import _targets
from halfhitch.wire import half as half_wire
from halfhitch.wire import headers as names
from halfhitch.wire.count import forwarded
from halfhitch.wire.half import Forward, Garbage, HalfRecord, system_headers
from harness.native import native, needs_native

pytestmark = needs_native

Header = tuple[str, bytes | None]

BYTES = st.binary(max_size=12)
MARKERS = (
    st.sampled_from(
        [
            *(b"1;0;1700000000000;vm-1;d=0123456789abcdef", b"1;7;1;v;d=0123456789ABCDEF"),
            *(b"1;0;1;vm", b"1;999;1;v", b"1;1000;1;v", b"2;0;1;v", b"1;0;1", b"1;-1;1;v", b""),
            *(b"1;0_1;1;v", b"1;00;1;v;d=0123456789abcde", b"1;0;1;v;d=0123456789abcdeg"),
            *(b"1;0;1;v;d=0123456789abcdef;d=", b"1;0;;;", b"1;\xb2;1;v", b"01;0;1;v"),
            *(b"1;0;1;v;n=3;d=0123456789abcdef", b"1;18446744073709551616;1;v", b"\xff;0;1;v"),
            b"1;0;1;;d=ffffffffffffffff",
        ]
    )
    | BYTES
)
IDS = (
    st.sampled_from([b"first", b"\xc3\xa9", b"\xff", b"", b"u" * 255, b"u" * 256, b"a\0b"]) | BYTES
)
TOPICS = st.sampled_from([b"orders", b"", b"\xff", b"a\0b", b"t" * 300]) | BYTES
NUMBERS = st.sampled_from(
    [b"0", b"7", b"2147483647", b"2147483648", b"-1", b"", b"007", b"x", b"00000000012"]
)
NAMES = st.sampled_from(
    [*sorted(names.RESERVED), "HALFHITCH_X", "", "color", "traceparent", "ü", "日本"]
)
HEADERS = st.tuples(NAMES, st.none() | NUMBERS | MARKERS)
USERS = st.tuples(st.sampled_from(["color", "", "ü", "traceparent"]), st.none() | BYTES)


@st.composite
def halves(draw: st.DrawFn) -> list[Header]:
    """Most of the usual form, some of any."""
    fixed: list[Header] = [
        (names.HALFHITCH, draw(MARKERS)),
        (names.UNIQ_KEY, draw(IDS)),
        (names.PGROUP, draw(IDS)),
        (names.REAL_TOPIC, draw(TOPICS)),
        (names.TRAN_MSG, b"true"),
    ]
    system: list[Header] = draw(st.lists(st.tuples(st.just(names.REAL_QID), NUMBERS), max_size=2))
    more: list[Header] = draw(st.lists(USERS, max_size=3) | st.lists(HEADERS, max_size=3))
    found = [*fixed, *system, *more]
    if draw(st.integers(0, 9)) == 0:
        place = draw(st.integers(0, len(found) - 1))
        found[place] = draw(HEADERS)
    if draw(st.integers(0, 19)) == 0:
        del found[draw(st.integers(0, len(found) - 1))]
    return found


def record_of(key: bytes | None, value: bytes | None, headers: list[Header]) -> Any:
    raw = [(name.encode(), content) for name, content in headers]
    return native.half_record("halves", 17, 1_700_000_000_123, key, value, raw)


def plain(key: bytes | None, value: bytes | None, headers: list[Header]) -> PlainPayload:
    size = len(key or b"") + len(value or b"")
    size += sum(len(name) + len(content or b"") for name, content in headers)
    return PlainPayload(key, value, headers, size)


def seen(event: HalfRead) -> dict[str, object]:
    return {field.name: getattr(event, field.name) for field in fields(event)}


USUAL = system_headers(HalfRecord("first", "shop", 0, 1, "vm-1", "orders", digest=5))
CONTENTS = st.none() | BYTES


@given(CONTENTS, CONTENTS, halves())
@example(b"k", b"v", [*USUAL, ("color", None), ("color", b"")])
@example(None, None, [])
def test_a_half_is_told_as_python_would_have_read_it(
    key: bytes | None, value: bytes | None, headers: list[Header]
) -> None:
    record, twin = record_of(key, value, headers), plain(key, value, headers)
    payload = payload_of(record)
    assert (payload.key, payload.value, payload.headers) == (key, value, headers)
    assert (record.headers() or [], record.key(), record.value()) == (headers, key, value)
    assert (record.offset(), record.timestamp()) == (17, (2, 1_700_000_000_123))
    assert payload.size_bytes == twin.size_bytes
    facts = payload.facts()
    expected = half_wire.read_identity(17, 5, twin.size_bytes, headers)
    if facts is not None:
        assert isinstance(expected, HalfRead)
        assert seen(half_wire.usual_identity(17, 5, twin.size_bytes, facts)) == seen(expected)


@given(CONTENTS, CONTENTS, halves(), st.sampled_from([1, 2, 1000]))
@example(b"k", b"v", [*USUAL, ("color", None), ("color", b"")], 3)
def test_a_half_is_forwarded_as_python_would_have_written_it(
    key: bytes | None, value: bytes | None, headers: list[Header], count: int
) -> None:
    payload = payload_of(record_of(key, value, headers))
    aim = payload.aim()
    expected = half_wire.read_forward(17, headers)
    if aim is None:
        assert payload.facts() is None
        return
    assert isinstance(expected, Forward)
    assert aim == (expected.target_topic, expected.target_partition)
    written = [(name.decode(), v) for name, v in native.forwarded_headers(payload, count)]
    assert written == forwarded(headers, count)


@given(CONTENTS, CONTENTS, halves())
def test_a_half_is_told_to_the_audit_as_python_would_have(
    key: bytes | None, value: bytes | None, headers: list[Header]
) -> None:
    payload = payload_of(record_of(key, value, headers))
    if payload.told() is not None:
        twin = plain(key, value, headers)
        assert _targets([17], {17: payload}) == _targets([17], {17: twin})  # type: ignore[list-item,dict-item]


@given(st.lists(USERS, max_size=4), st.none() | st.integers(0, 2**31 - 1), st.integers(0, 999))
def test_what_doors_write_is_of_the_usual_form(
    users: list[Header], partition: int | None, index: int
) -> None:
    half = HalfRecord("first", "shop", index, 1, "vm-1", "orders", partition, digest=2**64 - 1)
    headers = [*system_headers(half), *users]
    payload = payload_of(record_of(b"k", b"v", headers))
    assert payload.facts() == ("shop", "first", index, 2**64 - 1)
    assert payload.aim() == ("orders", partition)


def test_what_is_asked_about_or_put_back_is_left_to_python() -> None:
    for more in (
        {"check_count": 3},
        {"immunity_s": 5},
        {"first_half_offset": 2, "first_stored_ms": 7},
    ):
        half = HalfRecord("first", "shop", 0, 1, "vm-1", "orders", **more)  # type: ignore[arg-type]
        headers = system_headers(half)
        payload = payload_of(record_of(b"k", b"v", headers))
        assert (payload.facts(), payload.aim(), payload.told()) == (None, None, None)
        assert not isinstance(half_wire.read_identity(0, 0, 0, payload.headers), Garbage)
