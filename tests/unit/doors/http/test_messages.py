"""From bodies to messages: what JSON becomes as bytes, and what is refused."""

from __future__ import annotations

import base64
import json

import pytest

from halfhitch.doors.http.messages import messages_of, raw_message_of, read_add, read_prepare
from halfhitch.doors.http.requests import Request
from halfhitch.errors import InvalidBase64, InvalidJson, InvalidRequest, UnsupportedMediaType
from halfhitch.service.api import OutgoingMessage


def request(body: bytes, *headers: tuple[bytes, bytes]) -> Request:
    made = Request(b"POST", b"/", list(headers), keep_alive=True)
    made.body = body
    return made


def message(**fields: object) -> OutgoingMessage:
    body = json.dumps({"messages": [{"topic": "t", **fields}]}).encode()
    (read,) = messages_of(read_add(request(body)).messages)
    return read


def value_of(text: bytes) -> bytes | None:
    body = b'{"messages":[{"topic":"t","value":' + text + b"}]}"
    (read,) = messages_of(read_add(request(body)).messages)
    return read.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'"plain"', b"plain"),
        (b'""', b""),
        (b'"\xc3\xa9 \xf0\x9f\x98\x80"', "é 😀".encode()),
        (b'"a\\"b\\\\c\\u00e9\\ud83d\\ude00\\n\\u0000"', 'a"b\\cé😀\n\0'.encode()),
        (b"null", None),
        (b"true", b"true"),
        (b"-1.50e+3", b"-1.50e+3"),
        (b"9" * 100_000, b"9" * 100_000),
        (b'{ "b" : 1,\n "a" : [ 2 ] }', b'{ "b" : 1,\n "a" : [ 2 ] }'),
        (b'{"a":1,"a":2}', b'{"a":1,"a":2}'),
        (b"[]", b"[]"),
        (b'{"a":"\xc3\xa9"}', b'{"a":"\xc3\xa9"}'),
        (b'  "x"  ', b"x"),
        (b" null ", None),
    ],
)
def test_a_value_becomes_bytes(text: bytes, value: bytes | None) -> None:
    assert value_of(text) == value


def test_keys_partitions_and_headers_are_translated() -> None:
    read = message(key="é", value="v", partition=3, headers={"a": "1", "b": None})
    assert read == OutgoingMessage("t", "é".encode(), b"v", [("a", b"1"), ("b", None)], 3)
    assert message(value="v") == OutgoingMessage("t", None, b"v", [], None)
    assert message(value="v", key=None, headers=None, partition=None).key is None


def test_headers_as_pairs_keep_order_and_duplicates() -> None:
    pairs = [["b", "1"], ["a", {"base64": "/w=="}], ["b", None], ["", ""]]
    expected = [("b", b"1"), ("a", b"\xff"), ("b", None), ("", b"")]
    assert message(value="v", headers=pairs).headers == expected


def test_base64_becomes_its_bytes() -> None:
    every_byte = bytes(range(256))
    encoded = base64.b64encode(every_byte).decode()
    read = message(key_base64=encoded, value_base64=encoded)
    assert (read.key, read.value) == (every_byte, every_byte)
    assert message(value_base64="").value == b""


@pytest.mark.parametrize(
    "text", ["YQ", "YQ=", "Y", "Y-_=", "YQ==\n", " YQ==", "YQ==YQ==", "é", "="]
)
@pytest.mark.parametrize(
    "place", ["messages[0].value_base64", "messages[0].key_base64", "messages[0].headers, 'h'"]
)
def test_broken_base64_is_refused_and_the_place_named(text: str, place: str) -> None:
    fields: dict[str, object] = {"value": "v"}
    if "value" in place:
        fields = {"value_base64": text}
    elif "key" in place:
        fields["key_base64"] = text
    else:
        fields["headers"] = {"h": {"base64": text}}
    with pytest.raises(InvalidBase64) as caught:
        message(**fields)
    assert place in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "neither value nor value_base64"),
        ({"value": "v", "value_base64": "YQ=="}, "both value and value_base64"),
        ({"value": None, "value_base64": "YQ=="}, "both value and value_base64"),
        ({"value": "v", "key": "k", "key_base64": "YQ=="}, "both key and key_base64"),
    ],
)
def test_a_message_has_one_value_and_at_most_one_key(
    fields: dict[str, object], sentence: str
) -> None:
    with pytest.raises(InvalidRequest, match=rf"messages\[0\] has {sentence}"):
        message(**fields)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "producer_group"),
        ({"messages": []}, "producer_group"),
        ({"producer_group": "g"}, "messages"),
        ({"producer_group": "g", "messages": [], "colour": "red"}, "colour"),
        ({"producer_group": "g", "messages": [{"topic": "t", "valu": 1}]}, "valu"),
        ({"producer_group": "g", "messages": [{"value": 1}]}, "topic"),
        ({"producer_group": 1, "messages": []}, "producer_group"),
        ({"producer_group": None, "messages": []}, "producer_group"),
        ({"producer_group": "g", "messages": {}}, "messages"),
        ({"producer_group": "g", "messages": [1]}, r"messages\[0\]"),
        ({"producer_group": "g", "messages": [], "transaction_id": 1}, "transaction_id"),
        ({"producer_group": "g", "messages": [], "immunity_seconds": -1}, "immunity_seconds"),
        ({"producer_group": "g", "messages": [], "immunity_seconds": 1.5}, "immunity_seconds"),
        ({"producer_group": "g", "messages": [], "immunity_seconds": "1"}, "immunity_seconds"),
        ({"producer_group": "g", "messages": [], "immunity_seconds": True}, "immunity_seconds"),
        ({"producer_group": "g", "messages": [], "immunity_seconds": 2**31}, "immunity_seconds"),
        ({"producer_group": "g", "messages": [{"topic": "t", "partition": 2**31}]}, "partition"),
        ({"producer_group": "g", "messages": [{"topic": "t", "headers": {"a": 1}}]}, "headers"),
        ({"producer_group": "g", "messages": [{"topic": "t", "headers": [["a"]]}]}, "headers"),
        ({"producer_group": "g", "messages": [{"topic": "t", "headers": [[1, ""]]}]}, "headers"),
        ({"producer_group": "g", "messages": [{"topic": "t", "key": 1}]}, "key"),
        ([], "object"),
        ("x", "object"),
        (None, "object"),
    ],
)
def test_a_body_of_another_form_is_refused_and_the_place_named(body: object, named: str) -> None:
    with pytest.raises(InvalidRequest, match=named) as caught:
        read_prepare(request(json.dumps(body).encode()))
    assert caught.value.code == "invalid_request"


PREFIX = b'{"producer_group":"g","messages":[{"topic":"t","value":'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b'{"producer_group":"g","messages":[]} {}',
        b"{'producer_group':'g'}",
        b"\xef\xbb\xbf{}",
        '{"producer_group":"g"}'.encode("utf-16"),
        b'{"producer_group":"\xff"}',
        PREFIX + b'"\xff"}]}',
        PREFIX + b'{"a":"\xc3"}}]}',
        PREFIX + b'"\xed\xa0\x80"}]}',  # a surrogate in UTF-8
        PREFIX + b'"\\ud800"}]}',
        PREFIX + b"NaN}]}",
        PREFIX + b"Infinity}]}",
        PREFIX + b"-}]}",
        PREFIX + b"01}]}",
        PREFIX + b"1.}]}",
        PREFIX + b"[1,]}]}",
        PREFIX + b'"a\nb"}]}',
        PREFIX + b'"a\\x"}]}',
        PREFIX + b"// no\n1}]}",
        PREFIX + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
        PREFIX + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}]}",
    ],
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidJson) as caught:
        read_prepare(request(body))
    assert caught.value.code == "invalid_json"
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("body", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000])
def test_depth_outside_a_value_is_refused_too(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_prepare(request(body))


def test_a_number_of_a_hundred_thousand_digits_is_refused_where_a_number_counts() -> None:
    body = b'{"producer_group":"g","messages":[],"immunity_seconds":' + b"9" * 100_000 + b"}"
    with pytest.raises(InvalidRequest, match="immunity_seconds"):
        read_prepare(request(body))


def test_what_is_quoted_of_a_body_is_short() -> None:
    body = b'{"producer_group":"g","messages":[],"' + b"x" * 100_000 + b'":1}'
    with pytest.raises(InvalidRequest) as caught:
        read_prepare(request(body))
    assert len(str(caught.value)) < 500


def test_of_a_key_that_stands_twice_the_last_counts() -> None:
    body = b'{"producer_group":"a","producer_group":"b","messages":[]}'
    assert read_prepare(request(body)).producer_group == "b"


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        b"application/json",
        b"Application/JSON",
        b"application/json; charset=utf-8",
        b'application/json;charset="UTF-8"',
    ],
)
def test_json_is_taken_as_json(content_type: bytes | None) -> None:
    headers = [] if content_type is None else [(b"Content-Type", content_type)]
    assert read_add(request(b'{"messages":[]}', *headers)).messages == []


@pytest.mark.parametrize(
    "content_type",
    [
        b"",
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
        b"application/jsonx",
        b"application/json; charset=latin-1",
        b"application/json, text/plain",
    ],
)
def test_other_types_are_refused_on_json_routes(content_type: bytes) -> None:
    with pytest.raises(UnsupportedMediaType):
        read_add(request(b'{"messages":[]}', (b"Content-Type", content_type)))


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"br", b"gzip, identity", b"x"])
def test_compressed_bodies_are_refused(encoding: bytes) -> None:
    header = (b"Content-Encoding", encoding)
    with pytest.raises(UnsupportedMediaType):
        read_add(request(b'{"messages":[]}', header))
    with pytest.raises(UnsupportedMediaType):
        raw_message_of(request(b"v", header))
    assert read_add(request(b'{"messages":[]}', (b"Content-Encoding", b"Identity")))


def test_a_raw_message_is_its_body_and_headers() -> None:
    made = request(
        b"\x00\xff",
        (b"Half-Key", b"k\xff"),
        (b"Half-Partition", b"3"),
        (b"Half-Header-a", b"1"),
        (b"Content-Type", b"text/plain"),
    )
    made.arguments = ("orders",)
    assert raw_message_of(made) == OutgoingMessage(
        "orders", b"k\xff", b"\x00\xff", [("a", b"1")], 3
    )


def test_a_raw_key_may_be_missing_empty_or_base64() -> None:
    assert raw_message_of(request(b"")).key is None
    assert raw_message_of(request(b"")).value == b""
    assert raw_message_of(request(b"", (b"Half-Key", b""))).key == b""
    assert raw_message_of(request(b"", (b"Half-Key-Base64", b"AAD/"))).key == b"\x00\x00\xff"
    with pytest.raises(InvalidBase64, match="Half-Key-Base64"):
        raw_message_of(request(b"", (b"Half-Key-Base64", b"?")))
    with pytest.raises(InvalidRequest, match="not both"):
        raw_message_of(request(b"", (b"Half-Key-Base64", b"AAD/"), (b"Half-Key", b"k")))
    with pytest.raises(InvalidRequest, match="Half-Partition"):
        raw_message_of(request(b"", (b"Half-Partition", b"x")))
