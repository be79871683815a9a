"""Every way that a local transaction recorded by hand can go, and every end that is asked for.

What the table says is the model's; the barriers' notes of the local transaction, and what the
client makes of both, are real. The model knows which rows may stand in the end, and judges what is
sent: a commit is right if this attempt's surely do, a rollback if surely none do. Nothing is always
right, for then the check-back answers.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import pytest
from sqlalchemy import create_engine, event
from sqlalchemy.exc import DBAPIError

from halfhitch.barrier import Barrier, DbapiBarrier
from halfhitch.barrier.told import Told
from halfhitch.client import LocalTransactionState, TransactionMisused, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from halfhitch.barrier.rules import Question
    from halfhitch.barrier.told import Look
    from halfhitch.client.recorded import Recorded, Word

GROUP, ID = "shop", "a"


class Own(Enum):
    """What truly became of the local transaction that was recorded."""

    OPEN = "open"
    OVER = "over, and not committed"
    COMMITTED = "committed"
    #: The row will be seen later, or never.
    MAY_COME = "may come"


class Other(Enum):
    """What another process has done under the id."""

    NOTHING = "nothing"
    COMMITTED = "committed, and sent more"
    MAY_COME = "about to commit"
    FENCED = "fenced, as a check does"


class Table(Enum):
    """How it answers."""

    SURE = "sure"
    #: What is seen in it may be lost yet.
    UNSURE = "unsure"
    UNREAD = "unread"


@dataclass
class World:
    own: Own
    other: Other
    table: Table
    #: The database tells which transaction has written a row.
    is_numbered: bool
    is_fenced: bool = False

    @property
    def is_possible(self) -> bool:
        """A row is written once. Who waits behind an open one is left to the documents."""
        return self.own is Own.OVER or self.other is Other.NOTHING

    def told(self) -> Told:
        """By a look at the table."""
        if self.table is Table.UNREAD:
            return Told.UNREAD
        is_seen = self.own is Own.COMMITTED or self.other in (Other.COMMITTED, Other.FENCED)
        if not is_seen:
            return Told.NOTHING
        if self.table is Table.UNSURE:
            return Told.UNSURE
        if self.other is Other.FENCED:
            return Told.FENCED
        return Told.OWN if self.is_numbered and self.own is Own.COMMITTED else Told.COMMITTED

    def settle(self) -> LocalTransactionState:
        """As a check: a row that is not committed yet keeps the fence out until it is too late."""
        told = self.told()
        if told is Told.NOTHING and not {self.own, self.other} & {
            Own.OPEN,
            Own.MAY_COME,
            Other.MAY_COME,
        }:
            self.is_fenced = True
            return LocalTransactionState.ROLLBACK
        if told in (Told.OWN, Told.COMMITTED):
            return LocalTransactionState.COMMIT
        is_fence = told is Told.FENCED
        return LocalTransactionState.ROLLBACK if is_fence else LocalTransactionState.UNKNOWN

    def standing(self, way: Way) -> set[str]:
        """Whose rows may, in the end."""
        if self.own is Own.COMMITTED:
            is_safe = way.is_heard or self.table is not Table.UNSURE
            return {"own"} if is_safe else {"own", "nobody's"}
        if self.own is Own.MAY_COME:
            return {"own", "nobody's"}
        if self.other is Other.COMMITTED:
            return {"other"} if self.table is not Table.UNSURE else {"other", "nobody's"}
        if self.other is Other.MAY_COME and not self.is_fenced:
            return {"other", "nobody's"}
        return {"nobody's"}


@dataclass(frozen=True)
class Way:
    """A program's, with its local transaction; `become`: what may truly have become of that."""

    name: str
    go: Callable[[Any], Any]
    become: tuple[Own, ...]
    is_plain: bool = False
    #: SQLAlchemy's commit has come back.
    is_heard: bool = False
    is_refused: bool = False

    def __str__(self) -> str:
        return f"{self.name}-{'plain' if self.is_plain else 'sqlalchemy'}"


def is_cut(connection: Any) -> None:
    """Its COMMIT; whether the database has carried it out is not told."""

    def raises(_: object) -> None:
        raise sqlite3.OperationalError("the connection was lost")

    dialect = connection.engine.dialect
    dialect.do_commit = raises
    with suppress(DBAPIError):
        connection.commit()
    del dialect.do_commit
    connection.rollback()


def nothing(_: object) -> None:
    """It is still at work."""


def goes_on(connection: Any) -> None:
    """In another transaction, of which nobody is told that it is one."""
    execute = getattr(connection, "exec_driver_sql", None) or connection.execute
    execute("COMMIT")
    execute("DELETE FROM halfhitch_barrier WHERE outcome = 'none such'")


IN_DOUBT = (Own.COMMITTED, Own.OVER, Own.MAY_COME)
WAYS = (
    Way("open", nothing, (Own.OPEN,)),
    Way("rolls back", lambda one: one.rollback(), (Own.OVER,)),
    Way("commits", lambda one: one.commit(), (Own.COMMITTED,), is_heard=True),
    Way("commits past", lambda one: one.exec_driver_sql("COMMIT"), (Own.COMMITTED,)),
    Way("commits past and goes on", goes_on, (Own.COMMITTED,)),
    Way("rolls back past", lambda one: one.exec_driver_sql("ROLLBACK"), (Own.OVER,)),
    Way("is cut", is_cut, IN_DOUBT),
    Way("invalidates", lambda one: one.invalidate(), (Own.OVER,)),
    Way("closes", lambda one: one.close(), (Own.OVER,)),
    Way("is refused", nothing, (Own.OVER,), is_refused=True),
    Way("open", nothing, (Own.OPEN,), is_plain=True),
    Way("rolls back", lambda one: one.rollback(), (Own.OVER,), is_plain=True),
    Way("commits", lambda one: one.commit(), (Own.COMMITTED,), is_plain=True),
    Way("commits and goes on", goes_on, (Own.COMMITTED,), is_plain=True),
    Way("is cut", lambda one: one.close(), IN_DOUBT, is_plain=True),
    Way("is refused", nothing, (Own.OVER,), is_plain=True, is_refused=True),
)


class AskedOfTheModel:
    """The barriers' own questions are not asked of SQLite."""

    world: World

    def _told(self, _: str, look: Look) -> Told:
        return self.world.told()

    def ask(self, _: Question) -> LocalTransactionState:
        return self.world.settle()


class AlchemyBarrier(AskedOfTheModel, Barrier):
    pass


class PlainBarrier(AskedOfTheModel, DbapiBarrier):
    def note(self, connection: Any, transaction_id: str) -> tuple[Any, str | None]:
        used, _ = super().note(connection, transaction_id)
        return used, "7" if self.world.is_numbered else None


def does_not_sync(connection: Any, _: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")


class Programs:
    """Of one way."""

    def __init__(self, way: Way, place: Path) -> None:
        self._way = way
        self._engine = create_engine(f"sqlite:///{place}")
        event.listen(self._engine, "connect", does_not_sync)
        self._barrier: Any = AlchemyBarrier(self._engine, GROUP)
        self._barrier.create()
        self._ddl = list(self._table())
        if way.is_plain:
            self._barrier = PlainBarrier(lambda: None, GROUP)

    def _table(self) -> Iterator[str]:
        with self._engine.connect() as connection:
            yield from connection.exec_driver_sql(
                "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"
            ).scalars()

    def run(self, world: World) -> Any:
        """What it holds on to."""
        self._barrier.world = world
        if self._way.is_plain:
            local: Any = sqlite3.connect(":memory:")
            for statement in self._ddl:
                local.execute(statement)
            local.commit()
        else:
            with self._engine.begin() as connection:
                connection.exec_driver_sql("DELETE FROM halfhitch_barrier")
            local = self._engine.connect()
        if self._way.is_refused:
            with pytest.raises(Exception, match=r"attribute|record takes"):
                self._barrier.record(None, ID)
        else:
            self._barrier.record(local, ID)
            self._way.go(local)
        return local

    def end(self, local: Any) -> None:
        """Of a case."""
        with suppress(Exception):
            local.rollback()
        local.close()

    def close(self) -> None:
        self._engine.dispose()


def awaited(word: Word) -> Word:
    """As an AsyncBarrier leaves it."""

    async def state(wanted: LocalTransactionState) -> recorded.Local:
        return word.state(wanted)

    async def settle() -> LocalTransactionState:
        return word.settle()

    return recorded.Word(
        lambda _: recorded.Local.UNASKED, state, settle_awaited=settle, is_proven=word.is_proven
    )


def sent(attempt: Recorded, request: str, *, is_awaited: bool) -> str:
    """What goes out."""
    is_rollback = request != "commit"
    if is_awaited:
        assert attempt._note is not None
        attempt._note.word = awaited(attempt._note.word)
        asyncio.run(attempt.look(is_rollback=is_rollback))
    if request == "on_error":
        return "rollback" if attempt.may_roll_back() else "nothing"
    require = attempt.require_uncommitted if is_rollback else attempt.require_end
    try:
        require(ID)
    except TransactionMisused:
        return "nothing"
    return request


def is_not_promised(way: Way, world: World, out: str) -> bool:
    """docs/barrier.md says which: that what looks open is, and what is over was committed.

    The latter of a plain connection.
    """
    if not way.is_plain:
        is_believed_open = way.go is goes_on and out == "rollback"
        return is_believed_open and world.table is Table.UNREAD
    if out != "commit":
        return False
    is_part = world.other is Other.COMMITTED and not world.is_numbered
    return world.table is Table.UNREAD or (is_part and world.table is Table.SURE)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool, bool], tuple[Recorded, Recorded]]:
    """The one that records, and the one that is asked."""

    def begin(is_given: bool, is_asked: bool) -> tuple[Recorded, Recorded]:
        monkeypatch.setattr(recorded, "_EXPECTED", WeakValueDictionary())
        older = None if is_asked else recorded.attempt(GROUP, ID)
        records = recorded.attempt(GROUP, ID, is_given=is_given)
        return records, older or records

    return begin


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("is_awaited", [False, True], ids=["blocking", "asyncio"])
def test_no_end_that_is_sent_loses_or_invents_messages(
    tmp_path: Path,
    attempts: Callable[[bool, bool], tuple[Recorded, Recorded]],
    way: Way,
    *,
    is_awaited: bool,
) -> None:
    programs, wrong, outs = Programs(way, tmp_path / "shop.db"), [], set()
    booleans = (False, True)
    for own, other, table, *flags, request in product(
        way.become, Other, Table, booleans, booleans, booleans, ("commit", "rollback", "on_error")
    ):
        is_given, is_asked, is_numbered = flags
        world = World(own, other, table, is_numbered)
        # Only an id that was given has others.
        if not world.is_possible or (not is_given and (other in OF_OTHERS or not is_asked)):
            continue
        records, asked = attempts(is_given, is_asked)
        local = programs.run(world)
        out = sent(asked, request, is_awaited=is_awaited)
        programs.end(local)
        outs.add((table, out))
        standing = world.standing(way)
        if not is_asked:  # what is the own one of that which has recorded is another's to this
            standing = {"other" if one == "own" else one for one in standing}
            standing |= {"other"} if own is Own.OPEN else set()
        right = {"commit": {"own"}, "rollback": {"nobody's"}, "nothing": standing}[out]
        if standing != right and not is_not_promised(way, world, out):
            wrong.append((world, flags, request, out, standing))
        del records, asked
    programs.close()
    gc.collect()
    assert wrong == []
    assert (Table.SURE, way_out(way)) in outs


OF_OTHERS = (Other.COMMITTED, Other.MAY_COME)


def way_out(way: Way) -> str:
    """What is sent at least, where the table can be read."""
    if way.go is goes_on and not way.is_plain:
        return "nothing"  # it looks open, and is the check-back's
    return "commit" if Own.COMMITTED in way.become else "rollback"
