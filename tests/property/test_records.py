"""Records and handles: what is written is read back, and any bytes are entries or Garbage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.core.model import (
    PARKED,
    ConflictKind,
    ConflictMark,
    ConflictRead,
    DecisionRead,
    DoneMark,
    DoneRead,
    HalfOffset,
    HalfRead,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.errors import InvalidHandle
from halfhitch.wire import headers as names
from halfhitch.wire import op
from halfhitch.wire.half import (
    INDEX_MAX,
    Forward,
    Garbage,
    HalfRecord,
    read_forward,
    read_identity,
    read_record,
    system_headers,
)
from halfhitch.wire.handle import Handle, HandleCodec
from halfhitch.wire.parked import Parked, parked_headers, read_parked

texts = st.text(min_size=1, max_size=60).filter(lambda text: 0 < len(text.encode()) <= 255)
words = st.text(st.characters(codec="utf-8", exclude_characters=";"), min_size=1, max_size=40)
offsets = st.integers(0, 2**63 - 1)
user_headers = st.lists(
    st.tuples(words.filter(lambda name: name not in names.SYSTEM), st.none() | st.binary()),
    max_size=6,
)
#: Anything a stranger could write: our names with odd values, other names, in any order.
odd_headers = st.none() | st.lists(
    st.tuples(
        st.sampled_from([*sorted(names.SYSTEM), names.TAGS, names.HALFHITCH_PARKED]) | st.text(),
        st.none()
        | st.binary()
        | st.sampled_from([b"1;0;5;here", b"2;0;5;here", b"1[]", b"c", b"d"]),
    ),
    max_size=10,
)


@st.composite
def half_records(draw: st.DrawFn) -> HalfRecord:
    return HalfRecord(
        transaction_id=draw(texts),
        producer_group=draw(texts),
        index=draw(st.integers(0, INDEX_MAX)),
        born_ms=draw(st.integers(0, 10**15)),
        instance=draw(st.text(max_size=30)),
        target_topic=draw(words),
        target_partition=draw(st.none() | st.integers(0, 2**31 - 1)),
        immunity_s=draw(st.none() | st.integers(0, 604_800)),
        check_count=draw(st.integers(0, 15)),
        first_half_offset=draw(st.none() | offsets),
    )


@given(half_records(), user_headers, offsets)
def test_a_half_record_is_read_back_as_it_was_written(
    record: HalfRecord, mine: list[tuple[str, bytes | None]], half_offset: int
) -> None:
    headers = system_headers(record) + mine
    assert read_record(half_offset, headers) == record
    identity = read_identity(half_offset, 5, 7, headers)
    assert isinstance(identity, HalfRead)
    assert identity.identity == (record.producer_group, record.transaction_id)
    assert (identity.index, identity.half_offset) == (record.index, half_offset)


@given(half_records(), user_headers)
def test_a_forwarded_record_has_the_users_headers_untouched_and_then_ours(
    record: HalfRecord, mine: list[tuple[str, bytes | None]]
) -> None:
    forward = read_forward(0, system_headers(record) + mine)
    assert isinstance(forward, Forward)
    assert (forward.target_topic, forward.target_partition) == (
        record.target_topic,
        record.target_partition,
    )
    assert forward.headers[: len(mine)] == mine
    assert [name for name, _ in forward.headers[len(mine) :]] == [
        names.UNIQ_KEY,
        names.PGROUP,
        names.HALFHITCH,
    ]


@given(odd_headers, st.none() | st.binary(), offsets)
def test_any_record_is_entries_or_garbage_and_never_an_exception(
    headers: list[tuple[str, bytes | None]] | None, value: bytes | None, log_offset: int
) -> None:
    assert isinstance(read_identity(log_offset, 0, 0, headers), HalfRead | Garbage)
    assert isinstance(read_record(log_offset, headers), HalfRecord | Garbage)
    assert isinstance(read_forward(log_offset, headers), Forward | Garbage)
    assert isinstance(op.read(log_offset, 0, value, headers), list | Garbage)
    assert isinstance(read_parked(log_offset, headers), Parked | Garbage)


@given(st.sampled_from([b"c", b"r", b"d", b"x"]), st.binary() | st.from_regex(rb"\[.*\]"))
def test_any_body_of_an_op_record_is_entries_or_garbage(tag: bytes, body: bytes) -> None:
    headers = [(names.TAGS, tag), (names.HALFHITCH, b"1" + body)]
    assert isinstance(op.read(0, 0, b"", headers), list | Garbage)  # type: ignore[arg-type]


identities = st.tuples(texts.map(ProducerGroup), texts.map(TransactionId))
offset_lists = st.lists(offsets.map(HalfOffset), max_size=5)


@given(
    st.lists(
        st.tuples(identities, st.integers(1, INDEX_MAX + 1), offset_lists, st.none() | st.text()),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(Resolution),
    st.sampled_from(ResolutionSource),
)
def test_decisions_of_one_record_are_read_back(
    decisions: list[tuple[tuple[str, str], int, list[int], str | None]],
    resolution: Resolution,
    source: ResolutionSource,
) -> None:
    entries: list[op.Entry] = [
        op.DecisionEntry(*identity, covered, len(hints), source, reason)
        for identity, covered, hints, reason in decisions
    ]
    value, headers = op.write(
        op.tag_of(resolution), entries, [o for _, _, hints, _ in decisions for o in hints]
    )
    assert op.read(9, 8, value, headers) == [
        DecisionRead(
            OpOffset(9), 8, identity, resolution, covered, source, max(hints, default=-1), reason,
            tuple(hints) if len(hints) > 1 else (),
        )
        for identity, covered, hints, reason in decisions
    ]  # fmt: skip


@given(
    st.lists(
        st.builds(
            DoneMark,
            identities,
            st.integers(PARKED, INDEX_MAX + 1),
            offset_lists,
            st.lists(st.integers(0, 2**64 - 1), max_size=3).map(tuple),
        ),
        max_size=8,
    ),
    st.lists(
        st.builds(
            ConflictMark,
            identities,
            st.sampled_from(ConflictKind),
            offsets.map(OpOffset),
            offset_lists,
        ),
        max_size=8,
    ),
)
def test_the_marks_of_a_step_are_read_back_in_order(
    done: list[DoneMark], conflicts: list[ConflictMark]
) -> None:
    read: list[object] = []
    for value, headers, key in op.write_step(done, conflicts):
        entries = op.read(3, 2, value, headers, key)
        assert not isinstance(entries, Garbage), entries
        read += entries
    marks: list[object] = [
        DoneRead(OpOffset(3), 2, m.identity, m.ending, tuple(m.half_offsets), m.digests)
        for m in done
    ]
    lost = [
        ConflictRead(OpOffset(3), 2, m.identity, m.kind, m.losing_op_offset, tuple(m.half_offsets))
        for m in conflicts
    ]
    reused = [conflict for conflict in lost if conflict.kind is ConflictKind.REUSED]
    others = [conflict for conflict in lost if conflict.kind is not ConflictKind.REUSED]
    assert read == [*reused, *marks, *others]


handles = st.builds(
    Handle,
    st.integers(0, 65_535),
    texts,
    texts,
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20).map(tuple),
    st.lists(st.from_regex(r"[a-z]{1,20}", fullmatch=True), max_size=4, unique=True).map(tuple),
)
CODEC = HandleCodec([b"k" * 32, b"o" * 16])


@given(handles)
def test_a_handle_is_read_back_and_by_every_key(handle: Handle) -> None:
    assert CODEC.decode(CODEC.encode(handle)) == handle
    assert CODEC.decode(HandleCodec([b"o" * 16]).encode(handle)) == handle


@given(handles, st.data())
def test_a_handle_with_any_character_changed_is_refused(
    handle: Handle, data: st.DataObject
) -> None:
    text = CODEC.encode(handle)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda c: c != text[place]))
    with pytest.raises(InvalidHandle):
        CODEC.decode(text[:place] + other + text[place + 1 :])


@given(st.text())
def test_any_text_that_we_did_not_sign_is_refused(text: str) -> None:
    with pytest.raises(InvalidHandle):
        CODEC.decode(text)


@given(user_headers, st.text(), st.integers(0, 2**31 - 1), offsets)
def test_why_a_message_was_parked_is_read_back(
    mine: list[tuple[str, bytes | None]], detail: str, partition: int, half_offset: int
) -> None:
    why = Parked("undeliverable", detail[:500], partition, half_offset, "c")
    headers = parked_headers(mine, why)
    assert headers[:-1] == mine
    assert read_parked(0, headers) == why
