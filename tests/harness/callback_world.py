"""A server, links that call it, and what became of each check."""

from __future__ import annotations

import ssl
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from halfhitch.adapters.callback import CallbackLinks, Target
from halfhitch.core.model import Resolution
from halfhitch.service.checking.api import CheckOutcome
from harness.callback_server import CallbackServer, ok
from harness.fake_desk import FakeDesk, a_check
from harness.raw_http import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.wire.check import Check

COMMIT = ok({"state": "COMMIT"})
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
#: For everything that is not about time: on a busy machine nothing may be cut off by accident.
PLENTY_S = 20.0
SHORT_S = 0.5


class World:
    """A server, links that call it, and what became of each check."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.stack = stack
        self.server = CallbackServer(COMMIT)
        self.desk = FakeDesk()
        self.ended: list[tuple[str, Resolution]] = []
        self.end_fails: Exception | None = None
        self.links: CallbackLinks = None  # type: ignore[assignment]

    async def start(
        self,
        *,
        url: str = "",
        networks: Sequence[str] = (),
        server_tls: ssl.SSLContext | None = None,
        **settings: Any,
    ) -> None:
        await self.server.start(server_tls)
        target = Target.parse(
            url.replace(":0/", f":{self.server.port}/") or self.server.url, networks
        )
        self.links = CallbackLinks(
            target, desk=self.desk, end=self._end, **{"answer_s": PLENTY_S, **settings}
        )
        self.stack.push_async_callback(self.links.stop)

    async def _end(self, handle: str, resolution: Resolution) -> None:
        self.ended.append((handle, resolution))
        if self.end_fails is not None:
            raise self.end_fails

    async def ask(self, check: Check | None = None) -> CheckOutcome:
        """Offer a check and wait for what it settles as."""
        count = len(self.desk.settled)
        check = check or a_check()
        link = self.links.for_group(check.identity[0])
        assert link is not None
        assert link.offer(check)
        await until(lambda: len(self.desk.settled) > count)
        identity, outcome = self.desk.settled[-1]
        assert identity == check.identity
        return outcome
