"""Both producers behind one blocking face, so that each promise is tested once for both.

`driven("sync", ...)` gives a TransactionProducer; `driven("aio", ...)` an AsyncTransactionProducer
whose loop runs in a thread of its own. What is awaited or entered there is awaited or entered here.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from halfhitch.client import AsyncTransaction, AsyncTransactionProducer, TransactionProducer

if TYPE_CHECKING:
    from collections.abc import Iterator

SHELLS = ("sync", "aio")
_DEADLINE_S = 30


@contextmanager
def driven(shell: str, group: str, address: str, **options: Any) -> Iterator[Any]:
    """A producer, closed at the end."""
    if shell == "sync":
        with TransactionProducer(group, address, **options) as producer:
            yield producer
        return
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        with _Blocking(AsyncTransactionProducer(group, address, **options), loop) as producer:
            yield producer
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_DEADLINE_S)
        loop.close()


async def _result(found: Any, args: Any, options: Any) -> Any:
    """Called in the loop, where programs call it."""
    result = found(*args, **options)
    return await result if inspect.isawaitable(result) else result


class _Blocking:
    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def _wait(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(_DEADLINE_S)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **options: Any) -> Any:
            result = self._wait(_result(found, args, options))
            return _Blocking(result, self._loop) if isinstance(result, AsyncTransaction) else result

        return call

    def __enter__(self) -> Self:
        self._wait(self._inner.__aenter__())
        return self

    def __exit__(self, *error: object) -> object:
        return self._wait(self._inner.__aexit__(*error))
