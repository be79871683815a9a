"""What all owners of a process have done within the last moments.

They share its processors, and those of Kafka where it is small. A step costs several milliseconds
of them whatever is in it, so owners whose steps are small one by one may still be busy with nothing
but steps. Each is told how many of them work, and how much, and rests accordingly (pace.py).
"""

import threading
from collections.abc import Callable
from typing import Final

#: Short, for a load that has just begun is to be noticed; long enough for several steps.
WINDOW_S: Final = 0.1


class Rhythm:
    """Used by the threads of all owners.

    `is_awaited`: whether somebody waits for what the owner of this half partition does. Such a one
    works by itself: a rest would be added to what is waited for.
    """

    def __init__(self, is_awaited: Callable[[int], bool] = lambda _: False) -> None:
        self.is_awaited = is_awaited
        self._lock = threading.Lock()
        self._window = 0
        self._transaction_count = self._last_transaction_count = 0
        self._owners: set[int] = set()
        self._last_owners: set[int] = set()

    def stepped(self, partition: int, transaction_count: int, now_s: float) -> tuple[int, int]:
        """An owner has written a step. Gives the owners that work, and their transactions.

        Of the window of this moment or of the one before, whichever has more.
        """
        is_awaited = self.is_awaited(partition)
        window = int(now_s / WINDOW_S)
        with self._lock:
            if window != self._window:
                is_next = window == self._window + 1
                self._last_owners = self._owners if is_next else set()
                self._last_transaction_count = self._transaction_count if is_next else 0
                self._window, self._transaction_count, self._owners = window, 0, set()
            self._owners.add(partition)
            self._transaction_count += transaction_count
            if is_awaited:
                return 1, transaction_count
            return (
                max(len(self._owners), len(self._last_owners)),
                max(self._transaction_count, self._last_transaction_count),
            )
