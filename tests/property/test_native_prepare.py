"""Prepares as JSON that are carried out natively are read and stored as the data door's own reader
does it, byte by byte; what two readers could take for different things is left to that one."""

from __future__ import annotations

import json
from binascii import b2a_base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls, new_transaction_id
from halfhitch.client.values import Message
from halfhitch.doors.http.messages import messages_of, read_prepare
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
SPACES = st.sampled_from([""] * 6 + [" ", "\n", "\t ", "\r\n"])
BROAD = st.text(max_size=12) | st.sampled_from(['a "b"', "\\", "/", "é\U0001f600", "\x00", "\x7f"])
PLAIN_VALUES = st.sampled_from(
    ["1", "-0", "1.5e3", "true", "[]", "{}", '{"a": [1, "b\\n", {"c": null}]}', "[[[[[0]]]]]",
     r'["\ud83d\ude00"]', '{"a":1,"a":2}', "9" * 40, r'"\u00e9\/\b"', r'"\ud83d\ude00"']
)  # fmt: skip
ODD_VALUES = st.sampled_from(
    ["null", "NaN", "Infinity", "-", "01", "1.", ".5", "1e", "+1", "tru", "", r'"\ud800"', r'"\q"',
     r'["\ud800"]', r'["\ude00\ud83d"]', r'["\ud83d\u0061"]', r'["\\ud800"]', r'["\uZZZZ"]',
     "[1,]", "{1:2}", "'a'", '"a', '"\x01"', '["\x01"]', "[" * 65 + "]" * 65,
     "[" * 1_500 + "]" * 1_500, '{"a":' * 70 + "1" + "}" * 70, "[1}", "1 2", "1e999", "\ufeff1",
     '{"a"}', '{"a":}', "[" * 40 + '"]]]"' + "]" * 40, r'"\u0000"', '""', r'"\ud83d"']
)  # fmt: skip
BASE64 = st.binary(max_size=8).map(lambda raw: b2a_base64(raw, newline=False).decode())
ODD_BASE64 = st.sampled_from(
    [
        "aB==",
        "aA=",
        "aA",
        "=",
        "====",
        "a===",
        "aGk=aGk=",
        "aG k",
        "aGk=\n",
        "-_-_",
        "é",
        "aGk",
        "a=Gk",
    ]
)
ODD_MEMBERS = st.sampled_from(
    ['"nonsense":1', '"topic":"t"', '"key":"k"', '"key":null', '"value":1', '"value_base64":null',
     '"partition":2', '"partition":null', '"partition":-1', '"immunity_seconds":1.0',
     '"immunity_seconds":-0',
     '"immunity_seconds":604801', '"immunity_seconds":60', '"immunity_seconds":"60"',
     '"immunity_seconds":null', '"immunity_seconds":2147483648', '"transaction_id":7', '"key":7',
     '"headers":null', '"headers":[]', '"headers":7', '"headers":{"a":null}', '"key":""',
     r'"\u006bey":"k"', '"headers":[["a","b","c"]]', '"headers":[["a"]]', '"headers":{"":"x"}',
     '"headers":{"UNIQ_KEY":"x"}', '"headers":[["HALFHITCH_x","y"]]', '"headers":{"é":"x"}',
     '"headers":{"a":"x","a":"y"}', '"headers":{"a":{"base64":"aA==","base64":"aA=="}}',
     '"headers":{"a":{"base64":"aA==","more":1}}', '"headers":{"a":{}}',
     '"headers":{"a\\u0000":"x"}',
     '"producer_group":"again"', '"messages":[]', '"transaction_id":null', '"transaction_id":""',
     '"value":"x","value":"y"', '"headers":"x"', '"key_base64":"aw=="', "", '"a"', "1:2"]
)  # fmt: skip
JSON_KINDS = st.sampled_from(
    ["application/json"] * 6 + ["application/json; charset=utf-8", "application/json;charset=UTF-8",
     "Application/JSON"]
)  # fmt: skip
ODD_KINDS = st.sampled_from(
    ["text/plain", "application/json; charset=latin-1", 'application/json; charset="utf-8"',
     "application/json;", "application/json; x=y", "application/jsonx", "application/octet-stream"]
)  # fmt: skip


def quoted(draw: st.DrawFn, text: str) -> str:
    return json.dumps(text, ensure_ascii=draw(st.booleans()))


def members(draw: st.DrawFn, found: list[str], odd: bool) -> str:
    """An object of these."""
    if odd:
        found = [*found, draw(ODD_MEMBERS)]
    blank = draw(SPACES)
    inner = f"{blank},{draw(SPACES)}".join(draw(st.permutations(found)))
    return f"{{{draw(SPACES)}{inner}{blank}}}"


@st.composite
def messages(draw: st.DrawFn) -> str:
    odd = draw(SELDOM)
    found = [f'"topic":{draw(SPACES)}{quoted(draw, draw(st.sampled_from(["orders", "a.b_c-1"])))}']
    kind = draw(st.sampled_from(["text", "text", "json", "base64"]))
    base64 = ODD_BASE64 if draw(SELDOM) else BASE64
    if kind == "base64":
        found.append(f'"value_base64":{quoted(draw, draw(base64))}')
    elif kind == "json":
        values = ODD_VALUES if draw(SELDOM) else PLAIN_VALUES
        found.append(f'"value":{draw(SPACES)}{draw(values)}{draw(SPACES)}')
    else:
        found.append(f'"value":{quoted(draw, draw(BROAD))}')
    key = draw(st.sampled_from(["none", "text", "base64"]))
    if key == "text":
        found.append(f'"key":{quoted(draw, draw(BROAD))}')
    if key == "base64":
        found.append(f'"key_base64":{quoted(draw, draw(base64))}')
    names = st.sampled_from(["a", "Trace-Id", "x y", 'q"', "SW8", "X-B3-Flags"]) | TRACED
    texts = st.tuples(names, BROAD.map(json.dumps))
    coded = st.tuples(names, base64.map(lambda text: f'{{"base64":"{text}"}}'))
    headers = draw(st.lists(texts | coded, max_size=3))
    if headers and draw(st.booleans()):
        listed = ",".join(f"[{quoted(draw, name)},{value}]" for name, value in headers)
        found.append(f'"headers":[{listed}]')
    elif headers:
        named = ",".join(f"{quoted(draw, name)}:{value}" for name, value in headers)
        found.append(f'"headers":{{{named}}}')
    return members(draw, found, odd)


@st.composite
def prepares(draw: st.DrawFn) -> bytes:
    count = draw(st.sampled_from([0, 2])) if draw(SELDOM) else 1
    listed = ",".join(draw(messages()) for _ in range(count))
    group = draw(ODD_TEXT) if draw(SELDOM) else draw(TEXT)
    found = [f'"producer_group":{quoted(draw, group)}', f'"messages":[{draw(SPACES)}{listed}]']
    if draw(st.booleans()):
        name = draw(ODD_TEXT) if draw(SELDOM) else draw(TEXT | UUIDS)
        found.append(f'"transaction_id":{quoted(draw, name)}')
    if draw(SELDOM):
        found.append(f'"immunity_seconds":{draw(st.integers(0, 700_000))}')
    text = members(draw, found, draw(SELDOM))
    if draw(SELDOM):
        text = (
            draw(st.sampled_from(["\ufeff%s", "%s x", " %s\n", "[%s]", "%s,", "%s{}", "%s\x00"]))
            % text
        )
    body = damaged(draw, text.encode(errors="surrogatepass"))
    lines = ["Host: localhost:8340", f"Content-Length: {len(body)}"]
    if draw(st.booleans()):
        kind = draw(ODD_KINDS if draw(SELDOM) else JSON_KINDS)
        lines.append(f"Content-Type: {kind}")
    odd = draw(SELDOM)
    if odd:
        lines.append(draw(ODD_LINES))
    head = "\r\n".join(["POST /v1/transactions HTTP/1.1", *draw(st.permutations(lines)), "", ""])
    return damaged(draw, head.encode(errors="replace")) + body


@given(prepares(), st.sampled_from([b"", b"POST /", b"\r\n"]))
def test_a_prepare_that_is_taken_becomes_the_same_record(data: bytes, after: bytes) -> None:
    kind, taken = native.http_prepare(data + after, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)
    if kind != 1:
        return
    host, size, group, _, name, _ = taken
    request, route, _ = twin(data[:size])
    assert route == "prepare"
    assert request.fields[b"host"] == host
    assert not {b"origin", b"sec-fetch-site", b"half-token"} & request.fields.keys()
    assert request.trace == ()
    body = read_prepare(request)
    assert (body.producer_group, body.transaction_id) == (group, name)
    (message,) = messages_of(body.messages)
    the_record_is_the_same(message, taken, body.immunity_seconds)


@given(prepares(), st.integers(0, 10_000))
def test_a_part_of_a_prepare_waits_for_the_rest(data: bytes, cut: int) -> None:
    kind, taken = native.http_prepare(data, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)
    if kind != 1:
        return
    part = data[: min(cut, taken[1] - 1)]
    assert native.http_prepare(part, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID) == (0, None)


def as_json(body: object, *lines: str, **how: Any) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body, **how).encode()
    return usual(*lines, body=raw, target="/v1/transactions")


def one(**more: Any) -> dict[str, Any]:
    return {"producer_group": "g", "messages": [{"topic": "orders", **({"value": "v"} | more)}]}


def taken_of(body: object, *lines: str, **how: Any) -> Any:
    data = as_json(body, *lines, **how)
    return native.http_prepare(data, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)


@pytest.mark.parametrize(
    ("message", "value"),
    [({"value": "grün \U0001f600"}, "grün \U0001f600".encode()),
     ({"value": {"id": [1, "é"]}}, None),
     ({"value": 17}, b"17"), ({"key": "k", "headers": {"kind": "placed"}}, b"v"),
     ({"headers": [["a", "1"], ["a", {"base64": "/w=="}]]}, b"v"), ({"value": False}, b"false"),
     ({"partition": None, "key": None, "headers": None}, b"v")],
)  # fmt: skip
@pytest.mark.parametrize("is_ascii", [True, False])
def test_what_a_plain_client_sends_as_json_is_taken(
    message: dict[str, Any], value: bytes | None, is_ascii: bool
) -> None:
    kind, taken = taken_of(
        one(**message), "Content-Type: application/json", ensure_ascii=is_ascii, indent=1
    )
    assert kind == 1
    found = taken[5][1]
    assert found == value if value is not None else json.loads(found) == message["value"]


def test_a_value_in_base64_is_taken() -> None:
    body = {"producer_group": "g", "messages": [{"topic": "orders", "value_base64": "AP8="}]}
    assert taken_of(body)[1][5][1] == b"\x00\xff"


@pytest.mark.parametrize(
    "body",
    [one(value=None), one(partition=1), one(key=""), one(headers={"a": None}),
     one(value_base64="aA=="), {**one(), "messages": one()["messages"] * 2},
     {**one(), "messages": []}, ["g", one()["messages"]], {**one(), "immunity_seconds": 604_801},
     {**one(), "more": 1}, b"\xef\xbb\xbf" + json.dumps(one()).encode(),
     json.dumps(one()).encode() + b"x", json.dumps(one(value=float("nan"))).encode(), b"", b"{}",
     b'{"producer_group":"g","messages":[["orders","k"]]}',
     b'{"producer_group":"g","producer_group":"g","messages":[{"topic":"orders","value":"v"}]}',
     b'{"producer_group":"g","messages":[{"topic":"orders","value":"\xff"}]}',
     rb'{"producer_group":"g","messages":[{"topic":"orders","value":["\ud800"]}]}',
     b'{"producer_group":"g","messages":[{"topic":"orders","value":'
     + b"[" * 65 + b"]" * 65 + b"}]}"],
)  # fmt: skip
def test_json_that_is_not_of_the_usual_form_is_the_twins(body: object) -> None:
    assert taken_of(body) == (-1, None)


def test_a_header_that_json_routes_do_not_take_is_the_twins_to_refuse() -> None:
    for line in ("Half-Key: k", "Half-Producer-Group: g", "Half-Header-a: b", "Content-Type: a/b"):
        assert taken_of(one(), line) == (-1, None)


def test_what_our_client_sends_as_json_is_taken() -> None:
    calls = Calls(parse_address("http://localhost:8340"), "g", None)
    unique = new_transaction_id()
    message = Message("orders", b"\xff", key=b"\xfe", headers={"Kind": "placed", "x": b"\xff"})
    sent = calls.prepare([message], unique, 60).request
    assert b"/v1/transactions " in sent
    kind, taken = native.http_prepare(sent, HEAD_MAX, BORN_MS, INSTANCE, NEW_ID)
    assert (kind, taken[1], taken[4], taken[5][:2]) == (1, len(sent), unique, (b"\xfe", b"\xff"))
