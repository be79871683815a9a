"""Messages that were sent inside a savepoint, of a block over SQLAlchemy.

A savepoint that is rolled back takes its rows along, and no message: of a transaction's messages
all are committed, or none. So the block that has sent inside of one cannot be committed any more.

Heard of are the session's own (begin_nested), and those of its connection. One by text, or of a
driver's connection, is not.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session, SessionTransaction

from halfhitch.errors import InvalidRequest

Listener = tuple[str, Callable[..., None]]


class Savepoints:
    """Those of one block; `count`: how often it has sent."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        #: What it was when they began. A session's begins before its connection's, or without one.
        self._of_session: WeakKeyDictionary[SessionTransaction, int] = WeakKeyDictionary()
        #: SQLAlchemy tells no name when one begins: the innermost is the last.
        self._of_connection: list[int] = []
        self._has_taken_back = False

    def of_session(self) -> tuple[Listener, ...]:
        """What is to be heard of the block's session."""
        return (
            ("after_transaction_create", self._created),
            ("after_soft_rollback", self._rolled_back),
        )

    def of_connection(self) -> tuple[Listener, ...]:
        """And of its connection."""
        return (
            ("savepoint", self._begun),
            ("release_savepoint", self._released),
            ("rollback_savepoint", self._taken_back),
        )

    def require(self) -> None:
        """Before the record. Raises InvalidRequest when rows of a message were taken back."""
        if self._has_taken_back:
            raise taken_back()

    def _created(self, _: Session, transaction: SessionTransaction) -> None:
        if transaction.nested:
            self._of_session[transaction] = self._count()

    def _rolled_back(self, _: Session, transaction: SessionTransaction) -> None:
        self._look(self._of_session.get(transaction))

    def _begun(self, _: Connection, _name: str | None) -> None:
        self._of_connection.append(self._count())

    def _released(self, *_: Any) -> None:
        if self._of_connection:
            self._of_connection.pop()

    def _taken_back(self, *_: Any) -> None:
        if self._of_connection:
            self._look(self._of_connection.pop())

    def _look(self, before: int | None) -> None:
        if before is not None and before != self._count():
            self._has_taken_back = True


def taken_back() -> InvalidRequest:
    """To be raised when messages would be committed whose rows a savepoint has taken back."""
    return InvalidRequest(
        "a savepoint (begin_nested) of this block was rolled back, and messages were sent inside"
        " it: its rows are gone, and the messages would be committed with the rest, for one of them"
        " cannot be taken back alone. So rows and messages of the whole block are rolled back."
        " Send behind the savepoint, when it has ended well, or give what may fail a block of its"
        " own, on a session of its own"
    )
