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
from halfhitch.barrier.told import Look, Told, refused
from halfhitch.client import recorded
from halfhitch.client.recorded import Local
from halfhitch.client.values import LocalTransactionState

#: Of sqlite3's connections, which take no weak reference, so many at most are kept alive.
KEPT_COUNT: Final = 100


class _Kept:
    __slots__ = ("__weakref__", "connection")

    def __init__(self, connection: Any) -> None:
        self.connection = connection


_KEPT: Final[deque[ReferenceType[_Kept]]] = deque()  # at most KEPT_COUNT


@contextmanager
def refusals_noted(
    group: str,
    transaction_id: str,
    tell: Callable[[Look], Told],
    settle: Callable[[], LocalTransactionState],
) -> Iterator[None]:
    """Around a record by hand: one that raises leaves word, too."""
    try:
        yield
    except BaseException as error:
        is_known = stands(error)
        look = Look()

        def state(_: LocalTransactionState) -> Local:
            return refused(Told.UNREAD if is_known else tell(look), is_known=is_known)

        word = recorded.Word(state, settle=settle, reason=look.reason)
        recorded.note(group, transaction_id, word, is_refused=True)
        raise


class ByHand:
    """Of one record. It keeps no connection from being closed when the program drops it."""

    def __init__(
        self, connection: Any, tell: Callable[[], Told], *, is_numbered: bool = False
    ) -> None:
        """`tell` reads the table; `is_numbered`: it knows this transaction's rows."""
        self._connection = _reference(connection)
        self._tell = tell
        self._is_numbered = is_numbered

    def state(self, _: LocalTransactionState = LocalTransactionState.COMMIT) -> Local:
        """How it is now, by the table in any case."""
        connection = self._connection()
        is_lost = connection is None or guards.is_lost(connection) or guards.is_busy(connection)
        in_transaction = None if is_lost else guards.is_in_transaction(connection)
        told = self._tell()
        if told is Told.NOTHING and in_transaction:
            return Local.OPEN
        # Else who has used up the pool that the table is read over could commit no messages.
        if told is Told.UNREAD and in_transaction is False:
            return Local.ENDED
        if told is Told.COMMITTED and self._is_numbered:
            return Local.STANDS
        return _TOLD.get(told, Local.UNKNOWN)


#: On databases that number no transactions nobody knows whose a record is (docs/barrier.md).
_TOLD: Final[dict[Told, Local]] = {
    Told.OWN: Local.COMMITTED,
    Told.COMMITTED: Local.COMMITTED,
    Told.FENCED: Local.ROLLED_BACK,
}


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
