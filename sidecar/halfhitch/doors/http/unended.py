"""Transactions that were prepared at this door a moment ago and were not ended at it.

A door that is told to stop waits for them: their applications are in their local transactions, and
shall find it open when they commit. One that is older is not waited for, since checks ask about it.
"""

from collections.abc import Callable
from typing import Final

#: More are not remembered; then a stop waits for fewer.
_COUNT_MAX: Final = 100_000


class Unended:
    """Two generations, so that nothing has to be looked for: what was not ended is forgotten."""

    __slots__ = ("_now_s", "_older", "_patience_s", "_recent", "_turned_s")

    def __init__(self, patience_s: float, now_s: Callable[[], float]) -> None:
        self._patience_s, self._now_s = patience_s, now_s
        self._recent: dict[str, float] = {}
        self._older: dict[str, float] = {}
        self._turned_s = now_s()

    def prepared(self, transaction_id: str) -> None:
        """Messages of it were stored. Of two groups with one id the later one is remembered."""
        now_s = self._now_s()
        passed_s = now_s - self._turned_s
        if passed_s > self._patience_s or len(self._recent) >= _COUNT_MAX:
            self._older = self._recent if passed_s <= 2 * self._patience_s else {}
            self._recent, self._turned_s = {}, now_s
        self._recent[transaction_id] = now_s

    def ended(self, transaction_id: str) -> None:
        """Its end was answered."""
        if self._recent.pop(transaction_id, None) is None:
            self._older.pop(transaction_id, None)

    def any(self) -> bool:
        """Whether an end may still be on its way."""
        since_s = self._now_s() - self._patience_s
        return any(
            prepared_s > since_s
            for entries in (self._recent, self._older)
            for prepared_s in entries.values()
        )
