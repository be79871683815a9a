"""An event loop in a thread of its own, for programs and tests that wait for it from outside."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_DEADLINE_S: Final = 60


@contextmanager
def loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """Runs until the end of the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        try:
            asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result(_DEADLINE_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_DEADLINE_S)
            loop.close()


async def _end_tasks() -> None:
    """Cancels what is left, as `asyncio.run` does, and waits for what that begins in order to end.

    A check that has run out of time leaves the closing of its connection behind.
    """
    own = asyncio.current_task()
    for task in asyncio.all_tasks():
        if task is not own:
            task.cancel()
    while left := asyncio.all_tasks() - {own}:
        await asyncio.wait(left)
