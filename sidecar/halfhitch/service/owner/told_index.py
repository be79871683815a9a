"""What the owner of a half partition tells the index of its undecided transactions.

A part in each turn, as the index has room. When everything is wanted anew, all that is undecided is
told again, and then that this was all. Whoever is young at that moment belongs to it: a takeover
finds a million at once, and each turn grows only so many of them old.
"""

from collections.abc import Callable
from typing import Final

from halfhitch.core.ledger import Ledger
from halfhitch.core.transaction import Transaction
from halfhitch.ports import Doubt, DoubtIndex

#: Doubts that are told in one turn.
TURN_MAX: Final = 1_000


class ToldIndex:
    """Belongs to one owner and its thread. Without an index nobody is told."""

    def __init__(self, partition: int, index: DoubtIndex | None) -> None:
        self._partition = partition
        self._index = index
        self._left_count: int | None = None  # of what is wanted anew; None: all is told
        self._grown_ms = 0  # from when on whoever was young when it was wanted is so no more
        self._is_grown = False  # and all of these stand in `changed`, or were told

    def tell(self, ledger: Ledger, doubt: Callable[[Transaction], Doubt]) -> None:
        """What is new, as far as there is room.

        Time is that of the ledger's last tick: by a later one some would be old already that no
        tick has met.
        """
        checks, index = ledger.checks, self._index
        now_ms = checks.now_ms or 0
        if index is None:
            checks.changed.clear()
            return
        if index.wants_all(self._partition):
            checks.changed = [t for t in ledger.pending() if t.is_told]
            self._left_count, self._is_grown = len(checks.changed), False
            self._grown_ms = now_ms + checks.rules.doubt_ms
        if self._left_count is not None and not self._is_grown:
            self._left_count = len(checks.changed)  # more came, behind all that was there
            self._is_grown = now_ms >= self._grown_ms and not checks.is_behind
        if checks.changed and index.has_room(TURN_MAX):
            now, checks.changed = checks.changed[:TURN_MAX], checks.changed[TURN_MAX:]
            doubts = [doubt(t) for t in now if t.resolution is None]
            index.doubtful(self._partition, doubts)
            if self._left_count is not None:
                self._left_count -= len(now)
        if self._left_count is not None and self._left_count <= 0 and self._is_grown:
            self._left_count = None
            index.told_all(self._partition)
