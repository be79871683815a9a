"""Messages that were sent inside a savepoint, of a block over SQLAlchemy (`savepoints`)."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy.orm import Session, SessionTransaction

from halfhitch.barrier.savepoints import ByStatements

Listener = tuple[str, Callable[..., None]]


class Savepoints(ByStatements):
    """Those of one block; a session's own need no statement when nothing was flushed."""

    def __init__(self, count: Callable[[], int]) -> None:
        super().__init__(count)
        #: What the count was when they began.
        self._of_session: WeakKeyDictionary[SessionTransaction, int] = WeakKeyDictionary()

    def of_session(self) -> tuple[Listener, ...]:
        """What is to be heard of the block's session."""
        return (
            ("after_transaction_create", self._created),
            ("after_soft_rollback", self._rolled_back),
        )

    def of_connection(self) -> Listener:
        """And of its connection: statements by text, too."""
        return ("after_cursor_execute", self._executed)

    def _created(self, _: Session, transaction: SessionTransaction) -> None:
        if transaction.nested:
            self._of_session[transaction] = self._count()

    def _rolled_back(self, _: Session, transaction: SessionTransaction) -> None:
        self.look(self._of_session.get(transaction))

    def _executed(self, _connection: object, _cursor: object, statement: str, *_: Any) -> None:
        self.heard(statement)
