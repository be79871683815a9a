"""Which messages belong to which atomic block, and what becomes of them when it ends.

Rows that a savepoint takes back must take their messages along, and only theirs. So each atomic
block that has a savepoint of its own, and sends, has a transaction of its own, recorded within that
savepoint. Django knows which blocks have come to nothing: it drops their `on_commit` functions.
What is left of a transaction is such a function (`_Messages`), and it is looked for in Django's own
list: there is no second book that could differ from the first.
"""

import logging
from collections.abc import Sequence
from typing import Any

from django.db import DatabaseError, connections, transaction

from halfhitch.barrier import table
from halfhitch.client import Message, TransactionMisused
from halfhitch.client.values import Headers
from halfhitch.django.process import Running, running
from halfhitch.errors import BackendError

log = logging.getLogger("halfhitch.django")


def send(
    topic: str,
    value: bytes | str | None,
    key: bytes | str | None = None,
    headers: Headers | None = None,
    partition: int | None = None,
) -> None:
    """Store one message, invisible; it is committed with the rows of the atomic block around it.

    Raises what `tx.send` does. The atomic block (or savepoint) can only be rolled back then.
    """
    prepare([Message(topic, value, key, headers, partition)])


def prepare(messages: Sequence[Message]) -> None:
    """`send` for several messages in one request."""
    here = running()
    connection = connections[here.settings.using]
    _require_atomic(connection)
    try:
        _messages(connection, here).tx.prepare(messages)
    except BaseException as error:
        # Whatever becomes of the exception: the rows must not be committed without the message.
        connection.set_rollback(True)
        log.warning(
            "a message was not sent (%s), so its atomic block is rolled back, even if this"
            " exception is swallowed",
            type(error).__name__,
            extra={"action": "django_block_doomed"},
        )
        raise


def transaction_id() -> str:
    """Of the messages of the atomic block around this, for a row of your own."""
    here = running()
    connection = connections[here.settings.using]
    _require_atomic(connection)
    return _messages(connection, here).tx.id


class _Messages:
    """Those of one atomic block. To be called when Django has committed."""

    def __init__(self, here: Running, savepoints: tuple[str, ...]) -> None:
        self.savepoints = savepoints
        self.tx = here.producer.transaction()
        self.is_ended = False
        self._here = here

    def record(self, connection: Any) -> None:
        """Within the atomic block: the row goes with its savepoint. Before anything is sent."""
        chosen = self._here.settings
        statement = table.insert(connection.vendor, chosen.table, table.COMMITTED)
        self._run(connection, statement, fetches=False)

    def __call__(self) -> None:
        """Raises TransactionMisused, ContraryDecision."""
        self.is_ended = True
        try:
            is_recorded = self._is_recorded()
        except DatabaseError as unread:
            self._leave(unread)
            return
        if not is_recorded:
            raise TransactionMisused(
                f"Django has said that transaction {self.tx.id} is committed, and its record is not"
                " there: a savepoint by hand (transaction.savepoint) has taken it back, or a"
                " statement failed and its exception was swallowed, and PostgreSQL has rolled all"
                " of it back without a word. Its messages were not committed: the check-back drops"
                " them. Put what may fail, or is to be taken back, into an atomic block of its own"
            )
        try:
            self.tx.commit()
        except BackendError as unanswered:
            self._leave(unanswered)

    def _is_recorded(self) -> bool:
        connection = connections[self._here.settings.using]
        statement = table.select_outcome(connection.vendor, self._here.settings.table)
        row = self._run(connection, statement, fetches=True)
        return table.outcome_in(row, self._key()) == table.COMMITTED

    def _leave(self, error: Exception) -> None:
        """To the check-back. The rows are committed: whoever is told of a failure works twice."""
        log.warning(
            "transaction %s: Django has committed its rows, and the commit of its messages was not"
            " answered; the check-back settles it (%s)",
            self.tx.id,
            error,
            extra={"action": "django_commit_unanswered"},
        )

    def _key(self) -> tuple[str, str]:
        return self._here.settings.group, self.tx.id

    def _run(self, connection: Any, statement: str, *, fetches: bool) -> Any:
        values = table.key_values(connection.vendor, self._key())
        with connection.cursor() as cursor:
            cursor.execute(*table.styled(statement, values, "format"))
            return cursor.fetchone() if fetches else None


def _messages(connection: Any, here: Running) -> _Messages:
    """Of the innermost atomic block that can be rolled back by itself."""
    savepoints = tuple(sid for sid in connection.savepoint_ids if sid is not None)
    for _, found, _ in reversed(connection.run_on_commit):
        if isinstance(found, _Messages) and found.savepoints == savepoints and not found.is_ended:
            return found
    made = _Messages(here, savepoints)
    made.record(connection)
    transaction.on_commit(made, using=connection.alias)
    return made


def _require_atomic(connection: Any) -> None:
    if not connection.in_atomic_block:
        raise TransactionMisused(
            "halfhitch.django.send outside of an atomic block: there are no rows that the message"
            " could follow. Use it inside `with transaction.atomic():`, or with ATOMIC_REQUESTS"
            f" (of the database {connection.alias!r}, which HALFHITCH names)"
        )
