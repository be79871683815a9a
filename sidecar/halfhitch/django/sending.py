"""Which messages belong to which atomic block, and what becomes of them when it ends.

Rows that a savepoint takes back must take their messages along, and only theirs. So each atomic
block that has a savepoint of its own, and sends, has a transaction of its own, recorded within that
savepoint. Django knows which blocks have come to nothing: it drops their `on_commit` functions.
What is left of a transaction is such a function (`_Messages`), and it is looked for in Django's own
list: there is no second book that could differ from the first.

That list may have functions of blocks that are over: of one whose end a signal interrupted behind
its COMMIT, and of a transaction without autocommit. So each is tied to one entry of Django's stack
of atomic blocks. And Django does not know what a savepoint by hand has taken back, nor that a
COMMIT of the program's own (on MySQL and MariaDB, DDL) has ended the database's transaction. So
before another message joins it the record is looked for, and whether it is this transaction's.
"""

import copy
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from django.db import Error, connections, transaction

from halfhitch.barrier import table
from halfhitch.client import Message, ProducerClosed, TransactionDoomed, TransactionMisused
from halfhitch.client.values import Headers
from halfhitch.django.process import Running, running
from halfhitch.errors import BackendError

log = logging.getLogger("halfhitch.django")

#: What may end the transaction; on MySQL and MariaDB, whatever is not known to leave it open.
_ENDING: Final = {
    "sqlite": re.compile(r"[\s;]*(COMMIT|END|BEGIN)\b", re.IGNORECASE),
    "mysql": re.compile(
        r"(?!\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|SAVEPOINT|RELEASE|WITH|SHOW|EXPLAIN"
        r"|ROLLBACK\s+TO)\b)",
        re.IGNORECASE,
    ),
}
#: Of the whole transaction, within its savepoints too; it has one since its record was written.
_POSTGRESQL_S: Final = "SELECT txid_current_if_assigned()"


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
    _require_atomic(connection, "send")
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
    _require_atomic(connection, "transaction_id()")
    return _messages(connection, here).tx.id


class _Messages:
    """Those of one atomic block. To be called when Django has committed."""

    def __init__(self, here: Running, block: Any, outermost: Any) -> None:
        #: The entry of Django's stack that stands for the block, and for no other one.
        self.block = block
        #: That of the block that commits.
        self.outermost = outermost
        self.tx = here.producer.transaction()
        self.is_ended = False
        self.is_taken_back = False
        #: Of an outermost block that is over, with another one running.
        self.is_left_over = False
        self._here = here
        self._transaction: object = None

    def record(self, connection: Any) -> None:
        """Within the atomic block: the row goes with its savepoint. Before anything is sent."""
        chosen = self._here.settings
        statement = table.insert(connection.vendor, chosen.table, table.COMMITTED)
        self._run(connection, statement, fetches=False)
        self._transaction = _transaction_of(connection)

    def has_moved_on(self, connection: Any) -> bool:
        """The database's transaction was ended behind the record, which is committed by that."""
        now = _transaction_of(connection)
        if now == self._transaction:
            return False
        if connection.vendor == "postgresql":
            return True
        with connection.wrap_database_errors, self._here.connect() as own:
            cursor = own.cursor()
            statement = table.select_outcome(connection.vendor, self._here.settings.table)
            values = table.key_values(connection.vendor, self._key())
            style = "qmark" if connection.vendor == "sqlite" else "format"
            cursor.execute(*table.styled(statement, values, style))
            is_committed = cursor.fetchone() is not None
        self._transaction = now
        return is_committed

    def leave_behind(self) -> None:
        """They follow what was committed; what comes now follows the rest."""
        log.warning(
            "transaction %s: its record was committed within its atomic block, by a COMMIT of the"
            " program's own or a statement that commits (DDL on MySQL). Its messages follow the"
            " rows before that; those that are sent now have a transaction of their own",
            self.tx.id,
            extra={"action": "django_committed_inside"},
        )

    def take_back(self) -> None:
        """By a savepoint by hand, say: the rows that these messages followed are gone, too."""
        self.is_taken_back = True
        log.warning(
            "transaction %s: its record has been taken back within its atomic block, and its"
            " messages with it; those that follow have a transaction of their own",
            self.tx.id,
            extra={"action": "django_messages_taken_back"},
        )

    def __call__(self) -> None:
        """Raises TransactionMisused, TransactionDoomed, ContraryDecision."""
        if self.is_taken_back:
            return
        self.is_ended = True
        try:
            is_recorded = self.is_recorded()
        except Error as unread:
            self._leave(unread)
            return
        if not is_recorded and self.is_left_over:
            log.warning(
                "transaction %s: the end of its atomic block was interrupted behind the rollback;"
                " the check-back drops its messages",
                self.tx.id,
                extra={"action": "django_rollback_interrupted"},
            )
            return
        if not is_recorded:
            raise TransactionMisused(
                f"Django has said that transaction {self.tx.id} is committed, and its record is not"
                " there: a savepoint by hand (transaction.savepoint) has taken it back, or a"
                " statement failed and its exception was swallowed, and the database has rolled all"
                " of it back without a word. Its messages were not committed: the check-back drops"
                " them. Rows that were not taken back stand. Put what may fail, or is to be taken"
                " back, into an atomic block of its own"
            )
        try:
            self.tx.commit()
        except (BackendError, ProducerClosed) as unanswered:
            self._leave(unanswered)
        except TransactionDoomed as doomed:
            raise TransactionDoomed(
                f"Django has committed the rows of transaction {self.tx.id}, and a message of it"
                f" was not sent ({type(doomed.__cause__).__name__}): set_rollback(False) has taken"
                " back that its atomic block was to be rolled back. The messages before that one"
                " follow the rows, through the check-back; that one is lost. Send what may fail in"
                " an atomic block of its own"
            ) from doomed.__cause__

    def is_recorded(self) -> bool:
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
    _require_transaction(connection)
    _watch(connection)
    at = _innermost(connection)
    block = connection.atomic_blocks[at]
    for found in reversed(_listed(connection)):
        if found.block is not block or found.is_ended:
            continue
        if not found.is_recorded():
            found.take_back()
        elif found.has_moved_on(connection):
            found.leave_behind()
        else:
            return found
        break
    block = _own(connection, at)
    made = _Messages(here, block, block if at == 0 else _own(connection, 0))
    for other in _listed(connection):
        # Without autocommit several blocks are one transaction.
        other.is_left_over = connection.commit_on_exit and other.outermost is not made.outermost
    made.record(connection)
    transaction.on_commit(made, using=connection.alias)
    return made


def _listed(connection: Any) -> list[_Messages]:
    return [found for _, found, _ in connection.run_on_commit if isinstance(found, _Messages)]


def _own(connection: Any, at: int) -> Any:
    """Its entry, as a copy: a decorator's Atomic is the same object in each of its calls."""
    blocks, listed = connection.atomic_blocks, _listed(connection)
    if not any(blocks[at] in (found.block, found.outermost) for found in listed):
        blocks[at] = copy.copy(blocks[at])
    return blocks[at]


class _Watch:
    """Counts the statements of a connection that may end its transaction."""

    def __init__(self, ending: re.Pattern[str]) -> None:
        self.count = 0
        self._ending = ending

    def __call__(self, execute: Callable[..., Any], sql: object, *given: Any) -> Any:
        if self._ending.match(str(sql)):
            self.count += 1
        return execute(sql, *given)


def _watch(connection: Any) -> None:
    """First in the list: Django's `execute_wrapper` takes the last one off."""
    ending = _ENDING.get(connection.vendor)
    if ending and not any(isinstance(one, _Watch) for one in connection.execute_wrappers):
        connection.execute_wrappers.insert(0, _Watch(ending))


def _transaction_of(connection: Any) -> object:
    """Something that stays the same as long as the transaction; it may change before it ends."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_POSTGRESQL_S)
            return cursor.fetchone()[0]
    return [one.count for one in connection.execute_wrappers if isinstance(one, _Watch)]


def _innermost(connection: Any) -> int:
    """Where its entry is. The outermost block has a savepoint without autocommit only."""
    blocks, savepoints = connection.atomic_blocks, connection.savepoint_ids
    for above, savepoint in enumerate(reversed(savepoints), start=1):
        if savepoint is not None:
            return max(len(blocks) - above, 0)
    return 0


def _require_transaction(connection: Any) -> None:
    """SQLite: after a rollback of its own each statement would be committed by itself."""
    if connection.vendor != "sqlite" or not connection.commit_on_exit:
        return  # without autocommit the driver begins a transaction with the record
    with connection.wrap_database_errors:
        is_open = connection.connection.in_transaction
    if not is_open:
        raise TransactionMisused(
            "SQLite has no transaction open in this atomic block: it has rolled it back (INSERT OR"
            " ROLLBACK, RAISE(ROLLBACK), a full disk), and the exception was swallowed, or a COMMIT"
            " of the program's own has ended it. What the block does from then on is committed"
            " statement by statement, and no message can follow it. Let the exception leave the"
            " block, and the COMMIT to Django"
        )


def _require_atomic(connection: Any, what: str) -> None:
    if not (connection.in_atomic_block and connection.atomic_blocks):
        raise TransactionMisused(
            f"halfhitch.django.{what} outside of an atomic block: there are no rows that a message"
            " could follow. Use it inside `with transaction.atomic():`, or with ATOMIC_REQUESTS"
            f" (of the database {connection.alias!r}, which HALFHITCH names)"
        )
