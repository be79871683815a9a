"""Half records: written and read back whole; a stranger's record is garbage and never an error."""

from dataclasses import asdict, replace

import pytest

from halfhitch.core.model import HalfOffset, HalfRead, Resolution, TimestampMs
from halfhitch.wire import headers as names
from halfhitch.wire.half import (
    CHECK_COUNT_MAX,
    ID_BYTES_MAX,
    IMMUNITY_S_MAX,
    INDEX_MAX,
    PARTITION_MAX,
    Forward,
    Garbage,
    HalfRecord,
    Headers,
    born_ms_of,
    copied_headers,
    instance_of,
    read_forward,
    read_identity,
    read_record,
    system_headers,
    user_headers,
    usual_identity,
)
from harness.ledger_script import identity_of

PLAIN = HalfRecord("T1", "orders", 0, 1_700_000_000_000, "node-1", "invoices")
FULL = HalfRecord("T1", "orders", 7, 1_700_000_000_000, "a;b", "invoices", 3, 60, 2, 41)
#: As it is after two checks.
COPY = replace(FULL, first_stored_ms=1_600_000_000_000)
#: As it is when it was put back for the second time; the note that says so lies at op offset 99.
AGAIN = replace(COPY, first_stored_ms=0, check_count=0, resumed_count=2, fence=99)
BORN = replace(AGAIN, born=Resolution.COMMIT, born_count=3)
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


@pytest.mark.parametrize(
    ("record", "written"),
    [
        (COPY, b"1600000000000"),
        (AGAIN, b"0;2;99;;0"),
        (BORN, b"0;2;99;c;3"),
        (replace(BORN, born=Resolution.ROLLBACK, first_stored_ms=77), b"77;2;99;r;3"),
    ],
)
def test_what_is_not_the_first_copy_says_so_and_of_which_life_it_is(
    record: HalfRecord, written: bytes
) -> None:
    assert system_headers(record)[-1] == ("HALFHITCH_COPY", written)


def test_what_is_not_given_is_not_written() -> None:
    assert len(system_headers(PLAIN)) == 5


@pytest.mark.parametrize("record", [PLAIN, FULL, COPY, AGAIN, BORN])
@pytest.mark.parametrize("user", [[], USER], ids=["bare", "with user headers"])
def test_a_record_is_read_as_it_was_written(record: HalfRecord, user: Headers) -> None:
    headers = system_headers(record) + user
    assert read_record(9, headers) == record
    assert read_identity(9, 77, 1_000, headers) == HalfRead(
        HalfOffset(9),
        TimestampMs(77),
        identity_of("T1"),
        record.index,
        1_000,
        immunity_ms=-1 if record.immunity_s is None else record.immunity_s * 1_000,
        check_count=record.check_count,
        first_stored_ms=-1 if record.first_stored_ms is None else record.first_stored_ms,
        first_half_offset=-1 if record.first_half_offset is None else record.first_half_offset,
        resumed_count=record.resumed_count,
        fence=record.fence or -1,
        born=record.born,
        born_count=record.born_count,
    )


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
    headers = changed(place, value, COPY)
    assert isinstance(read_identity(9, 0, 0, headers), HalfRead)
    assert isinstance(read_record(9, headers), Garbage)


@pytest.mark.parametrize("value", [None, b"", b"soon", b"-5", b"9" * 20])
def test_a_copy_that_does_not_say_since_when_is_none_to_whoever_reads_it(
    value: bytes | None,
) -> None:
    read = read_record(9, changed(9, value, COPY))
    assert isinstance(read, HalfRecord)
    assert read == replace(COPY, first_stored_ms=None)


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


# -- what the check-back reads -------------------------------------------------------------------


def option(name: str, value: bytes | None) -> HalfRead:
    read = read_identity(9, 77, 0, [*system_headers(PLAIN), (name, value), *USER])
    assert isinstance(read, HalfRead)
    return read


@pytest.mark.parametrize(
    ("value", "immunity_ms"),
    [
        (b"0", 0),
        (b"1", 1_000),
        (b"90", 90_000),
        (b"%d" % IMMUNITY_S_MAX, IMMUNITY_S_MAX * 1_000),
        (b"%d" % (IMMUNITY_S_MAX + 1), IMMUNITY_S_MAX * 1_000),
        (b"9" * 19, IMMUNITY_S_MAX * 1_000),
        # As if nothing had been said:
        (b"9" * 20, -1),
        (b"9" * 100_000, -1),
        (b"-1", -1),
        (b"-0", -1),
        (b"+5", -1),
        (b"5.5", -1),
        (b"1e3", -1),
        (b"5s", -1),
        (b" 5", -1),
        (b"1_0", -1),
        (b"soon", -1),
        (b"\xff", -1),
        ("\u0665".encode(), -1),
        (b"", -1),
        (None, -1),
    ],
)
def test_an_immunity_is_a_plain_number_of_seconds_up_to_a_week_or_the_default(
    value: bytes | None, immunity_ms: int
) -> None:
    assert option("CHECK_IMMUNITY_TIME_IN_SECONDS", value).immunity_ms == immunity_ms


@pytest.mark.parametrize(
    ("value", "check_count"),
    [
        (b"0", 0),
        (b"15", 15),
        (b"%d" % CHECK_COUNT_MAX, CHECK_COUNT_MAX),
        (b"9" * 19, CHECK_COUNT_MAX),
        (b"9" * 20, 0),
        (b"-3", 0),
        (b"3.0", 0),
        (b"many", 0),
        (b"", 0),
        (None, 0),
    ],
)
def test_a_check_number_that_does_not_parse_is_none(value: bytes | None, check_count: int) -> None:
    assert option("TRANSACTION_CHECK_TIMES", value).check_count == check_count


NOT_PUT_BACK = (0, -1, None, 0)


@pytest.mark.parametrize(
    ("value", "first_stored_ms", "life"),
    [
        (b"5", 5, NOT_PUT_BACK),
        (b"0", 0, NOT_PUT_BACK),
        (b"0;1;7;;0", 0, (1, 7, None, 0)),
        (b"0;1;0;c;1", 0, (1, 0, Resolution.COMMIT, 1)),
        (b"1600000000000;12;7;r;3", 1_600_000_000_000, (12, 7, Resolution.ROLLBACK, 3)),
        (b"0;1;7;c;%d" % (INDEX_MAX + 2), 0, (1, 7, Resolution.COMMIT, INDEX_MAX + 1)),
        # Nobody can be born given up, or as anything else:
        (b"0;1;7;p;1", 0, (1, 7, None, 1)),
        (b"0;1;7;x;1", 0, (1, 7, None, 1)),
        # A life that does not parse is none:
        (b"5;", 5, NOT_PUT_BACK),
        (b"5;1", 5, NOT_PUT_BACK),
        (b"5;1;7;c", 5, NOT_PUT_BACK),
        (b"5;1;7;c;", 5, NOT_PUT_BACK),
        (b"5;1;7;c;1;1", 5, NOT_PUT_BACK),
        (b"5;-1;7;c;1", 5, NOT_PUT_BACK),
        (b"5;1;-7;c;1", 5, NOT_PUT_BACK),
        (b"5;1;7;c;-1", 5, NOT_PUT_BACK),
        (b"5;" + b"9" * 20 + b";7;c;1", 5, NOT_PUT_BACK),
        (b"5," * 10_000, -1, NOT_PUT_BACK),
        # And what does not say since when, says nothing:
        (b";1;7;c;1", -1, NOT_PUT_BACK),
        (b"-5;1;7;c;1", -1, NOT_PUT_BACK),
        (b"9" * 20 + b";1;7;c;1", -1, NOT_PUT_BACK),
        (b"\xff;1;7;c;1", -1, NOT_PUT_BACK),
        (b"", -1, NOT_PUT_BACK),
        (None, -1, NOT_PUT_BACK),
    ],
)
def test_a_copy_says_since_when_and_of_which_life_or_nothing(
    value: bytes | None,
    first_stored_ms: int,
    life: tuple[int, int, Resolution | None, int],
) -> None:
    read = option("HALFHITCH_COPY", value)
    assert read.first_stored_ms == first_stored_ms
    assert (read.resumed_count, read.fence, read.born, read.born_count) == life


def test_an_option_that_does_not_parse_leaves_the_others_alone() -> None:
    headers = system_headers(replace(BORN, check_count=2))
    headers[6] = (headers[6][0], b"soon")
    read = read_identity(9, 77, 0, headers)
    assert isinstance(read, HalfRead)
    assert (read.immunity_ms, read.check_count) == (-1, 2)
    assert (read.first_stored_ms, read.resumed_count, read.fence) == (0, 2, 99)


def test_a_header_behind_the_users_is_the_users() -> None:
    headers: Headers = [*system_headers(PLAIN), *USER, ("TRANSACTION_CHECK_TIMES", b"9")]
    read = read_identity(9, 77, 0, headers)
    assert isinstance(read, HalfRead)
    assert read.check_count == 0
    assert user_headers(headers) == headers[5:]


# -- appended anew -------------------------------------------------------------------------------


def test_a_copy_keeps_everything_and_says_where_and_when_the_first_one_was() -> None:
    headers = system_headers(PLAIN) + USER
    copied = copied_headers(headers, 41, check_count=1, stored_ms=77)
    assert copied == [
        *system_headers(PLAIN),
        ("TRANSACTION_CHECK_TIMES", b"1"),
        ("TRAN_PREPARED_QUEUE_OFFSET", b"41"),
        ("HALFHITCH_COPY", b"77"),
        *USER,
    ]


def test_a_copy_of_a_copy_has_the_new_number_and_the_offset_of_the_very_first() -> None:
    first = copied_headers(system_headers(FULL)[:7] + USER, 41, check_count=1, stored_ms=77)
    second = copied_headers(first, 99, check_count=2, stored_ms=77)
    assert second == [
        *system_headers(FULL)[:7],
        ("TRANSACTION_CHECK_TIMES", b"2"),
        ("TRAN_PREPARED_QUEUE_OFFSET", b"41"),
        ("HALFHITCH_COPY", b"77"),
        *USER,
    ]
    read = read_record(120, second)
    assert isinstance(read, HalfRecord)
    assert (read.check_count, read.first_half_offset, read.first_stored_ms) == (2, 41, 77)


def test_a_renewal_has_the_number_of_the_copy_before() -> None:
    unchecked = copied_headers(system_headers(PLAIN), 41, check_count=0, stored_ms=77)
    assert "TRANSACTION_CHECK_TIMES" not in dict(unchecked)
    checked = copied_headers(unchecked, 50, check_count=4, stored_ms=77)
    renewed = copied_headers(checked, 60, check_count=4, stored_ms=77)
    assert renewed == checked


@pytest.mark.parametrize("record", [PLAIN, FULL, COPY, AGAIN, BORN])
def test_a_copy_is_read_with_the_same_identity_index_immunity_and_life(record: HalfRecord) -> None:
    headers = system_headers(record) + USER
    copied = copied_headers(headers, 41, check_count=3, stored_ms=88)
    read, before = read_identity(50, 99, 10, copied), read_identity(41, 77, 10, headers)
    assert isinstance(read, HalfRead)
    assert isinstance(before, HalfRead)
    assert read == replace(
        before,
        half_offset=HalfOffset(50),
        stored_at_ms=TimestampMs(99),
        check_count=3,
        first_stored_ms=88,
        first_half_offset=41 if record is PLAIN else FULL.first_half_offset or -1,
    )
    assert read_forward(50, copied) == read_forward(41, headers)


@pytest.mark.parametrize("value", [None, b"", b"soon", b"5;6;7"])
def test_a_life_that_does_not_parse_goes_along_as_it_is(value: bytes | None) -> None:
    """It may be of a newer release."""
    copied = copied_headers(changed(9, value, COPY), 41, check_count=3, stored_ms=88)
    life = b"".join((value or b"").partition(b";")[1:])
    assert copied[-1] == ("HALFHITCH_COPY", b"88" + life)


@pytest.mark.parametrize(
    ("value", "instance", "born_ms"),
    [
        (b"1;0;5;node-1", "node-1", 5),
        (b"1;0;5;a;b", "a;b", 5),
        (b"1;0;5;", "", 5),
        (b"1;0;5;\xff", "\ufffd", 5),
        (b"1;0;soon;node-1", "node-1", -1),
        (b"1;0", "", -1),
        (None, "", -1),
    ],
)
def test_who_took_it_and_when_is_told_as_far_as_it_can_be_read(
    value: bytes | None, instance: str, born_ms: int
) -> None:
    headers = marker(value)
    assert instance_of(headers) == instance
    assert born_ms_of(headers) == born_ms


def test_a_null_offset_of_the_first_copy_is_replaced() -> None:
    headers: Headers = [*system_headers(PLAIN), ("TRAN_PREPARED_QUEUE_OFFSET", None)]
    copied = copied_headers(headers, 41, check_count=1, stored_ms=77)
    assert dict(copied)["TRAN_PREPARED_QUEUE_OFFSET"] == b"41"


def test_copies_do_not_grow_however_often_they_are_made() -> None:
    headers = system_headers(FULL) + USER
    sizes = set()
    for number in range(1, 10):
        headers = copied_headers(headers, 41, check_count=number, stored_ms=77)
        sizes.add(len(headers))
    assert sizes == {len(system_headers(COPY)) + len(USER)}
    assert user_headers(headers) == USER


@pytest.mark.parametrize(
    ("before", "expected"),
    [(b"88", b"77;0;0;c;2"), (b"88;3;41;r;1", b"77;3;41;c;2"), (b"88;?", b"77;0;0;c;2")],
)
def test_a_copy_that_is_decided_carries_its_decision_and_stays_in_its_life(
    before: bytes, expected: bytes
) -> None:
    headers = changed(9, before, COPY)
    copied = copied_headers(
        headers, 41, check_count=0, stored_ms=77, decision=(Resolution.COMMIT, 2)
    )
    assert dict(copied)[names.HALFHITCH_COPY] == expected
    event = read_identity(50, 99, 1, copied)
    assert isinstance(event, HalfRead)
    assert (event.born, event.born_count, event.first_stored_ms) == (Resolution.COMMIT, 2, 77)


# -- what the message says -------------------------------------------------------------------------

SAYS = 0x0123456789ABCDEF
#: As a release wrote it that knew no digests.
OLD_MARKER = b"1;0;1700000000000;node-1"


def test_a_digest_stands_behind_the_instance_where_older_releases_pass_over_it() -> None:
    record = replace(PLAIN, digest=SAYS)
    headers = system_headers(record)
    assert headers[0] == ("HALFHITCH", OLD_MARKER + b";d=0123456789abcdef")
    assert headers[1:] == system_headers(PLAIN)[1:]
    assert read_record(9, headers) == record
    assert instance_of(headers) == "node-1"
    assert born_ms_of(headers) == 1_700_000_000_000
    # So did they read it: to them the digest belongs to the name of the instance.
    version, index, born, instance = (headers[0][1] or b"").split(b";", 3)
    assert (version, index, born) == (b"1", b"0", b"1700000000000")
    assert instance == b"node-1;d=0123456789abcdef"


def test_a_half_whose_facts_were_read_elsewhere_is_the_same_as_one_read_here() -> None:
    record = replace(PLAIN, digest=SAYS)
    read = read_identity(9, 5, 70, system_headers(record))
    assert isinstance(read, HalfRead)
    told = usual_identity(9, 5, 70, (*read.identity, read.index, read.digest))
    assert asdict(told) == asdict(read)
    assert told.digest == SAYS


def test_a_record_of_an_older_release_says_nothing_of_its_message() -> None:
    headers = system_headers(PLAIN)
    assert headers[0][1] == OLD_MARKER
    read = read_identity(9, 0, 0, headers)
    assert isinstance(read, HalfRead)
    assert read.digest == 0
    assert instance_of(headers) == "node-1"


@pytest.mark.parametrize(
    ("marker", "digest", "instance"),
    [
        (b"1;0;1;a;d=0123456789abcdef", SAYS, "a"),
        (b"1;0;1;a;d=0123456789ABCDEF", SAYS, "a"),
        (b"1;0;1;;d=ffffffffffffffff", 2**64 - 1, ""),
        (b"1;0;1;a;d=;d=0123456789abcdef", SAYS, "a;d="),
        (b"1;0;1;a;d=0123456789abcde", 0, "a;d=0123456789abcde"),
        (b"1;0;1;a;d=0123456789abcdef0", 0, "a;d=0123456789abcdef0"),
        (b"1;0;1;a;d=+123456789abcdef", 0, "a"),
        (b"1;0;1;a;d=0x23456789abcdef", 0, "a"),
        (b"1;0;1;a;d= 123456789abcde ", 0, "a"),
    ],
)
def test_a_digest_is_read_strictly_and_what_is_none_is_no_garbage(
    marker: bytes, digest: int, instance: str
) -> None:
    headers = [("HALFHITCH", marker), *system_headers(PLAIN)[1:]]
    read = read_identity(9, 0, 0, headers)
    assert isinstance(read, HalfRead)
    assert (read.digest, instance_of(headers)) == (digest, instance)


def test_every_copy_says_what_the_first_one_said() -> None:
    headers = system_headers(replace(PLAIN, digest=SAYS)) + USER
    for _ in range(2):
        headers = copied_headers(headers, 41, check_count=1, stored_ms=77)
        read = read_identity(9, 0, 0, headers)
        assert isinstance(read, HalfRead)
        assert read.digest == SAYS
    forward = read_forward(9, headers)
    assert isinstance(forward, Forward)
    assert forward.headers[-1] == headers[0]
