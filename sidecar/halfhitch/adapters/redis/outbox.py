"""What is to be written, as handed over by owners and the desk: bounded, and the last word counts.

Owns the queue between the callers (any thread) and the one writer thread. Invariants: no method
waits for more than the lock, which is held for dictionary work only; for each transaction there is
at most one entry, its newest state; an entry that was taken and could not be written comes back by
`put_back` without displacing a newer one. When there is no room, everything that waits for that
partition is dropped and it is *deaf* until its owner has begun anew (`wants_all`): half a list
would be as wrong as none.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from typing import Final, NamedTuple

from halfhitch.core.model import Identity
from halfhitch.ports import Doubt

#: An owner that fills the queue faster than Redis takes it must not rebuild without a pause.
_REBUILD_PAUSE_S: Final = 2.0
_REBUILD_PAUSE_S_MAX: Final = 120.0
_REBUILD_S: Final = 1.0  # whatever befalls Redis, everything is asked for no more often
_POST_AGE_S_MAX: Final = 5.0
#: One round trip must stay short, whatever the bodies.
_POSTS_AT_ONCE: Final = 500
_POSTS_BYTES_AT_ONCE: Final = 4 * 1_048_576


class Clearing(Enum):
    """What must happen to a partition in Redis before anything is written to it."""

    NONE = auto()
    LIST = auto()  # a new owner: the list goes, the hashes say what was delivered and stay
    ALL = auto()  # an old dump: what it lists goes, hashes included


@dataclass(slots=True)
class Post:
    """Something for an inbox."""

    instance: str
    kind: str
    body: bytes
    posted_s: float


@dataclass(slots=True)
class _Partition:
    generation: int  # never the same again once entries were dropped
    by: object = None  # its owner
    entries: dict[Identity, Doubt | None] = field(default_factory=dict)
    clearing: Clearing = Clearing.LIST
    is_deaf: bool = False
    wants_all: bool = True
    wants_after_s: float = 0.0
    pause_s: float = _REBUILD_PAUSE_S
    is_told: bool = False  # everything that was wanted; and of it so many are still to be written:
    unwritten_count: int = 0
    list_number: int = 0  # of the list that is whole; 0: none is

    def take_wish(self) -> bool:
        """Whether everything is wanted; from now on it is on its way."""
        if not self.wants_all or time.monotonic() < self.wants_after_s:
            return False
        self.wants_all = self.is_deaf = False
        self.wants_after_s = time.monotonic() + _REBUILD_S
        return True

    def begin_anew(self, clearing: Clearing = Clearing.ALL) -> None:
        """The list in Redis is not to be believed, or not to be had."""
        self.wants_all = True
        self.is_told = False
        self.list_number = 0
        if self.clearing is Clearing.NONE:
            self.clearing = clearing


class Entry(NamedTuple):
    """The newest state of one transaction; None: it is settled."""

    partition: int
    identity: Identity
    doubt: Doubt | None
    generation: int


@dataclass(slots=True)
class Batch:
    """Taken for writing."""

    entries: list[Entry] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)


class Outbox:
    """Bounds: entries of all partitions together, and the bytes of all posts together."""

    def __init__(self, *, entries_max: int, posts_bytes_max: int) -> None:
        self._entries_max = entries_max
        self._posts_bytes_max = posts_bytes_max
        self._lock = threading.Lock()
        self._partitions: dict[int, _Partition] = {}
        self._released: set[int] = set()
        self._entry_count = 0
        self._generation = self._list_number = 0
        self._posts: deque[Post] = deque()  # bounded by the bytes of all, see `post`
        self._posts_bytes = 0
        self._any = threading.Event()
        self._urgent = threading.Event()
        self.overflow_count = 0

    # -- callers: any thread ---------------------------------------------------------------------

    def doubtful(self, partition: int, doubts: Sequence[Doubt]) -> None:
        """The newest state of these."""
        self._put(partition, [(doubt.identity, doubt) for doubt in doubts])

    def settled(self, partition: int, identities: Sequence[Identity]) -> None:
        """These are to go."""
        self._put(partition, [(identity, None) for identity in identities])

    def own(self, partition: int, by: object = None) -> None:
        """From now on it is ours, and everything about it is wanted: see ports.DoubtIndex.owns."""
        with self._lock:
            state = self._partitions.get(partition)
            if state is None or state.by is not by:
                self._entry_count -= 0 if state is None else len(state.entries)
                self._generation += 1
                self._partitions[partition] = _Partition(self._generation, by)
            self._released.discard(partition)
        self.wake(is_urgent=False)

    def release(self, partition: int, by: object = None) -> None:
        """It is not ours any more: what waits is the next owner's to say."""
        with self._lock:
            state = self._partitions.get(partition)
            if state is None or state.by is not by:
                return
            del self._partitions[partition]
            self._entry_count -= len(state.entries)
            self._released.add(partition)
        self.wake(is_urgent=False)

    def wants_all(self, partition: int, *, is_healthy: bool) -> bool:
        """True once for each time that everything must be written anew."""
        state = self._partitions.get(partition)
        if state is None or not state.wants_all or not is_healthy:
            return False
        with self._lock:
            return state.take_wish()

    def told_all(self, partition: int) -> None:
        """Everything that was wanted has been handed over."""
        with self._lock:
            state = self._partitions.get(partition)
            if state is not None and not state.wants_all:
                state.is_told = True
                state.unwritten_count = len(state.entries)
        self.wake(is_urgent=False)

    def has_room(self, count: int) -> bool:
        """Whether so many entries could be taken now; an owner that rebuilds goes by it."""
        return self._entry_count + count <= self._entries_max // 2

    def post(self, instance: str, kind: str, body: bytes) -> bool:
        """False: no room."""
        with self._lock:
            if self._posts_bytes + len(body) > self._posts_bytes_max:
                return False
            self._posts_bytes += len(body)
            self._posts.append(Post(instance, kind, body, time.monotonic()))
        self.wake(is_urgent=True)
        return True

    def wake(self, *, is_urgent: bool) -> None:
        """Let the writer look."""
        if is_urgent and not self._urgent.is_set():
            self._urgent.set()
        if not self._any.is_set():
            self._any.set()

    def _put(self, partition: int, entries: list[tuple[Identity, Doubt | None]]) -> None:
        if not entries:
            return
        with self._lock:
            state = self._partitions.get(partition)
            if state is None or state.is_deaf:
                return
            before = len(state.entries)
            state.entries.update(entries)
            self._entry_count += len(state.entries) - before
            if self._entry_count > self._entries_max:
                self._overflow(state)
        self.wake(is_urgent=False)

    def _overflow(self, state: _Partition) -> None:
        self._entry_count -= len(state.entries)
        state.entries = {}
        state.begin_anew()
        state.is_deaf = True
        self._generation += 1
        state.generation = self._generation
        state.wants_after_s = time.monotonic() + state.pause_s
        state.pause_s = min(2 * state.pause_s, _REBUILD_PAUSE_S_MAX)
        self.overflow_count += 1

    # -- the writer ------------------------------------------------------------------------------

    def wait(self, at_most_s: float, gather_s: float) -> None:
        """Until there is something; what is not urgent is given time to gather."""
        if self._any.wait(at_most_s):
            self._any.clear()
            self._urgent.wait(gather_s)
        self._urgent.clear()

    def take(self, count_max: int, *, settled_only: bool = False) -> Batch:
        """Up to so many entries of partitions that are clear, and the next posts."""
        batch = Batch()
        with self._lock:
            self._note_whole()
            # A partition with very much to write must not hold up the others.
            share = -(-count_max // max(1, len(self._partitions)))
            for partition, state in self._partitions.items():
                if state.clearing is not Clearing.NONE:
                    continue
                wanted = (
                    identity
                    for identity, doubt in state.entries.items()
                    if doubt is None or not settled_only
                )
                for identity in list(islice(wanted, share)):
                    doubt = state.entries.pop(identity)
                    batch.entries.append(Entry(partition, identity, doubt, state.generation))
                    state.unwritten_count -= 1
                if not state.entries:
                    state.entries = {}  # a dict keeps the room of its largest size
                    state.pause_s = _REBUILD_PAUSE_S
            self._entry_count -= len(batch.entries)
            if not settled_only:
                batch.posts = self._take_posts()
            if self._entry_count:
                self._any.set()
        return batch

    def _note_whole(self) -> None:
        """What was taken before has been written by now, or has come back."""
        for state in self._partitions.values():
            is_written = state.is_told and state.unwritten_count <= 0
            if is_written and state.clearing is Clearing.NONE and not state.list_number:
                self._list_number += 1
                state.list_number = self._list_number

    def whole(self) -> list[tuple[int, int]]:
        """Partitions whose lists have all that is known, and the numbers of these lists."""
        with self._lock:
            return [(p, it.list_number) for p, it in self._partitions.items() if it.list_number]

    def _take_posts(self) -> list[Post]:
        oldest_s = time.monotonic() - _POST_AGE_S_MAX
        posts: list[Post] = []
        taken_bytes = 0
        while self._posts and len(posts) < _POSTS_AT_ONCE and taken_bytes < _POSTS_BYTES_AT_ONCE:
            post = self._posts.popleft()
            self._posts_bytes -= len(post.body)
            if post.posted_s >= oldest_s:
                posts.append(post)
                taken_bytes += len(post.body)
        if self._posts:
            self._urgent.set()
            self._any.set()
        return posts

    def put_back(self, batch: Batch) -> None:
        """It was not written, or nobody knows."""
        with self._lock:
            for entry in batch.entries:
                state = self._partitions.get(entry.partition)
                if state is None or state.generation != entry.generation:
                    continue  # it may have been settled while the partition was deaf
                if entry.identity not in state.entries:
                    state.entries[entry.identity] = entry.doubt
                    self._entry_count += 1
                state.unwritten_count = len(state.entries)  # it is the last one now
            self._posts.extendleft(reversed(batch.posts))
            self._posts_bytes += sum(len(post.body) for post in batch.posts)
        self.wake(is_urgent=bool(batch.posts))

    def to_clear(self) -> list[tuple[int, Clearing]]:
        """Partitions that must be cleared before they are written to."""
        with self._lock:
            return [
                (partition, state.clearing)
                for partition, state in self._partitions.items()
                if state.clearing is not Clearing.NONE
            ]

    def cleared(self, partition: int, clearing: Clearing) -> None:
        """It is clear, unless more has come to be cleared meanwhile."""
        with self._lock:
            state = self._partitions.get(partition)
            if state is not None and state.clearing is clearing:
                state.clearing = Clearing.NONE

    def rebuild(
        self, partitions: Iterable[int] | None = None, clearing: Clearing = Clearing.ALL
    ) -> None:
        """What Redis holds of these (all) is not to be believed."""
        with self._lock:
            for partition in list(self._partitions) if partitions is None else partitions:
                state = self._partitions.get(partition)
                if state is not None:
                    state.begin_anew(clearing)

    def owned(self) -> list[int]:
        """Partitions that are ours."""
        with self._lock:
            return sorted(self._partitions)

    def take_released(self) -> list[int]:
        """Partitions that were ours until a moment ago."""
        with self._lock:
            released = sorted(self._released)
            self._released.clear()
            return released
