"""Where a barrier's `record` by hand and the producer's block meet: by group and transaction id.

The block knows nothing of databases, and `record` nothing of the block it is called in. Where a
framework ends the local transaction (`with session.begin(): yield`, Django's ATOMIC_REQUESTS) the
block may come to its end before it: the messages would be committed, and the rows rolled back. So
`record` leaves word here how to find out, and the block asks before its commit. No I/O of its own.
"""

from collections.abc import Callable
from weakref import WeakValueDictionary

from halfhitch.client.errors import TransactionMisused


class Recorded:
    """What is known of the local transaction of one transaction."""

    __slots__ = ("__weakref__", "is_open")

    def __init__(self) -> None:
        #: Whether it has not ended; of the last record.
        self.is_open: Callable[[], bool] | None = None

    def require_end(self, transaction_id: str) -> None:
        """Raises TransactionMisused."""
        if self.is_open is not None and self.is_open():
            raise TransactionMisused(
                f"the local transaction of {transaction_id} was recorded and is still open: were"
                " the messages committed now, and that rolled back, they would stand without their"
                " rows. Nothing was sent. Commit it inside the producer's block, as its last line;"
                " or use the barrier's block (barrier.transaction), which ends both. Where a"
                " framework ends it (Django's ATOMIC_REQUESTS, `with session.begin(): yield`), the"
                " producer's block belongs around that"
            )


#: Alive as long as somebody may still commit the messages.
_EXPECTED: WeakValueDictionary[tuple[str, str], Recorded] = WeakValueDictionary()


def expect(group: str, transaction_id: str) -> Recorded:
    """As long as this is held, a record of the id is noted in it."""
    return _EXPECTED.setdefault((group, transaction_id), Recorded())


def note(group: str, transaction_id: str, is_open: Callable[[], bool]) -> None:
    """For the barrier: it has recorded the id, by hand. `is_open` raises nothing."""
    found = _EXPECTED.get((group, transaction_id))
    if found is not None:
        found.is_open = is_open
