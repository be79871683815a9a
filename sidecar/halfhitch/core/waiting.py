"""Transactions whose check is due, by group, until there is a permit for it.

A group's queue stands beside those of others: whoever has no producer holds back nobody else. What
is decided while it waits stays in its queue until it is taken out there or swept away; whether one
of a queue still waits, its `is_waiting` says.
"""

from collections import deque
from typing import Final

from halfhitch.core.model import ProducerGroup
from halfhitch.core.transaction import Transaction

#: The queues are looked through whenever so many have left them by being decided.
_LEFT_MAX: Final = 1_000


class Waiting:
    """`fresh`: the next number is to be written; `again`: the last one is to be sent once more."""

    def __init__(self) -> None:
        # Both are bounded by what is undecided.
        self.fresh: dict[ProducerGroup, deque[Transaction]] = {}
        self.again: dict[ProducerGroup, deque[Transaction]] = {}
        self._left_count = 0

    def put(self, transaction: Transaction, *, is_first: bool = False) -> None:
        """It waits from now on; `is_first`: before all others."""
        transaction.is_waiting = True
        queues = self.fresh if transaction.is_delivered else self.again
        queue = queues.get(transaction.identity[0])
        if queue is None:
            queue = queues[transaction.identity[0]] = deque()
        if is_first:
            queue.appendleft(transaction)
        else:
            queue.append(transaction)

    def left(self, transaction: Transaction) -> None:
        """It waits no more, and was not taken out of its queue."""
        if not transaction.is_waiting:
            return
        transaction.is_waiting = False
        self._left_count += 1
        if self._left_count % _LEFT_MAX == 0 and self._left_count * 2 > self._total():
            # A group without producers takes nobody out of its queue.
            self._left_count = 0
            for queues in (self.fresh, self.again):
                for group, queue in queues.items():
                    queues[group] = deque(t for t in queue if t.is_waiting)

    def demand(self) -> dict[ProducerGroup, int]:
        """How many of each group wait, or a few more."""
        counts: dict[ProducerGroup, int] = {}
        for queues in (self.fresh, self.again):
            for group in [group for group, queue in queues.items() if not queue]:
                del queues[group]
            for group, queue in queues.items():
                counts[group] = counts.get(group, 0) + len(queue)
        return counts

    @property
    def count(self) -> int:
        """About how many wait."""
        return max(0, self._total() - self._left_count)

    def _total(self) -> int:
        return sum(len(queue) for qs in (self.fresh, self.again) for queue in qs.values())
