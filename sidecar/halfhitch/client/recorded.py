"""Where a barrier's `record` by hand and the producer's block meet: by group and transaction id.

The block knows nothing of databases, and `record` nothing of the block it is called in. Where a
framework ends the local transaction (`with session.begin(): yield`, Django's ATOMIC_REQUESTS) the
block may come to its end before it: the messages would be committed, and the rows rolled back. Or
they were rolled back, and the exception was swallowed; that of `record` itself, too. So `record`
leaves word here how to find out, also when it raises, and the block asks before its commit. No I/O
of its own.

A record's row says that its id has committed, and not in which attempt. Attempts in one process
share what is known of their id, for `record` is told no more than that.
"""

from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Final
from weakref import ReferenceType, WeakValueDictionary, ref

from halfhitch.client.errors import TransactionMisused


class Local(Enum):
    """How a local transaction is, as far as the process that has recorded it can see."""

    OPEN = "open"
    ROLLED_BACK = "rolled back"
    #: The record stands.
    COMMITTED = "committed"
    #: It stands, and nobody knows whether it is this attempt's.
    COMMITTED_BEFORE = "committed before"
    #: It cannot be asked for.
    ENDED = "ended"
    #: `record` has raised, and no record stands.
    REFUSED = "refused"
    #: `record` has raised, and the table could not be read.
    REFUSED_UNREAD = "refused, and not known"
    #: Over, and nobody could say how: only a check can, which fences.
    UNKNOWN = "unknown"
    #: The same, for who should have awaited the question did not.
    UNASKED = "unasked"


_OVER: Final = (Local.COMMITTED, Local.ENDED)
_STANDS: Final = (Local.COMMITTED, Local.COMMITTED_BEFORE)


def _ended() -> Local:
    return Local.ENDED


def _never() -> bool:
    return False


def _judged(recorded: "ReferenceType[Recorded]", *, stands: bool | None) -> Local:
    """It is asked by itself only, so it is there."""
    found = recorded()
    assert found is not None
    return found.judged(stands=stands)


class Recorded:
    """What is known of the local transaction of one transaction."""

    __slots__ = ("__weakref__", "_is_proven", "_looked", "_state", "_state_awaited", "is_shared")

    def __init__(self) -> None:
        self.note(_ended)
        self._is_proven = _never
        #: By several attempts: of a record nobody knows whose it is.
        self.is_shared = False

    def note(
        self,
        state: Callable[[], Local],
        state_awaited: Callable[[], Awaitable[Local]] | None = None,
    ) -> None:
        """How it is; of the last record."""
        self._state, self._state_awaited = state, state_awaited
        self._looked: Local | None = None

    def note_made(self, is_proven: Callable[[], bool]) -> None:
        """Of the last record that was not refused."""
        self._is_proven = is_proven

    def judged(self, *, stands: bool | None) -> Local:
        """Of a record that was refused, and of what the table says."""
        if stands is None:
            return Local.REFUSED_UNREAD
        if not stands:
            return Local.REFUSED
        is_own = self._is_proven() and not self.is_shared
        return Local.COMMITTED if is_own else Local.COMMITTED_BEFORE

    async def look(self) -> None:
        """For asyncio's producer, just before `require_end`: the answer may have to be awaited."""
        asked = self._state_awaited
        if asked is not None:
            looked = await asked()
            if asked is self._state_awaited:
                self._looked = looked

    def _now(self) -> Local:
        state, self._looked = self._looked or self._state(), None
        if state in _OVER:  # a block asks twice, and it may have been asked of the database
            self.note(lambda: state)
        return state

    def stands(self) -> bool | None:
        """Whether a record is known to be committed, here or by an earlier attempt.

        None: one was refused, and nobody knows of an earlier attempt.
        """
        state = self._now()
        return None if state is Local.REFUSED_UNREAD else state in _STANDS

    def require_uncommitted(self, transaction_id: str) -> None:
        """Before a rollback that the program wants. Raises TransactionMisused."""
        if self.stands():
            raise TransactionMisused(
                f"a rollback of the messages of transaction {transaction_id}, whose record is"
                " committed, by this attempt or by an earlier one: its rows stand, and the messages"
                " would be lost. Nothing was sent. Commit them (tx.commit()) if this attempt has"
                " sent all of them, or leave them to the check-back, which commits all that were"
                " sent under this id"
            )

    def require_end(self, transaction_id: str) -> None:
        """Raises TransactionMisused."""
        state = self._now()
        if state is Local.COMMITTED_BEFORE:
            raise TransactionMisused(
                f"an earlier attempt of transaction {transaction_id} has committed, for all that is"
                " known: the `record` of this one has raised an exception that was swallowed, or"
                " its local transaction was rolled back. Nothing was sent: a commit of this attempt"
                " might leave out what the earlier one has sent. Leave the messages to the"
                " check-back, which commits them all"
            )
        if state in (Local.REFUSED, Local.REFUSED_UNREAD):
            raise TransactionMisused(
                f"the `record` of transaction {transaction_id} has raised an exception, and that"
                " was swallowed: no record of it is known to stand, so the messages would stand"
                " without their rows. Nothing was sent: the check-back settles it. Let the"
                " exceptions of `record` leave the local transaction and the block"
            )
        if state is Local.UNKNOWN:
            raise TransactionMisused(
                f"the local transaction of {transaction_id} was recorded, and whether it was"
                " committed is not known: it was rolled back, its commit was refused or cut off,"
                " its connection was lost or closed, or the table could not be read. Nothing was"
                " sent: the check-back settles it. Do not end it by hand, for its rows may stand"
            )
        if state is Local.UNASKED:
            raise TransactionMisused(
                f"the local transaction of {transaction_id} was recorded by an AsyncBarrier, and"
                " has not told of a commit. Whether it has committed the barrier would await, and"
                " this producer cannot. Nothing was sent: the check-back settles it. Use"
                " an AsyncTransactionProducer with it"
            )
        if state is Local.ROLLED_BACK:
            raise TransactionMisused(
                f"the local transaction of {transaction_id} was recorded and is rolled back, or was"
                " closed without a commit: the messages would stand without their rows. Nothing"
                " was sent. Let the exception that ended it leave the block, or call tx.rollback()"
            )
        if state is Local.OPEN:
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
    return _EXPECTED.setdefault(_key(group, transaction_id), Recorded())


def expect_of_another(group: str, transaction_id: str) -> Recorded:
    """The same, for an attempt that begins. One before it may be alive, and its record, too."""
    made = Recorded()
    found = _EXPECTED.setdefault(_key(group, transaction_id), made)
    if found is not made:
        found.is_shared = True
    return found


def note(
    group: str,
    transaction_id: str,
    state: Callable[[], Local],
    state_awaited: Callable[[], Awaitable[Local]] | None = None,
    *,
    is_proven: Callable[[], bool] = _never,
) -> None:
    """For the barrier: it has recorded the id, by hand. `state` raises nothing.

    `state_awaited`: the same for who can await, and knows more. `is_proven`: that this very record
    is committed. The table cannot tell that from another attempt's.
    """
    found = _EXPECTED.get(_key(group, transaction_id))
    if found is not None:
        found.note(state, state_awaited)
        found.note_made(is_proven)


def note_refused(
    group: str,
    transaction_id: str,
    stands: Callable[[], bool | None],
    stands_awaited: Callable[[], Awaitable[bool | None]] | None = None,
) -> None:
    """For the barrier: `record` by hand has raised. The table is read only if the block asks.

    `stands` says whether it has a record all the same, of an earlier attempt or another thread's.
    None: it could not be read.
    """
    if not isinstance(transaction_id, str):  # that was what it has refused
        return
    found = _EXPECTED.get(_key(group, transaction_id))
    if found is None:
        return
    judged = partial(_judged, ref(found))  # it will hold this
    if stands_awaited is None:
        found.note(lambda: judged(stands=stands()))
        return
    awaited = stands_awaited

    async def state_awaited() -> Local:
        return judged(stands=await awaited())

    found.note(lambda: judged(stands=stands()), state_awaited)


def _key(group: str, transaction_id: str) -> tuple[str, str]:
    """A member of `class Group(str, Enum)` is equal to its text, and is hashed as its name."""
    return str.__str__(group), str.__str__(transaction_id)
