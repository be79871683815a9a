"""The commit behind a record: what it asks for, and of which transaction."""

from __future__ import annotations

import gc
import sqlite3
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from halfhitch.barrier import sql_recorded
from halfhitch.barrier.told import Told
from halfhitch.client.recorded import Local
from halfhitch.client.values import LocalTransactionState
from halfhitch.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine import Connection

INSERT = text("INSERT INTO rows VALUES ('one')")


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.connect() as made:
        made.execute(text("CREATE TABLE rows (id TEXT)"))
        made.commit()
        yield made
    engine.dispose()


def record(connection: Connection) -> None:
    sql_recorded.watch_commit(connection, connection.execute(INSERT))


def count(connection: Connection) -> int:
    return int(connection.execute(text("SELECT count(*) FROM rows")).scalar_one())


def test_a_commit_of_the_record_s_transaction_is_done(connection: Connection) -> None:
    for number in (1, 2):
        record(connection)
        connection.commit()
        assert count(connection) == number
        connection.rollback()


def test_a_commit_of_another_transaction_is_refused_before_it_is_done(
    connection: Connection,
) -> None:
    record(connection)
    connection.connection.rollback()
    connection.execute(INSERT)
    with pytest.raises(InvalidRequest, match="between the record and its commit"):
        connection.commit()
    connection.rollback()
    assert count(connection) == 0


def test_a_transaction_that_has_recorded_nothing_is_not_asked(connection: Connection) -> None:
    record(connection)
    connection.rollback()
    connection.execute(INSERT)
    connection.commit()
    assert count(connection) == 1


def test_a_second_try_on_the_same_connection_was_refused_for_the_first_one(
    connection: Connection,
) -> None:
    """The first one's transaction was gone, and the second one's had not begun: both were None."""
    record(connection)
    connection.rollback()
    gc.collect()
    sql_recorded.require_earlier(connection)
    record(connection)
    connection.commit()
    assert count(connection) == 1


def test_what_the_database_says_otherwise_is_its_own_error(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(connection)
    monkeypatch.setattr(sql_recorded, "_NAME", "no name")
    with pytest.raises(OperationalError, match="syntax error"):
        connection.commit()
    connection.rollback()


def recorded_by_hand(connection: Connection) -> sql_recorded.ByHand:
    record(connection)
    return sql_recorded.ByHand(connection, will_be_proven=False)


def test_a_connection_tells_of_its_commit_and_the_table_need_not_be_read(
    connection: Connection,
) -> None:
    by_hand = recorded_by_hand(connection)
    assert by_hand.seen() is Local.OPEN
    connection.commit()
    assert by_hand.seen() is Local.COMMITTED
    again = recorded_by_hand(connection)
    assert again.seen() is Local.OPEN
    connection.rollback()
    assert (again.seen(), again.judged(Told.UNREAD)) == (None, Local.UNKNOWN)


def test_a_commit_that_was_refused_was_believed_once_it_was_rolled_back(
    connection: Connection,
) -> None:
    """Where the table could not be read; the messages followed, without their rows."""
    connection.rollback()
    connection.exec_driver_sql("PRAGMA foreign_keys = ON")
    connection.execute(text("CREATE TABLE parents (id TEXT PRIMARY KEY)"))
    connection.execute(
        text(
            "CREATE TABLE children (id TEXT REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)"
        )
    )
    connection.commit()
    connection.execute(text("INSERT INTO children VALUES ('nobody')"))
    by_hand = recorded_by_hand(connection)
    with pytest.raises(IntegrityError):
        connection.commit()
    connection.rollback()
    assert (by_hand.seen(), by_hand.judged(Told.UNREAD)) == (None, Local.UNKNOWN)


def test_a_commit_that_was_under_way_was_taken_for_an_open_local_transaction(
    connection: Connection,
) -> None:
    """And rolled back were its messages, for who waits for a standby was sure of no record."""
    by_hand, seen = recorded_by_hand(connection), list[Local | None]()
    assert by_hand.seen() is Local.OPEN
    event.listen(connection, "commit", lambda _: seen.append(by_hand.seen()))
    connection.commit()
    assert seen == [None]
    assert by_hand.seen() is Local.COMMITTED


def test_what_was_begun_behind_a_commit_past_sqlalchemy_was_taken_for_open_before_a_rollback(
    connection: Connection,
) -> None:
    by_hand = recorded_by_hand(connection)
    connection.exec_driver_sql("COMMIT")
    connection.execute(INSERT)
    assert by_hand.seen() is Local.OPEN  # a commit is refused in any case
    assert by_hand.seen(LocalTransactionState.ROLLBACK) is None
    assert judged(by_hand) == {
        Told.OWN: Local.COMMITTED,
        Told.COMMITTED: Local.STANDS,
        Told.FENCED: Local.ROLLED_BACK,
        Told.NOTHING: Local.OPEN,
        Told.UNSURE: Local.UNKNOWN,
        Told.UNREAD: Local.OPEN,  # who has used up the pool could roll nothing back
    }


def judged(by_hand: sql_recorded.ByHand) -> dict[Told, Local]:
    return {told: by_hand.judged(told) for told in Told}


def test_what_the_table_says_of_a_transaction_that_is_over(connection: Connection) -> None:
    """Whose record stands only PostgreSQL tells (OWN), and else at most the id."""
    cut_off = recorded_by_hand(connection)
    cut_off._course.is_tried = True
    connection.rollback()
    assert judged(cut_off) == {
        Told.OWN: Local.COMMITTED,
        Told.COMMITTED: Local.STANDS,
        Told.FENCED: Local.ROLLED_BACK,
        Told.NOTHING: Local.UNKNOWN,
        Told.UNSURE: Local.UNKNOWN,
        Told.UNREAD: Local.UNKNOWN,
    }
    rolled_back = recorded_by_hand(connection)
    connection.rollback()
    assert judged(rolled_back) == {
        **judged(cut_off),
        Told.COMMITTED: Local.COMMITTED_BEFORE,
        Told.NOTHING: Local.ROLLED_BACK,
    }


def test_a_session_s_commit_was_not_heard_because_a_hook_of_the_program_s_raised_first(
    connection: Connection,
) -> None:
    """Under an id of the program's own the row may be another attempt's, then."""
    session = Session(connection.engine)

    def raises(_: object) -> None:
        raise SoftTimeLimitError

    event.listen(session, "after_commit", raises)
    own = session.connection()
    record(own)
    by_hand = sql_recorded.ByHand(own, will_be_proven=True)
    sql_recorded.watch_session(session, own)
    with pytest.raises(SoftTimeLimitError):
        session.commit()
    assert by_hand.is_proven()
    session.close()


class SoftTimeLimitError(Exception):
    """Of a signal, between two lines of anybody's."""


def test_a_commit_that_was_cut_short_left_its_rows_to_the_next_one_of_the_pool(
    connection: Connection,
) -> None:
    def cut(*_: object) -> None:
        raise SoftTimeLimitError

    record(connection)
    event.listen(connection, "before_cursor_execute", cut, once=True)
    with pytest.raises(SoftTimeLimitError):
        connection.commit()
    driver_connection = connection.connection.dbapi_connection
    assert isinstance(driver_connection, sqlite3.Connection)
    assert not driver_connection.in_transaction


def test_a_connection_that_cannot_be_rolled_back_is_not_used_again(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise sqlite3.OperationalError("no rollback now")

    record(connection)
    event.listen(connection, "before_cursor_execute", refuses, once=True)
    pooled = connection.connection
    invalidated: list[object] = []
    monkeypatch.setattr(pooled, "rollback", refuses, raising=False)
    monkeypatch.setattr(pooled, "invalidate", lambda: invalidated.append(pooled))
    with pytest.raises(OperationalError):
        connection.commit()
    assert invalidated == [pooled]
