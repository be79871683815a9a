"""What a block asks of its connection."""

from __future__ import annotations

import gc
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from halfhitch.barrier import one_transaction
from halfhitch.barrier.one_transaction import OneTransaction
from harness.strikes import strikes

if TYPE_CHECKING:
    from pathlib import Path


def test_a_task_cancelled_in_the_block_s_own_question_left_the_file_locked(tmp_path: Path) -> None:
    """Its answer had a row that nobody read. The connection that SQLAlchemy closed kept its lock.

    As long as the cursor was there, in the frames of the cancellation: until a garbage collection.
    """
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id TEXT)")
    unread = []

    def cancelled(statement: str) -> None:
        """It is carried out in aiosqlite's thread all the same."""
        unread.append(connection.execute(statement))

    one = OneTransaction("sqlite", connection, cancelled, cancelled)
    one.begin()
    one.trace(lambda statement: None)
    connection.execute("INSERT INTO orders VALUES ('a')")
    one.require()
    connection.close()
    gc.collect()

    assert unread
    with closing(sqlite3.connect(path, timeout=0.1)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert other.execute("SELECT id FROM orders").fetchall() == []


def test_a_handler_s_exception_that_sqlite3_swallowed_was_taken_for_another_callback() -> None:
    """It was raised before the first line of the block's own callback."""
    for strike in strikes(one_transaction, is_real=True):
        with closing(sqlite3.connect(":memory:")) as connection:
            one = OneTransaction("sqlite", connection, connection.execute, connection.execute)
            one.begin()
            one.trace(lambda statement: None)
            connection.execute("CREATE TABLE orders (id TEXT)")
            with strike:
                one.require()
