# Made of sql_aio.py by tools/blocking.py: change that one, then `make format`.
"""The barrier for SQLAlchemy 2.

`record` runs on the application's connection and is part of its transaction. Checks, purges and
the creation of the table take connections of their own from the engine; in a forked child they
are the child's own.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session

from halfhitch.barrier import guards, sql_guards, sql_recorded, table
from halfhitch.barrier.block import drop
from halfhitch.barrier.deadline import Deadline, Watch
from halfhitch.barrier.errors import stands
from halfhitch.barrier.rules import KEEP_S, Checked, Question, Rules
from halfhitch.barrier.sql_home import HomeEngine
from halfhitch.barrier.sql_rows import Rows
from halfhitch.barrier.statement import Block
from halfhitch.barrier.told import Look, Told, refused
from halfhitch.client import recorded
from halfhitch.client.marks import Mark
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import ConfigurationError

if TYPE_CHECKING:
    from halfhitch.client import Transaction, TransactionProducer

Given: TypeAlias = Session | scoped_session[Any]


class Barrier:
    """Records local transactions of one producer group and answers its checks.

    fence_after_s: until a transaction is so old, one without a record is answered UNKNOWN; then,
        by default at once, it is fenced and answered ROLLBACK.
    keep_s: how long rows are kept at least; a transaction of about that age that has none is
        answered UNKNOWN.
    wait_s: how long a check may take; then it is answered UNKNOWN.
    """

    def __init__(
        self,
        engine: Engine,
        group: str,
        *,
        table: str = table.DEFAULT_TABLE,
        fence_after_s: float = 0.0,
        keep_s: float = KEEP_S,
        wait_s: float = 2.0,
    ) -> None:
        if not isinstance(engine, Engine):
            raise ConfigurationError(
                f"Barrier takes an Engine, not {type(engine).__name__}: a check needs"
                " connections of its own (for an AsyncEngine use AsyncBarrier)"
            )
        sql_guards.require_pool(engine.pool)
        self._rules = Rules(group, table, fence_after_s, keep_s, wait_s)
        self._made_of = engine
        self._home = HomeEngine(engine)
        self._deadline = Deadline(wait_s)
        self._rows = Rows(self._rules, self._home, engine.dialect.name)

    @property
    def group(self) -> str:
        """The producer group."""
        return self._rules.group

    @property
    def _engine(self) -> Engine:
        """With connections of this process only."""
        self._home.here()
        return self._made_of

    def create(self) -> None:
        """Create the table unless it is there."""
        try:
            with self._engine.begin() as connection:
                self._rows.create(connection)
        except DBAPIError:  # two processes create it at once, and one found it half done
            with self._engine.begin() as connection:
                self._rows.create(connection)

    def record(self, session: Given | Connection, transaction_id: str) -> None:
        """Note, as part of the local transaction, that this id has committed.

        Raises TransactionFenced or TransactionRecordedTwice; the local transaction is rolled back
        then, whatever the caller does with the exception. Raises InvalidRequest inside a savepoint
        and in autocommit mode.
        """
        try:
            by_hand = self._rows.record(session, transaction_id)
        except BaseException as error:
            self._note_refused(session, transaction_id, is_known=stands(error))
            raise
        if by_hand is None:
            return

        look = Look(by_hand.number)

        def state(wanted: LocalTransactionState) -> recorded.Local:
            seen = by_hand.seen(wanted)
            return seen or by_hand.judged(self._told(transaction_id, look))

        settle = self._settle(transaction_id)
        word = recorded.Word(state, settle=settle, is_proven=by_hand.is_proven, reason=look.reason)
        recorded.note(self.group, transaction_id, word)

    def _note_refused(self, session: object, transaction_id: str, *, is_known: bool) -> None:
        """`is_known`: that a record stands. Of its own the barrier's block knows what became."""
        if sql_guards.is_ending_block(session):
            return

        look = Look()

        def state(_: LocalTransactionState) -> recorded.Local:
            told = Told.UNREAD if is_known else self._told(transaction_id, look)
            return refused(told, is_known=is_known)

        settle = self._settle(transaction_id)
        word = recorded.Word(state, settle=settle, reason=look.reason)
        recorded.note(self.group, transaction_id, word, is_refused=True)

    def _settle(self, transaction_id: str) -> Callable[[], LocalTransactionState]:
        """Before a rollback: what a check would be answered, by a fence if need be."""
        return lambda: self.ask(Question(transaction_id, is_own=True))

    def check(self, check: Checked) -> LocalTransactionState:
        """What became of the local transaction; for a producer's `check` or a listener.

        Raises nothing: whatever goes wrong is in the log and the answer is UNKNOWN.
        """
        question = self._rules.question(check)
        if question is None:
            return LocalTransactionState.UNKNOWN
        return self._rules.told(self.ask(question))

    def transaction(
        self,
        producer: "TransactionProducer",
        transaction_id: str | None = None,
        *,
        session: Given | None = None,
        immunity_s: int | None = None,
    ) -> AbstractContextManager[tuple["Transaction", Session]]:
        """Messages and rows that end together: leaving commits both, an exception neither.

        The id is recorded and the session committed at the end of the block; who commits or rolls
        back inside is refused (InvalidRequest). A given `session` is left open, for further use.

        When the local commit fails, the table is asked whether it took place after all. If it
        cannot be asked, LocalOutcomeUnknown is raised and the check-back settles it. With a given
        `transaction_id` the table is also asked for an earlier attempt: before the block, which is
        not begun if there is a row (TransactionRecordedTwice, TransactionFenced), and when it
        raises.
        """
        return Block(lambda: self._begun(producer, transaction_id, session, immunity_s))

    def _begun(
        self,
        producer: "TransactionProducer",
        transaction_id: str | None,
        session: Given | None,
        immunity_s: int | None,
    ) -> "_SessionWork":
        self._rules.require_producer(producer, is_awaited=False)
        given = None if session is None else _session_of(session)
        if given is not None:
            sql_guards.require_own_commit(given)
        tx = producer.transaction(transaction_id, immunity_s=immunity_s)
        found = Session(self._engine) if given is None else given
        key = self._rows.full_key(tx.id)
        watched = sql_guards.SessionInBlock(found, session, key, lambda: tx.send_count)
        return _SessionWork(
            self, tx, found, watched, is_new=transaction_id is None, is_given=given is not None
        )

    def purge(
        self, older_than_s: float | None = None, *, batch_count: int = 1_000, force: bool = False
    ) -> int:
        """Delete this group's rows that are older than `keep_s`, in batches; how many they were.

        A younger age is refused unless forced: see docs/barrier.md.
        """
        age_s = self._rules.purge_age_s(older_than_s, batch_count, force=force)
        deleted, batch = 0, batch_count
        while batch >= batch_count:
            with self._engine.begin() as connection:
                batch = self._rows.purge(connection, age_s, batch_count)
            deleted += batch
        return deleted

    def require_first(self, transaction_id: str) -> None:
        """For this package: see `Rules.require_first`. On a connection of its own.

        Never over the session's, for all that the pool may have no other one. Its snapshot may be
        older than the earlier attempt's row. At SERIALIZABLE a read that finds nothing collides
        with the rows that others record. And it may see a row that is not committed.
        """

        def look(watch: Watch) -> None:
            with self._engine.connect() as connection:
                self._rows.require_first(connection, transaction_id, watch)

        with self._rules.first_or_unread(transaction_id):
            self._deadline.run(look)

    def _told(self, transaction_id: str, look: Look) -> Told:
        """Of the record, by the table."""

        def read(watch: Watch) -> Told:
            with self._engine.connect() as connection:
                return self._rows.told(connection, transaction_id, look, watch)

        try:
            return self._deadline.run(read)
        except Exception as error:  # noqa: BLE001 - nobody knows, then
            return look.failed(error)

    def ask(self, question: Question) -> LocalTransactionState:
        """For this package: on a connection of its own, in time."""

        def decide(watch: Watch) -> LocalTransactionState:
            with self._engine.connect() as connection:
                return self._rows.decide(connection, question, watch)

        try:
            return self._deadline.run(decide)
        except Exception as error:  # noqa: BLE001 - UNKNOWN is the answer to everything else
            return self._rules.failed(question, error)


class _SessionWork:
    """A block's session, as `block` wants it."""

    def __init__(
        self,
        barrier: Barrier,
        messages: "Transaction",
        session: Session,
        watched: sql_guards.SessionInBlock,
        *,
        is_new: bool,
        is_given: bool,
    ) -> None:
        self.messages = messages
        self.local = session
        self.is_new = is_new
        self._is_given = is_given
        self._barrier = barrier
        self._id = messages.id
        self._watched = watched
        self._home = guards.Home()

    @property
    def is_inherited(self) -> bool:
        """In a forked child."""
        return self._home.is_left(self.local)

    @property
    def is_open(self) -> bool:
        """The session has not ended what this block is working in."""
        return self._watched.is_open

    def begin(self, mark: Mark) -> None:
        """An earlier attempt first; then nothing of this block's may be committed, either."""
        if not self.is_new:
            try:
                self._barrier.require_first(self._id)
            except BaseException as error:
                drop(self, error)
                raise
        self._watched.enter(mark)

    def use(self) -> None:
        """Marks the transaction of a session that was used before."""
        session = self.local
        self._watched.begin(session)

    def record(self) -> None:
        """All the work first: what the database refuses shows before the note is made."""
        session = self.local
        session.flush()
        sql_recorded.require_one(session, self._watched)
        self._barrier.record(session, self._id)

    def commit(self, before: Callable[[], None]) -> None:
        """Rows and record."""
        session = self.local
        sql_recorded.call_before_commit(session, before)
        self._watched.expect_commit()
        session.commit()
        self._watched.require_committed()

    def drop(self) -> None:
        """Its connection goes back to the pool, where the barrier may need it."""
        session = self.local
        try:
            self._watched.leave(session)
            sql_guards.give_up_failed(session)
        finally:
            session.close()
            if session.in_transaction():  # of a class whose close() does something else
                session.rollback()

    def close(self) -> None:
        """A session that was given is left as it is."""
        if not self._is_given and not self.is_inherited:
            self.local.close()
        self._watched.forget()

    def ask(self) -> LocalTransactionState:
        """Of the table."""
        return self._barrier.ask(Question(self._id, is_own=True))


_session_of = sql_guards.session_of
