"""What the door carries at this moment.

Owns the counts that the connections of a door share: its connections, its requests in flight, and
the body bytes it holds. All of it lives on the event loop's thread.
"""

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from halfhitch.doors.http.protocol import Connection


class Load:
    """Shared by all connections of one door."""

    __slots__ = ("buffered_bytes", "connections", "is_draining", "tasks", "when_empty")

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        #: One for each request in flight. Held here because the loop holds tasks only weakly,
        #: and a request goes on when its connection is lost.
        self.tasks: set[asyncio.Task[Any]] = set()
        self.buffered_bytes = 0
        self.is_draining = False
        self.when_empty = asyncio.Event()

    def drained_some(self) -> None:
        """While draining, to be called when something ended: somebody waits for the last."""
        if not self.connections and not self.tasks:
            self.when_empty.set()
