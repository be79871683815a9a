"""What this instance knows of transactions of the last minute: a compact map that soon forgets."""

from typing import Final

from halfhitch.core.model import Identity
from halfhitch.core.remembered import Remembered

#: Of what is older the owner of its half partition knows; it is kept twice as long at most.
RECENT_S: Final = 60.0


class Lately:
    """Entries by identity, with a digest each, in two generations. For one thread."""

    def __init__(self, now_s: float, count_max: int) -> None:
        """`count_max`: of each generation."""
        self._count_max = count_max
        self._recent = Remembered()
        self._older = Remembered()
        self._renewed_s = now_s

    def put(self, hashed: int, identity: Identity, digest: int) -> None:
        """From now on it is known."""
        self._recent.put(hashed, identity, 0, digest)

    def found(self, hashed: int, identity: Identity) -> list[tuple[Remembered, int]]:
        """Its entries, the newest first: each with the map that it is in."""
        both = (
            (entries, entries.find(hashed, identity)) for entries in (self._recent, self._older)
        )
        return [(entries, entry) for entries, entry in both if entry >= 0]

    def forget(self, now_s: float) -> None:
        """Before anything is looked for or put."""
        passed_s = now_s - self._renewed_s
        if passed_s > RECENT_S or len(self._recent) >= self._count_max:
            self._older = self._recent if passed_s <= 2 * RECENT_S else Remembered()
            self._recent, self._renewed_s = Remembered(len(self._recent)), now_s
