"""Both producers (and barriers) behind one blocking face: each promise is tested once for both.

`driven("sync", ...)` gives a TransactionProducer; `driven("aio", ...)` an AsyncTransactionProducer
whose loop runs in a thread of its own. What is awaited or entered there is awaited or entered here.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from halfhitch.client import AsyncTransactionProducer, TransactionProducer
from halfhitch.testing.loops import loop_in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from halfhitch.client.values import Check, LocalTransactionState

SHELLS = ("sync", "aio")
_DEADLINE_S = 60


@contextmanager
def driven(shell: str, group: str, address: str, **options: Any) -> Iterator[Any]:
    """A producer, closed at the end."""
    if shell == "sync":
        with TransactionProducer(group, address, **options) as producer:
            yield producer
        return
    with (
        loop_in_thread() as loop,
        Blocking(AsyncTransactionProducer(group, address, **options), loop) as producer,
    ):
        yield producer


def answering(shell: str, answer: Callable[[Check], LocalTransactionState]) -> Callable[..., Any]:
    """A check as this producer takes it."""

    async def told(check: Check) -> LocalTransactionState:
        return answer(check)

    return answer if shell == "sync" else told


async def _result(found: Any, args: Any, options: Any) -> Any:
    """Called in the loop, where programs call it."""
    result = found(*args, **options)
    return await result if inspect.isawaitable(result) else result


class Blocking:
    """What is awaited or entered of `inner`, and of what it gives, is awaited in the loop."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.inner = inner
        self._loop = loop

    def _wait(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(_DEADLINE_S)

    def _face(self, found: Any) -> Any:
        if isinstance(found, tuple) and type(found) is tuple:
            return tuple(self._face(one) for one in found)
        if found is self.inner:
            return self
        return Blocking(found, self._loop) if hasattr(found, "__aenter__") else found

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            plain = [one.inner if isinstance(one, Blocking) else one for one in args]
            return self._face(self._wait(_result(found, plain, options)))

        return call

    def __enter__(self) -> Any:
        return self._face(self._wait(self.inner.__aenter__()))

    def __exit__(self, *error: object) -> Any:
        return self._wait(self.inner.__aexit__(*error))
