"""In process: the coordinator's engine and its callers on one event loop, without a door."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import stamps
from bench.children import Order, arguments, obey, run
from halfhitch.composition import engine_options
from halfhitch.config import Settings
from halfhitch.core.model import Resolution
from halfhitch.engine import Engine, EngineOptions
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import OutgoingMessage, PartitionPhase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from halfhitch.service.transactions.service import TransactionService

HANDLE_KEY = b"only-for-the-benchmark-0123456789"

_READY_S = 60.0


async def load(service: TransactionService, topic: str, order: Order) -> Order:
    """One closed loop: as many callers as the order says, each with one transaction at a time."""
    tally = stamps.Tally()
    cell, wait, keyed = order["cell"], order["wait"], order["keyed"]
    key_of = random.Random(cell).randbytes
    started_s = time.monotonic()
    stop_s = started_s + order["seconds"]

    async def caller() -> None:
        now_s = time.monotonic()
        while now_s < stop_s:
            number = tally.begin()
            key = key_of(8) if keyed else None
            message = OutgoingMessage(topic, key, stamps.body(cell, number), [])
            began_s = time.monotonic()
            prepared = await service.prepare(producer_group="bench", messages=[message])
            stored_s = time.monotonic()
            await service.end(prepared.handle, Resolution.COMMIT, wait_visible=wait)
            now_s = time.monotonic()
            tally.prepared(number, stored_s - began_s)
            tally.committed(number, now_s - stored_s, now_s)

    await asyncio.gather(*[caller() for _ in range(order["concurrency"])])
    count = tally.save(Path(order["stamps"]))
    return {"started_s": started_s, "ended_s": time.monotonic(), "count": count}


@asynccontextmanager
async def working(options: EngineOptions, metrics: Metrics) -> AsyncIterator[Engine]:
    """An engine that owns all half partitions; stopped at the end."""
    engine = Engine(options, metrics)
    await engine.start()
    try:
        give_up_s = time.monotonic() + _READY_S
        while not _works(engine, options.partition_count):
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"the engine is not ready: {engine.unready_reasons()}")
            await asyncio.sleep(0.05)
        yield engine
    finally:
        await engine.stop()


def _works(engine: Engine, partition_count: int) -> bool:
    states = engine.partitions()
    return len(states) == partition_count and all(
        state.phase is PartitionPhase.WORKING for state in states
    )


async def main() -> None:
    """Start the engine, load it as ordered, stop it."""
    logging.basicConfig(level=logging.WARNING)
    given = arguments()
    options = replace(
        engine_options(Settings()),
        replication_factor=1,
        bootstrap=given["bootstrap"],
        handle_keys=(HANDLE_KEY,),
        instance="bench",
        topic_prefix=given["prefix"],
        create_topics=True,
    )
    async with working(options, Metrics()) as engine:

        async def carry_out(order: Order) -> Order:
            return await load(engine.transactions, given["topic"], order) if "cell" in order else {}

        await obey(carry_out)


if __name__ == "__main__":
    run(main)
