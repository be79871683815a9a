"""What programs do with the session of a block: hooks before its commit, another block over it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from halfhitch.barrier import AsyncBarrier
from halfhitch.client import LocalTransactionState
from halfhitch.errors import InvalidRequest
from harness.barriers import (
    ENOUGH_S,
    GROUP,
    AlchemyShop,
    RecordingProducer,
    RecordingTransaction,
    asked,
    orders,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


class AwaitedTransaction(RecordingTransaction):
    """As asyncio's."""

    async def commit(self) -> None:  # type: ignore[override]
        self.ends.append("commit")

    async def drop(self, error: BaseException) -> None:  # type: ignore[override]
        self.ends.append("rollback")


class AwaitedProducer(RecordingProducer):
    """Of those."""

    def transaction(self, transaction_id: str | None = None, **_: Any) -> Any:
        self.made.append(AwaitedTransaction(transaction_id or self.new_id))
        return self.made[-1]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_asyncio_s_drivers_are_asked_too(
    postgres: EmbeddedPostgres, postgres_shop: AlchemyShop, driver: str
) -> None:
    """asyncpg does not say whether a statement has failed."""
    url = postgres.url.partition("?")[0].replace("+psycopg", f"+{driver}")
    engine = create_async_engine(url)
    barrier = AsyncBarrier(engine, GROUP, wait_s=ENOUGH_S)
    producer: Any = AwaitedProducer("a")
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
