"""Messages as commands show them."""

from __future__ import annotations

import json

from halfhitch_cli import records
from halfhitch_cli.records import as_json, as_line, half_of, seen
from harness.played_topics import AT_MS, PlayedTopics


def forwarded(**content: object) -> records.Seen:
    topics = PlayedTopics(orders=3)
    record = topics.forward(topics.prepare("order-1", **content), 2)
    return seen(
        record.topic(), record.partition(), record.offset(), AT_MS, record.key(), record.value(),
        record.headers(),
    )  # fmt: skip


def test_a_forwarded_message_says_whose_it_is() -> None:
    message = forwarded(key=b"42", value=b"one", headers=[("trace", b"t7"), ("none", None)])
    assert as_line(message, with_state=False) == (
        "2026-11-21T16:00:00Z  orders/2@0  key=42  value=one  trace=t7  none=null  "
        "(order-1 of shop)"
    )
    assert as_json(message) == {
        "state": "visible",
        "topic": "orders",
        "partition": 2,
        "offset": 0,
        "half_partition": None,
        "half_offset": None,
        "timestamp_ms": AT_MS,
        "transaction_id": "order-1",
        "producer_group": "shop",
        "message_index": 0,
        "message_count": None,
        "born_ms": AT_MS,
        "key": "42",
        "value": "one",
        "headers": [["trace", "t7"], ["none", None]],
    }


def test_of_several_messages_each_says_which_it_is() -> None:
    headers = [("UNIQ_KEY", b"a"), ("PGROUP", b"g"), ("HALFHITCH", b"1;1;5;one;n=3")]
    message = seen("orders", 0, 0, AT_MS, None, None, headers)
    assert as_line(message, with_state=False).endswith("(a of g, 2 of 3 messages)")
    assert as_json(message)["message_count"] == 3


def test_an_invisible_message_says_where_it_waits() -> None:
    half = PlayedTopics(orders=3).prepare("order-1", partition=1, key=None)
    found = half_of(1, 0, AT_MS, half.key(), half.value(), half.headers())
    assert found is not None
    assert as_line(found[0], with_state=True) == (
        "2026-11-21T16:00:00Z  invisible  orders (half 1@0)  key=null  value=v  (order-1 of shop)"
    )
    shown = as_json(found[0])
    assert (shown["state"], shown["partition"], shown["offset"]) == ("invisible", None, None)
    assert (shown["half_partition"], shown["half_offset"]) == (1, 0)


def test_a_message_of_another_producer_is_shown_as_it_is() -> None:
    headers = [("UNIQ_KEY", b"mine"), ("a", b"b")]
    message = seen("orders", 0, 7, AT_MS, None, b"v", headers)
    assert message.group == ""
    assert as_line(message, with_state=True) == (
        "2026-11-21T16:00:00Z  visible    orders/0@7  key=null  value=v  UNIQ_KEY=mine  a=b"
    )
    assert as_json(message)["headers"] == [["UNIQ_KEY", "mine"], ["a", "b"]]
    assert as_json(message)["transaction_id"] is None


def test_marks_that_do_not_parse_make_it_another_producers() -> None:
    for marker in (b"", b"1;x;2;one", b"1;0", None):
        headers = [("UNIQ_KEY", b"a"), ("PGROUP", b"g"), ("HALFHITCH", marker)]
        assert seen("orders", 0, 0, AT_MS, None, None, headers).group == ""
    assert half_of(0, 0, AT_MS, None, None, None) is None


def test_bytes_and_codes_for_the_terminal_do_no_harm() -> None:
    message = forwarded(key=b"\xff", value=b"a\x1b[2Jb\nc", headers=[("h", b"\xfe")])
    line = as_line(message, with_state=False)
    assert "key=base64:/w==  value=a\\x1b[2Jb\\nc  h=base64:/g==" in line
    shown = as_json(message)
    assert shown["key_base64"] == "/w=="
    assert shown["headers"] == [["h", {"base64": "/g=="}]]
    json.dumps(shown)


def test_a_long_value_is_cut_for_people_and_whole_for_programs() -> None:
    message = forwarded(value=b"x" * 5_000)
    assert f"value={'x' * 200}… (5000 bytes)" in as_line(message, with_state=False)
    assert len(as_json(message)["value"]) == 5_000
