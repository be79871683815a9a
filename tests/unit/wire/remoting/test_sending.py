"""Requests that bring messages: as the Java client sends them, the short way and in full."""

from __future__ import annotations

from struct import pack

import msgspec
import pytest

from halfhitch.wire.remoting import codes, sending
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.fields import read_fields, write_fields
from halfhitch.wire.remoting.frame import Frames, encode, reply, request
from halfhitch.wire.remoting.requests import BatchedMessage, Form, Frame, Send
from halfhitch.wire.remoting.sending import read_batch, read_send, sent_reply
from halfhitch.wire.remoting.shapes import PIECE_BYTES_MAX, PIECES_MAX

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


def from_raw(frames: Frames, raw: bytes, code: int = codes.SEND_MESSAGE_V2) -> Frame:
    """As it arrives on a connection."""
    sent = Frame(code, 5, 0, 0, 513, None, b"body", Form.BINARY, raw)
    (seen,) = frames.feed(encode(sent))
    return seen


def changed(**values: object) -> Send:
    return msgspec.structs.replace(READ, **values)


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in USUAL.items() if name not in names}


def in_full(raw: bytes) -> Send | str:
    """What a connection reads that has seen nothing before."""
    try:
        return read_send(from_raw(Frames(), raw))
    except RemotingError as error:
        return error.remark


def on_a_known_connection(known: list[bytes], raw: bytes) -> Send | str:
    frames = Frames()
    for earlier in known:
        read_send(from_raw(frames, earlier))
    try:
        return read_send(from_raw(frames, raw))
    except RemotingError as error:
        return error.remark


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


# -- the short way -------------------------------------------------------------------------------


def test_a_known_header_is_not_read_in_full_again() -> None:
    frames = Frames()
    first = from_raw(frames, write_fields(USUAL))
    assert read_send(first) == READ
    assert first.known_fields is not None
    again = write_fields(USUAL | {"g": "1795281319999", "i": "UNIQ_KEY\1other\2KEYS\1a\1b"})
    second = from_raw(frames, again)
    assert read_send(second) == changed(
        born_ms=1_795_281_319_999, properties={"UNIQ_KEY": "other", "KEYS": "a\1b"}
    )
    assert second.known_fields is None


@pytest.mark.parametrize(
    "odd",
    [
        {"e": "12"},
        {"f": "773"},
        {"b": "other"},
        {"b": "\0\1e\0\0\0"},
        {"f": "4", "g": "+179528131951"},
        {"g": " 179528131951"},
        {"g": "179_281319510"},
        {"g": "5"},
        {"h": "17"},
        {"h": "x"},
        {"i": ""},
        {"i": "a"},
        {"i": "\1a"},
        {"i": "a\1"},
        {"i": "a\1b\2\2c\1d"},
        {"i": "a\1b\2\2"},
        {"i": "é\1é"},
        {"i": "a\1" + "x" * 40_000},
        {"i": "a\1" + "x" * 70_000},
        {"j": "1"},
        {"n": "elsewhere"},
        {"c": ""},
        {"ns": "ns", "nsd": "true"},
    ],
)
def test_an_odd_header_is_read_the_same_after_usual_ones(odd: dict[str, str]) -> None:
    usual, raw = write_fields(USUAL), write_fields(USUAL | odd)
    right = in_full(raw)
    assert on_a_known_connection([usual], raw) == right
    if isinstance(right, Send):
        assert on_a_known_connection([usual, raw, raw], raw) == right
        assert on_a_known_connection([raw, raw], usual) == READ


#: Where fields lie elsewhere than in Java's order, later ones may not inherit what they said.
MOVED = [
    ["a", "b", "c", "e", "f", "g", "h", "i", "d"],
    ["a", "b", "c", "d", "j", "e", "f", "g", "h", "i"],
    ["a", "b", "c", "d", "e", "g", "f", "h", "i", "j"],
    ["b", "a", "e", "f", "g", "h", "i"],
    ["e", "f", "g", "h", "i", "a", "b"],
    ["a", "b", "c", "d", "e", "f", "g", "h", "j", "i"],
]


@pytest.mark.parametrize("order", MOVED)
def test_another_order_of_fields_is_read_the_same(order: list[str]) -> None:
    values = USUAL | {"d": "7", "j": "3"}
    moved = write_fields({name: values[name] for name in order})
    fewer = write_fields({name: USUAL[name] for name in order if name not in "dj"})
    usual, short = write_fields(USUAL), write_fields(without("d", "j", "k", "m", "n"))
    for raw in (moved, fewer, usual, short):
        for known in ([usual, moved, fewer, short], [short, fewer, usual, moved]):
            assert on_a_known_connection(known, raw) == in_full(raw)


def test_a_time_of_birth_may_hide_in_another_field() -> None:
    hidden = write_fields(USUAL | {"f": "\0\1g\0\0\0\x0d"})
    assert in_full(hidden) == on_a_known_connection([write_fields(USUAL)], hidden)
    raw = write_fields({"a": "\0\1e\0\0\0"} | without("a"))
    assert on_a_known_connection([raw], raw) == changed(producer_group="\0\1e\0\0\0")
    late = write_fields(USUAL | {"f": "4", "zz": "\0\1g\0\0\0\x0d"})
    assert on_a_known_connection([late], late) == READ


def test_a_truncated_header_does_not_pass_for_a_known_one() -> None:
    last = write_fields(without("j", "k", "m", "n"))
    assert len(last) - len(PROPERTIES) > 0
    for size in range(len(last)):
        assert on_a_known_connection([last], last[:size]) == in_full(last[:size])


def test_fields_of_no_text_are_refused_after_usual_ones() -> None:
    usual = write_fields(USUAL)
    broken = usual.replace(b"UNIQ_KEY", b"UNIQ\xffKEY")
    assert on_a_known_connection([usual], broken) == in_full(broken)
    assert isinstance(in_full(broken), str)


def test_long_and_foreign_headers_are_not_kept() -> None:
    frames = Frames()
    for odd in ({"a": "x" * PIECE_BYTES_MAX}, {"n": "x" * PIECE_BYTES_MAX}, {"Signature": "x"}):
        seen = from_raw(frames, write_fields(USUAL | odd))
        read_send(seen)
        assert seen.shapes is not None
        assert not seen.shapes.prefixes
        assert not seen.shapes.suffixes


def test_what_is_kept_has_a_bound() -> None:
    frames = Frames()
    for number in range(3 * PIECES_MAX):
        seen = from_raw(frames, write_fields(USUAL | {"b": f"topic-{number}"}))
        assert read_send(seen) == changed(topic=f"topic-{number}")
        assert seen.shapes is not None
        assert len(seen.shapes.prefixes) <= PIECES_MAX


def test_the_fields_can_still_be_asked_for() -> None:
    frames = Frames()
    raw = write_fields(USUAL)
    read_send(from_raw(frames, raw))
    again = from_raw(frames, raw)
    read_send(again)
    assert again.fields == USUAL == read_fields(raw)


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
def test_the_answer_is_the_same_the_short_way(
    form: Form, message_id: str, transaction_id: str | None
) -> None:
    asked = request(codes.SEND_MESSAGE_V2, 2**31 - 1, {}, form=form)
    fields = {"msgId": message_id, "queueId": "12", "queueOffset": str(2**62)}
    if transaction_id is not None:
        fields["transactionId"] = transaction_id
    answer = sent_reply(asked, message_id, 12, 2**62, transaction_id)
    assert answer == reply(asked, codes.SUCCESS, fields=fields)
    (seen,) = Frames().feed(answer)
    assert (seen.code, seen.opaque, seen.flag, seen.fields) == (0, 2**31 - 1, 1, fields)
