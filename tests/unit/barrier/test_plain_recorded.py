"""What is known of a plain connection after a record by hand."""

from __future__ import annotations

import gc
import sqlite3
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from halfhitch.barrier import plain_recorded
from halfhitch.barrier.plain_recorded import KEPT_COUNT, ByHand
from halfhitch.barrier.told import Told
from halfhitch.client.recorded import Local

if TYPE_CHECKING:
    from collections.abc import Callable


class Info:
    """psycopg's, of a connection whose statement was not answered yet."""

    transaction_status = 1


class Connection:
    """Says of itself what it is told to, as psycopg's and PyMySQL's do."""

    def __init__(
        self, *, in_transaction: bool = False, closed: bool = False, is_busy: bool = False
    ) -> None:
        self.in_transaction = in_transaction
        self.autocommit = None
        self.closed = closed
        self.info = Info() if is_busy else None


def says(told: Told) -> Callable[[], Told]:
    return lambda: told


IDLE, WITHIN = Connection(), Connection(in_transaction=True)
LOST, BUSY = Connection(closed=True), Connection(in_transaction=True, is_busy=True)


@pytest.mark.parametrize(
    ("told", "idle", "within", "lost"),
    [
        (Told.OWN, Local.COMMITTED, Local.COMMITTED, Local.COMMITTED),
        (Told.COMMITTED, Local.COMMITTED, Local.COMMITTED, Local.COMMITTED),  # a later one is open
        (Told.FENCED, Local.ROLLED_BACK, Local.ROLLED_BACK, Local.ROLLED_BACK),
        (Told.NOTHING, Local.UNKNOWN, Local.OPEN, Local.UNKNOWN),
        (Told.UNSURE, Local.UNKNOWN, Local.UNKNOWN, Local.UNKNOWN),
        (Told.UNREAD, Local.ENDED, Local.UNKNOWN, Local.UNKNOWN),  # a pool that is used up
    ],
)
def test_a_rollback_by_hand_was_taken_for_a_commit(
    told: Told, idle: Local, within: Local, lost: Local
) -> None:
    found = [ByHand(one, says(told)).state() for one in (IDLE, WITHIN, LOST, BUSY)]
    assert found == [idle, within, lost, lost]


def test_what_a_driver_does_not_say_was_taken_for_a_commit() -> None:
    """Its local transaction was open, its table unread, and was rolled back later."""
    silent = SimpleNamespace(in_transaction=True, autocommit=False)  # sqlite3's
    assert ByHand(silent, says(Told.UNREAD)).state() is Local.UNKNOWN
    assert ByHand(silent, says(Told.COMMITTED)).state() is Local.COMMITTED


def test_another_process_s_row_was_taken_for_one_s_own_where_the_database_tells_them_apart() -> (
    None
):
    assert ByHand(IDLE, says(Told.COMMITTED), is_numbered=True).state() is Local.STANDS
    assert ByHand(IDLE, says(Told.OWN), is_numbered=True).state() is Local.COMMITTED


def test_a_dropped_connection_was_kept_by_the_block() -> None:
    connection = Connection(in_transaction=True)
    by_hand = ByHand(connection, says(Told.NOTHING))
    assert by_hand.state() is Local.OPEN
    del connection
    gc.collect()
    assert by_hand.state() is Local.UNKNOWN


def test_connections_that_cannot_be_let_go_of_do_not_pile_up() -> None:
    """sqlite3's, of transactions that are prepared here and ended elsewhere."""
    made = []
    for _ in range(KEPT_COUNT + 1):
        connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.execute("BEGIN")
        made.append(ByHand(connection, says(Told.NOTHING)))
    assert [made[0].state(), made[1].state()] == [Local.UNKNOWN, Local.OPEN]
    assert len(plain_recorded._KEPT) == KEPT_COUNT
    for by_hand in made[1:]:
        by_hand._connection().close()
