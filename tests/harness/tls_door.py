"""A data door that speaks TLS, on a thread of its own: what clients talk to."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from halfhitch.doors.http import HttpDoor
from halfhitch.doors.tls import ServerTls
from halfhitch.testing.loops import loop_in_thread
from harness.defaults import http_limits
from harness.fake_desk import FakeDesk
from harness.fake_transactions import FakeTransactions
from harness.identities import access_with

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.certificates import Pair


class TlsDoor:
    """One door; with `pair=None` it speaks plain HTTP."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pair: Pair | None, **tls: Any) -> None:
        self._loop = loop
        self.service = FakeTransactions()
        self.desk = FakeDesk()
        self.tls = None if pair is None else ServerTls(pair.files(**tls), lambda: 0)
        self.door = HttpDoor(
            self.service,
            checks=self.desk,
            port=0,
            access=access_with(),
            limits=http_limits(),
            tls=self.tls,
        )

    def run(self, awaitable: Any) -> Any:
        """On the door's loop."""
        return asyncio.run_coroutine_threadsafe(awaitable, self._loop).result(20)

    def address(self, host: str = "127.0.0.1", scheme: str = "https") -> str:
        return f"{scheme}://{host}:{self.door.port}"


@contextmanager
def tls_door(pair: Pair | None, **tls: Any) -> Iterator[TlsDoor]:
    """Open until the end of the block."""
    with loop_in_thread() as loop:
        made = TlsDoor(loop, pair, **tls)
        made.run(made.door.start())
        try:
            yield made
        finally:
            made.run(made.door.stop(drain_s=0))
