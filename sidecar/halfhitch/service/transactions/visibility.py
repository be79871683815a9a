"""Who waits for a decision to be carried out, and how they learn of it.

On the instance that owns the partition, the owner tells after every committed step. On any other
instance the op log itself tells: a tail of it is read from the waiter's own decision on, and the
done mark of the transaction is the news. When the partition changes hands while somebody waits, the
tail takes over.
"""

import threading
from asyncio import AbstractEventLoop, Future
from collections.abc import Sequence
from typing import Final, Protocol

from halfhitch.core.model import (
    COPIED,
    ConflictKind,
    ConflictRead,
    DoneMark,
    DoneRead,
    Identity,
)
from halfhitch.wire.op import OpRead

#: Of the last decisions that were said of other messages than their ids stand for.
_REUSED_MAX: Final = 1_000


class OpTail(Protocol):
    """Follows op partitions for as long as somebody waits there. Called on the event loop."""

    def follow(self, partition: int, from_op_offset: int) -> None:
        """Begin (or go on) reading this partition from there at the latest."""
        ...


class _Wait:
    """All who wait for one transaction share a future."""

    __slots__ = ("count", "future", "op_offset")

    def __init__(self, future: "Future[int]", op_offset: int) -> None:
        self.future = future
        self.op_offset = op_offset
        self.count = 0


class Visibility:
    """Futures by identity. Made and awaited on one event loop; news may come from any thread."""

    def __init__(self, loop: AbstractEventLoop, tail: OpTail) -> None:
        self._loop = loop
        self._tail = tail
        self._lock = threading.Lock()
        self._waiting: dict[tuple[int, Identity], _Wait] = {}
        self._reused: dict[tuple[int, int, Identity], None] = {}

    def wait(self, partition: int, identity: Identity, op_offset: int) -> "Future[int]":
        """A future of the ending (committed messages, 0: rolled back), shared by all who wait."""
        with self._lock:
            wait = self._waiting.get((partition, identity))
            if wait is None:
                wait = _Wait(self._loop.create_future(), op_offset)
                self._waiting[partition, identity] = wait
            wait.count += 1
        return wait.future

    def follow(self, partition: int, op_offset: int) -> None:
        """This instance does not own the partition: let the op log tell."""
        self._tail.follow(partition, op_offset)

    def give_up(self, partition: int, identity: Identity, future: "Future[int]") -> None:
        """One of those who waited for this future does no more.

        Who was told a moment ago is not counted any more: those who are counted now have come since
        then and wait for news of their own.
        """
        with self._lock:
            wait = self._waiting.get((partition, identity))
            if wait is not None and wait.future is future:
                wait.count -= 1
                if wait.count == 0:
                    del self._waiting[partition, identity]

    def lost(self, partition: int) -> None:
        """The partition went to another instance; from any thread."""
        with self._lock:
            offsets = [w.op_offset for (p, _), w in self._waiting.items() if p == partition]
        if offsets:
            self._loop.call_soon_threadsafe(self._tail.follow, partition, min(offsets))

    def is_waited_for(self, partition: int) -> bool:
        """Whether a tail of this partition still has a reader."""
        with self._lock:
            return any(waiting == partition for waiting, _ in self._waiting)

    def read(self, partition: int, events: Sequence[OpRead]) -> None:
        """What the tail reads, in the order of the log; from its thread."""
        for event in events:
            if (
                isinstance(event, ConflictRead)
                and event.kind is ConflictKind.REUSED
                and not event.half_offsets  # else it speaks of them, and of no decision
            ):
                self._remember(partition, event.losing_op_offset, event.identity)
        done = [
            DoneMark(event.identity, event.ending, [])
            for event in events
            if isinstance(event, DoneRead) and event.ending != COPIED
        ]
        if done:
            self.done(partition, done)

    def _remember(self, partition: int, op_offset: int, identity: Identity) -> None:
        with self._lock:
            self._reused[partition, op_offset, identity] = None
            if len(self._reused) > _REUSED_MAX:
                del self._reused[next(iter(self._reused))]

    def is_reused(self, partition: int, op_offset: int, identity: Identity) -> bool:
        """Whether the tail has read that this one's decision there was said of other messages.

        It stands in the log before the mark that answers it.
        """
        return (partition, op_offset, identity) in self._reused

    def done(self, partition: int, marks: Sequence[DoneMark]) -> None:
        """These transactions are carried out; from any thread. Cheap when nobody waits."""
        if not self._waiting:
            return
        with self._lock:
            hits = [
                (wait.future, mark.ending)
                for mark in marks
                if (wait := self._waiting.pop((partition, mark.identity), None)) is not None
            ]
        if hits:
            self._loop.call_soon_threadsafe(_resolve, hits)


def _resolve(hits: list[tuple["Future[int]", int]]) -> None:
    for future, ending in hits:
        if not future.done():
            future.set_result(ending)
