"""Half records: written and read back whole; a stranger's record is garbage and never an error."""

import pytest

from halfhitch.core.model import HalfRead
from halfhitch.wire import headers as names
from halfhitch.wire.half import (
    ID_BYTES_MAX,
    INDEX_MAX,
    PARTITION_MAX,
    Forward,
    Garbage,
    HalfRecord,
    Headers,
    read_forward,
    read_identity,
    read_record,
    system_headers,
)

PLAIN = HalfRecord("T1", "orders", 0, 1_700_000_000_000, "node-1", "invoices")
FULL = HalfRecord("T1", "orders", 7, 1_700_000_000_000, "a;b", "invoices", 3, 60, 2, 41)
USER: Headers = [("trace", b"1"), ("empty", b""), ("null", None), ("trace", b"2")]


def changed(place: int, value: bytes | None, record: HalfRecord = PLAIN) -> Headers:
    """The record's headers with one value replaced."""
    headers = system_headers(record)
    headers[place] = (headers[place][0], value)
    return headers


def marker(value: bytes | None) -> Headers:
    return changed(0, value)


def test_a_half_record_looks_like_this() -> None:
    assert system_headers(FULL) == [
        ("HALFHITCH", b"1;7;1700000000000;a;b"),
        ("UNIQ_KEY", b"T1"),
        ("PGROUP", b"orders"),
        ("REAL_TOPIC", b"invoices"),
        ("TRAN_MSG", b"true"),
        ("REAL_QID", b"3"),
        ("CHECK_IMMUNITY_TIME_IN_SECONDS", b"60"),
        ("TRANSACTION_CHECK_TIMES", b"2"),
        ("TRAN_PREPARED_QUEUE_OFFSET", b"41"),
    ]


def test_what_is_not_given_is_not_written() -> None:
    assert len(system_headers(PLAIN)) == 5


@pytest.mark.parametrize("record", [PLAIN, FULL], ids=["plain", "full"])
@pytest.mark.parametrize("user", [[], USER], ids=["bare", "with user headers"])
def test_a_record_is_read_as_it_was_written(record: HalfRecord, user: Headers) -> None:
    headers = system_headers(record) + user
    assert read_record(9, headers) == record
    identity = read_identity(9, 77, 1_000, headers)
    assert identity == HalfRead(9, 77, ("orders", "T1"), record.index, 1_000)  # type: ignore[arg-type]


def test_partition_zero_and_immunity_zero_are_kept() -> None:
    record = HalfRecord("T1", "orders", 0, 0, "", "invoices", 0, 0, 0, 0)
    assert read_record(9, system_headers(record)) == record


def test_a_group_is_one_string_for_all_its_halves() -> None:
    first = read_identity(1, 0, 0, system_headers(PLAIN))
    second = read_identity(2, 0, 0, system_headers(FULL))
    assert isinstance(first, HalfRead)
    assert isinstance(second, HalfRead)
    assert first.identity[0] is second.identity[0]


NO_HALVES: dict[str, Headers | None] = {
    "no headers": None,
    "an empty list": [],
    "too few": system_headers(PLAIN)[:4],
    "another first": [("X", b"1"), *system_headers(PLAIN)],
    "id out of place": [system_headers(PLAIN)[n] for n in (0, 2, 1, 3, 4)],
    "group out of place": [system_headers(PLAIN)[n] for n in (0, 1, 3, 2, 4)],
    "topic out of place": [system_headers(PLAIN)[n] for n in (0, 1, 2, 4, 3)],
    "null marker": marker(None),
    "short marker": marker(b"1;0;5"),
    "negative index": marker(b"1;-1;5;i"),
    "signed index": marker(b"1;+1;5;i"),
    "blank index": marker(b"1; 1;5;i"),
    "underscored index": marker(b"1;1_0;5;i"),
    "empty index": marker(b"1;;5;i"),
    "index too large": marker(b"1;%d;5;i" % (INDEX_MAX + 1)),
    "endless index": marker(b"1;" + b"0" * 20 + b";5;i"),
    "null id": changed(1, None),
    "empty id": changed(1, b""),
    "id that is no text": changed(1, b"\xff"),
    "id too long": changed(1, b"i" * (ID_BYTES_MAX + 1)),
    "null group": changed(2, None),
    "empty group": changed(2, b""),
    "group that is no text": changed(2, b"\xff"),
    "group too long": changed(2, b"g" * (ID_BYTES_MAX + 1)),
}


@pytest.mark.parametrize("headers", NO_HALVES.values(), ids=NO_HALVES.keys())
def test_what_is_no_half_is_garbage_with_its_place_and_a_reason(headers: Headers | None) -> None:
    for garbage in (read_identity(9, 0, 0, headers), read_record(9, headers)):
        assert isinstance(garbage, Garbage)
        assert garbage.log_offset == 9
        assert garbage.reason
        assert not garbage.is_newer


@pytest.mark.parametrize("place", [1, 2])
def test_the_longest_id_and_group_are_read(place: int) -> None:
    headers = changed(place, b"x" * ID_BYTES_MAX)
    assert isinstance(read_identity(9, 0, 0, headers), HalfRead)


def test_the_highest_index_is_read() -> None:
    assert isinstance(read_identity(9, 0, 0, marker(b"1;%d;5;i" % INDEX_MAX)), HalfRead)


@pytest.mark.parametrize("version", [b"2", b"9", b"10", b"99"])
def test_a_record_of_a_newer_release_is_told_from_garbage(version: bytes) -> None:
    for read in (
        read_identity(9, 0, 0, marker(version + b";0;5;i")),
        read_record(9, marker(version + b";0;5;i")),
    ):
        assert isinstance(read, Garbage)
        assert read.is_newer
        assert version.decode() in read.reason


@pytest.mark.parametrize("version", [b"0", b"01", b"", b"-2", b"x", b"100", b"2" * 5_000, b"\xff"])
def test_a_version_that_no_release_will_write_is_plain_garbage(version: bytes) -> None:
    read = read_identity(9, 0, 0, marker(version + b";0;5;i"))
    assert isinstance(read, Garbage)
    assert not read.is_newer
    assert len(read.reason) < 100


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, b"1;0;soon;i"),
        (0, b"1;0;5;\xff"),
        (3, b"\xff"),
        (5, b"-1"),
        (5, b""),
        (5, b"%d" % (PARTITION_MAX + 1)),
        (6, b"1.5"),
        (7, b"many"),
        (8, b"9" * 20),
    ],
)
def test_a_half_whose_details_do_not_parse_is_garbage_to_whoever_needs_them(
    place: int, value: bytes
) -> None:
    headers = changed(place, value, FULL)
    assert isinstance(read_identity(9, 0, 0, headers), HalfRead)
    assert isinstance(read_record(9, headers), Garbage)


def test_a_forward_carries_the_users_headers_first_and_none_of_the_half_only_ones() -> None:
    assert read_forward(9, system_headers(FULL) + USER) == Forward(
        "invoices",
        3,
        [
            *USER,
            ("UNIQ_KEY", b"T1"),
            ("PGROUP", b"orders"),
            ("HALFHITCH", b"1;7;1700000000000;a;b"),
        ],
    )


def test_without_a_target_partition_the_forward_names_none() -> None:
    forward = read_forward(9, system_headers(PLAIN))
    assert isinstance(forward, Forward)
    assert forward.target_partition is None
    assert {name for name, _ in forward.headers}.isdisjoint(names.HALF_ONLY)


def test_a_partition_among_other_system_headers_is_found() -> None:
    headers = system_headers(FULL)
    reordered = [*headers[:5], headers[6], headers[5], *USER]
    forward = read_forward(9, reordered)
    assert isinstance(forward, Forward)
    assert forward.target_partition == 3
    assert forward.headers[: len(USER)] == USER


def test_the_highest_partition_kafka_can_number_is_taken_and_the_next_one_is_not() -> None:
    forward = read_forward(9, changed(5, b"%d" % PARTITION_MAX, FULL))
    assert isinstance(forward, Forward)
    assert forward.target_partition == PARTITION_MAX
    assert isinstance(read_forward(9, changed(5, b"%d" % (PARTITION_MAX + 1), FULL)), Garbage)


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        system_headers(PLAIN)[:4],
        [system_headers(PLAIN)[n] for n in (0, 1, 2, 4, 3)],
        changed(3, None),
        changed(3, b""),
        changed(3, b"\xff"),
        changed(5, b"x", FULL),
    ],
)
def test_what_cannot_be_forwarded_is_garbage(headers: Headers | None) -> None:
    garbage = read_forward(9, headers)
    assert isinstance(garbage, Garbage)
    assert garbage.log_offset == 9


def test_a_newer_form_is_known_as_such_even_with_other_fields() -> None:
    headers = system_headers(HalfRecord("id", "group", 0, 1, "here", "orders"))
    headers[0] = (headers[0][0], b"2 another form altogether")
    assert isinstance(found := read_identity(7, 0, 0, headers), Garbage)
    assert not found.is_newer  # "2 another form altogether" is no version
    headers[0] = (headers[0][0], b"2;another;form")
    assert isinstance(found := read_identity(7, 0, 0, headers), Garbage)
    assert found.is_newer
