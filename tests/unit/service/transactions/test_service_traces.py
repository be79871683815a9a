"""Latencies of callers that record a trace are told with it, and others with nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.core.model import Resolution
from harness.coordinator import Coordinator, message
from harness.spans import PARENT, TRACE
from harness.twin import GROUP


async def test_a_prepare_belongs_to_the_trace_of_its_first_message() -> None:
    it = Coordinator()
    traced: Any = message(headers=[("a", b"1"), ("traceparent", PARENT)])
    now_ms = it.twin.clock.wall_ms()
    for messages in ([traced, message()], [message(), traced], [message(headers=[("a", b"1")])]):
        await it.service.prepare(producer_group=GROUP, messages=messages)
    assert it.observer.of("traced") == [("prepare", 0.0, TRACE, now_ms)]
    handle = await it.prepared("T1")
    await it.service.add(handle, [traced])
    assert len(it.observer.of("traced")) == 2


@pytest.mark.parametrize("resolution", [Resolution.COMMIT, Resolution.ROLLBACK])
async def test_an_end_belongs_to_the_trace_of_whoever_calls_it(resolution: Resolution) -> None:
    it = Coordinator()
    for transaction_id, trace_id in (("T1", TRACE), ("T2", None)):
        handle = await it.prepared(transaction_id)
        await it.service.end(handle, resolution, trace_id=trace_id)
    now_ms = it.twin.clock.wall_ms()
    assert it.observer.of("traced") == [(resolution.name.lower(), 0.0, TRACE, now_ms)]


async def test_a_prepare_that_was_carried_out_elsewhere_belongs_to_the_trace_that_it_said() -> None:
    it = Coordinator()
    it.service.traced(0.25, PARENT)
    for none in (b"", b"00-no", PARENT[:-2] + b"00"):  # the last is not recorded
        it.service.traced(0.5, none)
    assert it.observer.of("traced") == [("prepare", 0.25, TRACE, it.twin.clock.wall_ms())]
