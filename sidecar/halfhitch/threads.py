"""Threads of one purpose's own for calls that block, with a bound on the calls that are not over.

asyncio's default pool is everybody's: a handful of calls that hang, on a slow disk or on a broker,
would keep all others waiting, and there is no end to what may wait in it.
"""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar

from halfhitch.errors import Overloaded, ShuttingDown

P = ParamSpec("P")
T = TypeVar("T")

#: Of the pool that asks Kafka on behalf of callers: as many as asyncio's own has. The RocketMQ
#: door gives each identity half of them.
ASKING_COUNT: Final = min(32, (os.cpu_count() or 1) + 4)


class Threads:
    """At most `count` calls run, and at most `calls_max` run or wait for their turn."""

    def __init__(self, purpose: str, count: int, *, calls_max: int) -> None:
        """`purpose` is for people: what the calls do, such as "look for topics"."""
        self._purpose = purpose
        self._calls_max = calls_max
        self._calls_count = 0
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(count, f"halfhitch {purpose}")

    @property
    def calls_count(self) -> int:
        """Calls that are not over."""
        return self._calls_count

    async def call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Raises what the call raises; Overloaded, and nothing was done, where too many wait.

        Whoever is cancelled waits no longer; a call that runs then goes on to its end.
        """
        return await asyncio.wrap_future(self._submitted(function, *args, **named))

    def _submitted(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> "Future[T]":
        with self._lock:
            if self._calls_count >= self._calls_max:
                raise Overloaded(
                    f"{self._calls_max} requests wait already to {self._purpose}: try again soon"
                )
            try:
                future = self._pool.submit(function, *args, **named)
            except RuntimeError as error:
                raise ShuttingDown("this instance is stopping: ask another one") from error
            self._calls_count += 1
        future.add_done_callback(self._over)
        return future

    def _over(self, _: "Future[Any]") -> None:
        with self._lock:
            self._calls_count -= 1

    def stop(self) -> None:
        """No more calls; those that wait are cancelled. Does not wait for those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)
