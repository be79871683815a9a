"""A message that was sent inside a savepoint outlived the rows that the savepoint took back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

from halfhitch.barrier import AsyncBarrier, Barrier
from halfhitch.errors import InvalidRequest
from harness.barriers import GROUP, RecordingProducer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy.orm import Session

    Body = Callable[[Session, Any], object]


@pytest.fixture
def barrier(tmp_path: Path) -> Iterator[Barrier]:
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE shop_orders (id VARCHAR(64) PRIMARY KEY)")
    made = Barrier(engine, GROUP)
    made.create()
    yield made
    engine.dispose()


def orders(barrier: Barrier) -> set[str]:
    with barrier._engine.connect() as connection:
        return {row.id for row in connection.exec_driver_sql("SELECT id FROM shop_orders")}


def order(session: Session, name: str) -> None:
    session.execute(text("INSERT INTO shop_orders VALUES (:id)"), {"id": name})


class OutOfStockError(Exception):
    """The program's."""


def of_the_session(session: Session, tx: Any) -> None:
    order(session, "kept")
    with suppress(OutOfStockError), session.begin_nested():
        order(session, "taken back")
        tx.prepare(["of the row"])
        raise OutOfStockError


def with_no_statement_before(session: Session, tx: Any) -> None:
    """No connection knows of it: what was only added to the session is dropped."""
    with suppress(OutOfStockError), session.begin_nested():
        tx.prepare(["of an object that is not flushed"])
        raise OutOfStockError
    order(session, "kept")


def in_an_inner_one(session: Session, tx: Any) -> None:
    with suppress(OutOfStockError), session.begin_nested():
        with session.begin_nested():
            order(session, "taken back")
            tx.prepare(["of the row"])
        raise OutOfStockError


def of_the_connection(session: Session, tx: Any) -> None:
    nested = session.connection().begin_nested()
    order(session, "taken back")
    tx.prepare(["of the row"])
    nested.rollback()


def by_text(session: Session, tx: Any) -> None:
    session.execute(text("SAVEPOINT maybe"))
    order(session, "taken back")
    tx.prepare(["of the row"])
    session.execute(text("ROLLBACK TO SAVEPOINT maybe"))


TAKEN_BACK: list[Body] = [
    by_text,
    of_the_session,
    with_no_statement_before,
    in_an_inner_one,
    of_the_connection,
]


@pytest.mark.parametrize("body", TAKEN_BACK)
def test_a_message_of_a_savepoint_that_was_rolled_back_was_committed_without_its_row(
    barrier: Barrier, body: Body
) -> None:
    producer: Any = RecordingProducer()
    with (
        pytest.raises(InvalidRequest, match="messages were sent inside it"),
        barrier.transaction(producer) as (tx, session),
    ):
        body(session, tx)
    assert producer.made[0].ends == ["rollback"]
    assert orders(barrier) == set()


@pytest.mark.parametrize("body", TAKEN_BACK)
async def test_so_it_was_over_asyncio(barrier: Barrier, tmp_path: Path, body: Body) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
    producer: Any = RecordingProducer()
    with pytest.raises(InvalidRequest, match="messages were sent inside it"):
        async with AsyncBarrier(engine, GROUP).transaction(producer) as (tx, session):
            await session.run_sync(body, tx)
    assert producer.made[0].ends == ["rollback"]
    assert orders(barrier) == set()
    await engine.dispose()


def test_messages_before_and_behind_a_savepoint_are_none_of_its(barrier: Barrier) -> None:
    producer: Any = RecordingProducer()
    with barrier.transaction(producer) as (tx, session):
        tx.prepare(["before"])  # type: ignore[list-item]
        with suppress(OutOfStockError), session.begin_nested():
            order(session, "taken back")
            raise OutOfStockError
        tx.prepare(["behind it"])  # type: ignore[list-item]
        with session.begin_nested():
            order(session, "kept")
            tx.prepare(["inside of one that ends well"])  # type: ignore[list-item]
    assert producer.made[0].ends == ["commit"]
    assert orders(barrier) == {"kept"}


def test_what_was_taken_back_in_one_block_is_forgotten_in_the_session_s_next(
    barrier: Barrier,
) -> None:
    producer: Any = RecordingProducer()
    from sqlalchemy.orm import Session

    with Session(barrier._engine) as session:
        with (
            pytest.raises(InvalidRequest),
            barrier.transaction(producer, session=session) as (tx, _),
        ):
            of_the_session(session, tx)
        producer.new_id = "next"
        with barrier.transaction(producer, session=session) as (tx, _):
            order(session, "kept")
    assert [made.ends for made in producer.made] == [["rollback"], ["commit"]]
