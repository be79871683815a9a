"""What this instance has taken a moment ago: which messages stand under which ids.

The owner of a half partition knows that for a quarter of an hour, but it may be another instance,
and it knows nothing before it has read a message. This memory is small and forgets soon; what slips
through is found by the owner, who puts it on record.
"""

from collections.abc import Callable, Sequence
from typing import Final

from halfhitch.core.model import Identity
from halfhitch.core.remembered import hash_of
from halfhitch.service.transactions.lately import Lately

#: Of these twice, in 15 MB together.
_COUNT_MAX: Final = 200_000


class Taken:
    """By message: a transaction of three is three of them. For one thread."""

    def __init__(self, now_s: Callable[[], float], *, count_max: int = _COUNT_MAX) -> None:
        self._now_s = now_s
        self._lately = Lately(now_s(), count_max)
        self._again = Lately(now_s(), count_max)

    def claim(self, identity: Identity, first_index: int, digests: Sequence[int]) -> bool:
        """These are about to be stored; False: others stand under this id, and nothing changes."""
        self._lately.forget(self._now_s())
        known = [self._digest(identity, i) for i in range(first_index, first_index + len(digests))]
        if any(one and one != digest for one, digest in zip(known, digests, strict=True)):
            return False
        if any(known):
            self._again.forget(self._now_s())
            self._again.put(hash_of(identity), identity, 0)
        for index, digest in enumerate(digests, first_index):
            self._lately.put(hash_of(identity, index), identity, digest)
        return True

    def has(self, identity: Identity, first_index: int, digests: Sequence[int]) -> bool:
        """Whether just these were taken."""
        self._lately.forget(self._now_s())
        return all(
            self._digest(identity, index) == digest
            for index, digest in enumerate(digests, first_index)
        )

    def claim_new(self, identity: Identity, digest: int) -> bool:
        """Its only message is about to be stored; False: one was taken, and nothing changes."""
        self._lately.forget(self._now_s())
        hashed = hash_of(identity)
        if self._lately.found(hashed, identity):
            return False
        self._lately.put(hashed, identity, digest)
        return True

    def was_taken_again(self, identity: Identity) -> bool:
        """Whether a message was claimed twice under this id."""
        self._again.forget(self._now_s())
        return any(self._again.found(hash_of(identity), identity))

    def release(self, identity: Identity, index: int) -> None:
        """It was surely not stored."""
        for entries, entry in self._lately.found(hash_of(identity, index), identity):
            entries.forget_digest(entry)

    def _digest(self, identity: Identity, index: int) -> int:
        for entries, entry in self._lately.found(hash_of(identity, index), identity):
            if digest := entries.digest(entry):
                return digest
        return 0
