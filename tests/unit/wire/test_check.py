"""A check as JSON: the same to a stream, a callback and another instance; bytes come back whole."""

import json
from dataclasses import replace

import pytest

from halfhitch.wire.check import HEARTBEAT_LINE, Check, CheckMessage, decode, encode
from harness.ledger_script import identity_of

MESSAGE = CheckMessage("invoices", b"k", b"v", [("trace", b"1")])


def check(*messages: CheckMessage, is_repeat: bool = False) -> Check:
    return Check(3, identity_of("T1"), 2, 15, "hh1.x", 61_000, "node-1", messages, is_repeat)


def back(message: CheckMessage) -> CheckMessage:
    (found,) = decode(encode(check(message), for_inbox=True)).messages
    return found


def test_a_producer_is_asked_like_this() -> None:
    assert json.loads(encode(check(MESSAGE))) == {
        "type": "check",
        "transaction_id": "T1",
        "producer_group": "orders",
        "handle": "hh1.x",
        "check_number": 2,
        "check_max": 15,
        "age_ms": 61_000,
        "messages": [
            {"topic": "invoices", "key": "k", "value": "v", "headers": [["trace", "1"]]},
        ],
    }


def test_a_producer_is_told_when_it_was_born() -> None:
    born = replace(check(MESSAGE), born_ms=1_785_412_800_000, messages=[MESSAGE])
    line = encode(born, for_inbox=True)
    assert json.loads(line)["born_ms"] == 1_785_412_800_000
    assert decode(line) == born
    assert "born_ms" not in json.loads(encode(check(MESSAGE)))


def test_another_coordinator_is_told_more() -> None:
    line = json.loads(encode(check(MESSAGE, is_repeat=True), for_inbox=True))
    assert (line["half_partition"], line["prepared_by"], line["is_repeat"]) == (3, "node-1", True)


def test_a_check_fits_on_a_line() -> None:
    message = CheckMessage("invoices", b"a\nb", b"c\r\nd", [("x", b"\n")])
    assert b"\n" not in encode(check(message))
    assert HEARTBEAT_LINE.endswith(b"\n")
    assert json.loads(HEARTBEAT_LINE) == {"type": "heartbeat"}


@pytest.mark.parametrize("is_repeat", [False, True])
def test_a_check_comes_out_of_an_inbox_as_it_went_in(is_repeat: bool) -> None:
    sent = check(MESSAGE, CheckMessage("audit", None, b"2", [], 7), is_repeat=is_repeat)
    found = decode(encode(sent, for_inbox=True))
    assert found.messages == list(sent.messages)
    assert found == Check(
        3, identity_of("T1"), 2, 15, "hh1.x", 61_000, "node-1", found.messages, is_repeat
    )


RAW = [
    None,
    b"",
    b"plain",
    "\u20ac \U0001f600".encode(),
    b"\x00\xff\xfe",
    b"\xed\xa0\x80",
    bytes(256),
]


@pytest.mark.parametrize("raw", RAW)
def test_keys_values_and_headers_come_back_byte_for_byte(raw: bytes | None) -> None:
    for message in (
        CheckMessage("invoices", raw, b"v", []),
        CheckMessage("invoices", b"k", raw, []),
        CheckMessage("invoices", b"k", b"v", [("h", raw), ("h", b"again"), ("h", raw)]),
    ):
        assert back(message) == message


@pytest.mark.parametrize("partition", [None, 0, 2**31 - 1])
def test_a_fixed_partition_is_told(partition: int | None) -> None:
    message = CheckMessage("invoices", None, None, [], partition)
    assert back(message) == message


def test_binary_is_base64_and_text_is_not() -> None:
    message = CheckMessage("invoices", b"\xff", b"\xfe", [("b", b"\xfd"), ("n", None)])
    (line,) = json.loads(encode(check(message)))["messages"]
    assert line == {
        "topic": "invoices",
        "key_base64": "/w==",
        "value_base64": "/g==",
        "headers": [["b", {"base64": "/Q=="}], ["n", None]],
    }


GOOD = json.loads(encode(check(MESSAGE), for_inbox=True))


def with_message(**changes: object) -> bytes:
    return json.dumps({**GOOD, "messages": [{**GOOD["messages"][0], **changes}]}).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"{",
        b"\xff",
        HEARTBEAT_LINE,
        encode(check(MESSAGE)),  # not made for an inbox
        json.dumps({**GOOD, "type": "heartbeat"}).encode(),
        json.dumps({**GOOD, "check_number": "2"}).encode(),
        json.dumps({**GOOD, "half_partition": None}).encode(),
        json.dumps({**GOOD, "messages": None}).encode(),
        json.dumps({**GOOD, "messages": [5]}).encode(),
        with_message(topic=None),
        with_message(key_base64="!"),
        with_message(value_base64="abc"),
        with_message(headers=[["a", {"base64": "!"}]]),
        with_message(headers=[["a"]]),
        with_message(headers={"a": "b"}),
        b"[" * 100_000,
        b'{"type":"check","unknown":' + b"[" * 100_000,
        json.dumps(GOOD).encode().replace(b'"1"', b"[" * 5_000 + b"]" * 5_000),
    ],
)
def test_what_is_no_check_for_an_inbox_is_a_value_error(raw: bytes) -> None:
    assert decode(json.dumps(GOOD).encode()).number == 2
    with pytest.raises(ValueError):
        decode(raw)


@pytest.mark.parametrize("value", [5, 5.5, True, ["a"], {"base64": None}, {"base": "x"}, {}])
def test_a_header_that_is_neither_text_nor_base64_nor_null_is_a_value_error(value: object) -> None:
    with pytest.raises(ValueError):
        decode(with_message(headers=[["a", value]]))


def test_without_a_word_of_who_prepared_it_nobody_did() -> None:
    line = {key: value for key, value in GOOD.items() if key != "prepared_by"}
    assert decode(json.dumps(line).encode()).instance == ""
