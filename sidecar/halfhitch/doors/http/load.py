"""What the door carries at this moment.

Owns the counts that the connections of a door share: its connections, its requests in flight, and
the body bytes it holds. All of it lives on the event loop's thread.
"""

import asyncio
from typing import Any, Protocol


class Held(Protocol):
    """What a door holds open: a connection, or the stream that one has become."""

    def sweep(self, now_s: float) -> None:
        """Look after deadlines."""
        ...

    def start_draining(self) -> None:
        """Close as soon as that is in order."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...


class Load:
    """Shared by all connections of one door."""

    __slots__ = (
        "buffered_bytes",
        "connections",
        "is_draining",
        "stream_count",
        "tasks",
        "when_empty",
    )

    def __init__(self) -> None:
        self.connections: set[Held] = set()
        #: How many of them are check streams.
        self.stream_count = 0
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
