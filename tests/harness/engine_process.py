"""An engine in a process of its own, to be killed: prepares and ends transactions and says so.

Usage: engine_process.py BOOTSTRAP PREFIX COUNT

Each line of its output is a JSON array: ["working"], then for each transaction
["prepared", n, id, handle] and, where it is ended, ["asked", n] before and ["ended", n] after that.
What comes of transaction n is `FATES[n % len(FATES)]`. After the last one it says ["finished"] and
waits for its standard input to be closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, TypeVar

from halfhitch.core.model import Resolution
from halfhitch.errors import BackendError
from harness.checkers import Fate
from harness.engines import PARTITION_COUNT, Site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FATES = (
    Fate.COMMITTED,
    Fate.COMMITTED,
    Fate.ROLLED_BACK,
    Fate.COMMITTED,
    Fate.PENDING,
)
CONCURRENCY = 8

T = TypeVar("T")


def say(*what: object) -> None:
    """One line, at once: the reader may be about to kill us."""
    print(json.dumps(what), flush=True)


async def again(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until it is answered, as a producer would: every request here may be repeated."""
    while True:
        try:
            return await ask()
        except BackendError:
            await asyncio.sleep(0.05)


async def main(bootstrap: str, prefix: str, count: int) -> None:
    site = Site(bootstrap, prefix)
    numbers = iter(range(count))

    async def work() -> None:
        for n in numbers:
            name = f"P{n}"
            prepared = await again(lambda name=name: site.prepare(engine, site.pair(name), name))
            say("prepared", n, prepared.transaction_id, prepared.handle)
            fate = FATES[n % len(FATES)]
            if fate is Fate.PENDING:
                continue
            say("asked", n)
            resolution = Resolution.COMMIT if fate is Fate.COMMITTED else Resolution.ROLLBACK
            end, handle = engine.transactions.end, prepared.handle
            await again(lambda end=end, h=handle, r=resolution: end(h, r))
            say("ended", n)

    async with site.engine(working=PARTITION_COUNT) as engine:
        say("working")
        await asyncio.gather(*[work() for _ in range(CONCURRENCY)])
        say("finished")
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
