"""A message that is sent inside a savepoint does not go with the rows that it takes back.

So the block is refused, on every database and driver where it can be noticed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.rows import args_row, dict_row, namedtuple_row, scalar_row
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from halfhitch.errors import InvalidRequest
from harness.barriers import RecordingProducer
from harness.blocks import each, order, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.databases import Shop, Truth

    #: Does something with the session or connection, and sends.
    Steps = Callable[[Any, Callable[[], None]], object]


def execute(local: Any, statement: str) -> None:
    if isinstance(local, Session):
        local.execute(text(statement))
    else:
        local.cursor().execute(statement)


def rolled_back(local: Any, send: Callable[[], None]) -> None:
    order(local, "kept")
    execute(local, "SAVEPOINT maybe")
    order(local, "taken back")
    send()
    execute(local, "ROLLBACK TO SAVEPOINT maybe")


def rolled_back_behind_another_message(local: Any, send: Callable[[], None]) -> None:
    """The last message is whole, and the one before it is not."""
    rolled_back(local, send)
    send()


def released_inside_of_one_that_was_rolled_back(local: Any, send: Callable[[], None]) -> None:
    order(local, "kept")
    execute(local, "SAVEPOINT around")
    execute(local, "SAVEPOINT within")
    order(local, "taken back")
    send()
    execute(local, "RELEASE SAVEPOINT within")
    execute(local, "ROLLBACK TO SAVEPOINT around")


TAKEN_BACK: list[Steps] = [
    rolled_back,
    rolled_back_behind_another_message,
    released_inside_of_one_that_was_rolled_back,
]


def in_block(shop: Shop, steps: Steps) -> RecordingProducer:
    producer = RecordingProducer("a")
    with shop.barrier().transaction(producer) as (tx, local):
        run(local, lambda one: steps(one, lambda: tx.prepare(["one"])))
    return producer


def refused(shop: Shop, truth: Truth, steps: Steps) -> None:
    with pytest.raises(InvalidRequest, match="messages were sent inside it"):
        in_block(shop, steps)
    assert (truth.orders(), truth.rows()) == (set(), {})


@pytest.mark.parametrize("steps", TAKEN_BACK)
@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_a_savepoint_by_text_took_rows_back_and_their_messages_were_committed(
    shop: Shop, truth: Truth, steps: Steps
) -> None:
    refused(shop, truth, steps)


@pytest.mark.parametrize("steps", TAKEN_BACK)
@each("plain", "sqlite", "postgresql")
def test_so_did_one_of_a_plain_connection(shop: Shop, truth: Truth, steps: Steps) -> None:
    refused(shop, truth, on_sqlite_begun(steps))


def on_sqlite_begun(steps: Steps) -> Steps:
    """It begins no transaction for a SAVEPOINT."""

    def begun(local: Any, send: Callable[[], None]) -> None:
        if hasattr(local, "set_trace_callback"):
            local.execute("BEGIN")
        steps(local, send)

    return begun


class OutOfStockError(Exception):
    """The program's."""


@each("plain", "postgresql")
def test_so_did_a_block_of_psycopg_s_inside(shop: Shop, truth: Truth) -> None:
    def steps(local: Any, send: Callable[[], None]) -> None:
        order(local, "kept")
        with suppress(OutOfStockError), local.transaction():
            order(local, "taken back")
            send()
            raise OutOfStockError

    refused(shop, truth, steps)


@each("plain", "postgresql")
def test_so_did_one_that_sends_when_a_statement_has_failed_already(
    shop: Shop, truth: Truth
) -> None:
    def steps(local: Any, send: Callable[[], None]) -> None:
        order(local, "kept")
        execute(local, "SAVEPOINT maybe")
        with suppress(Exception):
            execute(local, "SELECT * FROM no_such_table")
        send()
        execute(local, "ROLLBACK TO SAVEPOINT maybe")

    refused(shop, truth, steps)


@each("plain", "postgresql")
def test_a_send_between_rows_that_are_streamed_does_not_wait_for_their_end(
    shop: Shop, truth: Truth
) -> None:
    """psycopg holds the connection's lock that long, so a statement of ours would for ever."""

    def steps(local: Any, send: Callable[[], None]) -> None:
        order(local, "kept")
        for _ in local.cursor().stream("SELECT generate_series(1, 3)"):
            send()

    assert in_block(shop, steps).made[0].ends == ["commit"]
    assert truth.orders() == {"kept"}


@each("plain", "sqlite", "postgresql")
def test_messages_beside_savepoints_are_committed(shop: Shop, truth: Truth) -> None:
    def steps(local: Any, send: Callable[[], None]) -> None:
        order(local, "kept")
        send()
        execute(local, "SAVEPOINT maybe")
        order(local, "taken back")
        execute(local, "ROLLBACK TO SAVEPOINT maybe")
        send()
        execute(local, "RELEASE SAVEPOINT maybe")
        execute(local, "SAVEPOINT certain")
        order(local, "certain")
        send()
        execute(local, "RELEASE SAVEPOINT certain")
        send()

    assert in_block(shop, on_sqlite_begun(steps)).made[0].ends == ["commit"]
    assert truth.orders() == {"kept", "certain"}


#: What the program has made of the rows that its connection gives.
ROW_FACTORIES: dict[str, Any] = {
    "dict": dict_row,
    "named": namedtuple_row,
    "scalar": scalar_row,
    "first": args_row(lambda *values: values[0]),
}


@pytest.mark.parametrize("rows", ROW_FACTORIES)
@each("plain", "postgresql")
def test_messages_are_counted_whatever_rows_the_connection_gives(
    shop: Shop, truth: Truth, rows: str
) -> None:
    def steps(local: Any, send: Callable[[], None]) -> None:
        local.row_factory = ROW_FACTORIES[rows]
        order(local, "kept")
        send()
        with local.transaction():
            order(local, "certain")
            send()

    assert in_block(shop, steps).made[0].ends == ["commit"]
    assert truth.orders() == {"kept", "certain"}


def in_a_pipeline(local: Any, send: Callable[[], None]) -> None:
    with local.pipeline():
        order(local, "kept")
        send()


def at_a_cursor_of_the_server_s(local: Any, send: Callable[[], None]) -> None:
    order(local, "kept")
    with local.cursor(name="many") as cursor:
        cursor.itersize = 2
        cursor.execute("SELECT generate_series(1, 5)")
        for _ in cursor:
            send()


def in_a_copy(local: Any, send: Callable[[], None]) -> None:
    with local.cursor().copy("COPY shop_orders (id) FROM STDIN") as copy:
        send()
        copy.write_row(["kept"])


@pytest.mark.parametrize("steps", [in_a_pipeline, at_a_cursor_of_the_server_s, in_a_copy])
@each("plain", "postgresql")
def test_a_send_while_psycopg_is_at_something_else_is_no_fault(
    shop: Shop, truth: Truth, steps: Steps
) -> None:
    assert in_block(shop, steps).made[0].ends == ["commit"]
    assert truth.orders() == {"kept"}


@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_a_message_behind_a_savepoint_that_a_duplicate_has_ended_is_committed(
    shop: Shop, truth: Truth
) -> None:
    def steps(local: Any, send: Callable[[], None]) -> None:
        order(local, "kept")
        for _ in range(2):
            try:
                with local.begin_nested():
                    order(local, "kept")
            except IntegrityError:
                send()
        with local.begin_nested():
            order(local, "certain")
            send()

    assert in_block(shop, steps).made[0].ends == ["commit"]
    assert truth.orders() == {"kept", "certain"}
