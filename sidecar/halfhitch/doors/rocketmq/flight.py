"""Requests under way: how many, how many bytes they hold, and how much of both anybody may have.

Owns `Flight`, one for a door, with `Job`, a request that is being worked on. New messages are
refused (SYSTEM_BUSY: clients try again by themselves) where the door has all it takes, or their
identity has half of that. Ends are never refused: they are few bytes, and they make room. Where
they are too many all the same, nothing more is read from who sends them until some are done.

What asks Kafka takes a thread of the pool that all doors share, so an identity has half of the
threads; what is more waits for its turn, behind its own.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, NoReturn

from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.doors.rocketmq.stats import Stats
from halfhitch.errors import Overloaded
from halfhitch.threads import ASKING_COUNT
from halfhitch.wire.remoting.requests import Frame

#: Threads of the pool for what asks Kafka on behalf of callers.
_POOL_THREADS: Final = ASKING_COUNT


class Job:
    """A request that is being worked on: the work, and on whose account it goes."""

    __slots__ = ("asks_kafka", "held_bytes", "name", "work")

    def __init__(
        self,
        work: Coroutine[Any, Any, bytes],
        name: str | None,
        held_bytes: int,
        *,
        asks_kafka: bool,
    ) -> None:
        """`name`: of the identity; None where nobody is told apart."""
        self.work = work
        self.name = name
        self.held_bytes = held_bytes
        self.asks_kafka = asks_kafka


def bytes_of(frame: Frame) -> int:
    """What a frame holds."""
    size_bytes = len(frame.body) + len(frame.raw_fields) + len(frame.remark or "")
    if not frame.raw_fields and frame.known_fields:  # they came as JSON
        size_bytes += sum(len(name) + len(value) for name, value in frame.known_fields.items())
    return size_bytes


class Flight:
    """What all connections of a door have under way. Used on the event loop."""

    __slots__ = ("_bytes_max", "_count_max", "_of", "_stats", "_turns")

    def __init__(self, stats: Stats, limits: Limits, bytes_max: int) -> None:
        self._stats = stats
        self._count_max = limits.in_flight_count_max
        self._bytes_max = bytes_max
        self._of: dict[str, list[int]] = {}  # number and bytes, by identity
        self._turns: dict[str, asyncio.Semaphore] = {}

    def refuse_when_full(self, name: str | None) -> None:
        """New messages are taken: of this identity, and of anybody. Raises Overloaded."""
        stats, count_max, bytes_max = self._stats, self._count_max, self._bytes_max
        if stats.in_flight_count >= count_max:
            self._refuse("requests", f"{count_max} requests are under way")
        if stats.in_flight_bytes >= bytes_max:
            self._refuse("bytes", f"requests under way hold {bytes_max} bytes")
        own = None if name is None else self._of.get(name)
        if own is not None and (own[0] * 2 >= count_max or own[1] * 2 >= bytes_max):
            self._refuse(
                "identity",
                f"identity {name!r} has {own[0]} requests of {own[1]} bytes under way, which is "
                "its half of what is taken",
            )

    def _refuse(self, why: str, sentence: str) -> NoReturn:
        self._stats.busy(why)
        raise Overloaded(f"{sentence}; try again in a moment")

    def begun(self, job: Job) -> None:
        """It is under way; its connection counts the number of all."""
        self._stats.in_flight_bytes += job.held_bytes
        if job.name is not None:
            own = self._of.setdefault(job.name, [0, 0])
            own[0] += 1
            own[1] += job.held_bytes

    def done(self, job: Job) -> None:
        """It is not any more."""
        self._stats.in_flight_bytes -= job.held_bytes
        if job.name is not None:
            own = self._of[job.name]
            own[0] -= 1
            own[1] -= job.held_bytes
            if not own[0]:
                del self._of[job.name]

    def is_past(self, name: str | None) -> bool:
        """Whether nothing more is to be read from this identity: ends that were not refused are
        more than all that messages may be, or twice that together with what others have."""
        stats, count_max, bytes_max = self._stats, self._count_max, self._bytes_max
        if stats.in_flight_count < count_max and stats.in_flight_bytes < bytes_max:
            return False  # as nearly always
        if stats.in_flight_count >= 2 * count_max or stats.in_flight_bytes >= 2 * bytes_max:
            return True
        own = None if name is None else self._of.get(name)
        return own is not None and (own[0] >= count_max or own[1] >= bytes_max)

    async def carry_out(self, job: Job) -> bytes:
        """Do it, or wait for its turn first."""
        if not job.asks_kafka or job.name is None:
            return await job.work
        turns = self._turns.get(job.name)
        if turns is None:
            turns = self._turns[job.name] = asyncio.Semaphore(max(1, _POOL_THREADS // 2))
        async with turns:
            return await job.work
