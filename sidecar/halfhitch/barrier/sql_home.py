"""An engine's connections are those of this process: after a fork the parent's are left alone.

Two processes that speak over one connection read each other's answers. So a pool that was filled
before the fork is put aside, before anything of it is used: a ping (`pool_pre_ping`) would be said
over the parent's socket, too.

Nothing listens to the pool. A listener that is added while other threads connect makes SQLAlchemy
raise in those ("deque mutated during iteration"), and a barrier may be made at any time.
"""

import os
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy.engine import Engine
from sqlalchemy.pool import Pool

from halfhitch.barrier.guards import keep_unsaid

#: Linux tells in hundredths of a second when a process began.
_TICK_S: Final = 0.01


class HomeEngine:
    """An engine that may have been made, and used, before a fork; this behind it, too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        if _holds_older(engine.pool):
            self._leave_pool()
        self._process_id = os.getpid()

    def here(self) -> Engine:
        """In a forked child its pool is another one."""
        process_id = os.getpid()
        if self._process_id != process_id:
            self._leave_pool()
            self._process_id = process_id  # last: two threads may both do it, none may be early
        return self._engine

    def _leave_pool(self) -> None:
        """Its connections are kept unused: forgotten, some would say goodbye to the server."""
        keep_unsaid(self._engine.pool)
        self._engine.dispose(close=False)


def _holds_older(pool: Pool) -> bool:
    """Whether connections lie in it that were opened before this process began."""
    # Not public; without it a barrier must be made in the process that has made the engine.
    found: Any = getattr(pool, "_pool", None)
    for name in ("_queue", "_queue", "queue"):  # asyncio's is inside of one of asyncio's own
        found = getattr(found, name, found)
    copy = getattr(found, "copy", None)
    if not callable(copy):
        return False
    began_s = _began_s(os.getpid()) + _TICK_S
    return any(
        record.dbapi_connection is not None and record.starttime < began_s for record in copy()
    )


@cache
def _began_s(_process_id: int) -> float:
    """When this process was forked, by the wall clock; long ago where the system does not tell."""
    try:
        told = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        after_boot_s = int(told[19]) / os.sysconf("SC_CLK_TCK")
        booted_s = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted_s + after_boot_s
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
