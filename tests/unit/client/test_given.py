"""Programs hand over what is nearly right: it is sent as it was meant, or told at once."""

import json
from collections import OrderedDict
from enum import Enum
from uuid import uuid4

import pytest
from sqlalchemy import create_engine

from halfhitch.barrier import Barrier
from halfhitch.barrier.rules import Rules
from halfhitch.client import Message, given
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls
from halfhitch.client.conversation import Conversation
from halfhitch.errors import ConfigurationError, InvalidRequest
from harness.producers import SHELLS, driven

ADDRESS = parse_address("http://127.0.0.1:8340")
CALLS = Calls(ADDRESS, "shop", "s3cret")


class Name(str, Enum):  # noqa: UP042 - as programs have them
    ORDERS = "orders"

    __str__ = Enum.__str__


def requests(calls=CALLS, transaction_id="t1", **fields):
    """Of the same message alone, which goes as it is, and with another one, which goes as JSON."""
    message = Message(**{"topic": "orders", "value": b"v"} | fields)
    alone = calls.prepare([message], transaction_id, None).request
    both = calls.prepare([message, message], transaction_id, None).request
    return alone, json.loads(both.partition(b"\r\n\r\n")[2])


def test_a_member_of_an_enum_named_two_topics_and_two_transactions():
    """By its value in JSON, and by its name in a path: the message was on a topic of that name."""
    calls = Calls(ADDRESS, Name.ORDERS, Name.ORDERS)
    alone, both = requests(calls, Name.ORDERS, topic=Name.ORDERS, headers={Name.ORDERS: "x"})
    head = alone.decode()
    assert "Name" not in head
    assert head.startswith("POST /v1/topics/orders/half ")
    for line in (
        "Half-Token: orders",
        "Half-Producer-Group: orders",
        "Half-Transaction-Id: orders",
        "Half-Header-orders: x",
    ):
        assert f"\r\n{line}\r\n" in head
    assert (both["producer_group"], both["transaction_id"]) == ("orders", "orders")
    assert both["messages"][0]["topic"] == "orders"
    assert type(Conversation(calls, Name.ORDERS, None).transaction_id) is str


@pytest.mark.parametrize("shell", SHELLS)
def test_an_empty_id_was_another_one_at_each_attempt(shell):
    """And its messages were doubled by a retry."""
    with driven(shell, "shop", "http://127.0.0.1:9") as producer:
        for use in (
            lambda: producer.transaction(""),
            lambda: producer.prepare([Message("orders", b"v")], ""),
        ):
            with pytest.raises(InvalidRequest, match=r"id is empty.*\(None\)"):
                use()


def test_headers_of_a_generator_were_lost():
    """HTTP could not carry them, and the second look at them, for JSON, found none."""

    def pairs():
        yield "trace", b"1"
        yield "null", None

    call = CALLS.prepare([Message("orders", b"v", headers=pairs())], "t1", None)
    (message,) = json.loads(call.request.partition(b"\r\n\r\n")[2])["messages"]
    assert message["headers"] == [["trace", {"base64": "MQ=="}], ["null", None]]


def test_messages_may_come_from_a_generator():
    call = CALLS.prepare((Message("orders", value) for value in ("a", "b")), "t1", None)
    assert call.request.count(b"value_base64") == 2
    assert CALLS.add("h", (Message("orders", value) for value in "ab")).handle == "h"


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda: requests(transaction_id=uuid4()), r"transaction id.*not UUID.*str\(\.\.\.\)"),
        (lambda: requests(transaction_id=17), "transaction id.*not int"),
        (lambda: Conversation(CALLS, 17, None), "transaction id.*not int"),
        (lambda: requests(topic=b"orders"), "topic of a message must be a str, not bytes"),
        (lambda: requests(headers={b"a": b""}), "name of a header must be a str, not bytes"),
        (lambda: requests(headers=[("a",)]), "headers of a message must be a mapping, or pairs"),
        (lambda: requests(headers="ab"), "headers of a message must be a mapping, or pairs"),
        (lambda: requests(headers=1), "headers must be a list, not int"),
        (lambda: requests(headers={"a": 1}), "header 'a' of a message must be bytes, str or None"),
        (lambda: CALLS.prepare(Message("t", b""), "t1", None), r"write \[Message"),
        (lambda: CALLS.prepare(["orders"], "t1", None), "must be halfhitch.Message.*not str"),
        (lambda: CALLS.add("h", 1), "messages must be a list, not int"),
        (lambda: CALLS.prepare([Message("t", b"")], "t1", 1.5), "immunity_s.*int, not float"),
        (lambda: CALLS.prepare([Message("t", b"")], "t1", "6\r\nX: y"), "immunity_s.*not str"),
        (lambda: CALLS.prepare([Message("t", b"")], "t1", True), "immunity_s.*not bool"),
    ],
)
def test_a_wrong_type_is_told_in_a_sentence(use, words):
    with pytest.raises(TypeError, match=words):
        use()


HALF = "caf\udce9"


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda: requests(transaction_id=HALF), "the transaction id"),
        (lambda: Conversation(CALLS, HALF, None), "the transaction id"),
        (lambda: requests(topic=HALF), "the topic of a message"),
        (lambda: requests(value=HALF), "the value of a message"),
        (lambda: requests(key=HALF), "the key of a message"),
        (lambda: requests(headers={HALF: b""}), "the name of a header"),
        (lambda: requests(headers={"a": HALF}), "the header 'a' of a message"),
        (lambda: CALLS.add("h", [Message("orders", HALF)]), "the value of a message"),
        (lambda: Calls(ADDRESS, HALF, None), "group"),
        (lambda: Barrier(create_engine("sqlite:///a.db"), HALF), "group"),
        (lambda: Rules("shop").key(HALF), "the transaction id"),
    ],
)
def test_half_a_character_was_an_error_of_an_encoder_or_another_text(use, what):
    """A door would have got an escape in JSON for it, which is no character there either."""
    with pytest.raises((InvalidRequest, ConfigurationError), match=r"no text.*'\\udce9'") as told:
        use()
    assert str(told.value).startswith(f"{what} is no text that could be sent: its character 4 is")


def test_whole_text_beyond_ascii_is_sent():
    alone, both = requests(transaction_id="caf\u00e9 \U0001f600", value="\u00e9", key="\u00e9")
    assert b"w6k=" in alone
    assert both["transaction_id"] == "caf\u00e9 \U0001f600"


def test_a_member_of_an_enum_was_recorded_as_another_id():
    key = Rules(Name.ORDERS).key(Name.ORDERS)
    assert key == ("orders", "orders")
    assert [type(part) for part in key] == [str, str]


def test_what_is_right_is_taken_as_it_is():
    message = Message("orders", b"v")
    assert given.messages((message,)) == [("orders", b"v", None, (), None)]
    assert given.pairs(OrderedDict(a="1")) == [("a", b"1")]
    assert given.pairs([["a", bytearray(b"1")], ("a", memoryview(b"2"))]) == [
        ("a", b"1"),
        ("a", b"2"),
    ]
    assert (given.immunity_s(None), given.immunity_s(6), given.partition(0)) == (None, 6, 0)
