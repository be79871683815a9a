"""`record` by hand, in a producer's block that ends before its local transaction does.

So it goes where a framework ends that: a dependency with `with session.begin(): yield`, Django's
ATOMIC_REQUESTS. The messages were committed, and what came then could still roll the rows back.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from halfhitch.barrier.sql_rows import Rows
from halfhitch.client import (
    LocalTransactionState,
    Message,
    TransactionMisused,
)
from harness.blocks import each, run
from harness.by_hand import connected, ends_of, talking
from harness.databases import WAYS, PlainShop, Truth, Way
from harness.scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import Shop

SERVERS = ("sqlite", "postgresql", "mariadb")
ON_ALL = pytest.mark.parametrize("way", [way for way in WAYS if way.server in SERVERS], ids=str)
COMMIT, ROLLBACK = LocalTransactionState.COMMIT, LocalTransactionState.ROLLBACK


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def records(producer: Any, local: Any, *then: str) -> None:
    """A block with a record by hand; `then`: what is done to its local transaction."""
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        local.order("a")
        local.record(tx.id)
        for name in then:
            getattr(local, name)()


@ON_ALL
@pytest.mark.parametrize("has_check", [True, False])
def test_messages_were_committed_before_their_local_transaction_that_was_then_rolled_back(
    shop: Shop, truth: Truth, server: ScriptedServer, *, has_check: bool
) -> None:
    options = {"check": shop.barrier().check} if has_check else {}
    with talking(shop, server, **options) as producer, shop.begin() as local:
        with pytest.raises(TransactionMisused, match="still open") as refused:
            records(producer, local)
        assert "is undecided" in refused.value.__notes__[0]
        local.rollback()
    assert (ends_of(server), truth.orders()) == ([], set())
    assert shop.check("a") is ROLLBACK


@ON_ALL
def test_messages_that_were_not_committed_for_an_open_local_transaction_are_its_check_s(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local:
        with pytest.raises(TransactionMisused):
            records(producer, local)
        local.commit()  # by a program that does not care
    assert (ends_of(server), truth.orders()) == ([], {"a"})
    assert shop.check("a") is COMMIT


@ON_ALL
def test_a_local_transaction_that_was_committed_inside_the_block_is_followed(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local:
        records(producer, local, "commit")
        assert ends_of(server) == ["commit"]
    assert truth.orders() == {"a"}


@ON_ALL
def test_a_later_transaction_on_the_same_connection_is_none_of_the_messages_business(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    """A pool may have given it to somebody else by then."""
    with talking(shop, server) as producer, shop.begin() as local:
        with producer.transaction("a") as tx:
            tx.send("orders", b"a")
            local.order("a")
            local.record(tx.id)
            local.commit()
            local.order("b")
        local.rollback()
    assert (ends_of(server), truth.orders()) == (["commit"], {"a"})


@ON_ALL
def test_an_early_commit_of_the_messages_by_hand_is_refused_too(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local:
        tx = producer.transaction("a")
        tx.send("orders", b"a")
        local.record(tx.id)
        with pytest.raises(TransactionMisused):
            tx.commit()
        local.commit()
        assert tx.commit().state == "committed"
    assert ends_of(server) == ["commit"]


def commits_by_handle(producer: Any, local: Any, which: str) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        first = tx.handle
        tx.send("orders", b"b")
        local.order("a")
        local.record(tx.id)
        producer.commit(first if which == "first" else tx.handle)


@each("alchemy", *SERVERS)
@pytest.mark.parametrize("which", ["first", "newest"])
def test_messages_were_committed_by_their_handle_while_their_local_transaction_was_open(
    shop: Shop, truth: Truth, server: ScriptedServer, which: str
) -> None:
    with talking(shop, server, on_error="unknown") as producer, shop.begin() as local:
        with pytest.raises(TransactionMisused, match="still open"):
            commits_by_handle(producer, local, which)
        local.rollback()
    assert (ends_of(server), truth.orders()) == ([], set())


@each("alchemy", *SERVERS)
def test_messages_that_were_committed_by_their_handle_behind_the_local_commit_are_ended_once(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local:
        with producer.transaction("a") as tx:
            tx.send("orders", b"a")
            local.order("a")
            local.record(tx.id)
            local.commit()
            producer.commit(tx.handle)
        assert ends_of(server) == ["commit"]
        assert tx.commit().state == "committed"  # it may be repeated
    assert truth.orders() == {"a"}


@each("alchemy", *SERVERS)
@pytest.mark.parametrize("end", ["rollback", "close"])
def test_messages_were_committed_behind_a_local_transaction_that_was_rolled_back(
    shop: Shop, truth: Truth, server: ScriptedServer, end: str
) -> None:
    """Its exception was swallowed, or its commit forgotten."""
    refusal = pytest.raises(TransactionMisused, match=r"is rolled back.*tx\.rollback")
    with talking(shop, server) as producer, shop.begin() as local, refusal:
        records(producer, local, end)
    assert (ends_of(server), truth.orders()) == ([], set())


@each("alchemy", *SERVERS)
def test_the_record_of_another_try_in_the_same_block_counts(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local, producer.transaction("a") as tx:
        tx.send("orders", b"a")
        local.record(tx.id)
        local.rollback()
        local.order("a")
        local.record(tx.id)
        local.commit()
    assert (ends_of(server), truth.orders()) == (["commit"], {"a"})


@each("alchemy", *SERVERS)
def test_messages_that_are_rolled_back_with_their_rows_are_not_asked_for_them(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, shop.begin() as local, producer.transaction("a") as tx:
        tx.send("orders", b"a")
        local.record(tx.id)
        local.rollback()
        tx.rollback()
    assert ends_of(server) == ["rollback"]


@ON_ALL
def test_a_block_was_refused_for_an_earlier_attempt_by_hand_that_was_rolled_back(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    """Its rows stood, and it said that they were rolled back: for the attempt was kept alive."""
    with talking(shop, server) as producer:
        first = producer.transaction("a")
        with shop.begin() as local:
            first.send("orders", b"a")
            local.record(first.id)
            local.rollback()
        block = shop.barrier().transaction(getattr(producer, "inner", producer), "a")
        with block as (tx, _):
            tx.send("orders", b"a")
    assert (ends_of(server), truth.rows()) == (["commit"], {"a": "committed"})


BY_ALCHEMY = (
    Way("sqlite", "sqlite3", "sqlalchemy"),
    Way("sqlite", "aiosqlite", "asyncio"),
    Way("postgresql", "psycopg", "sqlalchemy"),
    Way("postgresql", "asyncpg", "asyncio"),
)
ON_BOTH = pytest.mark.parametrize("way", BY_ALCHEMY[:2], ids=str)
BY_CONNECTION = pytest.mark.parametrize("way", BY_ALCHEMY[:1], ids=str)
REFUSED_AT_COMMIT = (
    "INSERT INTO shop_orders (id) VALUES ('a')",
    "CREATE TABLE lines (id VARCHAR(64) REFERENCES shop_orders (id) DEFERRABLE INITIALLY DEFERRED)",
    "INSERT INTO lines VALUES ('nobody')",
)


def swallows_its_commit(
    shop: Any, truth: Truth, producer: Any, local: Any, then: str = "close"
) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        if truth.dialect == "sqlite":  # it keeps no reference unless it is told to
            local.execute(text("PRAGMA foreign_keys = ON"))
        for statement in REFUSED_AT_COMMIT:
            local.execute(text(statement))
        shop.barrier().record(local, tx.id)
        with pytest.raises(IntegrityError):
            local.commit()
        getattr(local, then)()


@pytest.mark.parametrize("way", BY_ALCHEMY, ids=str)
@pytest.mark.parametrize("by", ["session", "connection"])
def test_messages_followed_a_commit_that_the_database_had_refused(
    shop: Any, truth: Truth, server: ScriptedServer, by: str
) -> None:
    """And whose exception was swallowed."""
    opened = connected(shop) if by == "connection" else shop.session()
    refusal = pytest.raises(TransactionMisused, match="not known")
    with talking(shop, server) as producer, opened as local, refusal:
        swallows_its_commit(shop, truth, producer, local)
    assert (ends_of(server), truth.orders()) == ([], set())
    assert shop.check("a") is ROLLBACK  # SQLite's pool has the very connection, still open


@pytest.mark.parametrize("way", BY_ALCHEMY, ids=str)
def test_messages_followed_a_refused_commit_of_a_connection_that_was_rolled_back(
    shop: Any, truth: Truth, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And whose table could not be read: the commit was taken for done."""

    def refuses(*_: object) -> None:
        raise ConnectionError("no connection left")

    opened = connected(shop)
    refusal = pytest.raises(TransactionMisused, match="not known")
    with talking(shop, server) as producer, opened as local, refusal:
        monkeypatch.setattr(Rows, "_look", refuses)
        swallows_its_commit(shop, truth, producer, local, "rollback")
    assert (ends_of(server), truth.orders()) == ([], set())


@ON_BOTH
def test_the_commit_of_a_connection_is_followed_though_the_table_cannot_be_read(
    shop: Any, truth: Truth, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise ConnectionError("no connection left")

    opened = connected(shop)
    with talking(shop, server) as producer, opened as local, producer.transaction("a") as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        local.commit()
        monkeypatch.setattr(Rows, "_look", refuses)
    assert (ends_of(server), truth.rows()) == (["commit"], {"a": "committed"})


def records_and_commits_past(shop: Any, producer: Any, how: str) -> None:
    with producer.transaction() as tx:
        tx.send("orders", b"a")
        with shop.session() as local:
            shop.barrier().record(local, tx.id)
            commits_past(local, how)


def commits_past(local: Any, how: str) -> None:
    if how == "text":
        local.execute(text("COMMIT"))
    else:
        run(local, lambda session: session.connection().connection.commit())


@ON_BOTH
@pytest.mark.parametrize("how", ["text", "driver"])
def test_rows_that_were_committed_past_sqlalchemy_were_said_to_be_rolled_back(
    shop: Any, truth: Truth, server: ScriptedServer, how: str
) -> None:
    """Who did as the refusal said, and rolled the messages back, had lost them."""
    with talking(shop, server) as producer:
        records_and_commits_past(shop, producer, how)
    assert ends_of(server) == ["commit"]
    assert set(truth.rows().values()) == {"committed"}


@BY_CONNECTION
@pytest.mark.parametrize("how", ["close", "invalidate"])
def test_messages_followed_a_connection_that_was_lost_before_its_commit(
    shop: Any, truth: Truth, server: ScriptedServer, how: str
) -> None:
    refusal = pytest.raises(TransactionMisused, match="not known")
    with talking(shop, server) as producer, shop.engine.connect() as local:
        with refusal, producer.transaction("a") as tx:
            tx.send("orders", b"a")
            shop.barrier().record(local, tx.id)
            if how == "close":
                local.connection.driver_connection.close()
            else:
                local.invalidate()
        local.invalidate()
    assert (ends_of(server), truth.rows()) == ([], {})


def prepares_and_commits(producer: Any, local: Any, by: Any = None) -> None:
    """Without a transaction object; `by`: another producer ends it."""
    prepared = producer.prepare([Message("orders", b"a")], "a")
    local.order("a")
    local.record(prepared.transaction_id)
    (by or producer).commit(prepared.handle)


@ON_ALL
@pytest.mark.parametrize("is_another", [False, True])
def test_what_was_prepared_was_committed_while_its_local_transaction_was_open(
    shop: Any, truth: Truth, server: ScriptedServer, *, is_another: bool
) -> None:
    with talking(shop, server) as producer, talking(shop, server) as other, shop.begin() as local:
        with pytest.raises(TransactionMisused, match="still open"):
            prepares_and_commits(producer, local, other if is_another else None)
        assert ends_of(server) == []
        local.commit()
        assert (other if is_another else producer).commit("h1").state == "committed"
    assert (ends_of(server), truth.orders()) == (["commit"], {"a"})


@each("alchemy", "sqlite")
def test_what_was_added_by_handle_was_committed_while_its_local_transaction_was_open(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    """The answer names the transaction, so another process's handle will do."""
    with talking(shop, server) as producer, shop.begin() as local:
        added = producer.add("h1", [Message("orders", b"a")])
        local.record(added.transaction_id)
        with pytest.raises(TransactionMisused, match="still open"):
            producer.commit(added.handle)
        local.rollback()
        producer.rollback(added.handle)
    assert ends_of(server) == ["rollback"]


class Listener:
    """Says COMMIT although its local transaction is open."""

    def __init__(self, local: Any) -> None:
        self.local = local

    def execute_local_transaction(self, message: Message, _: Any) -> LocalTransactionState:
        self.local.record(message.transaction_id)
        return COMMIT


@pytest.mark.parametrize("way", [way for way in WAYS if way.server == "sqlite"][:2], ids=str)
def test_a_listener_committed_messages_before_its_local_transaction(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with shop.begin() as local, talking(shop, server, listener=Listener(local)) as producer:
        result = producer.send_message_in_transaction(Message("orders", b"a"))
        assert result.state is LocalTransactionState.UNKNOWN
        assert isinstance(result.error, TransactionMisused)
        local.rollback()
    assert ends_of(server) == []


# -- what ends it in other ways ------------------------------------------------------------------


@pytest.mark.parametrize("way", [Way("postgresql", "psycopg", "sqlalchemy")], ids=str)
def test_a_local_transaction_that_was_ended_by_text_in_autocommit_has_ended(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    """SQLAlchemy knows nothing of it; the driver does."""
    engine = shop.engine.execution_options(isolation_level="AUTOCOMMIT")
    with talking(shop, server) as producer, engine.connect() as connection:
        with producer.transaction("a") as tx:
            tx.send("orders", b"a")
            connection.execute(text("BEGIN"))
            shop.barrier().record(connection, tx.id)
            connection.execute(text("COMMIT"))
        assert ends_of(server) == ["commit"]


def commits_in_a_session(producer: Any, barrier: Any, session: Session) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        barrier.record(session, tx.id)
        session.commit()


@pytest.mark.parametrize("way", [Way("sqlite", "sqlite3", "sqlalchemy")], ids=str)
def test_an_outer_transaction_of_a_test_suite_is_open_behind_the_session_s_commit(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    """The block of the barrier refuses such a session at its begin."""
    with talking(shop, server) as producer, shop.engine.connect() as connection:
        outer = connection.begin()
        session = Session(bind=connection)
        with pytest.raises(TransactionMisused):
            commits_in_a_session(producer, shop.barrier(), session)
        outer.rollback()
    assert (ends_of(server), truth.rows()) == ([], {})


@pytest.mark.parametrize("way", [way for way in WAYS if way.style == "plain"][:2], ids=str)
def test_a_connection_that_was_closed_behind_its_commit_is_asked_nothing(
    shop: PlainShop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, producer.transaction("a") as tx:
        tx.send("orders", b"a")
        with closing(shop.connect()) as connection:
            shop.barrier().record(connection, tx.id)
            connection.commit()
    assert (ends_of(server), truth.rows()) == (["commit"], {"a": "committed"})
