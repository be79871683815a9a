"""How the local transaction of a record by hand is, on a plain connection.

Drivers call nobody at a commit or a rollback, and a connection that is in a transaction may be in
a later one, of somebody else's by now (a pool's), so no statement is run on it. Some drivers tell
that it is in none; whether that was a commit, only the table tells.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from weakref import ReferenceType, ref

from halfhitch.barrier import guards
from halfhitch.barrier.errors import stands
from halfhitch.client import recorded
from halfhitch.client.recorded import Local

#: Of sqlite3's connections, which take no weak reference, so many at most are kept alive.
KEPT_COUNT: Final = 100


class _Kept:
    __slots__ = ("__weakref__", "connection")

    def __init__(self, connection: Any) -> None:
        self.connection = connection


_KEPT: Final[deque[ReferenceType[_Kept]]] = deque()  # at most KEPT_COUNT


@contextmanager
def refusals_noted(
    group: str, transaction_id: str, is_committed: Callable[[], bool | None]
) -> Iterator[None]:
    """Around a record by hand: one that raises leaves word, too."""
    try:
        yield
    except BaseException as error:
        is_known = stands(error)
        recorded.note_refused(group, transaction_id, lambda: is_known or is_committed())
        raise


class ByHand:
    """Of one record. It keeps no connection from being closed when the program drops it."""

    def __init__(self, connection: Any, is_committed: Callable[[], bool | None]) -> None:
        """`is_committed` reads the table, None if it cannot be read."""
        self._connection = _reference(connection)
        self._is_committed = is_committed

    def state(self) -> Local:
        """How it is now."""
        connection = self._connection()
        is_lost = connection is None or guards.is_lost(connection)
        in_transaction = None if is_lost else guards.is_in_transaction(connection)
        stands = self._is_committed()
        if stands:
            return Local.COMMITTED
        if in_transaction:
            return Local.OPEN
        # Else who has used up the pool that the table is read over could commit no messages.
        is_believed = stands is None and not is_lost
        return Local.ENDED if is_believed else Local.UNKNOWN


def _reference(connection: Any) -> Callable[[], Any]:
    """Gives it as long as it lives."""
    try:
        return ref(connection)
    except TypeError:
        kept = _Kept(connection)
    _KEPT.append(ref(kept))
    while len(_KEPT) > KEPT_COUNT:
        oldest = _KEPT.popleft()()
        if oldest is not None:
            oldest.connection = None
    return lambda: kept.connection
