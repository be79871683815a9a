"""The barrier when PostgreSQL fails over to a standby that lacks the last rows.

What is answered after the failover fits what is left. What was answered before may not, if the
standby is asynchronous: that cannot be promised, and is shown here, so that nobody thinks it is.
A synchronous standby loses nothing that was answered, though somebody cuts the wait for it: then
PostgreSQL shows a row that the standby lacks.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from halfhitch.barrier import AsyncBarrier, LocalOutcomeUnknown, TransactionFenced
from halfhitch.client import LocalTransactionState
from harness.barriers import GROUP, RecordingProducer
from harness.databases import ENOUGH_S, ERRORS, WAYS, Truth, Way, open_shop
from harness.kafka import wait_until
from harness.postgres import EmbeddedPostgres
from harness.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import Shop

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN
#: One way that blocks and one that does not; each of the others begins a standby, too: long.
_USUAL = (("psycopg", "sqlalchemy"), ("asyncpg", "asyncio"))
EVERY = pytest.mark.parametrize(
    "way",
    [
        pytest.param(
            way, marks=[] if (way.driver, way.style) in _USUAL else [pytest.mark.long], id=str(way)
        )
        for way in WAYS
        if way.server == "postgresql"
    ],
)
_WAITING = "wait_event = 'SyncRep'"


class Site:
    """A primary, its standby, and the address that programs use."""

    def __init__(self, primary: EmbeddedPostgres, standby: EmbeddedPostgres, wire: Wire) -> None:
        self.primary = _truth(primary)
        self.standby = _truth(standby)
        self._primary_server = primary
        self._standby_server = standby
        self.wire = wire
        self._told = ""

    def await_replication(self) -> None:
        """What the primary has is on the standby."""
        ((position,),) = self.primary.run("SELECT pg_current_wal_lsn()")
        statement = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
        wait_until(lambda: self.standby.run(statement) == [(True,)], ENOUGH_S)

    def make_synchronous(self) -> None:
        """No commit of the primary's is answered before the standby has it."""
        self.primary.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self.primary.run("SELECT pg_reload_conf()")
        statement = "SELECT sync_state FROM pg_stat_replication"
        wait_until(lambda: self.primary.run(statement) == [("sync",)], ENOUGH_S)
        # Whether commits wait is a mark of the checkpointer's, which may read its settings later.
        self.primary.run("CHECKPOINT")

    def await_waiting(self) -> None:
        """Until one commit waits for the standby."""
        statement = f"SELECT count(*) FROM pg_stat_activity WHERE {_WAITING}"
        wait_until(lambda: self.primary.run(statement) == [(1,)], ENOUGH_S)

    def cut_waits(self) -> None:
        """The primary shows what the standby has not got."""
        self.primary.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {_WAITING}")

    def restart_primary(self) -> None:
        """What was killed in its wait is there, without it."""
        self.primary.close()
        self._primary_server.kill()
        self._primary_server.restart()
        self.primary = _truth(self._primary_server)

    def part(self) -> None:
        """From now on the standby is told nothing."""
        self.await_replication()
        ((self._told,),) = self.standby.run("SHOW primary_conninfo")
        self.standby.run("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.run("SELECT pg_reload_conf()")
        wait_until(
            lambda: self.primary.run("SELECT count(*) FROM pg_stat_replication") == [(0,)], ENOUGH_S
        )

    def rejoin(self) -> None:
        """The standby is told everything again."""
        told = self._told.replace("'", "''")
        self.standby.run(f"ALTER SYSTEM SET primary_conninfo = '{told}'")
        self.standby.run("SELECT pg_reload_conf()")
        statement = "SELECT sync_state FROM pg_stat_replication"
        wait_until(lambda: self.primary.run(statement) == [("sync",)], ENOUGH_S)

    def fail_over(self, *, is_stopped: bool = True) -> None:
        """The standby is promoted, and programs are led there."""
        if is_stopped:
            self._primary_server.kill()
        assert self.standby.run("SELECT pg_promote(true, 60)") == [(True,)]
        self.wire.lead_to(self._standby_server.port)

    def close(self) -> None:
        self.primary.close()
        self.standby.close()


def _truth(server: EmbeddedPostgres) -> Truth:
    return Truth("postgresql", lambda: psycopg.connect(server.dsn, autocommit=True))


@pytest.fixture(scope="module")
def primary() -> Iterator[EmbeddedPostgres]:
    """Of this module: it is killed, and told whom to wait for."""
    with EmbeddedPostgres() as server:
        truth = _truth(server)
        truth.make_tables()
        truth.close()
        yield server


@pytest.fixture
def site(primary: EmbeddedPostgres) -> Iterator[Site]:
    with EmbeddedPostgres(primary) as standby, Wire(primary.port) as wire:
        made = Site(primary, standby, wire)
        yield made
        made.close()
    if not primary.is_running:
        primary.restart()
    truth = _truth(primary)
    truth.run("SET synchronous_commit = off")
    truth.run("ALTER SYSTEM RESET synchronous_standby_names")
    truth.run("SELECT pg_reload_conf()")
    truth.empty_tables()
    truth.close()


@pytest.fixture
def way() -> Way:
    return next(way for way in WAYS if (way.driver, way.style) == ("psycopg", "sqlalchemy"))


@pytest.fixture
def shop(site: Site, way: Way) -> Iterator[Shop]:
    options = {} if way.style == "plain" else {"pool_pre_ping": True}
    made = open_shop(way, site.wire.port, **options)
    yield made
    made.close()


def commit_order(shop: Shop, name: str) -> None:
    with shop.begin() as local:
        local.order(name)
        local.record(name)
        local.commit()


def test_what_is_asked_after_the_failover_fits_what_is_left(shop: Shop, site: Site) -> None:
    commit_order(shop, "kept")
    assert shop.check("fenced") is ROLLBACK
    site.part()
    commit_order(shop, "lost")
    site.fail_over()
    assert site.standby.orders() == {"kept"}
    assert shop.check("kept") is COMMIT
    assert shop.check("fenced") is ROLLBACK
    # Nobody had asked: rows and messages are lost together.
    assert shop.check("lost") is ROLLBACK
    with shop.begin() as local, pytest.raises(TransactionFenced):
        local.record("lost")


def test_what_was_answered_before_the_failover_cannot_be_kept_by_an_asynchronous_standby(
    shop: Shop, site: Site
) -> None:
    site.part()
    commit_order(shop, "a")
    assert shop.check("a") is COMMIT
    assert shop.check("b") is ROLLBACK
    site.fail_over()
    # The messages of "a" are out, its order is gone; the fence of "b" is gone as well, so whoever
    # repeats "b" under its old id gets rows without messages. The sidecar keeps to its first word.
    assert site.standby.orders() == set()
    assert shop.check("a") is ROLLBACK
    commit_order(shop, "b")
    assert site.standby.orders() == {"b"}


def test_a_local_transaction_does_not_outlive_its_primary(shop: Shop, site: Site) -> None:
    with shop.begin() as local:
        local.order("a")
        local.record("a")
        site.part()
        site.fail_over()
        with pytest.raises(ERRORS):
            local.commit()
    assert shop.check("a") is ROLLBACK
    assert site.standby.orders() == set()


def test_rows_that_an_old_primary_still_takes_are_lost_with_it(shop: Shop, site: Site) -> None:
    with shop.begin() as local:
        local.order("a")
        local.record("a")
        site.part()
        site.fail_over(is_stopped=False)
        assert shop.check("a", wait_s=ENOUGH_S) is ROLLBACK  # of the new one
        local.commit()  # of the old one, that should have been stopped first
    assert site.primary.orders() == {"a"}
    assert site.standby.orders() == set()
    assert site.standby.rows() == {"a": "fenced"}


@EVERY
def test_a_synchronous_standby_loses_nothing_that_was_answered(shop: Shop, site: Site) -> None:
    site.make_synchronous()
    commit_order(shop, "kept")
    assert shop.check("fenced") is ROLLBACK
    site.part()
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(commit_order, shop, "lost")  # waits for the standby
        site.await_waiting()
        assert shop.check("lost", wait_s=1.0) is UNKNOWN
        # A fence that is not on the standby yet is none.
        assert shop.check("never", wait_s=1.0) is UNKNOWN
        site.fail_over()
        with pytest.raises(ERRORS):
            committing.result(ENOUGH_S)
    assert shop.check("kept") is COMMIT
    assert shop.check("fenced") is ROLLBACK
    assert shop.check("lost") is ROLLBACK
    assert site.standby.orders() == {"kept"}


# -- a wait for the standby that is cut ----------------------------------------------------------


def commit_cut_off(shop: Shop, site: Site, name: str) -> None:
    """Its server ends the wait: the primary shows the row, and the standby lacks it."""
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(commit_order, shop, name)
        site.await_waiting()
        site.cut_waits()
        with pytest.raises(ERRORS):
            committing.result(ENOUGH_S)
    assert site.primary.orders() == {name}


@EVERY
@pytest.mark.parametrize("end", ["failover", "return"])
def test_a_row_that_the_standby_lacked_was_answered_commit(
    shop: Shop, site: Site, end: str
) -> None:
    site.make_synchronous()
    site.part()
    commit_cut_off(shop, site, "a")
    assert shop.check("a", wait_s=1.0) is UNKNOWN
    if end == "return":
        site.rejoin()
        assert shop.check("a") is COMMIT
        return
    site.fail_over()
    assert shop.check("a") is ROLLBACK
    assert site.standby.orders() == set()


def test_a_row_that_was_there_after_a_restart_was_answered_commit(shop: Shop, site: Site) -> None:
    site.make_synchronous()
    site.part()
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(commit_order, shop, "a")
        site.await_waiting()
        site.restart_primary()
        with pytest.raises(ERRORS):
            committing.result(ENOUGH_S)
    assert site.primary.orders() == {"a"}
    assert shop.check("a", wait_s=1.0) is UNKNOWN
    site.fail_over()
    assert shop.check("a") is ROLLBACK


@EVERY
def test_a_fence_that_the_standby_lacked_was_answered_rollback(shop: Shop, site: Site) -> None:
    """Then its local transaction committed on the new primary."""
    site.make_synchronous()
    site.part()
    assert shop.check("a", wait_s=1.0) is UNKNOWN
    site.cut_waits()  # unless the driver has, as it was cancelled
    wait_until(lambda: site.primary.rows() == {"a": "fenced"}, ENOUGH_S)
    assert shop.check("a", wait_s=1.0) is UNKNOWN
    site.fail_over()
    commit_order(shop, "a")
    assert shop.check("a") is COMMIT


@EVERY
def test_a_block_sent_messages_of_rows_that_the_standby_lacked(shop: Shop, site: Site) -> None:
    site.make_synchronous()
    site.part()
    producer = RecordingProducer("a")

    def work() -> None:
        with shop.barrier(wait_s=1.0).transaction(producer):
            pass

    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        site.await_waiting()
        site.cut_waits()
        with pytest.raises(LocalOutcomeUnknown):
            working.result(ENOUGH_S)
    assert site.primary.rows() == {"a": "committed"}
    assert producer.made[0].ends == []


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_a_cancelled_block_sent_messages_of_rows_that_the_standby_lacked(
    site: Site, driver: str
) -> None:
    """`asyncio.wait_for`: the driver cancels the wait, and the primary shows the rows."""
    site.make_synchronous()
    site.part()
    producer: Any = RecordingProducer("a")

    async def main() -> None:
        address = f"postgresql+{driver}://postgres@127.0.0.1:{site.wire.port}/postgres"
        engine = create_async_engine(address)
        barrier = AsyncBarrier(engine, GROUP, wait_s=1.0)

        async def work() -> None:
            async with barrier.transaction(producer):
                pass

        working = asyncio.ensure_future(work())
        await asyncio.to_thread(site.await_waiting)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        await engine.dispose()

    asyncio.run(main())
    assert site.primary.rows() == {"a": "committed"}
    assert producer.made[0].ends == []


def test_a_session_without_synchronous_commit_was_answered_without_the_standby(
    site: Site,
) -> None:
    """What its check read was only on the primary, and so was what the check wrote."""
    site.make_synchronous()
    site.part()
    way = next(way for way in WAYS if (way.driver, way.style) == ("psycopg", "plain"))
    shop = open_shop(way, site.wire.port, options="-c synchronous_commit=off")
    commit_order(shop, "a")
    assert site.primary.orders() == {"a"}
    assert shop.check("a", wait_s=1.0) is UNKNOWN
