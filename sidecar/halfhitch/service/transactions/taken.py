"""What this instance has taken a moment ago: which messages stand under which ids.

The owner of a half partition knows that for a quarter of an hour, but it may be another instance,
and it knows nothing before it has read a message. This memory is small and forgets soon; what slips
through is found by the owner, who puts it on record.
"""

from collections.abc import Callable, Sequence
from typing import Final

from halfhitch.core.model import Identity
from halfhitch.core.remembered import Remembered, hash_of

#: What was taken so long ago is the owner's to know; it is kept twice as long at most.
_RECENT_S: Final = 60.0
#: The same by count: the two together take 15 MB.
_COUNT_MAX: Final = 200_000


class Taken:
    """By message: a transaction of three is three of them. For one thread."""

    def __init__(self, now_s: Callable[[], float], *, count_max: int = _COUNT_MAX) -> None:
        self._now_s = now_s
        self._count_max = count_max
        self._recent = Remembered()
        self._older = Remembered()
        self._renewed_s = now_s()

    def claim(self, identity: Identity, first_index: int, digests: Sequence[int]) -> bool:
        """These are about to be stored; False: others stand under this id, and nothing changes."""
        self._forget()
        known = [self._digest(identity, i) for i in range(first_index, first_index + len(digests))]
        if any(one and one != digest for one, digest in zip(known, digests, strict=True)):
            return False
        for index, digest in enumerate(digests, first_index):
            self._recent.put(hash_of(identity, index), identity, 0, digest)
        return True

    def has(self, identity: Identity, first_index: int, digests: Sequence[int]) -> bool:
        """Whether just these were taken."""
        self._forget()
        return all(
            self._digest(identity, index) == digest
            for index, digest in enumerate(digests, first_index)
        )

    def claim_new(self, identity: Identity, digest: int) -> bool:
        """Its only message is about to be stored; False: one was taken, and nothing changes."""
        self._forget()
        hashed = hash_of(identity)
        if self._recent.find(hashed, identity) >= 0 or self._older.find(hashed, identity) >= 0:
            return False
        self._recent.put(hashed, identity, 0, digest)
        return True

    def release(self, identity: Identity, index: int) -> None:
        """It was surely not stored."""
        hashed = hash_of(identity, index)
        for entries in (self._recent, self._older):
            entry = entries.find(hashed, identity)
            if entry >= 0:
                entries.forget_digest(entry)

    def _digest(self, identity: Identity, index: int) -> int:
        hashed = hash_of(identity, index)
        for entries in (self._recent, self._older):
            entry = entries.find(hashed, identity)
            if entry >= 0 and (digest := entries.digest(entry)):
                return digest
        return 0

    def _forget(self) -> None:
        now_s = self._now_s()
        passed_s = now_s - self._renewed_s
        if passed_s > _RECENT_S or len(self._recent) >= self._count_max:
            self._older = self._recent if passed_s <= 2 * _RECENT_S else Remembered()
            self._recent, self._renewed_s = Remembered(len(self._recent)), now_s
