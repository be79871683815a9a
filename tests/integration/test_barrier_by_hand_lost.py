"""`record` by hand on a connection that is lost or dropped, or on a plain one.

A driver tells at most that it is in no transaction: whether that was a commit only the table tells.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine, text

from halfhitch.barrier import Barrier
from halfhitch.client import Message, TransactionMisused, TransactionProducer
from harness.barriers import GROUP
from harness.blocks import each
from harness.by_hand import connected, ends_of, opened, talking
from harness.databases import ERRORS, WAYS, PlainShop, Way
from harness.scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import Shop, Truth

SERVERS = ("sqlite", "postgresql", "mariadb")


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def value(local: Any, statement: str) -> Any:
    """The first one of its answer."""
    if hasattr(local, "cursor"):
        cursor = local.cursor()
        cursor.execute(statement)
        return cursor.fetchone()[0]
    return local.execute(text(statement)).scalar()


# -- a plain connection --------------------------------------------------------------------------


def swallows(shop: PlainShop, producer: Any, local: Any, end: str) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        local.cursor().execute("INSERT INTO shop_orders (id) VALUES ('a')")
        shop.barrier().record(local, tx.id)
        getattr(local, end)()


@each("plain", *SERVERS)
@pytest.mark.parametrize("end", ["rollback", "close"])
def test_messages_followed_a_plain_connection_that_was_rolled_back(
    shop: PlainShop, truth: Truth, server: ScriptedServer, end: str
) -> None:
    refusal = pytest.raises(TransactionMisused, match="is not known")
    with talking(shop, server) as producer, suppress(*ERRORS), opened(shop) as local, refusal:
        swallows(shop, producer, local, end)
    assert (ends_of(server), truth.orders()) == ([], set())


@each("plain", *SERVERS)
def test_what_was_prepared_followed_a_plain_connection_that_was_rolled_back(
    shop: PlainShop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, opened(shop) as local:
        prepared = producer.prepare([Message("orders", b"a")])
        shop.barrier().record(local, prepared.transaction_id)
        local.rollback()
        with pytest.raises(TransactionMisused, match="is not known"):
            producer.commit(prepared.handle)
        producer.rollback(prepared.handle)
    fenced = {prepared.transaction_id: "fenced"}
    assert (ends_of(server), truth.rows()) == (["rollback"], fenced)


def commits_without_its_table(
    shop: PlainShop, producer: Any, local: Any, patch: pytest.MonkeyPatch
) -> None:
    def refuses() -> None:
        raise ConnectionError("no connection left")

    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        barrier = shop.barrier()
        barrier.record(local, tx.id)
        local.commit()
        patch.setattr(barrier, "_connect", refuses)


@each("plain", *SERVERS)
def test_a_plain_commit_is_followed_though_the_table_cannot_be_read(
    shop: PlainShop, truth: Truth, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with talking(shop, server) as producer, opened(shop) as local:
        commits_without_its_table(shop, producer, local, monkeypatch)
    assert (ends_of(server), truth.rows()) == (["commit"], {"a": "committed"})


# -- committed past SQLAlchemy -------------------------------------------------------------------


def commits_past_and_fails(shop: Any, truth: Truth, producer: Any, local: Any, how: str) -> None:
    with producer.transaction() as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        local.execute(text("LOCK TABLES shop_orders WRITE" if is_mysql(truth) else "COMMIT"))
        local.execute(text("UNLOCK TABLES" if is_mysql(truth) else "SELECT 1"))
        local.execute(text("INSERT INTO shop_orders (id) VALUES ('b')"))
        if how == "tx.rollback":
            tx.rollback()
        raise OSError("in the midst of the work")


def is_mysql(truth: Truth) -> bool:
    """There statements commit by themselves."""
    return truth.dialect in ("mysql", "mariadb")


@each("alchemy", *SERVERS)
@pytest.mark.parametrize("how", ["tx.rollback", "on_error"])
def test_messages_were_rolled_back_in_the_transaction_behind_that_of_their_rows(
    shop: Any, truth: Truth, server: ScriptedServer, how: str
) -> None:
    """SQLAlchemy and the driver have called it open: that other one was."""
    refusal = pytest.raises(OSError if how == "on_error" else TransactionMisused)
    with talking(shop, server, on_error="rollback") as producer, opened(shop) as local, refusal:
        commits_past_and_fails(shop, truth, producer, local, how)
    assert ends_of(server) == []
    assert list(truth.rows().values()) == ["committed"]


# -- lost ----------------------------------------------------------------------------------------


def is_cut_off(shop: Any, truth: Truth, producer: Any, local: Any) -> None:
    """And the exception that says so is swallowed."""
    is_postgresql = truth.dialect == "postgresql"
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        if is_postgresql:
            truth.run(f"SELECT pg_terminate_backend({value(local, 'SELECT pg_backend_pid()')})")
        else:
            truth.run(f"KILL {value(local, 'SELECT CONNECTION_ID()')}")
        with pytest.raises(ERRORS):
            value(local, "SELECT 1")


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.server in ("postgresql", "mariadb")], ids=str
)
def test_a_local_transaction_whose_connection_was_lost_was_said_to_be_open(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    """A plain one of PostgreSQL's was even taken for committed."""
    refusal = pytest.raises(TransactionMisused, match="is not known")
    with talking(shop, server) as producer, suppress(*ERRORS), opened(shop) as local, refusal:
        is_cut_off(shop, truth, producer, local)
    assert (ends_of(server), truth.rows()) == ([], {})


# -- dropped -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way",
    [Way("sqlite", "sqlite3", "sqlalchemy"), Way("postgresql", "psycopg", "sqlalchemy")],
    ids=str,
)
def test_a_block_that_went_on_kept_a_connection_from_its_pool(
    shop: Any, server: ScriptedServer
) -> None:
    """A program that drops one without closing it has it back when it is collected."""
    engine = create_engine(shop.engine.url, pool_size=1, max_overflow=0, pool_timeout=1)
    with talking(shop, server) as producer:
        tx = producer.transaction("a")
        tx.send("orders", b"a")
        local = engine.connect()
        Barrier(engine, GROUP).record(local, tx.id)
        del local
        gc.collect()
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
        with pytest.raises(TransactionMisused, match="rolled back"):
            tx.commit()
    engine.dispose()


@pytest.mark.parametrize("way", [Way("postgresql", "psycopg", "plain")], ids=str)
def test_a_block_that_went_on_kept_a_plain_connection_open(
    shop: PlainShop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer:
        tx = producer.transaction("a")
        tx.send("orders", b"a")
        local = shop.connect()
        process = value(local, "SELECT pg_backend_pid()")
        shop.barrier().record(local, tx.id)
        with pytest.warns(ResourceWarning, match="was deleted while still open"):
            del local
        with pytest.raises(TransactionMisused, match="is not known"):
            tx.commit()
    assert not truth.run(f"SELECT 1 FROM pg_stat_activity WHERE pid = {process}")


# -- asyncio, which awaits its question ----------------------------------------------------------


def ends_by_a_blocking_one(
    shop: Any, producer: TransactionProducer, local: Any, end: str = "commit"
) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        getattr(local, end)()


@pytest.mark.parametrize("way", [Way("sqlite", "aiosqlite", "asyncio")], ids=str)
def test_a_blocking_producer_believed_an_async_barrier_s_connection_unasked(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    refusal = pytest.raises(TransactionMisused, match="Use an AsyncTransactionProducer")
    with TransactionProducer(GROUP, server.address, answers_checks=False) as producer:
        with connected(shop) as local, refusal:
            ends_by_a_blocking_one(shop, producer, local, "rollback")
        assert (ends_of(server), truth.rows()) == ([], {})
        for opened in (connected(shop), shop.session()):  # which tell of their commit
            with opened as local:
                ends_by_a_blocking_one(shop, producer, local)
            truth.empty_tables()
    assert ends_of(server) == ["commit", "commit"]


@pytest.mark.parametrize("way", [Way("sqlite", "aiosqlite", "asyncio")], ids=str)
def test_messages_of_a_rolled_back_asyncio_connection_were_committed_by_their_handle(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, connected(shop) as local:
        prepared = producer.prepare([Message("orders", b"a")])
        shop.barrier().record(local, prepared.transaction_id)
        local.rollback()
        with pytest.raises(TransactionMisused, match="is rolled back"):
            producer.commit(prepared.handle)
        shop.barrier().record(local, prepared.transaction_id)
        local.commit()
        producer.commit(prepared.handle)
    assert ends_of(server) == ["commit"]
    assert set(truth.rows().values()) == {"committed"}
