"""Memory of finished transactions, so that whatever comes late is recognised.

Within the horizon a late copy of a half is done at once (never forwarded again, never checked), an
equal decision is idempotent and a contrary one a conflict, and a half that says something else than
the one before is one of a reused id. The horizon is log time. A bound by count stands behind it,
for memory and for the length of a replay; DESIGN.md has both in numbers.

Three generations: the current one and two full ones. When the current one is full (by age or count)
the oldest is dropped, so everything stays for at least two generations' worth.
"""

from collections.abc import Sequence
from typing import Final

from halfhitch.core.model import Identity, OpOffset, TimestampMs
from halfhitch.core.remembered import Remembered, hash_of

_GENERATIONS: Final = 3
#: Put back after it was parked: as good as not remembered. No ending is so low.
_FORGOTTEN: Final = -32_768


class _Generation:
    __slots__ = ("entries", "first_op_offset", "forgotten_count", "started_ms")

    def __init__(
        self, started_ms: TimestampMs, first_op_offset: OpOffset, count_expected: int
    ) -> None:
        self.started_ms = started_ms
        self.first_op_offset = first_op_offset
        self.entries = Remembered(count_expected)
        self.forgotten_count = 0

    def put(self, hashed: int, identity: Identity, ending: int, digest: int) -> None:
        if self.entries.put(hashed, identity, ending, digest) == _FORGOTTEN:
            self.forgotten_count -= 1

    def forget(self, identity: Identity) -> None:
        entry = self.entries.find(hash_of(identity), identity)
        if entry >= 0 and self.entries.number(entry) != _FORGOTTEN:
            self.entries.renumber(entry, _FORGOTTEN)
            self.forgotten_count += 1


class Finished:
    """Identity -> ending, in the words of a done mark (see core/model.py), and digests.

    `count_max` counts messages: a transaction of three is three of them.
    """

    def __init__(self, *, horizon_ms: int, count_max: int) -> None:
        self._span_ms = max(1, horizon_ms // (_GENERATIONS - 1))
        self._count_max = max(1, count_max // _GENERATIONS)
        self._generations: list[_Generation] = []  # oldest first

    def remember(self, identity: Identity, ending: int, digests: Sequence[int] = ()) -> None:
        """Put an ending into the current generation; `advance` must have been called before.

        `digests`: of the messages by index, as far as they are known.
        """
        before = self.ending(identity) if ending < 0 else None
        if before is not None and before >= 0:
            return  # the mark of a late copy out of a life before the one that was committed
        current = self._generations[-1]
        current.put(hash_of(identity), identity, ending, digests[0] if digests else 0)
        for index in range(1, len(digests)):
            current.put(hash_of(identity, index), identity, ending, digests[index])

    def ending(self, identity: Identity) -> int | None:
        """How it ended, or None when it is not remembered. Safe to call from another thread."""
        hashed = hash_of(identity)
        for generation in reversed(self._generations):
            entries = generation.entries
            entry = entries.find(hashed, identity)
            if entry >= 0:
                ending = entries.number(entry)
                return None if ending == _FORGOTTEN else ending
        return None

    def digest(self, identity: Identity, index: int) -> int:
        """Of this message; 0 when it is not known. Safe to call from another thread."""
        hashed = hash_of(identity, index)
        for generation in reversed(self._generations):
            entries = generation.entries
            entry = entries.find(hashed, identity)
            if entry >= 0 and (digest := entries.digest(entry)):
                return digest
        return 0

    def digests(self, identity: Identity) -> tuple[int, ...]:
        """Of its messages by index, those that are not known as 0."""
        found: list[int] = []
        while self._has(identity, len(found)):
            found.append(self.digest(identity, len(found)))
        while found and not found[-1]:
            found.pop()
        return tuple(found)

    def _has(self, identity: Identity, index: int) -> bool:
        hashed = hash_of(identity, index)
        return any(g.entries.find(hashed, identity) >= 0 for g in self._generations)

    def learn(self, identity: Identity, index: int, digest: int) -> None:
        """A message that came when its transaction had ended, and that the end did not know."""
        ending = self.ending(identity)
        if ending is None:
            return
        # What lies between has its places, too: `digests` counts them.
        for before in range(1, index):
            if not self._has(identity, before):
                self._generations[-1].put(hash_of(identity, before), identity, ending, 0)
        hashed = hash_of(identity, index)
        for generation in reversed(self._generations):
            if generation.entries.find(hashed, identity) >= 0:
                generation.put(hashed, identity, ending, digest)
                return
        self._generations[-1].put(hashed, identity, ending, digest)

    def was_parked(self, identity: Identity, index: int) -> bool:
        """Whether this message was parked when its transaction was given up, as the marks tell.

        Without digests they do not: an older release took it, and then it counts as parked.
        """
        return not self.digest(identity, 0) or self.digest(identity, index) != 0

    def forget(self, identity: Identity) -> None:
        """It lives again: it was parked, and is put back."""
        for generation in self._generations:
            generation.forget(identity)

    def advance(self, log_time_ms: TimestampMs, op_position: OpOffset) -> None:
        """Log time has come to here; start a new generation when the current one is full."""
        if not self._generations:
            self._generations.append(_Generation(log_time_ms, op_position, 0))
            return
        current = self._generations[-1]
        count = len(current.entries)
        if count >= self._count_max or log_time_ms - current.started_ms >= self._span_ms:
            # One new list instead of a change in place: `ending` may be iterating on another
            # thread. The next one is likely to become as large as this one.
            kept = self._generations[-(_GENERATIONS - 1) :]
            self._generations = [*kept, _Generation(log_time_ms, op_position, count)]

    @property
    def first_op_offset(self) -> OpOffset | None:
        """Replay must begin here to rebuild this memory."""
        return self._generations[0].first_op_offset if self._generations else None

    def __len__(self) -> int:
        return sum(len(g.entries) - g.forgotten_count for g in self._generations)
