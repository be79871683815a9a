"""A check as JSON: the same to a stream and a callback."""

import json
from dataclasses import replace

import pytest

from halfhitch.wire.check import HEARTBEAT_LINE, Check, CheckMessage, encode
from harness.ledger_script import identity_of
from harness.spans import PARENT, TRACE

MESSAGE = CheckMessage("invoices", b"k", b"v", [("trace", b"1")])


def check(
    *messages: CheckMessage,
) -> Check:
    return Check(3, identity_of("T1"), 2, 15, "hh1.x", 61_000, "node-1", messages)


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
    born = replace(check(MESSAGE), born_ms=1_785_412_800_000)
    assert json.loads(encode(born))["born_ms"] == 1_785_412_800_000
    assert "born_ms" not in json.loads(encode(check(MESSAGE)))


def test_a_check_fits_on_a_line() -> None:
    message = CheckMessage("invoices", b"a\nb", b"c\r\nd", [("x", b"\n")])
    assert b"\n" not in encode(check(message))
    assert HEARTBEAT_LINE.endswith(b"\n")
    assert json.loads(HEARTBEAT_LINE) == {"type": "heartbeat"}


@pytest.mark.parametrize("partition", [None, 0, 2**31 - 1])
def test_a_fixed_partition_is_told(partition: int | None) -> None:
    (line,) = json.loads(encode(check(CheckMessage("invoices", None, None, [], partition))))[
        "messages"
    ]
    assert line.get("partition") == partition


def test_binary_is_base64_and_text_is_not() -> None:
    message = CheckMessage("invoices", b"\xff", b"\xfe", [("b", b"\xfd"), ("n", None)])
    (line,) = json.loads(encode(check(message)))["messages"]
    assert line == {
        "topic": "invoices",
        "key_base64": "/w==",
        "value_base64": "/g==",
        "headers": [["b", {"base64": "/Q=="}], ["n", None]],
    }


def test_its_trace_is_that_of_the_first_message() -> None:
    traced = replace(MESSAGE, headers=[("traceparent", PARENT)])
    found = [check(*messages).trace_id for messages in ((traced,), (MESSAGE, traced), ())]
    assert found == [TRACE, None, None]
