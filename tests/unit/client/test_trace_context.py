"""The application's trace goes along with its messages, and is never in their way."""

from __future__ import annotations

import sys

import pytest

from halfhitch.client import given
from halfhitch.client.address import parse_address
from halfhitch.client.calls import Calls, Operation
from halfhitch.client.trace_context import traced
from halfhitch.client.values import Message
from halfhitch.testing import MemoryCoordinator
from harness.producers import SHELLS, driven
from harness.tracing import traced_program

SPAN, OTHER = "b7ad6b7169203331", "00f067aa0ba902b7"


def plain(**more):
    return given.messages([Message("orders", b"v", **more)])


def test_a_program_that_does_not_trace_sends_what_it_gave(monkeypatch):
    # Of another test: FastAPI imports it. That the client does not, says tests/unit/test_extras.py.
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    messages = plain(headers={"a": b"1"})
    assert traced(messages) is messages
    with traced_program():  # outside of any span
        assert traced(messages) is messages


def test_a_message_gets_the_context_of_its_span_behind_its_own_headers():
    with traced_program() as tracing:
        tracing.span = SPAN
        (message,) = traced(plain(headers={"a": b"1"}))
        assert list(message.headers) == [("a", b"1"), ("traceparent", tracing.parent)]
        tracing.state["vendor"] = "x"
        (message,) = traced(plain())
        assert list(message.headers)[1] == ("tracestate", b"vendor=x")


@pytest.mark.parametrize("name", ["traceparent", "TraceState"])
def test_a_context_that_the_program_gave_stands(name):
    with traced_program() as tracing:
        tracing.span = SPAN
        messages = plain(headers={name: b"mine"})
        assert traced(messages) == messages


def test_ids_of_zeros_as_a_messages_own_passed_for_a_context():
    """Libraries send them where there is no trace."""
    with traced_program() as tracing:
        tracing.span = SPAN
        none = f"00-{'0' * 32}-{SPAN}-01".encode()
        (message,) = traced(plain(headers={"traceparent": none, "tracestate": b"x=1", "a": b"1"}))
        assert list(message.headers) == [("a", b"1"), ("traceparent", tracing.parent)]


def test_tracing_that_fails_or_has_no_room_loses_no_message():
    with traced_program() as tracing:
        tracing.span = SPAN
        full = plain(headers=[("a", b"1")] * 199)
        assert traced(full) == full
        tracing.failure = RuntimeError("not set up")
        assert traced(plain()) == plain()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_retry_in_another_span_is_the_same_prepare_and_the_trace_reaches_the_topic(shell):
    with (
        MemoryCoordinator(topics={"orders": 1, "points": 1}) as coordinator,
        driven(shell, "shop", coordinator.address) as producer,
        traced_program() as tracing,
    ):
        messages = [Message("orders", b"book", headers={"a": b"1"}), Message("points", b"5")]
        tracing.span = SPAN
        producer.prepare(messages, transaction_id="t-1")
        tracing.span = OTHER
        prepared = producer.prepare(messages, transaction_id="t-1")
        added = producer.add(prepared.handle, [Message("points", b"6")])
        producer.commit(added.handle)
        (order,) = coordinator.messages("orders")
        parents = [dict(m.headers)["traceparent"] for m in coordinator.messages("points")]
    first, second = (f"00-0af7651916cd43dd8448eb211c80319c-{s}-01".encode() for s in (SPAN, OTHER))
    assert order.headers == (("a", b"1"), ("traceparent", first))
    assert parents == [first, second]


def test_an_end_tells_the_span_in_which_it_is_called():
    calls = Calls(parse_address("http://127.0.0.1:8340"), "shop", None)
    plain = calls.end(Operation.COMMIT, "h.0").request
    with traced_program() as tracing:
        assert calls.end(Operation.COMMIT, "h.0").request == plain, "outside of any span"
        tracing.span = SPAN
        line = b"\r\ntraceparent: " + tracing.parent
        head, blank = plain.split(b"\r\nContent-Length: 0")
        for operation in (Operation.COMMIT, Operation.ROLLBACK):
            request = calls.end(operation, "h.0").request
            assert request.endswith(line + b"\r\nContent-Length: 0" + blank)
        assert calls.end(Operation.COMMIT, "h.0").request.startswith(head + line)
        tracing.failure = RuntimeError("not set up")
        assert calls.end(Operation.COMMIT, "h.0").request == plain
