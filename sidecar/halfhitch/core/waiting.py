"""Transactions whose check is due, by group, until there is a permit for it.

A group's queue stands beside those of others: whoever has no producer holds back nobody else. What
is decided while it waits stays in its queue until it is taken out there or swept away; whether one
of a queue still waits, its `is_waiting` says.
"""

from collections import deque
from typing import Final

from halfhitch.core.model import ProducerGroup
from halfhitch.core.transaction import Transaction

#: The queues are swept when they hold so many that do not wait, and these are the majority.
_LEFT_MAX: Final = 1_000

Queues = dict[ProducerGroup, deque[Transaction]]


class Waiting:
    """`fresh`: the next number is to be written; `again`: the last one is to be sent once more.

    `count` is how many wait.
    """

    def __init__(self) -> None:
        # Both are bounded by what is undecided.
        self.fresh: Queues = {}
        self.again: Queues = {}
        self.count = 0
        self._left_count = 0  # in the queues, but waiting no more

    def put(self, transaction: Transaction, *, is_first: bool = False) -> None:
        """It waits from now on; `is_first`: before all others."""
        transaction.is_waiting = True
        self.count += 1
        queues = self.fresh if transaction.is_delivered else self.again
        queue = queues.get(transaction.identity[0])
        if queue is None:
            queue = queues[transaction.identity[0]] = deque()  # bounded by what is undecided
        if is_first:
            queue.appendleft(transaction)
        else:
            queue.append(transaction)

    def take(self, queue: deque[Transaction], due_by_ms: int | None = None) -> Transaction | None:
        """The first of this queue that still waits; it does not any more.

        None as well when that one became due after `due_by_ms`.
        """
        first = self._first(queue)
        if first is None or not _is_due(first, due_by_ms):
            return None
        queue.popleft()
        first.is_waiting = False
        self.count -= 1
        return first

    def _first(self, queue: deque[Transaction]) -> Transaction | None:
        while queue:
            if queue[0].is_waiting:
                return queue[0]
            queue.popleft()
            self._left_count -= 1
        return None

    def leave(self, transaction: Transaction) -> None:
        """It waits no more; it stays where it is in its queue."""
        if not transaction.is_waiting:
            return
        transaction.is_waiting = False
        self.count -= 1
        self._left_count += 1
        if self._left_count > _LEFT_MAX and self._left_count > self.count:
            # A group without producers takes nobody out of its queue.
            self._left_count = 0
            for queues in (self.fresh, self.again):
                for group, queue in queues.items():
                    queues[group] = deque(t for t in queue if t.is_waiting)

    def demand(self, due_by_ms: int | None = None) -> dict[ProducerGroup, int]:
        """How many of each group wait, or a few more; groups whose first one is due by then."""
        counts: dict[ProducerGroup, int] = {}
        for queues in (self.fresh, self.again):
            for group in [group for group, queue in queues.items() if not queue]:
                del queues[group]
            for group, queue in queues.items():
                first = self._first(queue)
                if first is not None and _is_due(first, due_by_ms):
                    counts[group] = counts.get(group, 0) + len(queue)
        return counts


def _is_due(transaction: Transaction, due_by_ms: int | None) -> bool:
    return due_by_ms is None or transaction.due_ms <= due_by_ms
