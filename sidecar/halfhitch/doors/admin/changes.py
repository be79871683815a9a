"""Waiting until something happens: what makes the console live.

    GET /v1/changes?after=REVISION    the next revision: at once if it is another one already, else
                                      as soon as it is, or after a moment with nothing new

Owns `Changes`. A revision stands for how far the half partitions here have come and who is
connected. It tells nothing else: whoever sees that it has changed looks at what he may see. A
request each time and no stream of events: the page's token is a header, which a browser's
EventSource cannot send, and what a proxy holds back of an endless answer it cannot hold back of
this one. What other instances own changes no revision here, so a look is due now and then anyhow.
"""

import asyncio
from hashlib import blake2b
from typing import Final

import msgspec

from halfhitch.access import Right
from halfhitch.doors.http.handlers import Handler
from halfhitch.doors.http.replies import json_reply
from halfhitch.doors.http.requests import Request
from halfhitch.doors.http.router import Route
from halfhitch.service.api import System

#: The route's name: it has places of its own (places.py), for it waits.
CHANGES: Final = "changes"
CHANGED: Final[tuple[Route, ...]] = (
    Route(method="GET", pattern="/v1/changes", name=CHANGES, may_wait=True, parameter="after"),
)
#: So long is waited at most, and so often looked.
_WAIT_S: Final = 3.0
_LOOK_S: Final = 0.2
_encode = msgspec.json.Encoder().encode


class Changes:
    """Answers who waits for changes; of one event loop."""

    def __init__(self, system: System, *, wait_s: float = _WAIT_S, look_s: float = _LOOK_S) -> None:
        self._system = system
        self._wait_s = wait_s
        self._look_s = look_s
        self._stopping = asyncio.Event()

    def handlers(self) -> dict[str, Handler]:
        """By route name."""
        return {CHANGES: self._answer}

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopping.set()

    async def _answer(self, request: Request) -> bytes:
        request.caller.require_somewhere(Right.OBSERVE)
        after = request.read_parameter("after")
        give_up_s = asyncio.get_running_loop().time() + self._wait_s
        while (revision := self._revision()) == after:
            left_s = give_up_s - asyncio.get_running_loop().time()
            if left_s <= 0 or self._stopping.is_set():
                break
            try:
                async with asyncio.timeout(min(self._look_s, left_s)):
                    await self._stopping.wait()
            except TimeoutError:
                continue
        return json_reply(200, _encode({"revision": revision}))

    def _revision(self) -> str:
        """Of counts and positions, not of ages: time alone changes nothing."""
        seen: list[object] = [self._system.unready_reasons(), self._system.degraded_reasons()]
        for state in self._system.partitions():
            seen += (state.partition, state.phase, state.half_position, state.op_position)
            seen += (state.pending_count, state.decided_count, state.waiting_count)
            seen += (state.due_count, state.checking_count, state.trouble)
        for group in self._system.producers():
            seen += (group.producer_group, group.link_count, group.breaker)
        return blake2b(_encode(seen), digest_size=8).hexdigest()
