"""An engine whose owners can be made to hang in the middle of a Kafka transaction."""

from __future__ import annotations

import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from halfhitch.engine import Engine
from harness.engines import DEADLINE_S, PARTITION_COUNT, until, until_working

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from harness.engines import Site


class Hang:
    """While `hold` is set, whoever is about to send offsets hangs until `release`.

    `late`: it hangs with the group's generation already in its hand.
    """

    def __init__(self, *, late: bool = False) -> None:
        self.hold = threading.Event()
        self.release = threading.Event()
        self.count = 0
        self._late = late

    def around(self, metadata: Callable[..., Any]) -> Callable[..., Any]:
        def hanging(may_write: Callable[[], bool]) -> Any:
            taken = metadata(may_write) if self._late else None
            if self.hold.is_set():
                self.count += 1
                assert self.release.wait(DEADLINE_S), "nobody released it"
            return taken if self._late else metadata(may_write)

        return hanging


@asynccontextmanager
async def hanging_engine(site: Site, hang: Hang, **changes: Any) -> AsyncIterator[Engine]:
    """Works on all partitions."""
    engine = Engine(site.options(**changes), site.observer)
    await engine.start()
    membership: Any = engine._parts.membership
    # Before the first owner is made: it takes the method along.
    membership.metadata = hang.around(membership.metadata)
    try:
        await until_working(engine, PARTITION_COUNT)
        yield engine
    finally:
        hang.release.set()
        await engine.stop()


async def until_hanging(hang: Hang, count: int) -> None:
    """So many owners hang."""
    await until(lambda: hang.count >= count, lambda: f"{count} hanging, not {hang.count}")
