"""Requests to end a transaction: as the Java clients send them, the short way and in full."""

from __future__ import annotations

import msgspec
import pytest

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.ending import COMMIT, ROLLBACK, UNKNOWN, read_end
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.fields import write_fields
from halfhitch.wire.remoting.frame import Frames, encode, request
from halfhitch.wire.remoting.requests import End, Form, Frame
from halfhitch.wire.remoting.shapes import LIKE_MAX, PIECE_BYTES_MAX

UNIQUE = "FD000000000000000000000000000002029B30946E096AB30E640003"
#: In the order in which the Java client of 5.5 writes it.
USUAL = {
    "producerGroup": "pg",
    "bname": "hh",
    "commitLogOffset": "562949953421316",
    "topic": "BenchmarkTest",
    "msgId": UNIQUE,
    "tranStateTableOffset": "4",
    "commitOrRollback": "8",
    "transactionId": UNIQUE,
    "fromTransactionCheck": "false",
}
READ = End(
    producer_group="pg",
    commit_or_rollback=COMMIT,
    from_check=False,
    state_offset=4,
    commit_log_offset=562_949_953_421_316,
    message_id=UNIQUE,
    transaction_id=UNIQUE,
    topic="BenchmarkTest",
    broker_name="hh",
    namespace=None,
)


def from_raw(frames: Frames, raw: bytes) -> Frame:
    """As it arrives on a connection."""
    sent = Frame(codes.END_TRANSACTION, 5, 2, 0, 513, None, b"", Form.BINARY, raw)
    (seen,) = frames.feed(encode(sent))
    return seen


def result(frames: Frames, raw: bytes) -> End | str:
    try:
        return read_end(from_raw(frames, raw))
    except RemotingError as error:
        return error.remark


def in_full(raw: bytes) -> End | str:
    return result(Frames(), raw)


def changed(**values: object) -> End:
    return msgspec.structs.replace(READ, **values)


@pytest.mark.parametrize("form", list(Form))
def test_both_forms_say_the_same(form: Form) -> None:
    (seen,) = Frames().feed(encode(request(codes.END_TRANSACTION, 1, USUAL, form=form)))
    assert read_end(seen) == READ


def test_an_older_client_leaves_topic_and_transaction_out() -> None:
    fields = {name: USUAL[name] for name in USUAL if name not in ("topic", "transactionId")}
    raw, frames = write_fields(fields), Frames()
    for _ in range(3):
        assert result(frames, raw) == changed(topic=None, transaction_id=None)


@pytest.mark.parametrize(("text", "decision"), [("0", UNKNOWN), ("8", COMMIT), ("12", ROLLBACK)])
def test_there_are_three_decisions(text: str, decision: int) -> None:
    assert (
        read_end(request(37, 1, USUAL | {"commitOrRollback": text})).commit_or_rollback == decision
    )


def test_there_is_no_fourth_one() -> None:
    with pytest.raises(RemotingError, match="commitOrRollback is 4: 8 commits") as caught:
        read_end(request(37, 1, USUAL | {"commitOrRollback": "4"}))
    assert caught.value.response_code == codes.INVALID_PARAMETER


@pytest.mark.parametrize(
    "name", ["producerGroup", "commitOrRollback", "tranStateTableOffset", "commitLogOffset"]
)
def test_what_must_be_there_is_named_when_missing(name: str) -> None:
    with pytest.raises(RemotingError, match=f"the field {name} is missing"):
        read_end(request(37, 1, USUAL | {name: ""}))


def test_a_namespace_beside_the_topic_is_seen() -> None:
    assert read_end(request(37, 1, USUAL | {"nsd": "true", "ns": "ns"})).namespace == "ns"


# -- the short way -------------------------------------------------------------------------------


def test_a_known_header_is_not_read_in_full_again() -> None:
    frames = Frames()
    first = from_raw(frames, write_fields(USUAL))
    assert read_end(first) == READ
    assert first.known_fields is not None
    other = {"commitLogOffset": "562949953421317", "msgId": UNIQUE[:-1] + "4", "topic": "b" * 13}
    second = from_raw(frames, write_fields(USUAL | other))
    assert read_end(second) == changed(
        commit_log_offset=562_949_953_421_317, message_id=UNIQUE[:-1] + "4", topic="b" * 13
    )
    assert second.known_fields is None


@pytest.mark.parametrize(
    "odd",
    [
        {"producerGroup": "gp"},
        {"bname": "ii"},
        {"fromTransactionCheck": "TRUE!"},
        {"fromTransactionCheck": "true", "commitOrRollback": "12"},
        {"commitOrRollback": "0"},
        {"commitOrRollback": "4"},
        {"commitOrRollback": "x"},
        {"tranStateTableOffset": "x"},
        {"tranStateTableOffset": "-"},
        {"tranStateTableOffset": ""},
        {"commitLogOffset": "-62949953421316"},
        {"commitLogOffset": "+62949953421316"},
        {"commitLogOffset": "9" * 18},
        {"commitLogOffset": "9" * 19},
        {"commitLogOffset": "1" * 19},
        {"msgId": "", "transactionId": ""},
        {"msgId": ""},
        {"transactionId": ""},
        {"topic": ""},
        {"topic": "é" * 6 + "e"},
        {"ns": "ns", "nsd": "true"},
        {"Signature": "x"},
        {"bname": "h" * PIECE_BYTES_MAX},
    ],
)
def test_an_odd_header_is_read_the_same_after_usual_ones(odd: dict[str, str]) -> None:
    usual, raw, frames = write_fields(USUAL), write_fields(USUAL | odd), Frames()
    right = in_full(raw)
    assert result(frames, usual) == READ
    for _ in range(3):
        assert result(frames, raw) == right
        assert result(frames, usual) == READ


@pytest.mark.parametrize("name", ["msgId", "transactionId", "topic"])
def test_fields_of_no_text_are_refused_after_usual_ones(name: str) -> None:
    marked = USUAL | {name: "z" * len(USUAL[name])}
    broken, frames = write_fields(marked).replace(b"z", b"\xff"), Frames()
    assert result(frames, write_fields(USUAL)) == READ
    assert result(frames, broken) == in_full(broken)
    assert isinstance(in_full(broken), str)


@pytest.mark.parametrize("name", ["commitLogOffset", "tranStateTableOffset", "msgId"])
def test_what_lacks_a_field_is_not_kept(name: str) -> None:
    raw, frames = write_fields({one: USUAL[one] for one in USUAL if one != name}), Frames()
    for _ in range(2):
        assert result(frames, raw) == in_full(raw)


def test_foreign_fields_are_not_kept() -> None:
    frames = Frames()
    for odd in ({"Signature": "x"}, {"bname": "h" * PIECE_BYTES_MAX}, {"msgId": "x" * 2_000}):
        seen = from_raw(frames, write_fields(USUAL | odd))
        read_end(seen)
        assert seen.shapes is not None
        assert not seen.shapes.ends


def test_a_field_twice_is_read_as_in_full() -> None:
    frames = Frames()
    for name, value in (("commitLogOffset", "7"), ("bname", "ii"), ("msgId", "FD")):
        raw = write_fields({name: value}) + write_fields(USUAL) + write_fields({name: value})
        for _ in range(3):
            assert result(frames, raw) == in_full(raw)


def test_shapes_of_one_length_are_few() -> None:
    frames = Frames()
    for number in range(10, 10 + 3 * LIKE_MAX):
        seen = from_raw(frames, write_fields(USUAL | {"producerGroup": str(number)}))
        assert read_end(seen) == changed(producer_group=str(number))
    assert seen.shapes is not None
    (like,) = seen.shapes.ends.values()
    assert [shape.meaning[0] for shape in like] == ["21", "20", "19", "18"]
