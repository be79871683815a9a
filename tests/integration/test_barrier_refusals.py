"""What a barrier refuses before anything is decided: nothing it says may rest on half a commit.

A record must be committed if and only if the rows beside it are: not alone (autocommit), not
without them (a savepoint), not later or never (an outer transaction). And a row that may have been
purged is never fenced, by the clock that purged it.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pymysql
import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.util import await_only

from halfhitch.barrier import AsyncBarrier, Barrier, DbapiBarrier
from halfhitch.client import (
    AsyncTransactionProducer,
    LocalTransactionState,
    Message,
    ProducerClosed,
    TransactionDoomed,
    TransactionEnded,
    TransactionMisused,
    TransactionProducer,
)
from halfhitch.errors import ConfigurationError, InvalidRequest
from harness.barriers import (
    ENOUGH_S,
    GROUP,
    AlchemyShop,
    AsyncShop,
    DbapiShop,
    RecordingProducer,
    asked,
    insert,
    open_shop,
    orders,
    ready_shop,
    rows,
)
from harness.producers import Blocking
from harness.scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy.engine import Connection
    from sqlalchemy.ext.asyncio import AsyncEngine

    from harness.barriers import Shop
    from harness.mariadb import EmbeddedMariaDb
    from harness.postgres import EmbeddedPostgres

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN
_DAY_MS = 86_400_000
KINDS = (
    "sqlalchemy-postgres",
    "sqlalchemy-mariadb",
    "sqlalchemy-sqlite",
    "psycopg",
    "pymysql",
    "sqlite3",
)


ASYNCIO = ("asyncio-postgres", "asyncio-sqlite")


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with ready_shop(request.param, request.getfixturevalue, tmp_path) as made:
        yield made


@pytest.fixture(params=[kind for kind in KINDS if kind.startswith("sqlalchemy")])
def alchemy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with ready_shop(request.param, request.getfixturevalue, tmp_path) as made:
        yield made


def _connects(driver: Any, *arguments: Any, **options: Any) -> Callable[[], Any]:
    return lambda: driver.connect(*arguments, **options)


# -- what may have been purged -------------------------------------------------------------------


def now_ms() -> int:
    return time.time_ns() // 1_000_000  # the databases run on this machine


def test_a_row_that_may_have_been_purged_was_fenced_because_a_check_said_it_was_young(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The age was computed elsewhere, some time ago; so the database's own clock is asked."""
    long_ago = asked("a", age_s=7.0, born_ms=now_ms() - 8 * _DAY_MS)
    with caplog.at_level(logging.WARNING, "halfhitch.barrier"):
        assert shop.barrier.check(long_ago) is UNKNOWN
    assert "halfhitch tx commit" in caplog.text
    assert rows(shop) == {}


def test_a_young_one_is_fenced_by_the_databases_clock(shop: Shop) -> None:
    born_ms = now_ms() - 6 * _DAY_MS
    assert shop.barrier.check(asked("a", age_s=7.0, born_ms=born_ms)) is ROLLBACK
    assert rows(shop) == {"a": "fenced"}
    assert shop.barrier.check(asked("a", age_s=7.0, born_ms=born_ms)) is ROLLBACK
    # A clock of Kafka's that is ahead makes it younger than it is; the age that is told does not.
    ahead_ms = now_ms() + _DAY_MS
    assert shop.barrier.check(asked("b", age_s=8 * 86_400, born_ms=ahead_ms)) is UNKNOWN


def test_what_stands_there_is_answered_however_old_it_is(shop: Shop) -> None:
    local = shop.begin()
    local.record("a")
    local.commit()
    local.close()
    assert shop.barrier.check(asked("a", born_ms=now_ms() - 30 * _DAY_MS)) is COMMIT


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg", "aiomysql", "aiosqlite"])
async def test_asyncio_asks_the_databases_clock_too(
    request: pytest.FixtureRequest, tmp_path: Path, driver: str
) -> None:
    engine = async_engine(driver, request, tmp_path)
    barrier = AsyncBarrier(engine, GROUP, table="young_ones", wait_s=ENOUGH_S)
    await barrier.create()
    long_ago_ms = now_ms() - 8 * _DAY_MS
    assert await barrier.check(asked("a", age_s=7.0, born_ms=long_ago_ms)) is UNKNOWN
    assert await barrier.check(asked("a", age_s=7.0, born_ms=now_ms())) is ROLLBACK
    async with engine.begin() as connection:
        await connection.execute(text("DROP TABLE young_ones"))
    await engine.dispose()


def async_engine(
    driver: str, request: pytest.FixtureRequest, folder: Path, **options: Any
) -> AsyncEngine:
    if driver == "aiosqlite":
        return create_async_engine(f"sqlite+aiosqlite:///{folder / 'shop.db'}", **options)
    if driver == "aiomysql":
        return create_async_engine(request.getfixturevalue("mariadb").aio_url, **options)
    url = request.getfixturevalue("postgres").url.partition("?")[0]
    return create_async_engine(url.replace("+psycopg", f"+{driver}"), **options)


# -- autocommit ----------------------------------------------------------------------------------


def test_a_record_in_autocommit_is_refused_on_every_database(alchemy: AlchemyShop) -> None:
    engine = alchemy.engine.execution_options(isolation_level="AUTOCOMMIT")
    with Session(engine) as session, pytest.raises(InvalidRequest, match="committed alone"):
        alchemy.barrier.record(session, "a")
    assert rows(alchemy) == {}


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg", "aiomysql", "aiosqlite"])
async def test_a_record_in_autocommit_is_refused_by_every_driver_of_asyncio(
    request: pytest.FixtureRequest, tmp_path: Path, driver: str
) -> None:
    engine = async_engine(driver, request, tmp_path)
    barrier = AsyncBarrier(engine, GROUP, table="autocommits", wait_s=ENOUGH_S)
    await barrier.create()
    alone = async_engine(driver, request, tmp_path, isolation_level="AUTOCOMMIT")
    async with AsyncSession(alone) as session:
        with pytest.raises(InvalidRequest, match="committed alone"):
            await barrier.record(session, "a")
    async with AsyncSession(engine) as session:
        await barrier.record(session, "b")
        await session.commit()
    assert await barrier.check(asked("a")) is ROLLBACK
    assert await barrier.check(asked("b")) is COMMIT
    async with engine.begin() as connection:
        await connection.execute(text("DROP TABLE autocommits"))
    await engine.dispose()
    await alone.dispose()


def test_pymysql_in_autocommit_was_taken_for_a_transaction(mariadb: EmbeddedMariaDb) -> None:
    shop = DbapiShop(_connects(pymysql, **mariadb.arguments()))
    shop.set_up()
    connection = pymysql.connect(**mariadb.arguments(autocommit=True))
    with pytest.raises(InvalidRequest, match="committed alone"):
        shop.barrier.record(connection, "a")
    connection.begin()  # a transaction that was begun by hand is as good
    shop.barrier.record(connection, "a")
    connection.rollback()
    connection.close()
    assert rows(shop) == {}


class Stranger:
    """A driver that says nothing about its transactions."""

    IntegrityError = psycopg.IntegrityError

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.cursor = connection.cursor
        self.commit = connection.commit
        self.rollback = connection.rollback
        self.close = connection.close


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_driver_that_says_nothing_is_found_out_by_asking_the_database(
    postgres: EmbeddedPostgres, *, autocommit: bool
) -> None:
    shop = DbapiShop(_connects(psycopg, postgres.dsn))
    shop.set_up()
    stranger = Stranger(psycopg.connect(postgres.dsn, autocommit=autocommit))
    barrier = DbapiBarrier(
        lambda: stranger, GROUP, paramstyle="pyformat", dialect="postgresql", wait_s=ENOUGH_S
    )
    if autocommit:
        with pytest.raises(InvalidRequest, match="committed alone"):
            barrier.record(stranger, "a")
    else:
        barrier.record(stranger, "a")
        stranger.commit()
    stranger.close()
    assert rows(shop) == ({} if autocommit else {"a": "committed"})


# -- savepoints and outer transactions -----------------------------------------------------------


def test_a_record_in_a_savepoint_is_refused(alchemy: AlchemyShop) -> None:
    """Rolled back with it, while the rest is committed, it would be answered ROLLBACK."""
    producer = RecordingProducer("a")
    with Session(alchemy.engine) as session:
        session.execute(text("INSERT INTO shop_orders (id) VALUES ('kept')"))
        with pytest.raises(InvalidRequest, match="inside a savepoint"), session.begin_nested():
            alchemy.barrier.record(session, "a")
        with session.begin_nested(), pytest.raises(InvalidRequest, match="Begin the block first"):
            alchemy.barrier.transaction(producer, session=session).__enter__()
        session.commit()
    assert producer.made == []
    assert (orders(alchemy), rows(alchemy)) == ({"kept"}, {})


def test_a_savepoint_of_a_plain_connection_is_found_out_by_postgresql(
    postgres: EmbeddedPostgres,
) -> None:
    shop = DbapiShop(_connects(psycopg, postgres.dsn))
    shop.set_up()
    with psycopg.connect(postgres.dsn) as connection, connection.transaction():
        with pytest.raises(InvalidRequest, match="inside a savepoint"), connection.transaction():
            shop.barrier.record(connection, "a")
        connection.execute("SAVEPOINT one")
        with pytest.raises(InvalidRequest, match="inside a savepoint"):
            shop.barrier.record(connection, "b")
        connection.execute("ROLLBACK TO SAVEPOINT one")
        connection.execute("RELEASE SAVEPOINT one")
        shop.barrier.record(connection, "c")
    assert rows(shop) == {"c": "committed"}


@pytest.mark.parametrize("mode", ["conditional_savepoint", "rollback_only", "create_savepoint"])
def test_a_session_inside_somebodys_transaction_is_refused(alchemy: AlchemyShop, mode: Any) -> None:
    """Its commit commits nothing: the messages went out, and the outer transaction rolled back."""
    producer = RecordingProducer("a")
    with alchemy.engine.connect() as connection, connection.begin() as outer:
        session = Session(bind=connection, join_transaction_mode=mode)
        with pytest.raises(InvalidRequest, match="begun on its connection"):
            alchemy.barrier.transaction(producer, session=session).__enter__()
        session.close()
        outer.rollback()
    assert producer.made == []


def test_a_transaction_that_is_begun_around_the_session_later_is_noticed(
    alchemy: AlchemyShop,
) -> None:
    producer = RecordingProducer("a")
    with alchemy.engine.connect() as connection:
        with pytest.raises(InvalidRequest, match="begun on its connection"):
            order_in_a_later_transaction(alchemy.barrier, producer, connection)
        connection.rollback()  # by whoever has begun it
    assert producer.made[0].ends == ["rollback"]
    assert alchemy.barrier.check(asked("a")) is ROLLBACK
    assert orders(alchemy) == set()


def order_in_a_later_transaction(barrier: Barrier, producer: Any, connection: Connection) -> None:
    with barrier.transaction(producer, session=Session(bind=connection)) as (_, session):
        connection.begin()
        session.execute(text("INSERT INTO shop_orders (id) VALUES ('a')"))


def test_a_session_that_ends_the_transaction_of_its_connection_is_fine(
    alchemy: AlchemyShop,
) -> None:
    producer = RecordingProducer("a")
    with alchemy.engine.connect() as connection:
        connection.begin()
        session = Session(bind=connection, join_transaction_mode="control_fully")
        with alchemy.barrier.transaction(producer, session=session):
            session.execute(text("INSERT INTO shop_orders (id) VALUES ('a')"))
    with alchemy.engine.connect() as connection:
        session = Session(bind=connection)
        with alchemy.barrier.transaction(producer, "b", session=session):
            session.execute(text("INSERT INTO shop_orders (id) VALUES ('b')"))
    assert [made.ends for made in producer.made] == [["commit"]] * 2
    assert orders(alchemy) == {"a", "b"}


@pytest.mark.parametrize("kind", ["psycopg", "pymysql", "sqlite3"])
def test_a_plain_connection_with_an_open_transaction_is_refused(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    shop = open_shop(kind, request.getfixturevalue, tmp_path)
    shop.set_up()
    shared = shop.connect()
    shared.cursor().execute("INSERT INTO shop_orders (id) VALUES ('somebody')")

    @contextmanager
    def lent() -> Iterator[Any]:
        yield shared

    producer = RecordingProducer("a")
    with pytest.raises(InvalidRequest, match="already open on the connection"):
        DbapiBarrier(lent, GROUP).transaction(producer).__enter__()
    shared.commit()
    shared.close()
    assert orders(shop) == {"somebody"}  # nothing of it was rolled back
    assert all(made.ends == [] for made in producer.made)


async def test_an_asyncio_session_inside_somebodys_transaction_is_refused(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")
    barrier = AsyncBarrier(engine, GROUP, wait_s=ENOUGH_S)
    await barrier.create()
    producer = RecordingProducer("a")
    async with engine.connect() as connection, connection.begin():
        session = AsyncSession(bind=connection)
        with pytest.raises(InvalidRequest, match="begun on its connection"):
            await barrier.transaction(producer, session=session).__aenter__()
        await session.close()
    assert producer.made == []
    await engine.dispose()


# -- groups, messages ----------------------------------------------------------------------------


@pytest.mark.parametrize("shop", [*KINDS, *ASYNCIO], indirect=True)
def test_a_producer_of_another_group_is_refused(shop: Shop) -> None:
    """The record would stand under one group, and the other one's checks would fence it."""
    producer = RecordingProducer("a", group="another")
    with pytest.raises(ConfigurationError, match="belongs to group 'another'"):
        shop.barrier.transaction(producer).__enter__()
    assert producer.made == []


@pytest.mark.parametrize("shop", [*KINDS, *ASYNCIO], indirect=True)
def test_rows_are_not_committed_when_a_message_could_not_be_sent(shop: Shop) -> None:
    producer = RecordingProducer("a")
    with pytest.raises(OSError, match="not sent"):
        order_unsent(shop, producer)
    assert producer.made[0].ends == ["rollback"]
    assert (orders(shop), rows(shop)) == (set(), {})


def order_unsent(shop: Shop, producer: RecordingProducer) -> None:
    with shop.barrier.transaction(producer) as (_, local):
        insert(local, "a")
        producer.made[0].doomed = OSError("a message was not sent")


def test_ids_are_found_whatever_charset_a_connection_has(mariadb: EmbeddedMariaDb) -> None:
    """A recorder with latin1 and a checker with utf8 asked about different bytes."""
    shop = DbapiShop(_connects(pymysql, **mariadb.arguments()))
    shop.set_up()
    latin = pymysql.connect(**mariadb.arguments(charset="latin1"))
    shop.barrier.record(latin, "bestellung-ä")
    latin.commit()
    latin.close()
    assert shop.barrier.check(asked("bestellung-ä")) is COMMIT


def test_a_check_reads_nothing_uncommitted_whatever_a_connection_is_set_to(
    mariadb: EmbeddedMariaDb,
) -> None:
    shop = DbapiShop(_connects(pymysql, **mariadb.arguments()))
    shop.set_up()
    dirty = "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"
    connect = _connects(pymysql, **mariadb.arguments(init_command=dirty))
    local = shop.begin()
    local.order("a")
    local.record("a")
    assert DbapiBarrier(connect, GROUP, wait_s=2.0).check(asked("a")) is UNKNOWN
    local.rollback()
    local.close()
    assert DbapiBarrier(connect, GROUP, wait_s=ENOUGH_S).check(asked("a")) is ROLLBACK


# -- who ends the messages -----------------------------------------------------------------------

#: What a program may have learned from the producer's own block.
ENDS: dict[str, Callable[[Any, Any], object]] = {
    "tx.commit()": lambda tx, _: tx.commit(),
    "tx.rollback()": lambda tx, _: tx.rollback(),
    "with tx": lambda tx, _: tx.__enter__(),
    "producer.commit(tx.handle)": lambda tx, producer: producer.commit(tx.handle),
    "producer.rollback(tx.handle)": lambda tx, producer: producer.rollback(tx.handle),
}


@pytest.fixture
def talking(shop: Any) -> Iterator[tuple[Any, ScriptedServer]]:
    """A real producer of the shop's kind, and the server that hears it."""
    with ScriptedServer() as server, ExitStack() as opened:
        options = {"answers_checks": False}
        made: Any = TransactionProducer(GROUP, server.address, **options)
        if isinstance(shop, AsyncShop):
            made = Blocking(AsyncTransactionProducer(GROUP, server.address, **options), shop._loop)
        yield opened.enter_context(made), server


def ends_of(server: ScriptedServer) -> list[str]:
    said = [target.partition("?")[0].rpartition("/")[2] for target in server.targets()]
    return [word for word in said if word in ("commit", "rollback")]


def order_and_end(shop: Shop, producer: Any, end: Callable[[Any, Any], object]) -> None:
    with shop.barrier.transaction(producer, "a") as (tx, local):
        insert(local, "a")
        tx.send("orders", b"a")
        end(tx, producer)


@pytest.mark.parametrize("shop", ["sqlalchemy-sqlite", "sqlite3", "asyncio-sqlite"], indirect=True)
@pytest.mark.parametrize("end", ENDS)
def test_messages_that_were_ended_inside_the_block_parted_from_its_rows(
    shop: Shop, talking: tuple[Any, ScriptedServer], end: str
) -> None:
    """They became visible, and then the rows were rolled back."""
    producer, server = talking
    with pytest.raises(TransactionMisused, match=r"Nothing was sent\. Leave the block") as refused:
        order_and_end(shop, producer, ENDS[end])
    assert str(refused.value).startswith(f"{end} inside a barrier's block")
    assert (ends_of(server), orders(shop)) == (["rollback"], set())  # the barrier's own, of both
    with shop.barrier.transaction(producer, "b") as (tx, local):
        insert(local, "b")
        tx.send("orders", b"b")
    assert (ends_of(server), orders(shop)) == (["rollback", "commit"], {"b"})
    assert tx.commit().state == "committed"  # afterwards it may be repeated
    assert producer.commit(tx.handle).state == "committed"


def swallowed(shop: Shop, producer: Any, end: str) -> Any:
    """As a helper does that logs whatever comes."""
    with shop.barrier.transaction(producer, "b") as (tx, local):
        insert(local, "b")
        tx.send("orders", b"b")
        with pytest.raises(TransactionMisused):
            ENDS[end](tx, producer)
    return tx


@pytest.mark.parametrize("shop", ["sqlalchemy-sqlite", "sqlite3", "asyncio-sqlite"], indirect=True)
@pytest.mark.parametrize("end", ENDS)
def test_a_rollback_of_the_messages_that_was_refused_and_swallowed_committed_both(
    shop: Shop, talking: tuple[Any, ScriptedServer], end: str
) -> None:
    """Who wants a rollback gets one; a refused commit changes nothing: the block commits both."""
    producer, server = talking
    if "rollback" in end:
        with pytest.raises(TransactionDoomed, match="both rolled back"):
            swallowed(shop, producer, end)
        assert (ends_of(server), orders(shop)) == (["rollback"], set())
    else:
        swallowed(shop, producer, end)
        assert (ends_of(server), orders(shop)) == (["commit"], {"b"})


@pytest.mark.parametrize("shop", ["sqlite3", "asyncio-sqlite"], indirect=True)
def test_a_handle_of_an_earlier_send_ended_the_messages_inside_the_block(
    shop: Shop, talking: tuple[Any, ScriptedServer]
) -> None:
    producer, server = talking
    with pytest.raises(TransactionMisused, match="Nothing was sent"):
        end_by_older_handle(shop, producer)
    assert (ends_of(server), orders(shop)) == (["rollback"], set())


def end_by_older_handle(shop: Shop, producer: Any) -> None:
    with shop.barrier.transaction(producer, "a") as (tx, local):
        insert(local, "a")
        tx.send("orders", b"a")
        older = tx.handle
        tx.send("orders", b"b")
        assert tx.handle != older
        producer.commit(older)


def prepares(tx: Any, producer: Any) -> Any:
    return producer.prepare([Message("orders", b"a")], tx.id)


def enters_another(tx: Any, producer: Any) -> None:
    with producer.transaction(tx.id) as other:
        other.send("orders", b"a")


#: Past the block's own tx, and past its handles.
BESIDE: dict[str, Callable[[Any, Any], object]] = {
    "a block": enters_another,
    "a send": lambda tx, producer: producer.transaction(tx.id).send("orders", b"a"),
    "prepare and commit": lambda tx, producer: producer.commit(prepares(tx, producer).handle),
    "prepare and rollback": lambda tx, producer: producer.rollback(prepares(tx, producer).handle),
}


@pytest.mark.parametrize("shop", ["sqlalchemy-sqlite", "sqlite3", "asyncio-sqlite"], indirect=True)
@pytest.mark.parametrize("way", BESIDE)
def test_another_object_of_the_same_id_ended_the_messages_inside_the_block(
    shop: Shop, talking: tuple[Any, ScriptedServer], way: str
) -> None:
    """A message without its row, or a row without its message, and no sentence."""
    producer, server = talking
    with pytest.raises(TransactionMisused, match=r"Nothing was sent.*the block's own tx"):
        order_and_end(shop, producer, BESIDE[way])
    assert (ends_of(server), orders(shop)) == (["rollback"], set())
    assert sum("/half" in target for target in server.targets()) == 1
    # It is over: the id belongs to nobody here.
    assert producer.prepare([Message("orders", b"a")], "a").handle


@pytest.mark.parametrize("shop", ["sqlalchemy-sqlite", "asyncio-sqlite"], indirect=True)
@pytest.mark.parametrize("way", [*BESIDE, "handle"])
def test_another_producer_of_the_group_ended_the_messages_inside_the_block(
    shop: Shop, talking: tuple[Any, ScriptedServer], way: str
) -> None:
    producer, server = talking
    end = {**BESIDE, "handle": lambda tx, second: second.commit(tx.handle)}[way]
    with another(producer) as second:
        with pytest.raises(TransactionMisused, match=r"Nothing was sent"):
            order_and_end(shop, producer, lambda tx, _: end(tx, second))
        assert (ends_of(server), orders(shop)) == (["rollback"], set())
        assert second.prepare([Message("orders", b"a")], "a").handle


@contextmanager
def another(producer: Any) -> Iterator[Any]:
    """Like it, in the same process."""
    options: dict[str, Any] = {"answers_checks": False}
    made: Any
    if isinstance(producer, Blocking):
        inner = AsyncTransactionProducer(GROUP, producer.inner.address, **options)
        made = Blocking(inner, producer._loop)
    else:
        made = TransactionProducer(GROUP, producer.address, **options)
    with made:
        yield made


def in_two_blocks_at_once(shop: Shop, producer: Any) -> None:
    with (
        producer.transaction("one") as first,
        shop.barrier.transaction(producer, "two") as (second, local),
    ):
        first.send("orders", b"one")  # a transaction of its own
        insert(local, "two")
        second.send("orders", b"two")


@pytest.mark.parametrize("shop", ["sqlite3", "asyncio-sqlite"], indirect=True)
def test_another_id_is_free_inside_the_block(
    shop: Shop, talking: tuple[Any, ScriptedServer]
) -> None:
    producer, server = talking
    in_two_blocks_at_once(shop, producer)
    assert (ends_of(server), orders(shop)) == (["commit", "commit"], {"two"})


def sends_behind_its_commit(shop: Shop, producer: Any, wraps: str | None) -> None:
    """In a hook of the session's, where asyncio's waits in a greenlet."""
    with shop.barrier.transaction(producer) as (tx, local):
        insert(local, "a")
        tx.send("orders", b"a")

        def hook(_: Session) -> None:
            try:
                if isinstance(tx, Blocking):
                    promise = tx.inner.send("orders", b"late")
                    if wraps != "unawaited":
                        await_only(promise)
                else:
                    tx.send("orders", b"late")
            except TransactionEnded as ended:
                if wraps in (None, "unawaited"):
                    raise
                if wraps == "cause":
                    raise KeyError("receiver") from ended
                raise KeyError("receiver")  # noqa: B904 - as many do

        session = local.inner.sync_session if isinstance(local, Blocking) else local
        event.listen(session, "after_commit", hook)


@pytest.mark.parametrize("shop", ["sqlalchemy-sqlite", "asyncio-sqlite"], indirect=True)
@pytest.mark.parametrize("wraps", [None, "cause", "context", "unawaited"])
def test_a_message_that_was_sent_in_an_after_commit_hook_was_not_the_rows_any_more(
    shop: Shop, talking: tuple[Any, ScriptedServer], wraps: str | None
) -> None:
    """Had it failed, or the process died in it, the rows stood without it.

    In a framework's exception it was lost without a word. Unawaited, it was TransactionDoomed.
    """
    wraps_it = wraps in ("cause", "context")
    producer, server = talking
    with pytest.raises((TransactionEnded, KeyError)) as refused:
        sends_behind_its_commit(shop, producer, wraps)
    assert isinstance(refused.value, TransactionEnded) == (not wraps_it)
    told = refused.value.__cause__ or refused.value.__context__ if wraps_it else refused.value
    assert str(told).startswith("the local commit of transaction")
    assert "messages were committed too" in refused.value.__notes__[0]
    assert (ends_of(server), orders(shop)) == (["commit"], {"a"})
    assert sum("/half" in target for target in server.targets()) == 1
    assert not any(target.endswith("/messages") for target in server.targets())


def closes_in_a_hook(shop: Shop, producer: Any, moment: str, patch: pytest.MonkeyPatch) -> None:
    """As a signal's handler may, or the end of a lifespan."""

    def closed() -> None:
        raise ProducerClosed

    with shop.barrier.transaction(producer) as (tx, local):
        insert(local, "a")
        tx.send("orders", b"a")
        used = (tx.inner if isinstance(tx, Blocking) else tx)._producer
        session = local.inner.sync_session if isinstance(local, Blocking) else local
        event.listen(session, moment, lambda _: patch.setattr(used, "check_open", closed))


@pytest.mark.parametrize("shop", ["sqlalchemy-sqlite", "asyncio-sqlite"], indirect=True)
@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
def test_a_producer_that_closed_behind_the_local_commit_told_nobody_that_the_rows_stand(
    shop: Shop, talking: tuple[Any, ScriptedServer], moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word for word it was what it is before that, when the work is to be done again."""
    producer, server = talking
    with pytest.raises(ProducerClosed) as raised:
        closes_in_a_hook(shop, producer, moment, monkeypatch)
    stands = moment == "after_commit"
    notes = raised.value.__notes__
    assert any("has committed, so do not repeat" in note for note in notes) == stands
    assert (ends_of(server), orders(shop)) == ([], {"a"} if stands else set())
