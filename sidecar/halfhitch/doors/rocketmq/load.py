"""What the door carries at this moment; shared by its connections, on the event loop's thread."""

import asyncio
from typing import Any, Protocol

from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.errors import HalfHitchError


class Held(Protocol):
    """A connection, as the door sees it."""

    def sweep(self, now_s: float) -> None:
        """Look after deadlines."""
        ...

    def start_draining(self) -> None:
        """Ask for no checks any more; close as soon as that is in order."""
        ...

    def abort(self) -> None:
        """Close now."""
        ...


class Load:
    """Shared by all connections of one door."""

    __slots__ = (
        "connections",
        "failed_ends",
        "held_bytes",
        "is_draining",
        "refusal",
        "stats",
        "tasks",
        "when_empty",
    )

    def __init__(self, stats: Stats) -> None:
        self.stats = stats
        self.connections: set[Held] = set()
        #: Of requests that are not on the hot path. The loop holds tasks only weakly.
        self.tasks: set[asyncio.Task[Any]] = set()
        self.held_bytes = 0
        self.is_draining = False
        #: Why new messages are not taken at all, looked at by the sweep: waiting for a Kafka that
        #: is away would outlast every client's patience.
        self.refusal: HalfHitchError | None = None
        #: One-way ends that failed since the sweep last said so, and the last reason.
        self.failed_ends: tuple[int, HalfHitchError] | None = None
        self.when_empty = asyncio.Event()

    def end_failed(self, error: HalfHitchError) -> None:
        """Nobody hears of it; the sweep says it in the log, once for all of a moment."""
        count = 0 if self.failed_ends is None else self.failed_ends[0]
        self.failed_ends = (count + 1, error)

    def drained_some(self) -> None:
        """While draining, to be called when something ended: somebody waits for the last."""
        if not self.connections and not self.tasks:
            self.when_empty.set()
