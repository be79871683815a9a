"""Which transactions were rolled back here a moment ago.

The owner of the half partition knows it, but it may be another instance, or may not have read the
roll-back yet. A message that is prepared under such an id would be acknowledged and then dropped.
"""

from typing import Final

from halfhitch.core.model import Identity
from halfhitch.core.remembered import hash_of
from halfhitch.service.transactions.lately import Lately

#: Of these twice, in 4 MB together.
_COUNT_MAX: Final = 50_000


class RolledBack:
    """For one thread."""

    def __init__(self, now_s: float, *, count_max: int = _COUNT_MAX) -> None:
        self._lately = Lately(now_s, count_max)

    def add(self, partition: int, identity: Identity, now_s: float) -> None:
        """Its roll-back is stored, or nobody knows."""
        self._lately.forget(now_s)
        self._lately.put(hash_of(identity, partition), identity, 0)

    def has(self, partition: int, identity: Identity, now_s: float) -> bool:
        """Whether one was stored a moment ago. In another half partition an id is another one."""
        self._lately.forget(now_s)
        return bool(self._lately.found(hash_of(identity, partition), identity))
