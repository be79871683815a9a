"""Op records: read back as written, cut when too large, and total: any bytes give a value."""

import json

import pytest

from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    ConflictMark,
    ConflictRead,
    DecisionRead,
    DoneMark,
    DoneRead,
    HalfOffset,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.wire import op
from halfhitch.wire.half import Garbage, Headers
from harness.ledger_script import identity_of

KAFKA_BYTES_MAX = 1_000_000
PRODUCER = ResolutionSource.PRODUCER


def entry(
    name: str = "T1", covered: int = 1, offsets: int = 0, reason: str | None = None
) -> op.DecisionEntry:
    return op.DecisionEntry("orders", name, covered, offsets, PRODUCER, reason)


def done_mark(name: str, ending: int, half_offsets: list[int]) -> DoneMark:
    return DoneMark(identity_of(name), ending, [HalfOffset(o) for o in half_offsets])


def events(record: tuple[bytes | None, Headers | None] | op.StepRecord) -> list[op.OpRead]:
    read = op.read(5, 77, *record)
    assert not isinstance(read, Garbage), read
    return list(read)


def size_bytes(record: op.StepRecord) -> int:
    size = len(record.value) + len(record.key or b"")
    return size + sum(len(name) + len(content or b"") for name, content in record.headers)


def raw(tag: bytes | None, body: bytes | None, value: bytes | None = b"") -> list[op.OpRead]:
    read = op.read(5, 77, value, [("TAGS", tag), ("HALFHITCH", body)])
    return [] if isinstance(read, Garbage) else list(read)


def test_whoever_wrote_marks_reads_them_back_without_reading() -> None:
    marks = [
        DoneMark(identity_of("a"), 2, [HalfOffset(3), HalfOffset(1)], (7, 9)),
        DoneMark(identity_of("b"), 0, []),
        DoneMark(identity_of("c"), 1, [HalfOffset(n) for n in range(op.OFFSETS_MAX + 5)], (4,)),
    ]
    many = [done_mark(f"T{n}", 1, [n]) for n in range(op.MARKS_MAX + 1)]
    written = op.write_marks([*marks, *many])
    assert len(written) > 1
    for one in written:
        assert one.read_back(5, 77) == events(one.record)
    assert [one.record for one in written] == op.write_step([*marks, *many], [])


# -- the form ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resolution", "tag"),
    [(Resolution.COMMIT, b"c"), (Resolution.ROLLBACK, b"r"), (Resolution.PARK, b"p")],
)
def test_a_decision_record_looks_like_this(resolution: Resolution, tag: bytes) -> None:
    record = op.write(op.tag_of(resolution), [entry("T1", 2, 2, "why")], [17, 18])
    assert record == (
        b"17,18,",
        [("TAGS", tag), ("HALFHITCH", b'1[["orders","T1",2,2,"producer","why"]]')],
    )


def test_done_and_conflict_records_look_like_this() -> None:
    lost = ConflictMark(identity_of("T2"), ConflictKind.UNCOVERED, OpOffset(8), [HalfOffset(4)])
    assert op.write_step([done_mark("T1", PARKED, [1, 2])], [lost]) == [
        (b"1,2,", [("TAGS", b"d"), ("HALFHITCH", b'1[["orders","T1",-1,2]]')], None),
        (b"4,", [("TAGS", b"x"), ("HALFHITCH", b'1[["orders","T2","uncovered",8,1]]')], None),
    ]


def test_the_key_of_a_done_record_says_what_its_messages_were() -> None:
    marks = [done_mark("T1", 2, [1, 2]), done_mark("T2", 1, [3]), done_mark("T3", 1, [4])]
    marks[0].digests, marks[2].digests = (7, 2**64 - 1), (9,)
    (record,) = op.write_step(marks, [])
    assert record.key == bytes.fromhex(
        "0002 0000000000000007 ffffffffffffffff 0000 0001 0000000000000009"
    )
    read = [event for event in events(record) if isinstance(event, DoneRead)]
    assert [event.digests for event in read] == [(7, 2**64 - 1), (), (9,)]
    assert [event.half_offsets for event in read] == [(1, 2), (3,), (4,)]


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1", b"\0\1" + b"x" * 9, b"\xff\xff", None])
def test_a_key_that_does_not_fit_takes_nothing_from_a_done_mark(key: bytes | None) -> None:
    (record,) = op.write_step([done_mark("T1", 1, [3])], [])
    assert events(record._replace(key=key)) == [DoneRead(5, 77, identity_of("T1"), 1, (3,))]  # type: ignore[arg-type]


def test_what_was_reused_stands_before_the_marks_and_in_no_record_with_older_kinds() -> None:
    """Releases that do not know the kind pass over the whole record."""
    lost = [
        ConflictMark(identity_of("T1"), ConflictKind.CONTRARY, OpOffset(3), []),
        ConflictMark(identity_of("T2"), ConflictKind.REUSED, OpOffset(0), [HalfOffset(8)]),
        ConflictMark(identity_of("T2"), ConflictKind.REUSED, OpOffset(5), []),
    ]
    records = op.write_step([done_mark("T2", 1, [4])], lost)
    assert [record.headers for record in records] == [
        [("TAGS", b"x"),
         ("HALFHITCH", b'1[["orders","T2","reused",0,1],["orders","T2","reused",5,0]]')],
        [("TAGS", b"d"), ("HALFHITCH", b'1[["orders","T2",1,1]]')],
        [("TAGS", b"x"), ("HALFHITCH", b'1[["orders","T1","contrary",3,0]]')],
    ]  # fmt: skip


def test_a_note_of_an_operator_looks_like_this_and_nothing_follows_from_it() -> None:
    record = op.write_note(identity_of("T1"), action="resume", operator="ann", reason="fixed")
    assert record == (
        b"",
        [("TAGS", b"o"), ("HALFHITCH", b'1[["orders","T1","resume","ann","fixed"]]')],
    )
    assert events(record) == []


@pytest.mark.parametrize("ending", [GIVEN_UP, COPIED])
def test_what_was_given_up_or_appended_anew_is_read_back_as_such(ending: int) -> None:
    (record,) = op.write_step([done_mark("T1", ending, [3])], [])
    assert events(record) == [DoneRead(5, 77, identity_of("T1"), ending, (3,))]  # type: ignore[arg-type]


def test_giving_up_is_a_decision_like_the_others() -> None:
    entry_by_policy = op.DecisionEntry("orders", "T1", 1, 1, ResolutionSource.POLICY, "15 checks")
    (read,) = events(op.write(b"p", [entry_by_policy], [17]))
    assert isinstance(read, DecisionRead)
    assert (read.resolution, read.source) == (Resolution.PARK, ResolutionSource.POLICY)
    assert read.reason == "15 checks"


def test_of_a_strangers_reason_no_more_is_read_than_ours_may_have() -> None:
    long = op.DecisionEntry("orders", "T1", 1, 0, PRODUCER, "x" * 100_000)
    (read,) = events(op.write(b"c", [long], []))
    assert isinstance(read, DecisionRead)
    assert read.reason == "x" * op.REASON_CHARS_MAX


def test_an_empty_step_writes_nothing() -> None:
    assert op.write_step([], []) == []


def test_decisions_that_share_a_record_are_read_in_order_each_with_its_highest_hint() -> None:
    entries = [entry("T1", 2, 2), entry("T2", 1, 0), entry("T3", 1, 1)]
    read = events(op.write(b"c", entries, [17, 12, 30]))
    assert read == [
        DecisionRead(
            5, 77, identity_of("T1"), Resolution.COMMIT, 2, PRODUCER, 17, half_hints=(17, 12)
        ),  # type: ignore[arg-type]
        DecisionRead(5, 77, identity_of("T2"), Resolution.COMMIT, 1, PRODUCER, -1),  # type: ignore[arg-type]
        DecisionRead(5, 77, identity_of("T3"), Resolution.COMMIT, 1, PRODUCER, 30),  # type: ignore[arg-type]
    ]


def test_marks_are_read_back_with_the_offsets_that_are_theirs() -> None:
    done = [done_mark("T1", 2, [4, 1]), done_mark("T2", ROLLED_BACK, []), done_mark("T3", 1, [9])]
    (record,) = op.write_step(done, [])
    assert [(d.identity[1], d.ending, d.half_offsets) for d in events(record)] == [  # type: ignore[union-attr]
        ("T1", 2, (4, 1)),
        ("T2", ROLLED_BACK, ()),
        ("T3", 1, (9,)),
    ]


def test_conflicts_are_read_back_as_they_were_written() -> None:
    lost = [
        ConflictMark(identity_of("T1"), ConflictKind.CONTRARY, OpOffset(3), []),
        ConflictMark(identity_of("T2"), ConflictKind.UNCOVERED, OpOffset(4), [HalfOffset(8)]),
    ]
    (record,) = op.write_step([], lost)
    assert events(record) == [
        ConflictRead(5, 77, identity_of("T1"), ConflictKind.CONTRARY, 3, ()),  # type: ignore[arg-type]
        ConflictRead(5, 77, identity_of("T2"), ConflictKind.UNCOVERED, 4, (8,)),  # type: ignore[arg-type]
    ]


# -- cutting -------------------------------------------------------------------------------------


def test_a_step_of_very_many_transactions_is_cut_and_keeps_its_order() -> None:
    done = [done_mark(f"T{n}", 1, [n]) for n in range(2 * op.MARKS_MAX + 1)]
    records = op.write_step(done, [])
    assert [len(events(record)) for record in records] == [op.MARKS_MAX, op.MARKS_MAX, 1]
    names = [read.identity[1] for record in records for read in events(record)]
    assert names == [mark.identity[1] for mark in done]


def test_a_mark_with_very_many_offsets_becomes_several_that_can_be_read() -> None:
    half_offsets = list(range(10**18, 10**18 + 120_001))
    records = op.write_step([done_mark("T1", 1, half_offsets)], [])
    read = [event for record in records for event in events(record)]
    assert len(read) == 7
    assert {(event.identity[1], event.ending) for event in read} == {("T1", 1)}  # type: ignore[union-attr]
    assert [o for event in read for o in event.half_offsets] == half_offsets  # type: ignore[union-attr]
    assert max(size_bytes(record) for record in records) < KAFKA_BYTES_MAX


def test_a_conflict_with_very_many_offsets_is_cut_too() -> None:
    half_offsets = [HalfOffset(n) for n in range(op.OFFSETS_MAX + 1)]
    lost = ConflictMark(identity_of("T1"), ConflictKind.UNCOVERED, OpOffset(3), half_offsets)
    read = [event for record in op.write_step([], [lost]) for event in events(record)]
    assert [len(event.half_offsets) for event in read] == [op.OFFSETS_MAX, 1]  # type: ignore[union-attr]


def test_a_mark_with_just_as_many_offsets_as_fit_stays_whole() -> None:
    (record,) = op.write_step([done_mark("T1", 1, list(range(op.OFFSETS_MAX)))], [])
    assert len(events(record)) == 1


@pytest.mark.parametrize("character", ['"', "\\", "\x01", "€", "\U0001f600"])
def test_no_record_is_too_large_however_its_ids_are_spelled(character: str) -> None:
    length = 255 // len(character.encode())
    identity = ProducerGroup(character * length), TransactionId(character * length)
    digests = (2**64 - 1,) * 20
    done = [DoneMark(identity, 1, [HalfOffset(10**18)], digests) for _ in range(op.MARKS_MAX)]
    records = op.write_step(done, [])
    assert sum(len(events(record)) for record in records) == op.MARKS_MAX
    assert max(size_bytes(record) for record in records) < KAFKA_BYTES_MAX


# -- what is not ours ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        [("TAGS", b"c")],
        [("TAGS", b"c"), ("HALFHITCH", b"1[]"), ("more", b"")],
        [("HALFHITCH", b"1[]"), ("TAGS", b"c")],
        [("TAGS", b"c"), ("OTHER", b"1[]")],
        [("TAGS", b"c"), ("HALFHITCH", None)],
        [("TAGS", b"c"), ("HALFHITCH", b"")],
        [("TAGS", b"c"), ("HALFHITCH", b"1")],
        [("TAGS", None), ("HALFHITCH", b"1[]")],
        [("TAGS", b"q"), ("HALFHITCH", b"1[]")],
        [("TAGS", b"cc"), ("HALFHITCH", b"1[]")],
    ],
)
def test_a_strangers_record_is_garbage_with_its_place_and_a_reason(headers: Headers | None) -> None:
    read = op.read(5, 77, b"", headers)
    assert isinstance(read, Garbage)
    assert read.log_offset == 5
    assert read.reason
    assert not read.is_newer


@pytest.mark.parametrize(
    ("version", "is_newer"),
    [(b"2", True), (b"9", True), (b"0", False), (b"[", False), (b"\xff", False)],
)
def test_a_record_of_a_newer_release_is_told_from_garbage(version: bytes, is_newer: bool) -> None:
    read = op.read(5, 77, b"", [("TAGS", b"c"), ("HALFHITCH", version + b'{"new":1}')])
    assert isinstance(read, Garbage)
    assert read.is_newer is is_newer


GOOD = ["orders", "T1", 1, 1, "producer", None]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, ""),
        (0, "g" * 256),
        (0, 7),
        (1, ""),
        (1, "i" * 256),
        (1, None),
        (2, 0),
        (2, 1_001),
        (2, 1.5),
        (2, "1"),
        (3, -1),
        (3, 2),
        (3, 0),
        (3, 100_001),
        (4, "nobody"),
        (5, 5),
    ],
)
def test_an_entry_with_one_wrong_field_is_garbage(place: int, value: object) -> None:
    assert raw(b"c", b"1" + json.dumps([GOOD]).encode(), b"17,")
    wrong = [*GOOD]
    wrong[place] = value
    assert not raw(b"c", b"1" + json.dumps([wrong]).encode(), b"17,")


@pytest.mark.parametrize(
    "body",
    [
        b'1[["orders","T1",1,1,"producer",null,"more"]]',
        b'1[["orders","T1",1]]',
        b'1{"a":1}',
        b"1[",
        b"1" + b"[" * 100_000,
        b'1[["orders","\xff",1,1,"producer"]]',
        b"1[]",
    ],
)
def test_a_body_that_is_not_the_form_is_garbage(body: bytes) -> None:
    assert not raw(b"c", body, b"17,")


@pytest.mark.parametrize("ending", [-4, 1_001])
def test_an_ending_that_cannot_be_is_garbage(ending: int) -> None:
    assert raw(b"d", b'1[["orders","T1",1,0]]')
    assert not raw(b"d", b'1[["orders","T1",%d,0]]' % ending)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'1[["orders","T1","","ann","why"]]', b""),
        (b'1[["","T1","resume","ann","why"]]', b""),
        (b'1[["orders","T1","resume","ann"]]', b""),
        (b'1[["orders","T1","resume",null,"why"]]', b""),
        (b'1[["orders","T1","resume","ann","why","more"]]', b""),
        (b'1[["orders","T1","resume","ann","why"]]', b"3,"),
    ],
)
def test_a_note_that_cannot_be_is_garbage(body: bytes, value: bytes) -> None:
    assert isinstance(op.read(5, 77, value, [("TAGS", b"o"), ("HALFHITCH", body)]), Garbage)


@pytest.mark.parametrize("body", [b'["orders","T1","odd",8,0]', b'["orders","T1","contrary",-1,0]'])
def test_a_conflict_that_cannot_be_is_garbage(body: bytes) -> None:
    assert raw(b"x", b'1[["orders","T1","contrary",8,0]]')
    assert not raw(b"x", b"1[" + body + b"]")


@pytest.mark.parametrize(
    "value",
    [b"17", b"17,18", b",", b"17,,", b" 17,", b"+17,", b"-17,", b"1_7,", b"x,", b"0" * 20 + b","],
)
def test_offsets_are_digits_and_trailing_commas_and_nothing_else(value: bytes) -> None:
    body = b'1[["orders","T1",1,1]]'
    assert raw(b"d", body, b"17,")
    assert not raw(b"d", body, value)


@pytest.mark.parametrize("value", [None, b"", b"1,", b"1,2,3,"])
def test_entries_and_value_must_agree_on_the_number_of_offsets(value: bytes | None) -> None:
    for tag, body in (
        (b"c", b'1[["orders","T1",1,2,"producer"]]'),
        (b"d", b'1[["orders","T1",1,2]]'),
        (b"x", b'1[["orders","T1","contrary",8,2]]'),
    ):
        assert raw(tag, body, b"1,2,")
        assert not raw(tag, body, value)


def test_a_record_without_offsets_may_have_no_value_at_all() -> None:
    assert [type(event) for event in raw(b"d", b'1[["orders","T1",1,0]]', None)] == [DoneRead]


def test_a_value_longer_than_any_of_ours_is_not_even_looked_at() -> None:
    value = b"1," * (op.VALUE_BYTES_MAX // 2 + 1)
    read = op.read(5, 77, value, [("TAGS", b"d"), ("HALFHITCH", b"1[]")])
    assert isinstance(read, Garbage)
    assert read.reason == "value too long"


def test_a_reason_for_people_is_kept_short_whatever_the_record_holds() -> None:
    read = op.read(5, 77, b"", [("TAGS", b"q" * 10_000), ("HALFHITCH", b"1[]")])
    assert isinstance(read, Garbage)
    assert len(read.reason) < 200


# -- operators' notes ----------------------------------------------------------------------------


def test_notes_are_read_as_they_were_written() -> None:
    identity = ProducerGroup("shop"), TransactionId("order-1")
    _, headers = op.write_note(identity, action="resume", operator="ann", reason="repaired")
    assert op.read_notes(headers) == [op.NoteEntry(*identity, "resume", "ann", "repaired")]


@pytest.mark.parametrize(
    "headers",
    [None, [], [("TAGS", b"o")], [("TAGS", b"c"), ("HALFHITCH", b"1[]")],
     [("TAGS", b"o"), ("HALFHITCH", None)], [("TAGS", b"o"), ("HALFHITCH", b"1[]")],
     [("TAGS", b"o"), ("HALFHITCH", b"2[1,2,3]")], [("TAGS", b"o"), ("HALFHITCH", b"1[1,2,3]")]],
)  # fmt: skip
def test_of_other_records_no_note_is_read(headers: list[tuple[str, bytes | None]] | None) -> None:
    assert op.read_notes(headers) == []
