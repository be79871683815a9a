"""From the host of a callback to the addresses it may be called at.

Owns when the name is looked up: once for all that ask at the same time, and again after some
seconds. The look-up runs in a thread of its own: the system's resolver may hang for a minute, and
neither other users of the loop's threads nor the end of the process shall wait for it.

Invariant: what comes out has been checked, every address of it; nobody looks the name up again.
"""

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final

from halfhitch.adapters.callback.target import Target

#: How long an outcome is good for. Containers come and go under the same name.
_KEPT_S: Final = 5.0

Resolve = Callable[[str, int], Sequence[str]]


class NotAllowed(Exception):
    """An address the name leads to must not be called; the text says which and why."""


def system_resolve(host: str, port: int) -> list[str]:
    """The system's addresses, in its order, each once. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Resolver:
    """Of one target."""

    def __init__(self, target: Target, resolve: Resolve = system_resolve) -> None:
        self._target = target
        self._resolve = resolve
        self._under_way: asyncio.Future[list[str]] | None = None
        self._kept: list[str] = []
        self._kept_until_s = 0.0
        try:
            ipaddress.ip_address(target.host)
        except ValueError:
            self._is_literal = False
        else:
            self._is_literal = True

    async def addresses(self) -> list[str]:
        """Where to connect to. Raises NotAllowed, OSError."""
        loop = asyncio.get_running_loop()
        if self._is_literal:
            return self._checked([self._target.host])
        if self._kept and loop.time() < self._kept_until_s:
            return self._kept
        if self._under_way is None:
            self._under_way = future = loop.create_future()
            # Who waits may have left by then; an exception nobody takes must not be logged.
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            threading.Thread(
                target=self._look_up, args=(loop, future), name="callback-resolve", daemon=True
            ).start()
        # Shielded: one that gives up must not take the look-up from the others.
        return await asyncio.shield(self._under_way)

    def _look_up(
        self, loop: asyncio.AbstractEventLoop, future: "asyncio.Future[list[str]]"
    ) -> None:
        found: list[str] | Exception
        try:
            found = list(self._resolve(self._target.host, self._target.port))
        except Exception as error:  # noqa: BLE001 (whoever waits must hear of it)
            found = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(self._looked_up, loop, future, found)

    def _looked_up(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[list[str]]",
        found: list[str] | Exception,
    ) -> None:
        self._under_way = None
        if future.done():
            return
        try:
            if isinstance(found, Exception):
                raise found
            addresses = self._checked(found)
        except Exception as error:  # noqa: BLE001 (handed on)
            future.set_exception(error)
        else:
            self._kept, self._kept_until_s = addresses, loop.time() + _KEPT_S
            future.set_result(addresses)

    def _checked(self, addresses: list[str]) -> list[str]:
        if not addresses:
            raise OSError("the name has no address")
        for address in addresses:
            trouble = self._target.trouble_with(address)
            if trouble is not None:
                raise NotAllowed(f"{self._target.host} leads to {address}: {trouble}")
        return addresses
