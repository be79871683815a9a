"""Whose trace is recorded is said by its `traceparent`; what is not well-formed is passed over."""

from __future__ import annotations

import pytest

from halfhitch.wire.trace_parent import (
    SpanContext,
    read_sampled,
    sampled_parent,
    sampled_request,
    sampled_trace,
)
from harness.spans import CALLER, PARENT, TRACE

CALLERS = SpanContext(bytes.fromhex(TRACE), bytes.fromhex(CALLER))


@pytest.mark.parametrize(
    "value",
    [
        None, b"", b"x", PARENT[:-2] + b"00", PARENT[:-2] + b"02", PARENT.upper(),
        b"00-" + b"0" * 32 + PARENT[35:], PARENT[:36] + b"0" * 16 + b"-01",
    ],
)  # fmt: skip
def test_whose_caller_is_not_traced_is_told_nothing_of(value: bytes | None) -> None:
    headers = [("a", b"1"), ("traceparent", value)]
    assert read_sampled(value) is sampled_parent(headers) is sampled_trace(headers) is None


def test_the_trace_of_a_message_is_found_by_its_name_in_any_case() -> None:
    assert sampled_parent([("a", b"1"), ("TraceParent", PARENT)]) == CALLERS
    assert sampled_trace([("traceparenT", PARENT)]) == TRACE
    assert sampled_parent(None) is sampled_trace(None) is sampled_trace([]) is None


def test_a_request_with_two_traces_has_none() -> None:
    one = (b"traceparent", PARENT)
    assert sampled_request([(b"tracestate", b"a=1"), one]) == TRACE
    assert sampled_request([one, one]) is sampled_request([]) is None
