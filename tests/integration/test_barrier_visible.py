"""The barrier on a MariaDB without a binary log, where a row is seen before the log has it.

If the server dies then, the row is gone. So nothing is answered by what is merely seen.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from halfhitch.client import LocalTransactionState
from harness.databases import ENOUGH_S, ERRORS, WAYS, Truth, Way, open_shop
from harness.held_log import HeldLog
from harness.kafka import wait_until
from harness.mariadb import EmbeddedMariaDb

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.databases import Shop

COMMIT = LocalTransactionState.COMMIT
ROLLBACK = LocalTransactionState.ROLLBACK
UNKNOWN = LocalTransactionState.UNKNOWN
EVERY = pytest.mark.parametrize("way", [way for way in WAYS if way.server == "mariadb"], ids=str)


@pytest.fixture(scope="module")
def log() -> Iterator[HeldLog]:
    with tempfile.TemporaryDirectory(prefix="halfhitch-held-") as folder:
        yield HeldLog(Path(folder))


@pytest.fixture(scope="module")
def server(log: HeldLog) -> Iterator[EmbeddedMariaDb]:
    """Of this module: it is killed."""
    with EmbeddedMariaDb(has_binary_log=False, log=log) as made:
        yield made


@pytest.fixture
def truth(server: EmbeddedMariaDb) -> Iterator[Truth]:
    with server.connection() as connection:
        made = Truth("mariadb", lambda: connection)
        made.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        made.make_tables()
        yield made


@pytest.fixture
def shop(way: Way, server: EmbeddedMariaDb, truth: Truth) -> Iterator[Shop]:
    options = {} if way.style == "plain" else {"pool_pre_ping": True}
    made = open_shop(way, server.port, **options)
    made.check("warm")  # what it opens and prepares is not held up later
    yield made
    made.close()


def commit_order(shop: Shop, name: str) -> None:
    with shop.begin() as local:
        local.order(name)
        local.record(name)
        local.commit()


@EVERY
@pytest.mark.parametrize("end", ["dies", "goes on"])
def test_a_row_was_answered_commit_before_it_was_in_the_log(
    shop: Shop, truth: Truth, server: EmbeddedMariaDb, log: HeldLog, end: str
) -> None:
    with ThreadPoolExecutor(1) as pool, shop.begin() as local:
        local.order("a")
        local.record("a")
        with log.hold():
            committing = pool.submit(local.commit)
            wait_until(lambda: truth.rows().get("a") == "committed", ENOUGH_S)
            assert not committing.done()
            assert shop.check("a", wait_s=1.0) is UNKNOWN
            if end == "dies":
                server.kill()
        if end == "goes on":
            committing.result(ENOUGH_S)
            assert shop.check("a") is COMMIT
            return
        with pytest.raises(ERRORS):
            committing.result(ENOUGH_S)
    server.restart()
    assert shop.check("a") is ROLLBACK
    with server.connection() as connection:
        assert Truth("mariadb", lambda: connection).orders() == set()


@EVERY
def test_a_fence_was_answered_rollback_before_it_was_in_the_log(
    shop: Shop, truth: Truth, server: EmbeddedMariaDb, log: HeldLog
) -> None:
    """Then its local transaction committed after all."""
    with log.hold():
        assert shop.check("a", wait_s=1.0) is UNKNOWN
        wait_until(lambda: truth.rows().get("a") == "fenced", ENOUGH_S)
        assert shop.check("a", wait_s=1.0) is UNKNOWN
        server.kill()
    server.restart()
    commit_order(shop, "a")
    assert shop.check("a") is COMMIT


@EVERY
def test_a_block_that_ends_well_writes_nothing_to_make_sure(
    shop: Shop, truth: Truth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("halfhitch.barrier.durable.Behind.sure")
    assert shop.block("a").made[0].ends == ["commit"]
    assert shop.check("a") is UNKNOWN
    monkeypatch.undo()
    assert shop.check("a") is COMMIT
    assert truth.rows() == {"a": "committed"} | {"warm": "fenced"}
