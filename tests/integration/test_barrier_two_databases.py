"""A session over two databases: its commits are two, and the record is in one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Column, MetaData, String, Table, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from halfhitch.barrier import AsyncBarrier, Barrier
from halfhitch.errors import InvalidRequest
from harness.barriers import ENOUGH_S, GROUP, RecordingProducer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy.engine import Engine

    from harness.postgres import EmbeddedPostgres

ORDERS = Table("shop_orders", MetaData(), Column("id", String(64), primary_key=True))
STOCK = Table("shop_stock", MetaData(), Column("id", String(64), primary_key=True))


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Where the barrier's table is, and the orders."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    if request.param == "postgresql":
        postgres: EmbeddedPostgres = request.getfixturevalue("postgres")
        url = postgres.url
    engine = create_engine(url)
    Barrier(engine, GROUP).create()
    with engine.begin() as connection:
        ORDERS.drop(connection, checkfirst=True)
        ORDERS.create(connection)
        connection.execute(text("DELETE FROM halfhitch_barrier"))
    yield engine
    engine.dispose()


@pytest.fixture
def stock(tmp_path: Path) -> Iterator[Engine]:
    """Another database."""
    engine = create_engine(f"sqlite:///{tmp_path / 'stock.db'}")
    STOCK.create(engine)
    yield engine
    engine.dispose()


def counts(shop: Engine, stock: Engine) -> tuple[int, ...]:
    """Rows: of the barrier, orders, stock."""
    found = []
    for engine, name in ((shop, "halfhitch_barrier"), (shop, "shop_orders"), (stock, "shop_stock")):
        with engine.connect() as connection:
            statement = f"SELECT count(*) FROM {name}"
            found.append(int(connection.execute(text(statement)).scalar_one()))
    return tuple(found)


def work_in_both(session: Session) -> None:
    session.execute(ORDERS.insert().values(id="a"))
    session.execute(STOCK.insert().values(id="a"))


def try_to_work_in_both(session: Session) -> None:
    with pytest.raises(InvalidRequest):
        work_in_both(session)


def test_a_block_s_session_over_two_databases_had_its_record_in_one_of_them(
    shop: Engine, stock: Engine
) -> None:
    """Its two commits come one after the other; a crash between them left half of the rows."""
    producer = RecordingProducer()
    with Session(binds={ORDERS: shop, STOCK: stock}) as session:
        block = Barrier(shop, GROUP).transaction(producer, session=session)
        with pytest.raises(InvalidRequest, match="works in two databases"), block:
            work_in_both(session)
    assert producer.made[0].ends == ["rollback"]
    assert counts(shop, stock) == (0, 0, 0)


def test_the_second_database_is_refused_though_the_refusal_is_swallowed(
    shop: Engine, stock: Engine
) -> None:
    producer = RecordingProducer()
    with Session(binds={ORDERS: shop, STOCK: stock}) as session:
        block = Barrier(shop, GROUP).transaction(producer, session=session)
        with pytest.raises(InvalidRequest, match="works in two databases"), block:
            try_to_work_in_both(session)
    assert producer.made[0].ends == ["rollback"]
    assert counts(shop, stock) == (0, 0, 0)


def test_rows_that_a_session_had_in_another_database_before_its_block(
    shop: Engine, stock: Engine
) -> None:
    producer = RecordingProducer()
    with Session(binds={ORDERS: shop, STOCK: stock}) as session:
        work_in_both(session)
        with pytest.raises(InvalidRequest, match="works in two databases"):
            Barrier(shop, GROUP).transaction(producer, session=session).__enter__()
    assert [made.ends for made in producer.made] == [["rollback"]]
    assert counts(shop, stock) == (0, 0, 0)


def test_two_phases_over_two_engines_of_one_database_are_two_transactions_all_the_same(
    postgres: EmbeddedPostgres, stock: Engine
) -> None:
    engines = [create_engine(postgres.url) for _ in range(2)]
    shop = engines[0]
    Barrier(shop, GROUP).create()
    for table in (ORDERS, STOCK):
        table.drop(shop, checkfirst=True)
        table.create(shop)
    producer = RecordingProducer()
    with Session(binds={ORDERS: shop, STOCK: engines[1]}, twophase=True) as session:
        block = Barrier(shop, GROUP).transaction(producer, session=session)
        with pytest.raises(InvalidRequest, match="works in two databases"), block:
            work_in_both(session)
    assert producer.made[0].ends == ["rollback"]
    STOCK.drop(shop)
    for engine in engines:
        engine.dispose()


def test_a_record_by_hand_of_a_session_over_two_databases_is_refused(
    shop: Engine, stock: Engine
) -> None:
    barrier = Barrier(shop, GROUP)
    with Session(shop, binds={STOCK: stock}) as session:
        work_in_both(session)
        with pytest.raises(InvalidRequest, match="works in two databases"):
            barrier.record(session, "a")
    with Session(shop, binds={STOCK: stock}) as session:
        session.execute(STOCK.insert().values(id="a"))
        with pytest.raises(InvalidRequest, match="works in two databases"):
            barrier.record(session, "a")  # its rows are there, the record would be here
    assert counts(shop, stock) == (0, 0, 0)


def test_a_session_that_has_two_and_uses_one_is_fine(shop: Engine, stock: Engine) -> None:
    producer = RecordingProducer()
    with Session(binds={ORDERS: shop, STOCK: stock}) as session:
        with Barrier(shop, GROUP).transaction(producer, session=session):
            session.execute(ORDERS.insert().values(id="a"))
        session.execute(STOCK.insert().values(id="a"))
        session.commit()
    assert producer.made[0].ends == ["commit"]
    assert counts(shop, stock) == (1, 1, 1)


async def test_asyncio_s_session_over_two_databases_is_refused(shop: Engine, stock: Engine) -> None:
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+psycopg"}
    engines = [
        create_async_engine(engine.url.set(drivername=drivers[engine.dialect.name]))
        for engine in (shop, stock)
    ]
    binds: Any = {ORDERS: engines[0], STOCK: engines[1]}
    producer: Any = RecordingProducer()
    barrier = AsyncBarrier(engines[0], GROUP, wait_s=ENOUGH_S)
    async with AsyncSession(binds=binds) as session:
        block = barrier.transaction(producer, session=session)
        with pytest.raises(InvalidRequest, match="works in two databases"):
            async with block:
                await session.run_sync(work_in_both)
    for engine in engines:
        await engine.dispose()
    assert producer.made[0].ends == ["rollback"]
    assert counts(shop, stock) == (0, 0, 0)


@pytest.mark.parametrize("server", ["postgres", "mariadb"])
def test_a_session_of_another_database_where_the_table_exists_was_answered_rollback(
    request: pytest.FixtureRequest, server: str
) -> None:
    """Its rows and record were committed there, and a check fenced them here."""
    engine = create_engine(request.getfixturevalue(server).url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("DROP DATABASE IF EXISTS another_shop"))
        connection.execute(text("CREATE DATABASE another_shop"))
    other = create_engine(engine.url.set(database="another_shop"))
    again = create_engine(engine.url)
    for one in (engine, other):
        Barrier(one, GROUP).create()
    barrier, producer = Barrier(engine, GROUP), RecordingProducer("a")
    with Session(other) as session:
        block = barrier.transaction(producer, session=session)
        with pytest.raises(InvalidRequest, match="works in another database"), block:
            session.execute(text("SELECT 1"))
        with pytest.raises(InvalidRequest, match="works in another database"):
            barrier.record(session, "b")
    with Session(again) as session, barrier.transaction(producer, "c", session=session):
        session.execute(text("SELECT 1"))
    assert [made.ends for made in producer.made] == [["rollback"], ["commit"]]
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("DELETE FROM halfhitch_barrier"))
        other.dispose()
        connection.execute(text("DROP DATABASE another_shop"))
    for one in (engine, again):
        one.dispose()
