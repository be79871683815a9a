"""What programs do with the session of a block: hooks before its commit, another block over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from halfhitch.barrier import AsyncBarrier
from halfhitch.client import LocalTransactionState
from halfhitch.errors import InvalidRequest
from harness.barriers import (
    ENOUGH_S,
    GROUP,
    AlchemyShop,
    RecordingProducer,
    asked,
    orders,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.engine import Connection

    from harness.postgres import EmbeddedPostgres

ROLLBACK = LocalTransactionState.ROLLBACK


@pytest.fixture
def postgres_shop(postgres: EmbeddedPostgres) -> Iterator[AlchemyShop]:
    made = AlchemyShop(postgres.url)
    made.set_up()
    yield made
    made.close()


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Iterator[AlchemyShop]:
    made = AlchemyShop(f"sqlite:///{tmp_path / 'shop.db'}")
    made.set_up()
    yield made
    made.close()


# -- a statement that failed, and whose exception was swallowed ----------------------------------


def best_effort(session: Session) -> None:
    """As a hook that writes an audit: it must not be in the way."""
    with pytest.raises(DBAPIError):
        session.execute(text("INSERT INTO no_such_table VALUES (1)"))


class OnceInSavepoint:
    """The hook as it should be. (The savepoint's own end is a commit to SQLAlchemy, too.)"""

    is_done = False

    def __call__(self, session: Session) -> None:
        if not self.is_done:
            self.is_done = True
            with pytest.raises(DBAPIError), session.begin_nested():
                session.execute(text("INSERT INTO no_such_table VALUES (1)"))


def order_in(session: Session, transaction_id: str) -> None:
    session.execute(text(f"INSERT INTO shop_orders (id) VALUES ('{transaction_id}')"))


def test_a_hook_that_swallowed_its_error_made_the_commit_a_rollback_that_nobody_noticed(
    postgres_shop: AlchemyShop,
) -> None:
    """PostgreSQL answers such a COMMIT with ROLLBACK, and no driver raises."""
    producer = RecordingProducer("a")
    with Session(postgres_shop.engine) as session:
        event.listen(session, "before_commit", best_effort)
        block = postgres_shop.barrier.transaction(producer, session=session)
        with pytest.raises(InvalidRequest, match="exception was swallowed"), block:
            order_in(session, "a")
    assert (orders(postgres_shop), rows(postgres_shop)) == (set(), {"a": "fenced"})
    assert producer.made[0].ends == ["rollback"]


def test_a_hook_that_fails_in_a_savepoint_spoils_nothing(postgres_shop: AlchemyShop) -> None:
    producer = RecordingProducer("a")
    with postgres_shop.barrier.transaction(producer) as (_, session):
        event.listen(session, "before_commit", once_in_savepoint := OnceInSavepoint())
        order_in(session, "a")
    assert once_in_savepoint.is_done
    assert (orders(postgres_shop), rows(postgres_shop)) == ({"a"}, {"a": "committed"})
    assert producer.made[0].ends == ["commit"]


def test_an_error_that_was_swallowed_after_an_early_record_is_raised_by_the_commit(
    postgres_shop: AlchemyShop,
) -> None:
    shop = postgres_shop
    with Session(shop.engine) as session:
        shop.barrier.record(session, "a")
        order_in(session, "a")
        best_effort(session)
        with pytest.raises(InvalidRequest, match="exception was swallowed"):
            session.commit()
    with shop.engine.connect() as connection:
        for transaction_id in ("b", "c"):  # one connection, several transactions
            shop.barrier.record(connection, transaction_id)
            connection.commit()
    assert shop.barrier.check(asked("a")) is ROLLBACK
    assert orders(shop) == set()
    assert rows(shop) == {"a": "fenced", "b": "committed", "c": "committed"}


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_asyncio_s_drivers_are_asked_too(
    postgres: EmbeddedPostgres, postgres_shop: AlchemyShop, driver: str
) -> None:
    """asyncpg does not say whether a statement has failed."""
    url = postgres.url.partition("?")[0].replace("+psycopg", f"+{driver}")
    engine = create_async_engine(url)
    barrier = AsyncBarrier(engine, GROUP, wait_s=ENOUGH_S)
    producer: Any = RecordingProducer("a")
    async with AsyncSession(engine) as session:
        event.listen(session.sync_session, "before_commit", best_effort)
        block = barrier.transaction(producer, session=session)
        with pytest.raises(InvalidRequest, match="exception was swallowed"):
            async with block:
                await session.run_sync(order_in, "a")
    async with barrier.transaction(producer, "b") as (_, own):
        await own.run_sync(order_in, "b")
    assert [made.ends for made in producer.made] == [["rollback"], ["commit"]]
    await engine.dispose()
    assert orders(postgres_shop) == {"b"}
    assert rows(postgres_shop) == {"a": "fenced", "b": "committed"}


# -- two blocks over one session -----------------------------------------------------------------


@pytest.mark.parametrize("is_given", [True, False])
def test_a_block_over_the_session_of_another_one_committed_its_rows(
    sqlite_shop: AlchemyShop, is_given: bool
) -> None:
    """And when it failed it rolled them back, while the outer one's messages were committed."""
    shop = sqlite_shop
    outer, inner = RecordingProducer("outer"), RecordingProducer("inner")
    with Session(shop.engine) as given:
        options = {"session": given} if is_given else {}
        with shop.barrier.transaction(outer, **options) as (_, session):
            order_in(session, "outer")
            with pytest.raises(InvalidRequest, match="in another block of a barrier"):
                shop.barrier.transaction(inner, session=session).__enter__()
        assert (inner.made, outer.made[0].ends) == ([], ["commit"])
        assert orders(shop) == {"outer"}
        if is_given:  # one after the other is fine
            with shop.barrier.transaction(inner, session=given):
                order_in(given, "inner")
            assert orders(shop) == {"outer", "inner"}


# -- a session that is another one, or commits nothing -------------------------------------------


@pytest.mark.parametrize("is_used", [True, False])
def test_a_scoped_session_that_was_removed_inside_the_block_left_its_rows_behind(
    sqlite_shop: AlchemyShop, *, is_used: bool
) -> None:
    """They were in the registry's next session, and the record was committed alone."""
    shop = sqlite_shop
    producer = RecordingProducer("a")
    registry = scoped_session(sessionmaker(shop.engine))

    def work() -> None:
        with shop.barrier.transaction(producer, session=registry):
            if is_used:
                registry.execute(text("INSERT INTO shop_orders (id) VALUES ('before')"))
            registry.remove()
            registry.execute(text("INSERT INTO shop_orders (id) VALUES ('after')"))
            registry.rollback()

    with pytest.raises(InvalidRequest, match=r"its remove\(\) was called inside"):
        work()
    registry.remove()
    assert producer.made[0].ends == ["rollback"]
    assert (orders(shop), rows(shop)) == (set(), {})
    with shop.barrier.transaction(producer, session=registry):
        registry.execute(text("INSERT INTO shop_orders (id) VALUES ('next')"))
    registry.remove()
    assert orders(shop) == {"next"}


@pytest.mark.parametrize("mode", ["conditional_savepoint", "rollback_only", "create_savepoint"])
def test_a_transaction_that_was_begun_around_a_session_inside_the_block_was_told_too_late(
    sqlite_shop: AlchemyShop, mode: Any
) -> None:
    """Its commit committed nothing; nobody could say what would become of the rows."""
    shop = sqlite_shop
    producer = RecordingProducer("a")

    def work(connection: Connection) -> None:
        session = Session(bind=connection, join_transaction_mode=mode)
        with shop.barrier.transaction(producer, session=session):
            connection.begin()
            order_in(session, "a")

    with shop.engine.connect() as connection:
        with pytest.raises(InvalidRequest, match="begun on its connection"):
            work(connection)
        connection.rollback()
    assert producer.made[0].ends == ["rollback"]
    assert (orders(shop), rows(shop)) == (set(), {})


@pytest.mark.parametrize("is_scoped", [True, False])
def test_a_record_by_hand_inside_the_block_was_told_at_its_end_only(
    sqlite_shop: AlchemyShop, *, is_scoped: bool
) -> None:
    shop = sqlite_shop
    producer = RecordingProducer("a")
    session: Any = scoped_session(sessionmaker(shop.engine)) if is_scoped else Session(shop.engine)
    with shop.barrier.transaction(producer, session=session) as (tx, _):
        order_in(session, "a")
        with pytest.raises(InvalidRequest, match="the block records at its end"):
            shop.barrier.record(session, tx.id)
        shop.barrier.record(session, "another")  # whose messages follow the same rows
    session.close()
    assert producer.made[0].ends == ["commit"]
    assert rows(shop) == {"a": "committed", "another": "committed"}
