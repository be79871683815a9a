"""The remoting codec against everything: round trips, any bytes, any cuts, both forms alike."""

from __future__ import annotations

import zlib
from itertools import pairwise
from struct import pack

import msgspec
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from halfhitch.wire.remoting import (
    checking,
    codes,
    compression,
    ending,
    frame,
    heartbeats,
    ids,
    messages,
    namespaces,
    properties,
    routing,
    sending,
    signature,
)
from halfhitch.wire.remoting.faults import FrameError, RemotingError
from halfhitch.wire.remoting.fields import read_fields, write_fields
from halfhitch.wire.remoting.frame import Frames
from halfhitch.wire.remoting.requests import Form, Frame

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31) + 1, 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FIELDS = st.dictionaries(TEXT, TEXT, max_size=6)
PROPERTY = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1
)
PROPERTIES = st.dictionaries(PROPERTY, PROPERTY, max_size=5)
HOST = st.tuples(st.ip_addresses().map(str), st.integers(0, 65_535))


def anything(draw_code: st.SearchStrategy[int] = INT16) -> st.SearchStrategy[Frame]:
    return st.builds(
        Frame,
        draw_code,
        INT32,
        INT32,
        st.integers(0, len(codes.LANGUAGES) - 1),
        INT16,
        st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        st.binary(max_size=50),
        st.sampled_from(Form),
        st.just(b""),
        FIELDS,
    )


def told(seen: Frame) -> tuple[object, ...]:
    return (
        seen.code, seen.opaque, seen.flag, seen.language, seen.version, seen.remark, seen.fields,
        seen.body, seen.form,
    )  # fmt: skip


@given(anything())
def test_what_is_encoded_is_read_back(sent: Frame) -> None:
    (seen,) = Frames().feed(frame.encode(sent))
    assert told(seen) == told(sent)
    assert frame.encode(seen) == frame.encode(sent)


@given(st.lists(anything(), max_size=4), st.lists(st.integers(0, 400)), st.binary(max_size=30))
def test_cuts_do_not_matter(sent: list[Frame], cuts: list[int], rest: bytes) -> None:
    stream = b"".join(map(frame.encode, sent)) + rest
    whole, whole_broken = read_in_pieces(stream, [])
    for borders in (cuts, list(range(len(stream)))):
        seen, broken = read_in_pieces(stream, borders)
        assert [told(one) for one in seen] == [told(one) for one in whole]
        assert str(broken) == str(whole_broken)


def read_in_pieces(stream: bytes, cuts: list[int]) -> tuple[list[Frame], FrameError | None]:
    frames, seen = Frames(), []
    borders = sorted({0, len(stream), *[cut for cut in cuts if cut < len(stream)]})
    for start, stop in pairwise(borders):
        try:
            seen += frames.feed(stream[start:stop])
        except FrameError:
            break
        if frames.broken:
            break
    return seen, frames.broken


READERS = (
    sending.read_send,
    sending.read_batch,
    ending.read_end,
    checking.read_check,
    heartbeats.read_heartbeat,
    heartbeats.read_unregister,
    routing.read_route_request,
    routing.read_max_offset_request,
    signature.access_key,
    lambda asked: signature.verify(asked, "secret"),
    lambda asked: messages.decode_message(asked.body),
    lambda asked: compression.inflate(asked.body, asked.flag, 1_000),
)


def read_everything(seen: Frame) -> None:
    for read in READERS:
        try:
            read(seen)
        except RemotingError as error:
            answer = frame.reply(seen, error.response_code, error.remark)
        else:
            continue
        (read_back,) = Frames().feed(answer)
        assert read_back.opaque == seen.opaque
        assert read_back.remark


@given(st.binary(max_size=200), st.booleans())
@example(b"\x16\x03\x01\x02\x00\x01\x00\x01", False)
def test_no_bytes_do_more_than_fail(content: bytes, framed: bool) -> None:
    if framed:
        content = pack(">i", len(content)) + content
    seen, broken = read_in_pieces(content, [])
    for one in seen:
        read_everything(one)
    assert broken is None or str(broken)


@settings(max_examples=300)
@given(anything(), st.integers(0, 60), st.sampled_from([b"\0", b"\1", b"\x15", b"\x80", b"\xff"]))
def test_a_plain_frame_is_cut_as_any_other(sent: Frame, at: int, odd: bytes) -> None:
    sent.form, sent.remark = Form.BINARY, None
    usual = frame.encode(sent)
    content = usual[4 : 4 + at] + odd + usual[5 + at :]
    stream = usual[:4] + content
    assume(len(stream) == len(usual))
    seen, broken = read_in_pieces(stream, [])
    try:
        right = frame._frame(content)
    except FrameError as error:
        assert not seen
        assert str(broken) == str(error)  # noqa: PT017
    else:
        assert [result(told, one) for one in seen] == [result(told, right)]


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=60))
def test_no_more_is_held_than_came(length: int, rest: bytes) -> None:
    frames = Frames()
    try:
        frames.feed(pack(">i", length) + rest)
    except FrameError:
        assert frames.held_bytes == 0
    else:
        assert 4 <= length <= frame.FRAME_BYTES_MAX
        assert frames.held_bytes <= 4 + len(rest)


# -- the two requests of a transaction ----------------------------------------------------------

SEND_USUAL = {
    "a": "pg", "b": "topic", "c": "TBW102", "d": "4", "e": "3", "f": "4", "g": "1795281319490",
    "h": "0", "i": "TRAN_MSG\x01true\x02UNIQ_KEY\x01FD00\x02PGROUP\x01pg\x02", "j": "0",
    "k": "false", "m": "false", "n": "hh",
}  # fmt: skip
END_USUAL = {
    "producerGroup": "pg", "bname": "hh", "commitLogOffset": "281474976710658", "topic": "topic",
    "msgId": "FD00", "tranStateTableOffset": "2", "commitOrRollback": "8", "transactionId": "FD00",
    "fromTransactionCheck": "false",
}  # fmt: skip
ODD = {
    "e": ["12", "-1", "+3", "x", "", "99999999999"],
    "f": ["773", "0", "\0\1g\0\0\0\x0d"],
    "g": ["1795281319491", "+179528131949", " 179528131949", "179_281319490", "5", "x" * 13],
    "h": ["1", "x", "17"],
    "i": ["", "a", "\1b", "a\1", "a\1b\1c", "\2a\1b", "a\1b\2\2", "é\1é", "x\1" + "x" * 40_000],
    "b": ["other", "\0\1e\0\0\0", "", "é"],
    "commitLogOffset": ["-71474976710658", "+81474976710658", "9" * 15, "9" * 18, "9" * 19],
    "tranStateTableOffset": ["7", "x", "-2", ""],
    "commitOrRollback": ["0", "12", "4", "+8", "08"],
    "msgId": ["", "FD01", "é"],
    "transactionId": ["", "FD01", "é"],
    "fromTransactionCheck": ["true", "TRUE"],
}  # fmt: skip


@st.composite
def like(draw: st.DrawFn, usual: dict[str, str]) -> bytes:
    """The fields of a usual header with some of them changed, moved, doubled, gone, or broken."""
    pairs = list(usual.items())
    any_name = st.sampled_from(list(usual))
    place = st.integers(0, len(pairs) - 3)
    odd = any_name.flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(ODD.get(name, ["pg", "8"])))
    )
    changes = st.lists(st.sampled_from(["odd", "odd", "double", "move", "gone", "new"]), max_size=2)
    for change in draw(changes):
        if change == "odd":
            name, value = draw(odd)
            pairs = [(known, value if known == name else old) for known, old in pairs]
        elif change == "double":
            pairs.insert(draw(place), draw(odd))
        elif change == "move":
            pairs.insert(draw(place), pairs.pop(draw(place)))
        elif change == "gone":
            del pairs[draw(place)]
        else:
            name = draw(st.sampled_from(["ns", "nsd", "Signature", "bname", "q"]))
            pairs.insert(draw(place), (name, draw(st.sampled_from(["true", "ns", ""]))))
    raw = b"".join(write_fields({name: value}) for name, value in pairs)
    broken = draw(st.sampled_from([None, None, None, "byte", "cut"]))
    at = draw(st.integers(0, len(raw) - 1)) if broken else 0
    if broken == "byte":
        raw = raw[:at] + draw(st.sampled_from([b"\0", b"\1", b"\x7f", b"\xff"])) + raw[at + 1 :]
    elif broken == "cut":
        raw = raw[:at]
    return raw


def result(read: object, asked: object) -> object:
    try:
        return read(asked)  # type: ignore[operator]
    except RemotingError as error:
        return error.response_code, error.remark


def same_in_both_forms(code: int, read: object, raw: bytes) -> None:
    """Damaged fields are the fault of one request; all others say the same as JSON."""
    (seen,) = Frames().feed(
        frame.encode(Frame(code, 1, 0, 0, 513, None, b"body", Form.BINARY, raw))
    )
    fields = result(read_fields, raw)
    if isinstance(fields, dict):
        (as_json,) = Frames().feed(frame.encode(frame.request(code, 1, fields, b"body")))
        assert result(read, seen) == result(read, as_json)
    else:
        assert result(read, seen) == fields


@settings(max_examples=300)
@given(like(SEND_USUAL))
def test_a_send_says_the_same_in_both_forms(raw: bytes) -> None:
    same_in_both_forms(codes.SEND_MESSAGE_V2, sending.read_send, raw)


@settings(max_examples=300)
@given(like(END_USUAL))
def test_an_end_says_the_same_in_both_forms(raw: bytes) -> None:
    same_in_both_forms(codes.END_TRANSACTION, ending.read_end, raw)


# -- the parts -----------------------------------------------------------------------------------


@given(PROPERTIES)
def test_properties_are_read_back(given_: dict[str, str]) -> None:
    text = properties.write_properties(given_)
    assert properties.read_properties(text) == given_
    assert properties.read_properties(text + "\x02") == given_


@given(
    st.builds(
        messages.EncodedMessage,
        topic=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200),
        queue_id=INT32,
        queue_offset=INT64,
        commit_log_offset=INT64,
        born_ms=INT64,
        born_host=HOST,
        stored_ms=INT64,
        store_host=HOST,
        body=st.binary(max_size=100),
        properties=PROPERTIES,
        flag=INT32,
        reconsume_count=INT32,
        prepared_offset=INT64,
    ),
    st.data(),
)
def test_a_message_is_read_back_or_refused(
    message: messages.EncodedMessage, data: st.DataObject
) -> None:
    content = messages.encode_message(message)
    seen = messages.decode_message(content)
    six = 0x10 * (":" in message.born_host[0]) + 0x20 * (":" in message.store_host[0])
    assert seen == msgspec.structs.replace(message, sys_flag=six)
    stop = data.draw(st.integers(0, len(content) - 1))
    for broken in (content[:stop], content + b"\0"):
        with pytest.raises(RemotingError):
            messages.decode_message(broken)


@given(HOST, st.integers(0, 2**63 - 1))
def test_an_id_is_read_back(host: tuple[str, int], place: int) -> None:
    made = ids.MessageIds(*host).make(place)
    assert len(made) in (32, 56)
    assert ids.read_message_id(made) == (*host, place)


@given(st.text(max_size=60))
def test_no_text_does_more_than_be_no_id(text: str) -> None:
    try:
        _, _, place = ids.read_message_id(text)
    except RemotingError:
        return
    assert -(2**63) <= place < 2**63


@given(st.lists(st.tuples(INT32, PROPERTIES, st.binary(max_size=40)), min_size=1, max_size=5))
def test_a_batch_is_read_back(sent: list[tuple[int, dict[str, str], bytes]]) -> None:
    body = b""
    for flag, given_, content in sent:
        text = properties.write_properties(given_).encode()
        head = pack(">iiiii", 22 + len(content) + len(text), 0, 0, flag, len(content))
        body += head + content + pack(">h", len(text)) + text
    asked = frame.request(codes.SEND_BATCH_MESSAGE, 1, body=body)
    seen = sending.read_batch(asked)
    assert [(one.flag, one.properties, one.body) for one in seen] == sent


@given(st.binary(max_size=300), st.integers(0, 400))
def test_what_was_compressed_comes_back_within_the_limit(body: bytes, limit: int) -> None:
    try:
        seen = compression.inflate(zlib.compress(body), codes.COMPRESSED, limit)
    except RemotingError:
        assert len(body) > limit
    else:
        assert seen == body
        assert len(body) <= limit


@given(TEXT, TEXT)
def test_a_namespace_is_put_on_once(namespace: str, name: str) -> None:
    assume(name and namespace and "%" not in name + namespace)
    joined = namespaces.join(namespace, name)
    assert namespaces.split(joined) == (namespace, name)
    assert namespaces.join(namespace, joined) == joined


@given(FIELDS, st.binary(max_size=30), TEXT, TEXT)
def test_only_the_right_secret_signs(
    fields: dict[str, str], body: bytes, secret: str, other: str
) -> None:
    fields = fields | {"AccessKey": "k"}
    fields["Signature"] = signature.sign(fields, body, secret)
    asked = frame.request(codes.HEART_BEAT, 1, fields, body)
    signature.verify(asked, secret)
    # HMAC fills short keys up with zero bytes.
    assume(secret.rstrip("\0") != other.rstrip("\0"))
    with pytest.raises(RemotingError):
        signature.verify(asked, other)
