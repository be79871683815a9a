"""How many log lines strangers may cause.

Owns `LineBudget`: whoever sends rubbish thousands of times a second must not fill a disk with it,
and what happened must still be seen. One for each kind of line; for one thread.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final

_LINE_COUNT_MAX: Final = 10
_WINDOW_S: Final = 60.0


class LineBudget:
    """Ten lines a minute; the next one after that says how many were left out."""

    __slots__ = ("_count", "_count_max", "_left_out_count", "_now_s", "_since_s")

    def __init__(
        self, now_s: Callable[[], float] = monotonic, *, count_max: int = _LINE_COUNT_MAX
    ) -> None:
        """`count_max`: for lines that come in crowds when all is well."""
        self._now_s = now_s
        self._count_max = count_max
        self._since_s = now_s()
        self._count = 0
        self._left_out_count = 0

    def take(self) -> str | None:
        """What to put behind a line that may be written; None: it is left out."""
        now_s = self._now_s()
        if now_s - self._since_s >= _WINDOW_S:
            self._since_s, self._count = now_s, 0
        if self._count >= self._count_max:
            self._left_out_count += 1
            return None
        self._count += 1
        left_out_count, self._left_out_count = self._left_out_count, 0
        return f" ({left_out_count} such lines were left out)" if left_out_count else ""
