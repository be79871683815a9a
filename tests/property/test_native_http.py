"""Requests of the data door that are carried out natively are read, stored and answered as its own
reader, handlers and wire formats do it, byte by byte."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls, Operation, new_transaction_id
from halfhitch.client.values import Message
from halfhitch.core.model import Resolution
from halfhitch.doors.http.handlers import EndedAnswer, PreparedAnswer
from halfhitch.doors.http.messages import raw_message_of
from halfhitch.doors.http.replies import json_reply, stored_reply
from halfhitch.service.api import STATE_AFTER, TransactionState
from halfhitch.wire.handle import Handle, HandleCodec
from harness.native import native, needs_native
from harness.native_http import (
    BORN_MS,
    HEAD_MAX,
    INSTANCE,
    NEW_ID,
    ODD_LINES,
    ODD_TEXT,
    SELDOM,
    TEXT,
    TRACED,
    UUIDS,
    damaged,
    the_record_is_the_same,
    twin,
    usual,
)

pytestmark = needs_native
PLAIN_LINES = st.sampled_from(
    ["User-Agent: x/1 (y)", "Accept: */*", "Connection: keep-alive", "Accept-Encoding: gzip, br",
     "X-Request-Id: 1", "connection: Keep-Alive", "Content-Type: application/octet-stream"]
)  # fmt: skip
TARGETS = st.sampled_from(["/v1/topics/orders/half", "/v1/topics/a.b_c-1/half"])
ODD_TARGETS = st.sampled_from(
    ["/v1/topics/or%64ers/half", "/v1/topics//half", "/v1/topics/a/b/half", "/v1/topics/a/half/",
     "/v1/topics/a/half?x=1", "/v1/topics/a/half?", "http://localhost/v1/topics/a/half", "*",
     "/v1/transactions", "/v1/transactions/h/unknown", "/v1/transactions/h/commit?wait=visible",
     "/v1//topics/a/half", "/v1/topics/a/half#f", "//v1/topics/a/half", "/v1/topics/" + "t" * 250
     + "/half"]
)  # fmt: skip


def shuffled(draw: st.DrawFn, lines: list[str], odd: bool) -> list[str]:
    lines += draw(st.lists(PLAIN_LINES, max_size=3, unique_by=lambda line: line.lower()))
    if odd:
        lines += draw(st.lists(ODD_LINES, min_size=1, max_size=2))
    return draw(st.permutations(lines))


def spelled(draw: st.DrawFn, line: str) -> str:
    name, _, value = line.partition(":")
    if draw(SELDOM) and not name.lower().startswith("half-header-"):
        name = draw(st.sampled_from([name.upper(), name.lower()]))
    value = value.strip(" ")
    return (
        f"{name}:{draw(st.sampled_from(['', ' ', '  ']))}{value}{draw(st.sampled_from(['', ' ']))}"
    )


@st.composite
def halves(draw: st.DrawFn) -> bytes:
    body = draw(st.binary(max_size=40))
    lines = ["Host: localhost:8340", f"Content-Length: {len(body)}"]
    texts = ODD_TEXT if draw(SELDOM) else TEXT
    lines.append(f"Half-Producer-Group: {draw(texts)}")
    if draw(st.booleans()):
        lines.append(f"Half-Key: {draw(texts)}")
    if draw(st.booleans()):
        lines.append(f"Half-Transaction-Id: {draw(texts | UUIDS)}")
    if draw(SELDOM):
        numbers = st.integers(0, 700_000).map(str) | ODD_TEXT
        lines.append(f"Half-Immunity-Seconds: {draw(numbers)}")
    names = st.sampled_from(["a", "Trace-Id", "x_y", "SW8", "X-B3-Flags"]) | TRACED
    named = draw(st.lists(st.tuples(names, texts | st.just("")), max_size=3))
    lines += [f"Half-Header-{name}: {value}" for name, value in named]
    target = draw(ODD_TARGETS if draw(SELDOM) else TARGETS)
    version = draw(st.sampled_from(["1.0", "1.1", "2.0"])) if draw(SELDOM) else "1.1"
    method = draw(st.sampled_from(["GET", "PUT", "post"])) if draw(SELDOM) else "POST"
    lines = [spelled(draw, line) for line in shuffled(draw, lines, draw(SELDOM))]
    head = "\r\n".join([f"{method} {target} HTTP/{version}", *lines, "", ""])
    return damaged(draw, head.encode(errors="replace") + body)


@st.composite
def ends(draw: st.DrawFn) -> bytes:
    handle = draw(st.sampled_from(["AgAB-_x", "h.0", "a%2Fb", "", "x" * 1_000, "ä", "a=b"]))
    what = draw(st.sampled_from(["commit", "rollback", "commit?wait=visible", "unknown"]))
    lines = ["Host: localhost"]
    if draw(st.booleans()):
        lines.append(f"Half-Producer-Group: {draw(ODD_TEXT if draw(SELDOM) else TEXT)}")
    if draw(st.booleans()):
        lines.append(f"Content-Length: {draw(st.sampled_from(['0', '00', '2', '-0', '']))}")
    lines = [spelled(draw, line) for line in shuffled(draw, lines, draw(SELDOM))]
    head = "\r\n".join([f"POST /v1/transactions/{handle}/{what} HTTP/1.1", *lines, "", ""])
    return damaged(draw, head.encode(errors="replace"))


@given(halves(), st.sampled_from([b"", b"POST /", b"\r\n", b"GET / HTTP/1.1\r\n\r\n"]))
def test_a_half_that_is_taken_becomes_the_same_record(data: bytes, after: bytes) -> None:
    kind, taken = native.http_half(data + after, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)
    if kind != 1:
        return
    host, size, group, topic, name, _ = taken
    request, route, argument = twin(data[:size])
    assert (route, argument) == ("half", topic)
    assert request.fields[b"host"] == host
    assert not {b"origin", b"sec-fetch-site", b"half-token"} & request.fields.keys()
    assert request.trace == ()
    message = raw_message_of(request)
    assert request.text(b"half-producer-group") == group
    assert request.text(b"half-transaction-id") == name
    the_record_is_the_same(message, taken, request.number(b"half-immunity-seconds"))


@given(ends())
def test_an_end_that_is_taken_means_the_same(data: bytes) -> None:
    taken = native.http_end(data, HEAD_MAX)
    if taken is None:
        return
    host, size, handle, group, is_commit = taken
    request, route, argument = twin(data[:size])
    assert route == ("commit" if is_commit else "rollback")
    assert argument == handle.decode()
    assert request.fields[b"host"] == host
    assert not request.body
    assert request.half.keys() <= {b"half-producer-group"}
    assert request.half.get(b"half-producer-group") == group


@given(halves(), st.integers(0, 10_000))
def test_a_part_of_a_request_waits_for_the_rest_or_is_the_twins(data: bytes, cut: int) -> None:
    kind, taken = native.http_half(data, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)
    if kind != 1:
        return
    part, _ = native.http_half(data[: min(cut, taken[1] - 1)], HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)
    assert part == 0


@given(st.binary(max_size=60))
def test_bytes_that_are_no_request_are_the_twins(data: bytes) -> None:
    assert native.http_half(data, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)[1] is None
    assert native.http_prepare(data, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)[1] is None
    assert native.http_end(data, HEAD_MAX) is None


def test_what_a_plain_client_sends_is_taken() -> None:
    half = usual(
        "Half-Producer-Group: g", "Content-Type: application/octet-stream", "Half-Key: k",
        "Half-Header-a: 1",
    )  # fmt: skip
    assert native.http_half(half, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)[0] == 1
    end = usual("Half-Producer-Group: g", body=b"", target="/v1/transactions/AgAB_-x/commit")
    assert native.http_end(end, HEAD_MAX)[3:] == (b"g", True)


def test_what_our_client_sends_is_taken() -> None:
    """Byte by byte as it does: whatever makes a half odd is found here."""
    calls = Calls(parse_address("http://localhost:8340"), "g", None)
    unique = new_transaction_id()
    for message in (
        Message("orders", b"v"),
        Message("orders", "v", key="order-17", headers={"kind": "placed", "x-y": b"1"}),
    ):
        for immunity_s in (None, 60):
            sent = calls.prepare([message], unique, immunity_s).request
            kind, taken = native.http_half(sent, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)
            assert (kind, taken[1], taken[4]) == (1, len(sent), unique)
    for operation in (Operation.COMMIT, Operation.ROLLBACK):
        sent = calls.end(operation, "AgAB_-x", unique).request
        taken = native.http_end(sent, HEAD_MAX)
        assert taken[1:] == (len(sent), b"AgAB_-x", b"g", operation is Operation.COMMIT)


def test_a_name_of_an_end_is_the_twins_to_refuse() -> None:
    end = usual("Half-Transaction-Id: T1", body=b"", target="/v1/transactions/AgAB/commit")
    assert native.http_end(end, HEAD_MAX) is None


def test_a_head_that_is_too_long_is_the_twins_before_it_ends() -> None:
    begun = b"POST /v1/topics/orders/half HTTP/1.1\r\nX-A: " + b"a" * HEAD_MAX
    assert native.http_half(begun, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)[0] == -1


TEXTS = st.text(min_size=1, max_size=60)
KEYS = st.binary(min_size=16, max_size=64)


@given(KEYS, st.integers(0, 65_535), st.integers(0, 2**62), TEXTS, TEXTS,
       st.sampled_from(["t", "orders", "t" * 249]), st.integers(0, 500),
       st.integers(0, 63))  # fmt: skip
def test_a_handle_is_the_same_and_no_altered_one_is_taken(
    key: bytes,
    partition: int,
    offset: int,
    group: str,
    unique: str,
    topic: str,
    at: int,
    other: int,
) -> None:
    codec = HandleCodec([key], "a cluster")
    expected = codec.encode(Handle(partition, group, unique, (offset,), (topic,)))
    signing, person = codec.signer
    place = (partition, offset, group, unique, topic)
    assert native.signed(signing, person, place) == expected
    assert native.verified(signing, person, expected.encode()) == place
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    at %= len(expected)
    altered = expected[:at] + letters[other] + expected[at + 1 :]
    if altered != expected:
        assert native.verified(signing, person, altered.encode()) is None
    assert native.verified(signing, person, expected.encode()[:-1]) is None
    assert native.verified(b"another key that signs", person, expected.encode()) is None


def test_a_handle_of_several_messages_or_of_another_form_is_the_twins() -> None:
    codec = HandleCodec([b"a key that signs"], "a cluster")
    signing, person = codec.signer
    for handle in (
        Handle(1, "g", "i", (1, 2), ("t",)),
        Handle(1, "g", "i", (1,), ()),
        Handle(1, "g", "i", (1,), ("t", "u")),
    ):
        text = codec.encode(handle).encode()
        assert native.verified(signing, person, text) is None
    assert native.verified(signing, person, b"") is None
    assert native.verified(signing, person, b"A") is None


@given(TEXT, UUIDS | TEXT, st.sampled_from([Resolution.COMMIT, Resolution.ROLLBACK]))
def test_an_answer_is_the_same(handle: str, unique: str, decided: Resolution) -> None:
    stored, prepared, ended = native.http_replies(handle, unique, decided is Resolution.COMMIT)
    assert stored == stored_reply(handle, unique)
    pending = PreparedAnswer(unique, handle, TransactionState.PENDING.value)
    assert prepared == json_reply(201, msgspec.json.encode(pending))
    answer = msgspec.json.encode(EndedAnswer(unique, STATE_AFTER[decided]))
    assert ended == json_reply(200, answer)
    assert json.loads(answer)["transaction_id"] == unique
