"""The barrier when PostgreSQL fails over to a standby that lacks the last rows.

What is answered after the failover fits what is left. What was answered before may not, if the
standby is asynchronous: that cannot be promised, and is shown here, so that nobody thinks it is.
A synchronous standby loses nothing that was answered.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from halfhitch.barrier import TransactionFenced
from halfhitch.client import LocalTransactionState
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


class Site:
    """A primary, its standby, and the address that programs use."""

    def __init__(self, primary: EmbeddedPostgres, standby: EmbeddedPostgres, wire: Wire) -> None:
        self.primary = _truth(primary)
        self.standby = _truth(standby)
        self._primary_server = primary
        self._standby_server = standby
        self.wire = wire

    def await_replication(self) -> None:
        """What the primary has is on the standby."""
        ((position,),) = self.primary.run("SELECT pg_current_wal_lsn()")
        statement = f"SELECT pg_last_wal_replay_lsn() >= '{position}'"
        wait_until(lambda: self.standby.run(statement) == [(True,)], ENOUGH_S)

    def part(self) -> None:
        """From now on the standby is told nothing."""
        self.await_replication()
        self.standby.run("ALTER SYSTEM SET primary_conninfo = ''")
        self.standby.run("SELECT pg_reload_conf()")
        wait_until(
            lambda: self.primary.run("SELECT count(*) FROM pg_stat_replication") == [(0,)], ENOUGH_S
        )

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
    made = open_shop(way, site.wire.port, pool_pre_ping=True)
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


def test_a_synchronous_standby_loses_nothing_that_was_answered(shop: Shop, site: Site) -> None:
    site.primary.run("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
    site.primary.run("SELECT pg_reload_conf()")
    statement = "SELECT sync_state FROM pg_stat_replication"
    wait_until(lambda: site.primary.run(statement) == [("sync",)], ENOUGH_S)
    commit_order(shop, "kept")
    assert shop.check("fenced") is ROLLBACK
    site.part()
    with ThreadPoolExecutor(1) as pool:
        committing = pool.submit(commit_order, shop, "lost")  # waits for the standby
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        wait_until(lambda: site.primary.run(waiting) == [(1,)], ENOUGH_S)
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
