"""Transactions whose outcome can be written, in the order in which they became so.

A step takes them from the left, whole ones only. Some may be put aside (their target is away) and
taken back later: they come first then, in the order in which they are given back, so nothing that
became ready after them passes them.

Who leaves in the middle (put aside, chosen by name, finished by a done mark) leaves his place in
the queue behind. A place counts only while its transaction is READY, and of several places of one
transaction the first does; so an old place is either passed over or comes too late to matter.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from halfhitch.core.transaction import State, Transaction, Trigger

#: A member of an enum is slow to reach, for `Enum` looks it up each time (until Python 3.12).
_ASIDE: Final = State.ASIDE
_PLANNED: Final = Trigger.PLANNED
_READY: Final = State.READY


class Ready:
    """See the module's text; bounded by what is unfinished."""

    def __init__(self, transactions: Iterable[Transaction] = ()) -> None:
        # Not a base class, or it could not be compiled. Bounded by what is unfinished.
        self._queue: deque[Transaction] = deque(transactions)

    def append(self, transaction: Transaction) -> None:
        """It is the last one now."""
        self._queue.append(transaction)

    def extendleft(self, transactions: Iterable[Transaction]) -> None:
        """Each of these becomes the first one, in turn."""
        self._queue.extendleft(transactions)

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._queue)

    def choose(self, message_count_max: int, bytes_max: int) -> list[Transaction]:
        """Take the next ones for a step. At least one, however large."""
        chosen: list[Transaction] = []
        messages = size_bytes = 0
        queue = self._queue
        while queue and (not chosen or (messages < message_count_max and size_bytes < bytes_max)):
            transaction = queue.popleft()
            if transaction.state is not _READY:
                continue  # finished by a done mark while it waited here, or put aside
            transaction.move(_PLANNED)
            chosen.append(transaction)
            messages += 1 if transaction.further is None else transaction.message_count
            size_bytes += transaction.size_bytes
        return chosen

    def look(self, message_count_max: int, bytes_max: int) -> list[Transaction]:
        """Whom `choose` would take; nobody is moved."""
        queue = self._queue
        while queue and queue[0].state is not _READY:
            queue.popleft()
        found: dict[Transaction, None] = {}
        messages = size_bytes = 0
        for transaction in queue:
            if found and (messages >= message_count_max or size_bytes >= bytes_max):
                break
            if transaction.state is _READY and transaction not in found:
                found[transaction] = None
                messages += transaction.message_count
                size_bytes += transaction.size_bytes
        return list(found)

    def take(self, transactions: Iterable[Transaction]) -> list[Transaction]:
        """Take these for a step."""
        chosen = list(transactions)
        for transaction in chosen:
            transaction.move(_PLANNED)
        return chosen

    def put_aside(self, transactions: Iterable[Transaction]) -> None:
        """No step takes these until they are taken back."""
        for transaction in transactions:
            transaction.move(Trigger.PUT_ASIDE)

    def take_back(self, transactions: Iterable[Transaction]) -> None:
        """They may be written again, before all others. Who was finished meanwhile stays so."""
        back = [t for t in transactions if t.state is _ASIDE]
        for transaction in back:
            transaction.move(Trigger.TAKEN_BACK)
        self._queue.extendleft(reversed(back))
