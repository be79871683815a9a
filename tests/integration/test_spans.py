"""An engine on a real broker tells a collector on loopback of the transactions that are traced."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import Resolution
from harness.checkers import Fate
from harness.engines import Site, until
from harness.spans import CALLER, PARENT, TRACE, collecting

if TYPE_CHECKING:
    from conftest import GivenKafka

pytestmark = pytest.mark.kafka


async def test_a_traced_transaction_is_told_and_its_trace_reaches_the_record(
    kafka: GivenKafka,
) -> None:
    site = Site(kafka.bootstrap)
    site.create_targets()
    with collecting() as collector:
        async with site.engine(spans_endpoint=collector.endpoint) as engine:
            await site.run(engine, site.pair("untraced"), Fate.COMMITTED, wait_visible=True)
            message = site.message(value=b"traced", headers=[("traceparent", PARENT)])
            prepared = await site.prepare(engine, [message], "order-1")
            await engine.transactions.end(prepared.handle, Resolution.COMMIT, wait_visible=True)
            await until(lambda: len(collector.spans) >= 3, "it is told")
        records = await asyncio.to_thread(site.read, site.orders)
    (record,) = [each for each in records if each.value == b"traced"]
    assert dict(record.headers)["traceparent"] == PARENT
    prepare, waiting, forward = collector.spans
    names = [span["name"] for span in (prepare, waiting, forward)]
    assert names == ["halfhitch prepare", "halfhitch waiting", "halfhitch forward"]
    assert (prepare["traceId"], prepare["parentSpanId"]) == (TRACE, CALLER)
    assert forward["parentSpanId"] == waiting["spanId"]
    assert {"traceId": TRACE, "spanId": CALLER} in forward["links"]
