"""Requests that bring messages, as the Java client sends them, and odd ones."""

from __future__ import annotations

from struct import pack

import msgspec
import pytest

from halfhitch.wire.remoting import codes, sending
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.fields import write_fields
from halfhitch.wire.remoting.frame import Frames, encode, request
from halfhitch.wire.remoting.requests import BatchedMessage, Form, Frame, Send
from halfhitch.wire.remoting.sending import read_batch, read_send, sent_reply

UNIQUE = "FD000000000000000000000000000002029B30946E096AB30E560002"
PROPERTIES = f"TRAN_MSG\1true\2UNIQ_KEY\1{UNIQUE}\2PGROUP\1benchmark_transaction_producer\2"
#: In the order in which the Java client writes it.
USUAL = {
    "a": "benchmark_transaction_producer",
    "b": "BenchmarkTest",
    "c": "TBW102",
    "d": "1000",
    "e": "1",
    "f": "4",
    "g": "1795281319510",
    "h": "0",
    "i": PROPERTIES,
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "hh",
}
READ = Send(
    producer_group="benchmark_transaction_producer",
    topic="BenchmarkTest",
    default_topic="TBW102",
    default_queue_count=1000,
    queue_id=1,
    sys_flag=4,
    born_ms=1_795_281_319_510,
    flag=0,
    properties={
        "TRAN_MSG": "true",
        "UNIQ_KEY": UNIQUE,
        "PGROUP": "benchmark_transaction_producer",
    },
    reconsume_count=0,
    batch=False,
    broker_name="hh",
    namespace=None,
    body=b"body",
)
LONG_NAMES = {
    "producerGroup": "a", "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d",
    "queueId": "e", "sysFlag": "f", "bornTimestamp": "g", "flag": "h", "properties": "i",
    "reconsumeTimes": "j", "unitMode": "k", "batch": "m", "bname": "n",
}  # fmt: skip


def arrived(raw: bytes) -> Frame:
    """As it arrives on a connection."""
    sent = Frame(codes.SEND_MESSAGE_V2, 5, 0, 0, 513, None, b"body", Form.BINARY, raw)
    (seen,) = Frames().feed(encode(sent))
    return seen


def changed(**values: object) -> Send:
    return msgspec.structs.replace(READ, **values)


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in USUAL.items() if name not in names}


@pytest.mark.parametrize("form", list(Form))
def test_all_three_spellings_say_the_same(form: Form) -> None:
    letters = request(codes.SEND_MESSAGE_V2, 1, USUAL, b"body", form=form)
    names = {name: USUAL[letter] for name, letter in LONG_NAMES.items()}
    long = request(codes.SEND_MESSAGE, 1, names, b"body", form=form)
    for asked in (letters, long):
        (seen,) = Frames().feed(encode(asked))
        assert read_send(seen) == READ


def test_what_may_be_missing_may_be_missing() -> None:
    seen = read_send(request(310, 1, without("c", "d", "i", "j", "k", "m", "n"), b""))
    assert (seen.default_topic, seen.default_queue_count) == ("", 0)
    assert (seen.properties, seen.reconsume_count) == ({}, 0)
    assert (seen.batch, seen.broker_name, seen.namespace) == (False, None, None)


@pytest.mark.parametrize("name", ["a", "b", "e", "f", "g", "h"])
def test_what_must_be_there_is_named_when_missing(name: str) -> None:
    with pytest.raises(RemotingError, match=f"the field {name} is missing") as caught:
        read_send(request(310, 1, without(name)))
    assert caught.value.response_code == codes.INVALID_PARAMETER


def test_a_namespace_beside_the_topic_is_seen() -> None:
    assert read_send(request(310, 1, USUAL | {"nsd": "true", "ns": "ns"})).namespace == "ns"
    assert read_send(request(310, 1, USUAL | {"nsd": "false", "ns": "ns"})).namespace is None
    assert read_send(request(310, 1, USUAL | {"nsd": "true"})).namespace is None


def test_a_batch_is_one_by_code_or_field() -> None:
    assert read_send(request(codes.SEND_BATCH_MESSAGE, 1, USUAL)).batch
    assert read_send(request(codes.SEND_MESSAGE_V2, 1, USUAL | {"m": "true"})).batch


def test_properties_have_a_limit() -> None:
    longest = "a\1" + "x" * 32_765
    assert read_send(request(310, 1, USUAL | {"i": longest})).properties == {"a": longest[2:]}
    with pytest.raises(RemotingError, match="more than 32767 bytes") as caught:
        read_send(request(310, 1, USUAL | {"i": longest + "x"}))
    assert caught.value.response_code == codes.MESSAGE_ILLEGAL


@pytest.mark.parametrize(
    ("odd", "changes"),
    [
        ({"e": "12"}, {"queue_id": 12}),
        ({"b": "\0\1e\0\0\0"}, {"topic": "\0\1e\0\0\0"}),
        ({"g": "+179528131951"}, {"born_ms": 179_528_131_951}),
        ({"h": "17"}, {"flag": 17}),
        ({"i": ""}, {"properties": {}}),
        ({"i": "a\1b\2\2c\1d"}, {"properties": {"a": "b", "c": "d"}}),
        ({"i": "a\1\2\1b\2c"}, {"properties": {}}),
        ({"i": "KEYS\1a\1b"}, {"properties": {"KEYS": "a\1b"}}),
        ({"i": "é\1é"}, {"properties": {"é": "é"}}),
        ({"j": "1"}, {"reconsume_count": 1}),
        ({"c": ""}, {"default_topic": ""}),
        ({"Signature": "x"}, {}),
    ],
)
def test_an_odd_header_is_read_for_what_it_says(
    odd: dict[str, str], changes: dict[str, object]
) -> None:
    assert read_send(arrived(write_fields(USUAL | odd))) == changed(**changes)


@pytest.mark.parametrize(
    ("odd", "remark"),
    [
        ({"g": " 179528131951"}, "the field g is no whole number"),
        ({"g": "179_281319510"}, "the field g is no whole number"),
        ({"h": "x"}, "the field h is no whole number"),
        ({"f": str(2**31)}, "the field f does not fit 32 bits"),
        ({"i": "a\1" + "x" * 70_000}, "more than 32767 bytes"),
    ],
)
def test_what_makes_no_sense_is_refused(odd: dict[str, str], remark: str) -> None:
    with pytest.raises(RemotingError, match=remark):
        read_send(arrived(write_fields(USUAL | odd)))


@pytest.mark.parametrize("order", ["ihgfeba", "abcdjefghikmn", "abcdegfhijkmn"])
def test_the_order_of_the_fields_says_nothing(order: str) -> None:
    moved = write_fields({name: USUAL[name] for name in order})
    usual = write_fields({name: USUAL[name] for name in USUAL if name in order})
    assert read_send(arrived(moved)) == read_send(arrived(usual))


def test_of_a_field_that_comes_twice_the_last_counts() -> None:
    raw = write_fields(USUAL) + write_fields({"b": "another"})
    assert read_send(arrived(raw)) == changed(topic="another")


def test_fields_that_do_not_parse_are_refused() -> None:
    usual = write_fields(USUAL)
    for broken in (usual[:-1], usual.replace(b"UNIQ_KEY", b"UNIQ\xffKEY")):
        with pytest.raises(RemotingError, match="do not parse"):
            read_send(arrived(broken))


# -- batches -------------------------------------------------------------------------------------

#: Two messages, written by the Java client.
BATCH = bytes.fromhex(
    "00000027000000000000000000000009000000036f6e65000e554e49515f4b455901464430310200000021000000"
    "0000000000000000000000000474776f2100074b455953016b02"
)


def test_a_batch_is_taken_apart() -> None:
    sent = [
        BatchedMessage(9, {"UNIQ_KEY": "FD01"}, b"one"),
        BatchedMessage(0, {"KEYS": "k"}, b"two!"),
    ]
    assert read_batch(request(320, 1, body=BATCH)) == sent
    assert read_batch(changed(body=BATCH)) == sent


@pytest.mark.parametrize(
    "body",
    [
        BATCH[:-1],
        BATCH + b"\0",
        BATCH[:10],
        pack(">iiiii", 22, 0, 0, 0, -1) + bytes(2),
        pack(">iiiii", 21, 0, 0, 0, 0) + bytes(2),
        pack(">iiiii", 23, 0, 0, 0, 0) + bytes(3),
        pack(">iiiii", 23, 0, 0, 0, 0) + b"\0\1\xff",
        pack(">iiiii", -1, 0, 0, 0, 0) + bytes(2),
    ],
)
def test_a_broken_batch_is_refused(body: bytes) -> None:
    with pytest.raises(RemotingError, match="the batch does not parse") as caught:
        read_batch(request(320, 1, body=body))
    assert caught.value.response_code == codes.MESSAGE_ILLEGAL


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(RemotingError, match="no message in it"):
        read_batch(request(320, 1))


def test_a_batch_has_a_limit() -> None:
    one = pack(">iiiii", 22, 0, 0, 0, 0) + bytes(2)
    assert len(read_batch(request(320, 1, body=one * sending.BATCH_COUNT_MAX))) == 10_000
    with pytest.raises(RemotingError, match="more than 10000 messages"):
        read_batch(request(320, 1, body=one * (sending.BATCH_COUNT_MAX + 1)))


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize(
    ("message_id", "transaction_id"),
    [
        ("7F00000100002A9F000000011F7C722C", UNIQUE),
        ("20010DB800000000000000000000000100002694000300000000004D", "x"),
        ("7F00000100002A9F000000011F7C722C", None),
        ("7F00000100002A9F000000011F7C722C", "é"),
        ("7F00000100002A9F000000011F7C722C", "x" * 128),
        (",".join(["7F00000100002A9F000000011F7C722C"] * 4), "x"),
    ],
)
def test_the_answer_says_where_the_message_lies(
    form: Form, message_id: str, transaction_id: str | None
) -> None:
    asked = request(codes.SEND_MESSAGE_V2, 2**31 - 1, {}, form=form)
    fields = {"msgId": message_id, "queueId": "12", "queueOffset": str(2**62)}
    if transaction_id is not None:
        fields["transactionId"] = transaction_id
    (seen,) = Frames().feed(sent_reply(asked, message_id, 12, 2**62, transaction_id))
    assert (seen.code, seen.opaque, seen.flag, seen.fields) == (0, 2**31 - 1, 1, fields)
