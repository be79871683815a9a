"""One engine on a Kafka of the test's own, with one half partition and nothing around it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from halfhitch.engine import Engine
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import PartitionPhase
from harness.defaults import engine_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@asynccontextmanager
async def running(
    bootstrap: str, prefix: str, *, deadline_s: float, **changes: Any
) -> AsyncIterator[Engine]:
    """Started and working; stopped at the end."""
    engine = Engine(
        engine_options(
            bootstrap=bootstrap,
            handle_keys=(b"k" * 32,),
            topic_prefix=prefix,
            partition_count=1,
            create_topics=True,
            **changes,
        ),
        Metrics(),
    )
    await engine.start()
    try:
        await until(
            lambda: [p.phase for p in engine.partitions()] == [PartitionPhase.WORKING], deadline_s
        )
        yield engine
    finally:
        await engine.stop()


async def until(holds: Callable[[], bool], deadline_s: float) -> None:
    """Wait for it; TimeoutError when it never holds."""
    async with asyncio.timeout(deadline_s):
        while not holds():
            await asyncio.sleep(0.05)
