"""What the native carrier takes, it reads and writes as its twin in Python does, byte by byte."""

from __future__ import annotations

import json
import zlib
from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.core.partitioning import half_partition
from halfhitch.doors.rocketmq import messages, names
from halfhitch.doors.rocketmq.offsets import commit_log_offset, handle_of
from halfhitch.service.transactions.admission import (
    HEADERS_MAX,
    _check_name,
    _header_name_bytes,
)
from halfhitch.service.transactions.prepare import digest
from halfhitch.wire import op
from halfhitch.wire.digest import TRACING
from halfhitch.wire.half import HalfRecord, system_headers
from halfhitch.wire.remoting import codes
from halfhitch.wire.remoting.ending import COMMIT, UNKNOWN, read_end
from halfhitch.wire.remoting.faults import RemotingError
from halfhitch.wire.remoting.frame import Frames, encode, request
from halfhitch.wire.remoting.ids import MessageIds, maker_of
from halfhitch.wire.remoting.requests import Form, Frame
from halfhitch.wire.remoting.sending import read_send, sent_reply
from halfhitch.wire.seal import Seals
from harness.native import native, needs_native

pytestmark = needs_native

BORN_MS, INSTANCE, GROUP, TOPIC = 1_700_000_000_123, "shop-7", "pay;ments", "orders"
BODY_BYTES_MAX = 1_000
REPLY_START = (
    Struct(">hbh").pack(0, codes.ANSWERED_LANGUAGE, codes.ANSWERED_VERSION),
    "OTHER",
    codes.ANSWERED_VERSION,
)
FORMS = st.sampled_from(list(Form))

PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'),
                min_size=1, max_size=60)  # fmt: skip
IDS = st.sampled_from(
    ["U1", "7F00000100002A9F0000000000000000", "FD" * 28, "A" * 34, "u" * 255]
) | PLAIN  # fmt: skip
ODD_IDS = st.sampled_from(["u" * 256, 'q"', "\\", "é", "\x7f"]) | st.text(min_size=1, max_size=40)
#: Most of what is drawn should be taken, or nothing would be compared.
SELDOM = st.sampled_from([False, False, False, False, False, True])
NAMES = st.sampled_from(
    ["UNIQ_KEY", "TRAN_MSG", "PGROUP", "KEYS", "TAGS", "WAIT", "CHECK_IMMUNITY_TIME_IN_SECONDS",
     "DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "REAL_TOPIC", "REAL_QID",
     "HALFHITCH", "HALFHITCH_X", "TRANSACTION_CHECK_TIMES", "TRAN_PREPARED_QUEUE_OFFSET",
     "__transactionId__", "ROCKETMQ_FLAG", "HALFHITCH_COPY", "INSTANCE_ID", "x\n", "ü"]
) | st.text(max_size=8)  # fmt: skip
USUAL_NAMES = st.sampled_from(
    ["KEYS", "TAGS", "WAIT", "INSTANCE_ID", "color", "a b", "SW8", "X-B3-Flags"]
) | st.sampled_from(sorted(TRACING))
VALUES = st.sampled_from(["", "true", "True", "0", "007", "30", "99999", "604801"]) | st.text(
    max_size=12
)
NUMBERS = st.sampled_from(["0", "4", "1", "8", "12", "-1", "+1", "", "01", "99999999999", "x", "²"])
LETTERS = st.sampled_from([*"abcdefghijklmn", "bname", "ns", "nsd", "zz"])
USUAL = {"a": "p", "b": "t", "c": "TBW102", "d": "4", "e": "2", "f": "4", "g": "1700000000000",
         "h": "0", "j": "0", "k": "false", "l": "0", "m": "false"}  # fmt: skip


@st.composite
def properties(draw: st.DrawFn) -> str:
    pairs = [("UNIQ_KEY", draw(ODD_IDS if draw(SELDOM) else IDS))]
    pairs += [("TRAN_MSG", "true"), ("PGROUP", "p")]
    pairs += draw(
        st.lists(st.tuples(USUAL_NAMES, PLAIN), max_size=4, unique_by=lambda pair: pair[0])
    )
    if draw(SELDOM):
        pairs += draw(st.lists(st.tuples(NAMES, VALUES), max_size=2))
    text = "".join([f"{name}\x01{value}\x02" for name, value in draw(st.permutations(pairs))])
    return text[:-1] if draw(st.booleans()) else text


@st.composite
def halves(draw: st.DrawFn) -> bytes:
    fields = {**USUAL, "i": draw(properties())}
    if draw(SELDOM):
        fields.update(draw(st.dictionaries(LETTERS, NUMBERS | VALUES, max_size=2)))
    flag = draw(st.sampled_from([0, 2])) if draw(SELDOM) else 0
    body = draw(st.binary(max_size=30))
    if draw(SELDOM) or draw(SELDOM):
        fields["f"] = draw(st.sampled_from(["1", "5", "769", "773", "261", "517"]))
        body = zlib.compress(body * draw(st.integers(0, 40)), draw(st.integers(0, 9)))
        body += draw(st.binary(min_size=1, max_size=3)) if draw(SELDOM) else b""
    made = request(codes.SEND_MESSAGE_V2, draw(st.integers(0, 2**31 - 1)), fields,
                   body, flag=flag, form=draw(FORMS))  # fmt: skip
    return damaged(draw, encode(made))


@st.composite
def ends(draw: st.DrawFn) -> bytes:
    partition, offset = draw(st.integers(0, 40)), draw(st.integers(0, 10**9))
    ids = ODD_IDS if draw(SELDOM) else IDS
    fields = {
        "producerGroup": "p",
        "tranStateTableOffset": str(draw(st.integers(0, 2**56 - 1))),
        "commitLogOffset": str(partition << 48 | offset),
        "commitOrRollback": draw(st.sampled_from(["8", "12"])),
        "fromTransactionCheck": "false",
        "msgId": draw(ids),
        "transactionId": draw(ids | st.just("")),
        "topic": "t",
        "bname": "b",
    }
    if draw(SELDOM):
        for name in draw(st.sets(st.sampled_from(sorted(fields)), max_size=2)):
            del fields[name]
    if draw(SELDOM):
        name = draw(st.sampled_from(["ns", "nsd", "x", "fromTransactionCheck", "commitOrRollback"]))
        fields[name] = draw(NUMBERS | VALUES | st.sampled_from(["False", "no"]))
    flag = draw(st.sampled_from([0, 2])) if draw(SELDOM) else 2
    remark = draw(st.sampled_from(["", "boom", 'a "quote" \n', "é"])) if draw(SELDOM) else None
    made = request(codes.END_TRANSACTION, 7, fields, flag=flag, remark=remark, form=draw(FORMS))
    return damaged(draw, encode(made))


def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    bad = bytearray(content)
    for _ in range(draw(st.integers(1, 2)) if draw(SELDOM) else 0):
        bad[draw(st.integers(4, len(bad) - 1))] = draw(st.integers(0, 255))
    return bytes(bad)


def one_frame(whole: bytes) -> Frame:
    (frame,) = Frames().feed(whole)
    return frame


def twin_of_half(whole: bytes) -> tuple[Any, ...]:
    """What the interpreted door makes of it; raises what it would refuse."""
    frame = one_frame(whole)
    assert not frame.is_one_way
    send = read_send(frame)
    assert not send.batch
    assert send.namespace is None
    assert messages.is_transactional(send.sys_flag, send.properties)
    messages.refuse_delay(send.properties, transactional=True)
    message = messages.outgoing(
        TOPIC, send.queue_id, send.flag, send.sys_flag, send.properties, send.body,
        body_bytes_max=BODY_BYTES_MAX, inflaters={},
    )  # fmt: skip
    transaction_id = send.properties["UNIQ_KEY"]
    _check_name("the id", transaction_id)
    assert len(message.headers) <= HEADERS_MAX
    size_bytes = len(message.key or b"") + len(message.value or b"")
    size_bytes += sum(
        _header_name_bytes(name) + len(value or b"") for name, value in message.headers
    )
    immunity_s = messages.immunity_s(send.properties)
    record = HalfRecord(
        transaction_id, GROUP, 0, BORN_MS, INSTANCE, TOPIC, message.partition, immunity_s,
        digest=digest(message, is_partition_chosen=False),
    )  # fmt: skip
    headers = [(name.encode(), value) for name, value in system_headers(record) + message.headers]
    return message.key, message.value, headers, message.partition, transaction_id, size_bytes


def read_half(whole: bytes) -> Any:
    return native.read_half(whole, BORN_MS, INSTANCE, GROUP, TOPIC, BODY_BYTES_MAX)


@given(halves())
def test_a_half_that_is_taken_becomes_the_same_record(whole: bytes) -> None:
    taken = read_half(whole)
    if taken is not None:
        assert taken == twin_of_half(whole)


@given(ends())
def test_an_end_that_is_taken_means_the_same(whole: bytes) -> None:
    taken = native.read_end(whole)
    if taken is None:
        return
    frame = one_frame(whole)
    end = read_end(frame)
    assert not frame.remark, "it is kept with the decision"
    assert frame.is_one_way
    assert not end.from_check
    assert end.namespace is None
    assert end.commit_or_rollback != UNKNOWN
    known = handle_of(end, names.group_of(None, end.producer_group))
    _check_name("the id", known.transaction_id)
    assert taken == (
        end.producer_group.encode(),
        known.transaction_id,
        end.commit_or_rollback == COMMIT,
        known.partition,
        known.half_offsets[0],
        end.state_offset,
    )


@given(st.binary(max_size=80))
def test_bytes_that_are_no_request_are_the_twins(data: bytes) -> None:
    assert native.read_half(data, BORN_MS, INSTANCE, GROUP, TOPIC) is None
    assert native.read_end(data) is None


SEAL = 52_615_990_104_801_711
#: As Java's client of 5.x sends them, in the order in which it writes the fields.
JAVA_HALF = {
    **{name: USUAL[name] for name in "abcdefgh"},
    "i": "KEYS\x01order-1\x02UNIQ_KEY\x017F00000100002A9F0000000000000001\x02WAIT\x01true\x02"
    "TAGS\x01paid\x02PGROUP\x01p\x02TRAN_MSG\x01true\x02CHECK_IMMUNITY_TIME_IN_SECONDS\x0130\x02",
    **{name: USUAL[name] for name in "jklm"},
    "n": "halfhitch",
}
JAVA_END = {
    "bname": "halfhitch", "commitLogOffset": str(3 << 48 | 17), "commitOrRollback": "12",
    "fromTransactionCheck": "false", "msgId": "7F00000100002A9F0000000000000001",
    "producerGroup": "p", "topic": "t", "tranStateTableOffset": str(SEAL),
    "transactionId": "7F00000100002A9F0000000000000001",
}  # fmt: skip


@pytest.mark.parametrize("form", list(Form))
def test_what_javas_client_sends_is_taken(form: Form) -> None:
    half = request(codes.SEND_MESSAGE_V2, 1, JAVA_HALF, b"body", form=form)
    taken = native.read_half(encode(half), BORN_MS, INSTANCE, GROUP, TOPIC)
    assert taken == twin_of_half(encode(half))
    assert taken[0] == b"order-1"
    end = request(codes.END_TRANSACTION, 2, JAVA_END, flag=2, form=form)
    assert native.read_end(encode(end)) == (b"p", JAVA_END["msgId"], False, 3, 17, SEAL)
    for remark in ("executeLocalTransactionBranch exception, boom", 'say "no"\n'):
        told = request(codes.END_TRANSACTION, 2, JAVA_END, flag=2, remark=remark, form=form)
        assert native.read_end(encode(told)) is None, "its reason is kept by the twin"


def compressed(body: bytes, flags: str = "773") -> bytes:
    return encode(request(codes.SEND_MESSAGE_V2, 1, {**JAVA_HALF, "f": flags}, body))


@pytest.mark.parametrize("flags", ["1", "5", "769", "773"])
@pytest.mark.parametrize("size_bytes", [0, 1, BODY_BYTES_MAX])
def test_what_javas_client_has_compressed_is_taken_as_it_was(flags: str, size_bytes: int) -> None:
    """It compresses what has more than 4 KiB: all such went the interpreted way."""
    whole = compressed(zlib.compress(b"x" * size_bytes, 5), flags)
    taken = read_half(whole)
    assert taken == twin_of_half(whole)
    assert taken[1] == b"x" * size_bytes


def test_what_comes_to_many_times_the_room_that_was_made_for_it_is_whole() -> None:
    body = bytes(range(256)) * 16_000
    whole = compressed(zlib.compress(body, 9))
    taken = native.read_half(whole, BORN_MS, INSTANCE, GROUP, TOPIC, len(body))
    assert taken is not None
    assert taken[1] == body
    assert native.read_half(whole, BORN_MS, INSTANCE, GROUP, TOPIC, len(body) - 1) is None


@pytest.mark.parametrize(
    "body",
    [
        zlib.compress(b"x" * (BODY_BYTES_MAX + 1)),
        zlib.compress(b"x" * 10_000_000),
        zlib.compress(b"order") + b"more",
        zlib.compress(b"order") * 2,
        zlib.compress(b"order")[:-1],
        zlib.compress(b"order")[:-4] + b"adle",
        zlib.compress(b"order")[:3],
        zlib.compress(b"order")[2:-4],
        b"order",
        b"",
    ],
)
def test_what_is_too_much_or_is_no_zlib_is_for_the_twin_to_refuse(body: bytes) -> None:
    assert read_half(compressed(body)) is None
    with pytest.raises(RemotingError):
        twin_of_half(compressed(body))


def test_a_header_of_json_that_is_an_array_is_the_twins() -> None:
    """Its fields stood in their order, and serde took it for a header."""
    whole = encode(request(codes.SEND_MESSAGE_V2, 1, JAVA_HALF, b"body", form=Form.JSON))
    header = json.loads(whole[8 : 8 + int.from_bytes(whole[5:8], "big")])
    for written in (header, [header["code"], header["opaque"], 0, None, header["extFields"]]):
        raw = json.dumps(written).encode()
        size = (4 + len(raw) + 4).to_bytes(4, "big")
        taken = native.read_half(
            size + len(raw).to_bytes(4, "big") + raw + b"body", BORN_MS, INSTANCE, GROUP, TOPIC
        )
        assert (taken is None) is isinstance(written, list)


@given(FORMS, st.integers(-(2**31), 2**31 - 1), st.sampled_from(["10.0.0.1", "fe80::1"]),
       st.integers(0, 2**31 - 1), st.integers(0, 4_000), st.integers(0, 2**48 - 1),
       st.integers(0, 2**56 - 1), PLAIN)  # fmt: skip
def test_an_answer_is_the_same(
    form: Form,
    opaque: int,
    host: str,
    queue_id: int,
    partition: int,
    half_offset: int,
    seal: int,
    transaction_id: str,
) -> None:
    ids = MessageIds(host, 9876)
    asked = request(codes.SEND_MESSAGE_V2, opaque, form=form)
    position = commit_log_offset(partition, half_offset)
    made = native.stored_reply(
        REPLY_START,
        form is Form.JSON,
        opaque,
        ids.make(0)[:-16],
        queue_id,
        position,
        seal,
        transaction_id,
    )
    expected = sent_reply(asked, ids.make(position), queue_id, seal, transaction_id)
    assert bytes(made) == expected


@given(st.lists(st.tuples(PLAIN, PLAIN, st.integers(0, 2**62)), min_size=1, max_size=5))
def test_a_record_of_decisions_is_the_same(found: list[tuple[str, str, int]]) -> None:
    entries: list[op.Entry] = [
        op.DecisionEntry(group, transaction_id, 1, 1, "producer", None)  # type: ignore[arg-type]
        for group, transaction_id, _ in found
    ]
    value, headers = op.write(b"c", entries, [offset for _, _, offset in found])
    assert native.decisions(found) == (value, headers[1][1])


@given(st.lists(st.binary(min_size=1, max_size=64), min_size=1, max_size=2),
       st.integers(0, 4_000), st.integers(0, 2**48 - 1), st.text(max_size=40), IDS,
       st.integers(-(2**63), 2**63 - 1))  # fmt: skip
def test_a_seal_is_the_same(
    keys: list[bytes], partition: int, half_offset: int, group: str, unique: str, other: int
) -> None:
    twin, place = Seals(keys), (partition, half_offset)
    made = twin.make(*place, group, unique)
    assert native.sealed(keys, place, group, unique, made) == (made, True)
    last = Seals(keys[-1:]).make(*place, group, unique)
    assert native.sealed(keys, place, group, unique, last) == (made, True)
    fits = twin.fits(other, *place, group, unique)
    assert native.sealed(keys, place, group, unique, other) == (made, fits)


def test_without_a_key_nothing_is_sealed_and_nothing_fits() -> None:
    assert native.sealed([], (0, 0), "p", "U1", 0) == (None, False)


@given(IDS, st.integers(1, 500))
def test_a_transaction_lives_in_the_same_half_partition(transaction_id: str, count: int) -> None:
    if transaction_id.isascii():  # others are the twin's
        expected = half_partition(maker_of(transaction_id).encode(), transaction_id, count)
        assert native.partition(transaction_id, count) == expected
