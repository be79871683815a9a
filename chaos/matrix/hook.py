"""A hook before the commit, as applications and frameworks have them: a step of its own.

SQLAlchemy calls it behind the barrier's record, where the program has no line any more. What it
does there can end the local transaction, with rows and record: the driver's own rollback, or a
statement that fails and takes the whole with it, and whose exception the hook swallows. What would
be committed then is empty.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.matrix.stores import Store

#: The place of the step.
HOOK = "hook before COMMIT"

#: The transaction is lost there.
ROLLED_BACK = "rolled back in a hook"
FAILED = "failed in a hook that swallows it"
LOSES = (ROLLED_BACK, FAILED)

#: MariaDB ends the one of two that has changed less: rows of the other one.
_HEAVIER = 40


def install(reached: Callable[[Session], None]) -> None:
    """For all sessions of this process."""
    event.listen(Session, "before_commit", reached)


def lose(way: str, session: Session, store: Store, order_id: str) -> None:
    """The order's row is there before, and gone with everything else behind it."""
    session.flush()
    if way == ROLLED_BACK:
        session.connection().connection.rollback()
    elif store.kind == "mariadb":
        _deadlock(session, store, order_id)
    else:
        again = store.insert(order_id, 0)
        if store.kind == "sqlite":
            again = again.replace("INSERT INTO", "INSERT OR ROLLBACK INTO")
        _fail(session, again)


def _fail(session: Session, statement: str) -> None:
    try:
        session.execute(text(statement))
    except DBAPIError:
        return
    raise AssertionError(f"it was to fail: {statement}")


def _deadlock(session: Session, store: Store, order_id: str) -> None:
    """Each of two transactions wants a row that the other one has made."""
    with contextlib.closing(store.connect()) as other, ThreadPoolExecutor(1) as pool:
        cursor = other.cursor()
        for number in range(_HEAVIER):
            cursor.execute(store.insert(f"{order_id}-other-{number}", 0))
        waiting = pool.submit(cursor.execute, store.insert(order_id, 0))
        _fail(session, store.insert(f"{order_id}-other-0", 0))
        waiting.result()
        other.rollback()
