"""Requests to end a transaction, as the Java clients send them, and odd ones."""

from __future__ import annotations

import msgspec
import pytest

from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.ending import COMMIT, ROLLBACK, UNKNOWN, read_end
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.fields import write_fields
from halfhitch.wire.remoting.frame import Frames, encode, request
from halfhitch.wire.remoting.requests import End, Form, Frame

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


def arrived(raw: bytes) -> Frame:
    """As it arrives on a connection."""
    sent = Frame(codes.END_TRANSACTION, 5, 2, 0, 513, None, b"", Form.BINARY, raw)
    (seen,) = Frames().feed(encode(sent))
    return seen


def changed(**values: object) -> End:
    return msgspec.structs.replace(READ, **values)


@pytest.mark.parametrize("form", list(Form))
def test_both_forms_say_the_same(form: Form) -> None:
    (seen,) = Frames().feed(encode(request(codes.END_TRANSACTION, 1, USUAL, form=form)))
    assert read_end(seen) == READ


def test_an_older_client_leaves_topic_and_transaction_out() -> None:
    fields = {name: USUAL[name] for name in USUAL if name not in ("topic", "transactionId")}
    assert read_end(arrived(write_fields(fields))) == changed(topic=None, transaction_id=None)


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


@pytest.mark.parametrize(
    ("odd", "changes"),
    [
        ({"bname": "ii"}, {"broker_name": "ii"}),
        ({"fromTransactionCheck": "TRUE!"}, {}),
        ({"fromTransactionCheck": "True"}, {"from_check": True}),
        ({"commitLogOffset": "-7"}, {"commit_log_offset": -7}),
        ({"commitLogOffset": "+7"}, {"commit_log_offset": 7}),
        ({"msgId": ""}, {"message_id": ""}),
        ({"transactionId": ""}, {"transaction_id": None}),
        ({"topic": "é"}, {"topic": "é"}),
        ({"nsd": "false", "ns": "ns"}, {}),
        ({"Signature": "x"}, {}),
    ],
)
def test_an_odd_header_is_read_for_what_it_says(
    odd: dict[str, str], changes: dict[str, object]
) -> None:
    assert read_end(arrived(write_fields(USUAL | odd))) == changed(**changes)


@pytest.mark.parametrize(
    ("odd", "remark"),
    [
        ({"commitOrRollback": "x"}, "the field commitOrRollback is no whole number"),
        ({"tranStateTableOffset": "-"}, "the field tranStateTableOffset is no whole number"),
        ({"commitLogOffset": "9" * 19}, "the field commitLogOffset does not fit 64 bits"),
    ],
)
def test_what_makes_no_sense_is_refused(odd: dict[str, str], remark: str) -> None:
    with pytest.raises(RemotingError, match=remark):
        read_end(arrived(write_fields(USUAL | odd)))


@pytest.mark.parametrize("name", ["msgId", "transactionId", "topic"])
def test_fields_of_no_text_are_refused(name: str) -> None:
    broken = write_fields(USUAL | {name: "zzz"}).replace(b"zzz", b"\xff\xff\xff")
    with pytest.raises(RemotingError, match="do not parse"):
        read_end(arrived(broken))


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    raw = write_fields({"bname": "ii"}) + write_fields(USUAL) + write_fields({"msgId": "FD"})
    assert read_end(arrived(raw)) == changed(message_id="FD")
