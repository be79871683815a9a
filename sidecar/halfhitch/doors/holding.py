"""What a door holds open, and how it lets go of it: the same for every protocol.

Owns `Holding`: connections, tasks, and the drain. All of it lives on the event loop's thread.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol


class Held(Protocol):
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

    __slots__ = ("connections", "is_draining", "tasks", "when_empty")

    def __init__(self) -> None:
        self.connections: set[Held] = set()
        #: Requests in flight that have a task. Held here because the loop holds tasks only weakly,
        #: and a request goes on when its connection is lost.
        self.tasks: set[asyncio.Task[Any]] = set()
        self.is_draining = False
        self.when_empty = asyncio.Event()

    def drained_some(self) -> None:
        """While draining, to be called when something ended: somebody waits for the last."""
        if not self.connections and not self.tasks:
            self.when_empty.set()

    async def drain(self, drain_s: float, helpers: Iterable[asyncio.Task[Any] | None]) -> None:
        """Let what was begun be answered; after `drain_s` end it, and the door's own `helpers`.

        What is then still in flight is cancelled: its caller learns nothing, which is the truth.
        """
        self.is_draining = True
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
