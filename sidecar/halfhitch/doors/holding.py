"""What a door holds open, and how it lets go of it: the same for every protocol.

Owns `Holding`: connections, how many each address has, tasks, and the drain. All of it lives on the
event loop's thread.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

from halfhitch.observability.lines import LineBudget

logger = logging.getLogger(__name__)

#: Why a connection, or a check stream, is turned away: the door is full, or one address, producer
#: group or identity has its share of it.
Refused = Literal["full", "peer", "group", "identity"]
OnRefused = Callable[[Refused], object]


class OpenConnection(Protocol):
    """A connection, or what one has become."""

    def sweep(self, now_s: float) -> None:
        """Look after deadlines."""
        ...

    def start_draining(self) -> None:
        """Close as soon as that is in order."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...


class Holding:
    """Shared by all connections of one door."""

    __slots__ = (
        "_on_refused",
        "_peers",
        "_refused_lines",
        "connections",
        "is_draining",
        "is_hurried",
        "is_leaving",
        "tasks",
        "when_empty",
    )

    def __init__(self, on_refused: OnRefused | None = None) -> None:
        self._on_refused = on_refused
        self._refused_lines = LineBudget()
        self._peers: Counter[str] = Counter()
        self.connections: set[OpenConnection] = set()
        #: Requests in flight that have a task. Held here because the loop holds tasks only weakly,
        #: and a request goes on when its connection is lost.
        self.tasks: set[asyncio.Task[Any]] = set()
        #: Nothing new is begun here any more; what was begun elsewhere may still be ended.
        self.is_leaving = False
        #: And now all that is left is what has been begun.
        self.is_draining = False
        self.is_hurried = False
        self.when_empty = asyncio.Event()

    def came(self, peer: str) -> int:
        """A connection from this address; how many it has, with this one."""
        self._peers[peer] += 1
        return self._peers[peer]

    def went(self, peer: str) -> None:
        """One of this address is gone."""
        self._peers[peer] -= 1
        if self._peers[peer] <= 0:
            del self._peers[peer]

    def count_of(self, peer: str) -> int:
        """How many connections this address has."""
        return self._peers.get(peer, 0)

    def refused(self, why: Refused, who: str, what: str, turned_away: str = "a connection") -> None:
        """Count it, and say it, but not as often as strangers like."""
        if self._on_refused is not None:
            self._on_refused(why)
        more = self._refused_lines.take()
        if more is not None:
            logger.warning(
                "%s of %s was turned away: %s%s",
                turned_away,
                who,
                what,
                more,
                extra={"action": "connection_refused"},
            )

    def drained_some(self) -> None:
        """While draining, to be called when something ended: somebody waits for the last."""
        if not self.connections and not self.tasks:
            self.when_empty.set()

    def hurry(self) -> None:
        """Wait for nobody any more, now or later."""
        self.is_hurried = True
        self.when_empty.set()

    async def drain(self, drain_s: float, helpers: Iterable[asyncio.Task[Any] | None]) -> None:
        """Let what was begun be answered; after `drain_s` end it, and the door's own `helpers`.

        What is then still in flight is cancelled: its caller learns nothing, which is the truth.
        """
        self.is_leaving = self.is_draining = True
        for connection in list(self.connections):
            connection.start_draining()
        self.drained_some()
        try:
            await asyncio.wait_for(self.when_empty.wait(), max(drain_s, 0))
        except TimeoutError:
            pass  # the rest is ended below
        finally:
            for connection in list(self.connections):
                connection.abort()
            ended = [*self.tasks, *(task for task in helpers if task is not None)]
            for task in ended:
                task.cancel()
            await asyncio.gather(*ended, return_exceptions=True)


def peer_of(transport: asyncio.BaseTransport) -> str:
    """The address of the other end; all of a unix socket are one."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) and name else "the unix socket"
