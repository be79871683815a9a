"""`deadline` for checks that are tasks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from halfhitch.barrier.deadline import Deadline, Watch

T = TypeVar("T")


class AsyncDeadline(Deadline):
    """Runs checks in tasks.

    `cancels`: a check whose time is over is cancelled, too. Else it ends by itself, soon.
    """

    def __init__(self, wait_s: float, *, cancels: bool = True) -> None:
        super().__init__(wait_s)
        self._cancels = cancels
        self._tasks: set[asyncio.Future[Any]] = set()  # a loop alone would let go of them

    async def run_task(self, check: Callable[[Watch], Awaitable[T]]) -> T:
        """Raises Overdue, and what `check` raises."""
        watch = self.begin()
        task = asyncio.ensure_future(_persist(check, watch))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._looked_at(watch, done))
        try:
            # Not asyncio.timeout: that waits for the cancelled one, which may hang while it closes.
            await asyncio.wait({task}, timeout=self.wait_s)
        finally:
            if not task.done():
                watch.cut()
                if self._cancels:
                    task.cancel()
        if not task.done():
            raise watch.overdue()
        return task.result()

    def _looked_at(self, watch: Watch, task: "asyncio.Future[Any]") -> None:
        self._tasks.discard(task)
        self.ended(watch)
        if not task.cancelled():
            task.exception()  # nobody may be left to ask for it


async def _persist(check: Callable[[Watch], Awaitable[T]], watch: Watch) -> T:
    while True:
        try:
            return await check(watch)
        except Exception as error:
            pause_s = watch.pause_s(error)
            if pause_s is None:
                raise
        await asyncio.sleep(pause_s)
