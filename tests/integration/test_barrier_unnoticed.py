"""What a block did not notice: rows that were never flushed, a record beside it, what comes behind.

Each on every database and driver that has it.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import String, create_engine, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from halfhitch.client import LocalTransactionState
from halfhitch.errors import InvalidRequest
from harness.barriers import RecordingProducer
from harness.blocks import each, in_block, order, refused, run
from harness.databases import ERRORS, WAYS, Truth, Way, open_shop
from harness.producers import Blocking

if TYPE_CHECKING:
    from pathlib import Path

    from harness.blocks import Body
    from harness.databases import Shop


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "shop_orders"
    id: Mapped[str] = mapped_column(primary_key=True)


# -- objects that were only added ----------------------------------------------------------------

#: What drops them, none of which runs a statement.
DROPS: dict[str, Body] = {
    "rollback": Session.rollback,
    "close": Session.close,
    "reset": Session.reset,
    "invalidate": Session.invalidate,
}


@pytest.mark.parametrize("rest", ["more", "nothing"])
@pytest.mark.parametrize("drop", DROPS)
@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_objects_that_were_only_added_were_dropped_and_the_messages_committed(
    shop: Shop, truth: Truth, drop: str, rest: str
) -> None:
    """No connection knew of them: the block saw one transaction, that of what came afterwards."""

    def body(session: Session) -> None:
        session.add(Order(id="before"))
        DROPS[drop](session)
        if rest == "more":
            session.add(Order(id="after"))

    refused(shop, body, "rollback or close of its session")
    assert (truth.orders(), truth.rows()) == (set(), {})


@each("alchemy", "sqlite")
def test_objects_that_were_added_before_the_block_are_its_own(shop: Shop, truth: Truth) -> None:
    def add(session: Session) -> None:
        session.add(Order(id="before"))

    assert in_block(shop, lambda session: None, given=add).made[0].ends == ["commit"]
    assert truth.orders() == {"before"}
    truth.empty_tables()
    refused(shop, Session.rollback, "rollback or close of its session", given=add)
    assert (truth.orders(), truth.rows()) == (set(), {})


@each("alchemy", "sqlite", "postgresql")
def test_an_object_that_is_taken_back_is_the_program_s_own_business(
    shop: Shop, truth: Truth
) -> None:
    """So is what a savepoint takes back."""

    def body(session: Session) -> None:
        one = Order(id="taken back")
        session.add(one)
        session.expunge(one)
        nested = session.begin_nested()
        session.add(Order(id="undone"))
        nested.rollback()
        session.add(Order(id="before"))

    assert in_block(shop, body).made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"before"}, {"a": "committed"})


# -- commits past the session's ------------------------------------------------------------------


def root_commit(session: Session) -> None:
    with session.begin_nested():
        order(session, "nested")
        root = session.get_transaction()
        assert root is not None
        root.commit()


#: What went through to the database, and was told at the block's end.
COMMITS: dict[str, Body] = {
    "root in a savepoint": root_commit,
    "connection's": lambda session: session.connection().commit(),
}


@pytest.mark.parametrize("is_swallowed", [True, False])
@pytest.mark.parametrize("commit", COMMITS)
@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_a_commit_past_the_session_s_was_told_when_it_was_done(
    shop: Shop, truth: Truth, commit: str, *, is_swallowed: bool
) -> None:
    """The rows stood, and the messages were rolled back."""

    def body(session: Session) -> None:
        order(session, "before")
        with suppress(InvalidRequest if is_swallowed else ()):
            COMMITS[commit](session)

    words = "was ended inside it" if is_swallowed else "a commit inside a block"
    refused(shop, body, words)
    assert (truth.orders(), truth.rows()) == (set(), {})


# -- the block's own id on another session -------------------------------------------------------


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_block_s_own_id_was_recorded_on_another_session(shop: Any, truth: Truth) -> None:
    """Committed there, it had the messages committed without the block's rows."""
    producer = RecordingProducer("a")
    with (
        shop.barrier().transaction(producer) as (tx, _),
        shop.begin() as other,
        pytest.raises(InvalidRequest, match="records at its end"),
    ):
        other.record(tx.id)
    assert producer.made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == (set(), {"a": "committed"})
    with shop.begin() as later:
        later.record("b")
        later.commit()
    assert truth.rows() == {"a": "committed", "b": "committed"}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_after_its_block_an_id_may_be_recorded_by_hand(shop: Any, truth: Truth) -> None:
    """A block that failed leaves nothing behind, here."""
    block = shop.barrier().transaction(RecordingProducer("a"))
    with pytest.raises(LookupError), block:
        raise LookupError("there is no such customer")
    with shop.begin() as later:
        later.record("a")
        later.commit()
    assert truth.rows() == {"a": "committed"}


# -- a second database behind the record ---------------------------------------------------------


class Note(Base):
    __tablename__ = "shop_notes"
    id: Mapped[str] = mapped_column(String(64), primary_key=True)


BLOCKING = [way for way in WAYS if way.style == "sqlalchemy"]


@pytest.mark.parametrize("way", BLOCKING, ids=str)
def test_rows_of_a_second_database_behind_a_record_by_hand_were_another_commit(
    shop: Any, truth: Truth, tmp_path: Path
) -> None:
    notes = create_engine(f"sqlite:///{tmp_path / 'notes.db'}")
    Base.metadata.create_all(notes)
    with Session(shop.engine, binds={Note: notes}) as session:
        order(session, "before")
        shop.barrier().record(session, "a")
        session.execute(text("SELECT 1"))
        session.add(Note(id="n"))
        with pytest.raises(InvalidRequest, match="works in two databases"):
            session.commit()
        session.rollback()
        order(session, "next")  # another local transaction, that has recorded nothing
        session.add(Note(id="next"))
        session.commit()
    with notes.connect() as connection:
        assert connection.execute(select(Note.id)).scalars().all() == ["next"]
    notes.dispose()
    assert (truth.orders(), truth.rows()) == ({"next"}, {})


# -- autocommit ----------------------------------------------------------------------------------


@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_a_begin_before_the_block_in_autocommit_was_not_ended_by_the_block_s_commit(
    way: Way, truth: Truth, addresses: Any
) -> None:
    """asyncpg's commit does nothing there: the rows were lost, and the messages committed."""
    shop = open_shop(way.at("AUTOCOMMIT"), addresses(way.server))

    def begin(session: Session) -> None:
        session.execute(text("BEGIN"))

    refused(shop, lambda session: order(session, "a"), "in autocommit mode", given=begin)
    assert (truth.orders(), truth.rows()) == (set(), {})
    shop.close()


@pytest.mark.parametrize("end", ["commit", "COMMIT"])
@each("alchemy", "postgresql")
def test_a_record_by_hand_in_autocommit_is_committed_or_said_not_to_be(
    way: Way, truth: Truth, addresses: Any, end: str
) -> None:
    shop: Any = open_shop(way.at("AUTOCOMMIT"), addresses(way.server))
    is_lost = way.driver == "asyncpg" and end == "commit"
    with shop.begin() as local:
        local.execute("BEGIN")
        local.order("a")
        local.record("a")
        if is_lost:
            with pytest.raises(InvalidRequest, match="Run COMMIT as you ran BEGIN"):
                local.commit()
        elif end == "commit":
            local.commit()
        else:
            local.execute("COMMIT")
    wanted = LocalTransactionState.ROLLBACK if is_lost else LocalTransactionState.COMMIT
    shop.close()
    shop = open_shop(way, addresses(way.server))
    assert shop.check("a") is wanted
    assert truth.orders() == (set() if is_lost else {"a"})
    shop.close()


# -- SQLite --------------------------------------------------------------------------------------


#: What sqlite3 begins no transaction for, and takes rows away.
GONE = {
    "drop": "DROP TABLE shop_old",
    "alter": "ALTER TABLE shop_old DROP COLUMN note",
}


def old_table(truth: Truth) -> list[tuple[Any, ...]]:
    """The rows that are there."""
    return truth.run("SELECT note FROM shop_old")


def make_old_table(truth: Truth) -> None:
    truth.run("CREATE TABLE shop_old (id TEXT, note TEXT)")
    truth.run("INSERT INTO shop_old VALUES ('a', 'of old')")


@pytest.mark.parametrize("statement", GONE)
@each("alchemy", "sqlite")
def test_a_table_that_was_dropped_first_on_sqlite_was_gone_alone(
    shop: Shop, truth: Truth, statement: str
) -> None:
    make_old_table(truth)

    def fails(session: Session) -> None:
        session.execute(text(GONE[statement]))
        raise LookupError("there is no such customer")

    with pytest.raises(LookupError):
        in_block(shop, fails)
    assert old_table(truth) == [("of old",)]
    done = in_block(shop, lambda session: session.execute(text(GONE[statement])))
    assert done.made[0].ends == ["commit"]


@pytest.mark.parametrize("statement", GONE)
@each("plain", "sqlite")
def test_a_table_that_was_dropped_first_on_a_connection_of_sqlite_s_was_not_told(
    shop: Shop, truth: Truth, statement: str
) -> None:
    make_old_table(truth)

    def begun(connection: Any) -> None:
        connection.execute("BEGIN")
        connection.execute(GONE[statement])
        raise LookupError("there is no such customer")

    with pytest.raises(LookupError):
        in_block(shop, begun)
    assert old_table(truth) == [("of old",)]
    refused(shop, lambda one: one.execute(GONE[statement]), "was ended inside it")


def traced(local: Any) -> None:
    """Somebody looks for a slow statement; then the transaction is ended and goes on."""
    if isinstance(local, Session):
        local = local.connection().connection.driver_connection
    if hasattr(local, "_conn"):  # aiosqlite's, which would ask in its own thread
        local = local._conn
    local.set_trace_callback(lambda _: None)


@pytest.mark.parametrize("way", [way for way in WAYS if way.server == "sqlite"], ids=str)
def test_a_trace_callback_of_the_program_s_made_the_block_blind(
    shop: Shop, truth: Truth, way: Way
) -> None:
    def body(local: Any) -> None:
        order(local, "before")
        traced(local)
        order(local, "after")

    refused(shop, body, "set_trace_callback was called inside this block")
    assert (truth.orders(), truth.rows()) == (set(), {})
    assert in_block(shop, lambda local: order(local, "next")).made[0].ends == ["commit"]


# -- a commit that failed ------------------------------------------------------------------------

_CHECKED = (
    "CREATE TABLE shop_lines (id VARCHAR(64) PRIMARY KEY, order_id VARCHAR(64)"
    " REFERENCES shop_orders (id) DEFERRABLE INITIALLY DEFERRED)"
)


def orphan(local: Any) -> None:
    """A line whose order is not there, which the commit finds out."""
    statements = (
        "PRAGMA foreign_keys = ON",
        "INSERT INTO shop_orders (id) VALUES ('a')",
        "INSERT INTO shop_lines (id, order_id) VALUES ('1', 'nowhere')",
    )
    for statement in statements:
        if isinstance(local, Session):
            local.execute(text(statement))
        else:
            local.cursor().execute(statement)


@pytest.mark.parametrize("way", [way for way in WAYS if way.server == "sqlite"], ids=str)
def test_a_commit_that_sqlite_refused_left_its_rows_to_the_next_one_of_the_pool(
    way: Way, truth: Truth, addresses: Any
) -> None:
    """SQLAlchemy took the transaction for ended; the record was in it, and the check waited."""
    options: Any = {} if way.style == "plain" else {"pool_size": 1, "max_overflow": 0}
    shop: Any = open_shop(way, addresses(way.server), **options)
    truth.run(_CHECKED)
    producer = RecordingProducer("a")
    with (
        pytest.raises(ERRORS, match="FOREIGN KEY constraint failed"),
        shop.barrier().transaction(producer) as (_, local),
    ):
        run(local, orphan)
    assert producer.made[0].ends == ["rollback"]
    with shop.begin() as local:
        local.order("b")
        local.commit()
    assert (truth.orders(), truth.rows()) == ({"b"}, {"a": "fenced"})
    shop.close()


def only_flushes(session: Any) -> None:
    """As a test suite's session that must leave no rows behind."""
    session.commit = session.flush


def swallows(session: Any) -> None:
    """What the database refuses."""
    commit = session.commit

    def tried() -> None:
        try:
            commit()
        except DBAPIError:
            session.rollback()

    session.commit = tried


def tries_again(session: Any) -> None:
    """With a transaction in which nothing is left."""
    commit = session.commit

    def tried() -> None:
        try:
            commit()
        except DBAPIError:
            session.rollback()
            commit()

    session.commit = tried


@each("alchemy", "sqlite")
@pytest.mark.parametrize("given", [only_flushes, swallows, tries_again])
def test_a_session_whose_commit_returned_and_had_not_committed_got_messages_without_rows(
    given: Body, way: Way, truth: Truth, addresses: Any
) -> None:
    """The block took the return for a commit."""
    shop: Any = open_shop(way, addresses(way.server))
    truth.run(_CHECKED)
    refused(shop, orphan, "commit.. returned, and its transaction was not", given=given)
    assert (truth.orders(), truth.rows()) == (set(), {"a": "fenced"})
    shop.close()


@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_a_session_whose_commit_does_more_than_commit_is_believed(shop: Any, truth: Truth) -> None:
    def given(session: Any) -> None:
        commit = session.commit

        def committed() -> None:
            commit()
            commit()  # of nothing

        session.commit = committed

    assert in_block(shop, lambda one: order(one, "a"), given=given).made[0].ends == ["commit"]
    assert (truth.orders(), truth.rows()) == ({"a"}, {"a": "committed"})


class OutOfTimeError(Exception):
    """Raised by a signal, as Celery's SoftTimeLimitExceeded. (For Ctrl-C SQLAlchemy sees to it.)"""


@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_a_commit_that_was_interrupted_left_its_rows_to_the_next_one_of_the_pool(
    way: Way, truth: Truth, addresses: Any
) -> None:
    shop: Any = open_shop(way, addresses(way.server), pool_size=1, max_overflow=0)
    engine = shop.async_engine.sync_engine if hasattr(shop, "async_engine") else shop.engine

    real = engine.dialect.do_commit

    def interrupt(_: Any) -> None:
        engine.dialect.do_commit = real  # the next one is the barrier's
        raise OutOfTimeError

    def body(session: Session) -> None:
        order(session, "a")
        engine.dialect.do_commit = interrupt

    producer = RecordingProducer("a")
    with pytest.raises(OutOfTimeError), shop.barrier().transaction(producer) as (_, local):
        run(local, body)
    assert producer.made[0].ends == ["rollback"]
    with shop.begin() as local:
        local.order("b")
        local.commit()
    assert (truth.orders(), truth.rows()) == ({"b"}, {"a": "fenced"})
    shop.close()


class Unclosed(Session):
    """A session whose close() does nothing, as of a test suite that keeps its objects."""

    def close(self) -> None:
        pass


class UnclosedAsync(AsyncSession):
    async def close(self) -> None:
        pass


@each("alchemy", "sqlite")
def test_a_session_whose_close_does_nothing_kept_what_a_failed_block_had_done(
    shop: Any, truth: Truth
) -> None:
    def fail(session: Session) -> None:
        order(session, "a")
        raise KeyError

    with ExitStack() as opened:
        given: Any
        if hasattr(shop, "async_engine"):
            given = UnclosedAsync(shop.async_engine)
            opened.callback(lambda: Blocking(given, shop._loop).commit())
        else:
            given = Unclosed(shop.engine)
            opened.callback(given.commit)  # by a program that goes on
        producer = RecordingProducer("a")
        block = shop.barrier().transaction(producer, session=given)
        with pytest.raises(KeyError), block as (_, local):
            run(local, fail)
        assert not given.in_transaction()
    assert (producer.made[0].ends, truth.orders()) == (["rollback"], set())
