"""What is known of a plain connection after a record by hand."""

from __future__ import annotations

import gc
import sqlite3
from typing import TYPE_CHECKING

import pytest

from halfhitch.barrier import plain_recorded
from halfhitch.barrier.plain_recorded import KEPT_COUNT, ByHand
from halfhitch.client.recorded import Local

if TYPE_CHECKING:
    from collections.abc import Callable


class Connection:
    """Says of itself what it is told to, as psycopg's and PyMySQL's do."""

    def __init__(self, *, in_transaction: bool = False, closed: bool = False) -> None:
        self.in_transaction = in_transaction
        self.autocommit = None
        self.closed = closed


def says(*, stands: bool | None) -> Callable[[], bool | None]:
    return lambda: stands


@pytest.mark.parametrize(
    ("connection", "stands", "state"),
    [
        (Connection(), True, Local.COMMITTED),
        (Connection(), False, Local.UNKNOWN),
        (Connection(), None, Local.ENDED),  # a pool that is used up
        (Connection(in_transaction=True), True, Local.COMMITTED),  # a later one is open
        (Connection(in_transaction=True), False, Local.OPEN),
        (Connection(in_transaction=True), None, Local.OPEN),
        (Connection(closed=True), True, Local.COMMITTED),
        (Connection(closed=True), False, Local.UNKNOWN),
        (Connection(closed=True), None, Local.UNKNOWN),
        (Connection(in_transaction=True, closed=True), False, Local.UNKNOWN),
    ],
)
def test_a_rollback_by_hand_was_taken_for_a_commit(
    connection: Connection, state: Local, *, stands: bool | None
) -> None:
    assert ByHand(connection, says(stands=stands)).state() is state


def test_a_dropped_connection_was_kept_by_the_block() -> None:
    connection = Connection(in_transaction=True)
    by_hand = ByHand(connection, says(stands=False))
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
        made.append(ByHand(connection, says(stands=False)))
    assert [made[0].state(), made[1].state()] == [Local.UNKNOWN, Local.OPEN]
    assert len(plain_recorded._KEPT) == KEPT_COUNT
    for by_hand in made[1:]:
        by_hand._connection().close()
