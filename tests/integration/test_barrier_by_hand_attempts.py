"""Several attempts under one id, by hand: a row says that its id has committed, and not which.

An attempt that loses its local transaction and swallows that must not commit a part of what another
one has sent, in whichever process that was.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

from halfhitch.client import TransactionMisused
from harness.barriers import GROUP
from harness.blocks import each
from harness.by_hand import connected, ends_of, opened, talking
from harness.databases import ERRORS, WAYS, Way
from harness.scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import Shop, Truth

SERVERS = ("sqlite", "postgresql", "mariadb")
ON_ALL = pytest.mark.parametrize("way", [way for way in WAYS if way.server in SERVERS], ids=str)
EITHER = "by an earlier attempt or by this one"
#: Where a row tells which transaction has written it, or SQLAlchemy tells of commits.
TOLD_APART = [
    way
    for way in WAYS
    if way.server in SERVERS and (way.style != "plain" or way.server == "postgresql")
]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def commits_elsewhere(truth: Truth) -> None:
    """Another process, which has sent more, and dies behind its local commit."""
    columns = "producer_group, transaction_id, outcome"
    truth.run(f"INSERT INTO halfhitch_barrier ({columns}) VALUES ('{GROUP}', 'a', 'committed')")


def execute(local: Any, statement: str) -> Any:
    """The first value of its answer."""
    if hasattr(local, "cursor"):
        cursor = local.cursor()
        cursor.execute(statement)
        return cursor.fetchone()[0]
    return local.execute(text(statement)).scalar()


def is_killed(local: Any, truth: Truth) -> None:
    if truth.dialect == "postgresql":
        truth.run(f"SELECT pg_terminate_backend({execute(local, 'SELECT pg_backend_pid()')})")
    else:
        truth.run(f"KILL {execute(local, 'SELECT CONNECTION_ID()')}")
    with pytest.raises(ERRORS):
        execute(local, "SELECT 1")


def is_lost(shop: Any, truth: Truth, producer: Any, local: Any, how: str) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        if how == "refused":
            if truth.dialect == "sqlite":
                local.execute(text("PRAGMA foreign_keys = ON"))
            for statement in REFUSED_AT_COMMIT:
                local.execute(text(statement))
        shop.barrier().record(local, tx.id)
        if how == "killed":
            is_killed(local, truth)
        elif how == "refused":
            with pytest.raises(ERRORS):
                local.commit()
            local.rollback()
        else:
            getattr(local, how)()
        commits_elsewhere(truth)


REFUSED_AT_COMMIT = (
    (
        "CREATE TABLE IF NOT EXISTS shop_lines"
        " (id VARCHAR(64) REFERENCES shop_orders (id) DEFERRABLE INITIALLY DEFERRED)"
    ),
    "INSERT INTO shop_lines VALUES ('nobody')",
)


@pytest.mark.parametrize("way", [way for way in TOLD_APART if way.server != "sqlite"], ids=str)
def test_a_part_was_committed_behind_a_local_transaction_whose_connection_was_killed(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    refusal = pytest.raises(TransactionMisused, match=EITHER)
    with talking(shop, server) as producer, suppress(*ERRORS), opened(shop) as local, refusal:
        is_lost(shop, truth, producer, local, "killed")
    assert ends_of(server) == []


@pytest.mark.parametrize(
    ("way", "how"),
    [
        (Way("sqlite", "sqlite3", "sqlalchemy"), "invalidate"),
        (Way("postgresql", "psycopg", "sqlalchemy"), "invalidate"),
        (Way("mariadb", "pymysql", "sqlalchemy"), "invalidate"),
        (Way("sqlite", "sqlite3", "sqlalchemy"), "refused"),
        (Way("postgresql", "psycopg", "sqlalchemy"), "refused"),
        (Way("sqlite", "aiosqlite", "asyncio"), "refused"),
        (Way("postgresql", "asyncpg", "asyncio"), "refused"),
        (Way("postgresql", "psycopg", "plain"), "rollback"),
        (Way("postgresql", "psycopg", "plain"), "close"),
    ],
    ids=str,
)
def test_a_part_was_committed_behind_a_local_transaction_that_was_lost(
    shop: Any, truth: Truth, server: ScriptedServer, how: str
) -> None:
    refusal = pytest.raises(TransactionMisused, match=EITHER)
    with talking(shop, server) as producer, opened(shop) as local, refusal:
        is_lost(shop, truth, producer, local, how)
    assert ends_of(server) == []


@each("alchemy", "sqlite", "postgresql", "mariadb")
def test_a_part_was_committed_behind_a_local_transaction_that_was_dropped(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    if hasattr(shop, "async_engine"):
        pytest.skip("SQLAlchemy itself complains of those that are dropped there")
    with talking(shop, server) as producer:
        tx = producer.transaction("a")
        tx.send("orders", b"a")
        local = shop.engine.connect()
        shop.barrier().record(local, tx.id)
        del local
        gc.collect()
        commits_elsewhere(truth)
        with pytest.raises(TransactionMisused, match=EITHER):
            tx.commit()
    assert ends_of(server) == []


# -- in one process ------------------------------------------------------------------------------


def attempt(shop: Any, local: Any, producer: Any, end: str, behind: Any = None) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        getattr(local, end)()
        if behind is not None:
            behind()


@ON_ALL
def test_a_part_was_committed_for_a_later_attempt_in_the_same_process(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    """The later one has sent more, and failed behind its local commit."""
    with (
        talking(shop, server, on_error="unknown") as producer,
        opened(shop) as first,
        opened(shop) as second,
    ):

        def fails_behind_its_commit() -> None:
            with suppress(OSError):
                attempt(shop, second, producer, "commit", lambda: raises(OSError("away")))

        with pytest.raises(TransactionMisused, match=EITHER):
            attempt(shop, first, producer, "rollback", fails_behind_its_commit)
    assert (ends_of(server), truth.rows()) == ([], {"a": "committed"})


def raises(error: Exception) -> None:
    raise error


@ON_ALL
def test_a_retry_is_not_refused_for_an_attempt_that_is_kept_in_a_traceback(
    shop: Shop, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server, on_error="unknown") as producer:
        with opened(shop) as first, pytest.raises(OSError, match="away") as kept:
            attempt(shop, first, producer, "rollback", lambda: raises(OSError("away")))
        with opened(shop) as second:
            attempt(shop, second, producer, "commit")
        assert kept.traceback
    assert (ends_of(server), truth.rows()) == (["commit"], {"a": "committed"})


# -- whose commit nobody has heard ---------------------------------------------------------------


def commits_past(shop: Any, producer: Any, local: Any, transaction_id: str | None) -> None:
    with producer.transaction(transaction_id) as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        local.execute(text("COMMIT"))


@each("alchemy", *SERVERS)
def test_rows_that_were_committed_past_sqlalchemy_are_told_apart_by_the_row_or_by_the_id(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    """An id of the program's own may be another process's: then it is the check-back's."""
    with talking(shop, server) as producer:
        with shop.session() as local:
            commits_past(shop, producer, local, None)
        with shop.session() as local:
            if truth.dialect == "postgresql":
                commits_past(shop, producer, local, "a")
            else:
                with pytest.raises(TransactionMisused, match=f"{EITHER}.*do not repeat the work"):
                    commits_past(shop, producer, local, "a")
    is_told = truth.dialect == "postgresql"
    assert ends_of(server) == ["commit"] * (2 if is_told else 1)
    assert len(truth.rows()) == 2


def commits_in_two_phases(shop: Any, producer: Any, local: Any) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        both = local.begin_twophase()
        shop.barrier().record(local, tx.id)
        both.prepare()
        both.commit()


@pytest.mark.parametrize("way", [Way("mariadb", "pymysql", "sqlalchemy")], ids=str)
def test_a_commit_in_two_phases_was_heard_by_nobody(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    with talking(shop, server) as producer, connected(shop) as local:
        commits_in_two_phases(shop, producer, local)
    assert (ends_of(server), truth.rows()) == (["commit"], {"a": "committed"})


def fences_and_rolls_back(shop: Any, producer: Any, local: Any) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        local.rollback()
        tx.rollback()


@ON_ALL
def test_another_process_committed_behind_a_rollback_of_the_messages_of_its_id(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    """The id is fenced before they are rolled back, so it cannot."""
    with talking(shop, server) as producer, opened(shop) as local:
        fences_and_rolls_back(shop, producer, local)
    assert (ends_of(server), truth.rows()) == (["rollback"], {"a": "fenced"})
    with opened(shop) as other, pytest.raises(Exception, match="is fenced"):
        shop.barrier().record(other, "a")


@ON_ALL
def test_the_messages_of_another_process_were_rolled_back_while_it_was_about_to_commit(
    shop: Any, truth: Truth, server: ScriptedServer
) -> None:
    """The fence meets its row, which is not committed yet."""
    barrier = shop.barrier(wait_s=1.0)
    with talking(shop, server) as producer, opened(shop) as local, opened(shop) as other:
        tx = producer.transaction("a")
        tx.send("orders", b"a")
        barrier.record(local, tx.id)
        local.rollback()
        shop.barrier(table="halfhitch_barrier").record(other, "b")
        records_by_hand(other)
        with pytest.raises(TransactionMisused, match="not known"):
            tx.rollback()
        other.commit()
    assert (ends_of(server), truth.rows()) == ([], {"a": "committed", "b": "committed"})


def records_by_hand(local: Any) -> None:
    """As another process does, of which nobody hears here."""
    columns = "producer_group, transaction_id, outcome"
    row = f"INSERT INTO halfhitch_barrier ({columns}) VALUES ('{GROUP}', 'a', 'committed')"
    if hasattr(local, "cursor"):
        local.cursor().execute(row)
    else:
        local.execute(text(row))
