"""A request's trace context becomes headers of its messages, or is left out; it refuses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.doors.http.trace_context import traced
from halfhitch.service.api import OutgoingMessage
from harness.raw_http import Client, json_post, raw_half

if TYPE_CHECKING:
    from conftest import OpenDoors

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STATE = b"vendor=x"
GIVEN = ("traceparent", PARENT)


def found(*given: tuple[bytes, bytes], own: list[tuple[str, bytes | None]] | None = None) -> object:
    (message,) = traced([OutgoingMessage("orders", None, b"v", own or [])], given)
    return message.headers


async def test_each_route_that_takes_messages_hands_the_trace_on(
    doors: OpenDoors, client: Client
) -> None:
    given = (("TraceParent", b" " + PARENT), ("tracestate", STATE))
    await client.ask(raw_half(b"v", ("Half-Header-a", "1"), *given))
    messages = [{"topic": "orders", "value": "v"}, {"topic": "points", "value": "w"}]
    body = {"producer_group": "g", "messages": messages}
    await client.ask(json_post("/v1/transactions", body, *given))
    more = {"messages": messages[:1]}
    await client.ask(json_post("/v1/transactions/h.1/messages", more, ("traceparent", PARENT)))
    (raw,), (one, other, added) = (
        [message.headers for message in doors.service.transactions[handle].messages]
        for handle in ("h.0", "h.1")
    )
    assert raw == [("a", b"1"), ("traceparent", PARENT), ("tracestate", STATE)]
    assert one == other == raw[1:]
    assert added == [("traceparent", PARENT)]


async def test_a_trace_on_another_route_means_nothing(client: Client) -> None:
    await client.ask(raw_half())
    answer = await client.ask(json_post("/v1/transactions/h.0/commit", b"", GIVEN))
    assert answer.status == 200


@pytest.mark.parametrize(
    "parent",
    [
        b"", b"x", PARENT.upper(), PARENT[:-1], PARENT + b"0", PARENT + b"-more",
        b"ff" + PARENT[2:], b"00-" + b"0" * 32 + PARENT[35:], PARENT[:36] + b"0" * 16 + b"-01",
        PARENT + b"\n", b"01" + PARENT[2:] + b"-" + b"x" * 300, PARENT[:40] + b"\xff" + PARENT[41:],
    ],
)  # fmt: skip
async def test_what_is_not_well_formed_is_left_out_and_the_message_is_taken(
    parent: bytes, doors: OpenDoors, client: Client
) -> None:
    assert found((b"traceparent", parent), (b"tracestate", STATE)) == []
    if b"\n" not in parent:
        answer = await client.ask(raw_half(b"v", ("traceparent", parent)))
        assert answer.status == 201
        assert doors.service.transactions["h.0"].messages[0].headers == []


def test_a_parent_of_a_later_version_goes_through() -> None:
    later = b"01" + PARENT[2:] + b"-what comes"
    assert found((b"traceparent", later)) == [("traceparent", later)]


def test_two_parents_are_none_and_states_in_several_lines_are_one() -> None:
    parent = (b"traceparent", PARENT)
    assert found(parent, parent) == []
    assert found((b"tracestate", b"a=1")) == []
    states = [(b"tracestate", state) for state in (b"a=1", b"", b"b=2")]
    assert found(parent, *states) == [("traceparent", PARENT), ("tracestate", b"a=1,b=2")]
    for state in (b"x" * 513, b"\xff", b"a\x01"):
        assert found(parent, (b"tracestate", state)) == [("traceparent", PARENT)]


def test_a_context_of_the_messages_own_stands_and_a_full_message_gets_none() -> None:
    for name in ("traceparent", "TraceState"):
        assert found((b"traceparent", PARENT), own=[(name, b"mine")]) == [(name, b"mine")]
    full: list[tuple[str, bytes | None]] = [("a", b"1")] * 199
    assert found((b"traceparent", PARENT), own=full) == full


def test_ids_of_zeros_as_a_messages_own_passed_for_a_context() -> None:
    """Libraries send them where there is no trace."""
    for none in (b"00-" + b"0" * 32 + PARENT[35:], PARENT[:36] + b"0" * 16 + b"-00"):
        own: list[tuple[str, bytes | None]] = [
            ("a", b"1"), ("TraceParent", none), ("tracestate", b"old=1"),
        ]  # fmt: skip
        assert found((b"traceparent", PARENT), own=own) == [("a", b"1"), ("traceparent", PARENT)]
        assert found(own=own) == own


async def test_an_end_tells_the_trace_of_its_request(doors: OpenDoors, client: Client) -> None:
    for handle, given in (("h.0", GIVEN), ("h.1", ("a", "b"))):
        await client.ask(raw_half())
        await client.ask(json_post(f"/v1/transactions/{handle}/commit", b"", given))
    assert doors.service.traces == [PARENT.decode().split("-")[1], None]
