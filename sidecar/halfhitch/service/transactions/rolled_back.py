"""Which transactions were rolled back here a moment ago.

The owner of the half partition knows it, but it may be another instance, or may not have read the
roll-back yet. A message that is prepared under such an id would be acknowledged and then dropped.
"""

from typing import Final

from halfhitch.core.model import Identity
from halfhitch.core.remembered import Remembered, hash_of

#: As long as an instance knows which messages stand under which ids (taken.py): twice as long at
#: most.
_RECENT_S: Final = 60.0
#: The same by count: the two together take 4 MB.
_COUNT_MAX: Final = 50_000


class RolledBack:
    """For one thread."""

    def __init__(self, now_s: float, *, count_max: int = _COUNT_MAX) -> None:
        self._count_max = count_max
        self._recent = Remembered()
        self._older = Remembered()
        self._renewed_s = now_s

    def add(self, partition: int, identity: Identity, now_s: float) -> None:
        """Its roll-back is stored, or nobody knows."""
        self._forget(now_s)
        self._recent.put(hash_of(identity, partition), identity, 0, 0)

    def has(self, partition: int, identity: Identity, now_s: float) -> bool:
        """Whether one was stored a moment ago. In another half partition an id is another one."""
        self._forget(now_s)
        hashed = hash_of(identity, partition)
        return self._recent.find(hashed, identity) >= 0 or self._older.find(hashed, identity) >= 0

    def _forget(self, now_s: float) -> None:
        passed_s = now_s - self._renewed_s
        if passed_s > _RECENT_S or len(self._recent) >= self._count_max:
            self._older = self._recent if passed_s <= 2 * _RECENT_S else Remembered()
            self._recent, self._renewed_s = Remembered(), now_s
