"""What owners read and forward natively is as Python would have read and written it, or its own."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from halfhitch.core.model import (
    DoneMark,
    HalfOffset,
    HalfRead,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TimestampMs,
    TransactionId,
)
from halfhitch.core.step import Step
from halfhitch.core.transaction import State, Transaction
from halfhitch.service.owner.payloads import PayloadCache, PlainPayload, payload_of
from halfhitch.service.owner.step_stories import Known, _targets, of_step
from halfhitch.wire import half as half_wire
from halfhitch.wire import headers as names
from halfhitch.wire.count import forwarded
from halfhitch.wire.half import Forward, Garbage, HalfRecord, system_headers
from halfhitch.wire.story import Ended
from halfhitch.wire.story_entries import decode_entry
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


RESOLUTIONS = st.sampled_from(Resolution)
SOURCES = st.none() | st.sampled_from(ResolutionSource)
TIMES = st.integers(-1, 2**62)


@given(CONTENTS, halves(), RESOLUTIONS, SOURCES, TIMES, st.integers(0, 40), st.booleans())
@example(b"k", [*USUAL], Resolution.COMMIT, ResolutionSource.PRODUCER, 5, 0, True)
@example(None, [*USUAL], Resolution.ROLLBACK, ResolutionSource.CHECK, 5, 3, False)
def test_the_end_of_a_transaction_of_one_message_is_written_as_python_would_have(
    key: bytes | None, headers: list[Header], resolution: Resolution,
    source: ResolutionSource | None, at_ms: int, count: int, is_written: bool,
) -> None:  # fmt: skip
    payload = payload_of(record_of(key, b"v", headers))
    facts = payload.facts()
    group, name = facts[:2] if facts else ("shop", "first")
    identity = ProducerGroup(group), TransactionId(name)
    transaction = Transaction(identity, State.WRITING, TimestampMs(at_ms))
    transaction.first, transaction.began_at = HalfOffset(17), HalfOffset(at_ms)
    transaction.decide(resolution, 1, OpOffset(at_ms), TimestampMs(at_ms), None, source)
    transaction.check_count, transaction.resumed_count = count, count
    done = [DoneMark(identity, transaction.ending, [HalfOffset(17)])]
    step = Step([], done, [], 0, 0, [transaction])
    found = []
    for one in (payload, plain(key, b"v", headers)):
        cache = PayloadCache(1_000_000)
        cache.put(17, one)
        found.append(of_step(step, Known({17: one} if is_written else {}, cache, {}), None, 7))
    if is_written or resolution is not Resolution.COMMIT:
        assert found[0] == found[1]
    [[(entry, _)], _] = found
    ended = decode_entry(entry)
    assert isinstance(ended, Ended)
    assert (ended.producer_group, ended.transaction_id) == identity


def test_names_that_json_writes_in_other_words_are_left_to_python() -> None:
    how = (1, 0, 5, 6, 7, "producer", 0, 1, 17)
    for name in ('a"b', "a\\b", "a\tb", "a\x7fb"):
        half = HalfRecord(name, "shop", 0, 1, "vm-1", "orders", digest=5)
        payload = payload_of(record_of(b"k", b"v", system_headers(half)))
        assert payload.facts() is not None
        assert payload.story(*how) is None
    half = HalfRecord("日本", "shop", 0, 1, "vm-1", "orders", digest=5)
    assert payload_of(record_of(b"k", b"v", system_headers(half))).story(*how) is not None


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
