"""Where a barrier's `record` by hand and the producer's block meet: by group and transaction id.

The block knows nothing of databases, and `record` nothing of the block it is called in. Where a
framework ends the local transaction (`with session.begin(): yield`, Django's ATOMIC_REQUESTS) the
block may come to its end before it: the messages would be committed, and the rows rolled back. Or
they were rolled back, and the exception was swallowed; that of `record` itself, too. So `record`
leaves word here how to find out, also when it raises, and the block asks before its end. No I/O of
its own.

What may go out is a table (`_ENDS`), by the state of the local transaction. Unknown is never turned
into no: a rollback is sent when surely no record is committed nor will be, for which the barrier
fences; a commit when one stands that is this attempt's.

A record's row says that its id has committed, and not in which attempt. Several may be alive in one
process, and `record` is told no more than the id. So its word goes to all of them, and is one
attempt's own: that of the thread or task which calls it, the newest if it has several.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from threading import local
from typing import Any, Final, NamedTuple
from weakref import ReferenceType, WeakValueDictionary, ref

from halfhitch.client.errors import TransactionMisused
from halfhitch.client.values import LocalTransactionState


class Local(Enum):
    """How a local transaction is, as far as the process that has recorded it can see."""

    #: By no barrier.
    UNRECORDED = "not recorded"
    OPEN = "open"
    ROLLED_BACK = "rolled back"
    #: The record stands, and is this attempt's.
    COMMITTED = "committed"
    #: It stands, and whose it is only the id tells: nobody else has one that was made here.
    STANDS = "stands"
    #: It stands, and nobody knows whether it is this attempt's.
    COMMITTED_BEFORE = "committed before"
    #: It cannot be asked for.
    ENDED = "ended"
    #: `record` has raised, and no record is known to stand.
    REFUSED = "refused"
    #: Over, and nobody could say how: only a check can, which fences.
    UNKNOWN = "unknown"
    #: The same, for who should have awaited the question did not.
    UNASKED = "unasked"


class _Rollback(Enum):
    """Whether one may be sent."""

    SENT = "sent"
    REFUSED = "refused"
    #: If the barrier says so, which fences the id.
    ASKED = "asked"


def _never() -> bool:
    return False


def _unsettled() -> LocalTransactionState:
    return LocalTransactionState.UNKNOWN


class Word(NamedTuple):
    """What `record` by hand leaves. Nothing of it raises.

    A state is asked for with what is to be sent: before a rollback one may look more closely.
    """

    state: Callable[[LocalTransactionState], Local]
    #: The same for who can await, and knows more.
    state_awaited: Callable[[LocalTransactionState], Awaitable[Local]] | None = None
    #: What a check would be answered: ROLLBACK says that no record will ever stand.
    settle: Callable[[], LocalTransactionState] = _unsettled
    settle_awaited: Callable[[], Awaitable[LocalTransactionState]] | None = None
    #: This very record is committed. The table cannot tell that from another attempt's.
    is_proven: Callable[[], bool] = _never
    #: Why the table could not tell, of the last question; a sentence's end, or nothing.
    reason: Callable[[], str] = str


class _Note:
    """Of the last word that an attempt has heard."""

    __slots__ = ("is_own", "known", "looked", "settled", "word")

    def __init__(self, word: Word, *, is_own: bool) -> None:
        self.word = word
        self.is_own = is_own
        #: For good.
        self.known: Local | None = None
        #: What was awaited, for the next question.
        self.looked: Local | None = None
        self.settled: LocalTransactionState | None = None


class Recorded:
    """What is known of the local transaction of one attempt."""

    __slots__ = ("__weakref__", "_attempts", "_is_given", "_made", "_note", "is_over", "place")

    def __init__(self, attempts: "_Attempts", *, is_given: bool) -> None:
        #: Alive as long as one of them is.
        self._attempts = attempts
        self._is_given = is_given
        self._note = None if attempts.word is None else _Note(attempts.word, is_own=False)
        #: The attempt's own last one that was not refused.
        self._made: Word | None = None
        #: Its block was left, or its end is sent: what is recorded now is another's.
        self.is_over = False
        #: Where it was used last.
        self.place = _place()

    def used(self) -> None:
        """Here, just now: a record that is made here is its own."""
        self.place = _place()

    def hear(self, word: Word, *, is_own: bool, is_refused: bool) -> None:
        """The last word counts; a record that was refused takes back none that was made."""
        self._note = _Note(word, is_own=is_own)
        if is_own and not is_refused:
            self._made = word

    async def look(self, *, is_rollback: bool = False) -> None:
        """For asyncio's producer, just before an end: the answer may have to be awaited."""
        note = self._note
        if note is None or note.word.state_awaited is None or self._is_proven():
            return
        note.looked = await note.word.state_awaited(_wanted(is_rollback=is_rollback))
        rollback, _ = _ENDS[self._judged(note.looked, note)]
        settle = note.word.settle_awaited
        if is_rollback and settle is not None and rollback is _Rollback.ASKED:
            note.settled = await settle()

    def _is_proven(self) -> bool:
        return self._made is not None and self._made.is_proven()

    def _judged(self, state: Local, note: _Note) -> Local:
        """Of this attempt, whoever has recorded."""
        if state is Local.STANDS:
            is_told_apart = note.is_own and not self._is_given
            return Local.COMMITTED if is_told_apart else Local.COMMITTED_BEFORE
        return state if note.is_own else _OF_ANOTHER.get(state, state)

    def _now(self, *, is_rollback: bool = False) -> Local:
        if self._is_proven():
            return Local.COMMITTED
        note = self._note
        if note is None:
            return Local.UNRECORDED
        state = note.known or note.looked or note.word.state(_wanted(is_rollback=is_rollback))
        note.looked = None
        if state in _OVER:  # a block asks twice, and it may have been asked of the database
            note.known = state
        return self._judged(state, note)

    def _rollback(self) -> _Rollback:
        """ASKED: and nobody knows."""
        rollback, _ = _ENDS[self._now(is_rollback=True)]
        note = self._note
        if rollback is not _Rollback.ASKED or note is None:
            return rollback
        settled, note.settled = note.settled or note.word.settle(), None
        return _SETTLED[settled]

    def may_roll_back(self) -> bool:
        """Surely no record is committed, nor will be, by whatever attempt."""
        return self._rollback() is _Rollback.SENT

    def require_uncommitted(self, transaction_id: str) -> None:
        """Before a rollback that the program wants. Raises TransactionMisused."""
        rollback = self._rollback()
        if rollback is _Rollback.REFUSED:
            raise TransactionMisused(
                f"a rollback of the messages of transaction {transaction_id}, whose record is"
                " committed, by this attempt or by an earlier one: its rows stand, and the messages"
                " would be lost. Nothing was sent. Commit them (tx.commit()) if this attempt has"
                " sent all of them, or leave them to the check-back, which commits all that were"
                " sent under this id"
            )
        if rollback is _Rollback.ASKED:
            raise TransactionMisused(
                f"a rollback of the messages of transaction {transaction_id}, whose local"
                " transaction was recorded, and whether that is committed, or will be, is not known"
                f"{self._reason()}. Nothing was sent, for its rows may stand, and the messages"
                " would be lost: the check-back settles it, and rolls them back if there is no"
                " record"
            )

    def require_end(self, transaction_id: str) -> None:
        """Before a commit. Raises TransactionMisused."""
        refusal = _ENDS[self._now()][1]
        if refusal is not None:
            raise TransactionMisused(refusal.format(id=transaction_id, reason=self._reason()))

    def _reason(self) -> str:
        reason = "" if self._note is None else self._note.word.reason()
        return reason and f" ({reason})"


def _wanted(*, is_rollback: bool) -> LocalTransactionState:
    return LocalTransactionState.ROLLBACK if is_rollback else LocalTransactionState.COMMIT


#: What another attempt's word says of this one. What stands may be less than what this has sent,
#: and more.
_OF_ANOTHER: Final[Mapping[Local, Local]] = {
    Local.COMMITTED: Local.COMMITTED_BEFORE,
    Local.ENDED: Local.UNKNOWN,
    Local.OPEN: Local.UNKNOWN,  # it may be about to commit, and an id is ended once
}
_OVER: Final = (Local.COMMITTED, Local.ENDED)

_SETTLED: Final[Mapping[LocalTransactionState, _Rollback]] = {
    LocalTransactionState.COMMIT: _Rollback.REFUSED,
    LocalTransactionState.ROLLBACK: _Rollback.SENT,
    LocalTransactionState.UNKNOWN: _Rollback.ASKED,
}

#: Of each state: may a rollback be sent, and why no commit (None: it is).
_ENDS: Final[Mapping[Local, tuple[_Rollback, str | None]]] = {
    Local.UNRECORDED: (_Rollback.SENT, None),
    Local.COMMITTED: (_Rollback.REFUSED, None),
    Local.ENDED: (_Rollback.ASKED, None),
    Local.OPEN: (
        _Rollback.SENT,
        (
            "the local transaction of {id} was recorded and is still open: were the messages"
            " committed now, and that rolled back, they would stand without their rows. Nothing was"
            " sent. Commit it inside the producer's block, as its last line; or use the barrier's"
            " block (barrier.transaction), which ends both. Where a framework ends it (Django's"
            " ATOMIC_REQUESTS, `with session.begin(): yield`), the producer's block belongs around"
            " that"
        ),
    ),
    Local.ROLLED_BACK: (
        _Rollback.ASKED,
        (
            "the local transaction of {id} was recorded and is rolled back, or was closed without"
            " a commit: the messages would stand without their rows. Nothing was sent. Let the"
            " exception that ended it leave the block, or call tx.rollback()"
        ),
    ),
    Local.COMMITTED_BEFORE: (
        _Rollback.REFUSED,
        (
            "a record of transaction {id} is committed, by an earlier attempt or by this one, and"
            " which of them is not known: a `record` here has raised, and that was swallowed; or a"
            " local transaction was rolled back or lost; or another attempt with this id is alive;"
            " or nobody heard of this one's commit (one past SQLAlchemy, or that was cut off)."
            " Nothing was sent: a commit of this attempt might leave out what the other one has"
            " sent. The rows stand, so do not repeat the work; leave the messages to the"
            " check-back, which commits them all"
        ),
    ),
    Local.REFUSED: (
        _Rollback.ASKED,
        (
            "the `record` of transaction {id} has raised an exception, and that was swallowed: no"
            " record of it is known to stand{reason}, so the messages would stand without their"
            " rows. Nothing was sent: the check-back settles it. Let the exceptions of `record`"
            " leave the local transaction and the block"
        ),
    ),
    Local.UNKNOWN: (
        _Rollback.ASKED,
        (
            "the local transaction of {id} was recorded, and whether it was committed is not"
            " known{reason}: it was rolled back, its commit was refused or cut off, its connection"
            " was lost or closed, or the table could not be read. Nothing was sent: the check-back"
            " settles it. Do not end it by hand, for its rows may stand"
        ),
    ),
    Local.UNASKED: (
        _Rollback.ASKED,
        (
            "the local transaction of {id} was recorded by an AsyncBarrier, and has not told of a"
            " commit. Whether it has committed the barrier would await, and this producer cannot."
            " Nothing was sent: the check-back settles it. Use an AsyncTransactionProducer with it"
        ),
    ),
}


class _Attempts:
    """Those of one id that are alive in this process, the oldest first."""

    __slots__ = ("__weakref__", "_all", "word")

    def __init__(self) -> None:
        self._all: list[ReferenceType[Recorded]] = []
        #: The last one, for those to come.
        self.word: Word | None = None

    def begin(self, *, is_given: bool) -> Recorded:
        """Another one. Each step is one step of a list's, so there is no lock."""
        made = Recorded(self, is_given=is_given)
        self._all.append(ref(made, self._all.remove))
        return made

    def hear(self, word: Word, *, is_refused: bool) -> None:
        """All of them, and those to come."""
        self.word = word
        alive = self.alive()
        own = _whose(alive)
        for one in alive:
            one.hear(word, is_own=one is own, is_refused=is_refused)

    def alive(self) -> list[Recorded]:
        """Now."""
        found = (reference() for reference in list(self._all))
        return [one for one in found if one is not None]


def _whose(alive: list[Recorded]) -> Recorded | None:
    """A record that is made here and now; None: that of any of them."""
    running = [one for one in alive if not one.is_over] or alive
    here = _place()
    for one in reversed(running):
        if one.place == here:
            return one
    return running[0] if len(running) == 1 else None


#: A thread's own object: its number may be another one's later.
_THREAD: Final = local()


def _place() -> tuple[object, "ReferenceType[Any] | None"]:
    """The thread, and its task if it has one."""
    try:
        thread = _THREAD.mark
    except AttributeError:
        thread = _THREAD.mark = object()
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()  # noqa: SLF001 - raises nothing
    task = None if asyncio is None or loop is None else asyncio.current_task(loop)
    return thread, None if task is None else ref(task)


#: Alive as long as somebody may still end the messages.
_EXPECTED: Final[WeakValueDictionary[tuple[str, str], _Attempts]] = WeakValueDictionary()


def attempt(group: str, transaction_id: str, *, is_given: bool = True) -> Recorded:
    """One that begins; as long as this is held, a record of the id is noted in it.

    `is_given`: the id was, by the program, so other processes may have it, too.
    """
    return _EXPECTED.setdefault(_key(group, transaction_id), _Attempts()).begin(is_given=is_given)


def note(group: str, transaction_id: str, word: Word, *, is_refused: bool = False) -> None:
    """For the barrier: `record` by hand of this id was made, or has raised (`is_refused`)."""
    if not isinstance(transaction_id, str):  # that was what it has refused
        return
    found = _EXPECTED.get(_key(group, transaction_id))
    if found is not None:
        found.hear(word, is_refused=is_refused)


def _key(group: str, transaction_id: str) -> tuple[str, str]:
    """A member of `class Group(str, Enum)` is equal to its text, and is hashed as its name."""
    return str.__str__(group), str.__str__(transaction_id)
