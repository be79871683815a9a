"""`record` by hand whose row is seen, and is not sure: it is neither a commit nor none.

PostgreSQL shows what its synchronous standby lacks when the wait for that one is cut. Nor can a
check make sure of a row where its own write fails, as that of a user without DELETE.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.client import LocalTransactionState, TransactionMisused
from harness.barriers import GROUP
from harness.by_hand import ends_of, opened, talking
from harness.databases import ENOUGH_S, ERRORS, WAYS, Truth
from harness.kafka import wait_until
from harness.postgres import EmbeddedPostgres
from harness.scripted_http import ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import Shop

ON_SERVERS = pytest.mark.parametrize(
    "way", [way for way in WAYS if way.server in ("postgresql", "mariadb")], ids=str
)
ON_POSTGRESQL = pytest.mark.parametrize(
    "way", [way for way in WAYS if way.server == "postgresql"], ids=str
)
HOW = pytest.mark.parametrize("how", ["tx.rollback", "producer.rollback", "on_error"])


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as made:
        yield made


def rolls_back(producer: Any, tx: Any, how: str) -> None:
    """As the program likes."""
    if how == "tx.rollback":
        tx.rollback()
    if how == "producer.rollback":
        producer.rollback(tx.handle)


# -- a standby that is away ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    """Of this module: it is told whom to wait for."""
    with EmbeddedPostgres() as made:
        yield made


def wait_for(truth: Truth, standby: str) -> None:
    """From now on a commit does."""
    truth.run(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
    truth.run("SELECT pg_reload_conf()")
    shown = "SHOW synchronous_standby_names"
    wait_until(lambda: truth.run(shown) == [(standby,)], ENOUGH_S)
    # Whether anybody waits at all is a mark in shared memory, which the checkpointer sets when it
    # reads its settings: before the next checkpoint at the latest.
    truth.run("CHECKPOINT")


@pytest.fixture
def parted(truth: Truth, shop: Shop) -> Iterator[Truth]:
    shop.check("warm")  # what it opens and prepares
    # Beside load that check was given up, and it was its fence that waited for the standby.
    busy = (
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        " AND state <> 'idle' AND pid <> pg_backend_pid()"
    )
    wait_until(lambda: truth.run(busy) == [(0,)], ENOUGH_S)
    truth.empty_tables()
    wait_for(truth, "nobody")
    truth.run("SET synchronous_commit = local")
    yield truth
    wait_for(truth, "")


def await_a_wait(truth: Truth) -> None:
    # Beside load somebody else's may wait before the local transaction's commit is sent: then that
    # one is still open, and may be rolled back.
    statement = (
        "SELECT count(*) FILTER (WHERE wait_event = 'SyncRep') > 0"
        " AND count(*) FILTER (WHERE state = 'idle in transaction') = 0 FROM pg_stat_activity"
    )
    wait_until(lambda: truth.run(statement) == [(True,)], ENOUGH_S)


def cut_a_wait(truth: Truth) -> None:
    """The row is shown then."""
    await_a_wait(truth)
    pids = "pg_terminate_backend(pid) FROM pg_stat_activity"
    truth.run(f"SELECT {pids} WHERE wait_event = 'SyncRep'")


def is_cut_at_its_commit(shop: Any, truth: Truth, producer: Any, local: Any, how: str) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        shop.barrier(wait_s=1.0).record(local, tx.id)
        with ThreadPoolExecutor(1) as pool:
            cutting = pool.submit(cut_a_wait, truth)
            try:
                local.commit()
            except ERRORS:
                cutting.result()
                rolls_back(producer, tx, how)
                raise
            cutting.result()  # there was nobody to cut


@ON_POSTGRESQL
@HOW
def test_messages_were_rolled_back_behind_a_commit_whose_standby_was_away(
    shop: Any, parted: Truth, server: ScriptedServer, how: str
) -> None:
    """The row was seen, and the standby got it later."""
    refusal = pytest.raises(ERRORS if how == "on_error" else TransactionMisused)
    with talking(shop, server, on_error="rollback") as producer, opened(shop) as local, refusal:
        is_cut_at_its_commit(shop, parted, producer, local, how)
    wait_for(parted, "")
    assert (ends_of(server), parted.rows()) == ([], {"a": "committed"})
    assert shop.check("a") is LocalTransactionState.COMMIT


def begins_its_commit(shop: Any, tx: Any, local: Any, pool: ThreadPoolExecutor) -> Future[None]:
    tx.__enter__()
    tx.send("orders", b"a")
    shop.barrier(wait_s=1.0).record(local, tx.id)
    return pool.submit(local.commit)


def is_struck(producer: Any, tx: Any, how: str) -> None:
    rolls_back(producer, tx, how)
    error = OSError("of a signal's handler")
    tx.__exit__(OSError, error, None)
    raise error


@ON_POSTGRESQL
@HOW
def test_messages_were_rolled_back_while_a_commit_was_waiting_for_its_standby(
    shop: Any, parted: Truth, server: ScriptedServer, how: str
) -> None:
    """A signal's handler has raised, and no row is seen yet."""
    with (
        talking(shop, server, on_error="rollback") as producer,
        ThreadPoolExecutor(1) as pool,
        opened(shop) as local,
    ):
        tx = producer.transaction("a")
        committing = begins_its_commit(shop, tx, local, pool)
        await_a_wait(parted)
        try:
            with pytest.raises(OSError if how == "on_error" else TransactionMisused):
                is_struck(producer, tx, how)
        finally:  # else the session would be closed under its commit
            wait_for(parted, "")
            committing.result(ENOUGH_S)
    assert (ends_of(server), parted.rows()) == ([], {"a": "committed"})


# -- a user without DELETE -----------------------------------------------------------------------


@pytest.fixture
def kept(truth: Truth) -> Iterator[Truth]:
    """Nobody deletes a row."""
    is_postgresql = truth.dialect == "postgresql"
    truth.run(
        "CREATE RULE kept AS ON DELETE TO halfhitch_barrier DO INSTEAD NOTHING"
        if is_postgresql
        else "CREATE TRIGGER kept BEFORE DELETE ON halfhitch_barrier FOR EACH ROW"
        " SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no DELETE'"
    )
    yield truth
    truth.run("DROP RULE kept ON halfhitch_barrier" if is_postgresql else "DROP TRIGGER kept")


def fence(truth: Truth) -> None:
    """As a check does, whose answer has not come."""
    columns = "producer_group, transaction_id, outcome"
    truth.run(f"INSERT INTO halfhitch_barrier ({columns}) VALUES ('{GROUP}', 'a', 'fenced')")


def fails_behind_its_commit(shop: Any, producer: Any, local: Any, how: str) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        local.commit()
        rolls_back(producer, tx, how)
        raise OSError("metrics are away")


@ON_SERVERS
@HOW
def test_messages_were_rolled_back_behind_a_commit_by_a_user_without_delete(
    shop: Shop, kept: Truth, server: ScriptedServer, how: str
) -> None:
    refusal = pytest.raises(OSError if how == "on_error" else TransactionMisused)
    with talking(shop, server, on_error="rollback") as producer, opened(shop) as local, refusal:
        fails_behind_its_commit(shop, producer, local, how)
    assert (ends_of(server), kept.rows()) == ([], {"a": "committed"})


def ends_well(shop: Any, truth: Truth, producer: Any, local: Any, *, is_fenced: bool) -> None:
    with producer.transaction("a") as tx:
        tx.send("orders", b"a")
        shop.barrier().record(local, tx.id)
        if is_fenced:
            local.rollback()
            fence(truth)
        else:
            local.commit()


@ON_SERVERS
def test_messages_followed_a_rollback_for_the_fence_behind_it_was_not_sure(
    shop: Shop, kept: Truth, server: ScriptedServer
) -> None:
    """A table that cannot be read says nothing; this one has said `fenced`."""
    refusal = pytest.raises(TransactionMisused, match="not known")
    with talking(shop, server) as producer, opened(shop) as local, refusal:
        ends_well(shop, kept, producer, local, is_fenced=True)
    assert ends_of(server) == []


@pytest.mark.parametrize(
    "way",
    [way for way in WAYS if way.server in ("postgresql", "mariadb") and way.style == "plain"],
    ids=str,
)
def test_a_user_without_delete_is_told_so_at_the_end_of_his_block(
    shop: Shop, kept: Truth, server: ScriptedServer
) -> None:
    """A plain connection's commit is looked up."""
    refusal = pytest.raises(TransactionMisused, match=r"not known \(.*INSERT, SELECT and DELETE")
    with talking(shop, server) as producer, opened(shop) as local, refusal:
        ends_well(shop, kept, producer, local, is_fenced=False)
    assert ends_of(server) == []
