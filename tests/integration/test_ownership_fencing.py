"""An owner that is fenced although the partition is its own: it begins again, and says so."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from halfhitch.core.model import Resolution
from harness.checkers import Fate
from harness.engines import DEADLINE_S, PARTITION_COUNT, Site, until, until_idle
from harness.hanging import Hang, hanging_engine, until_hanging
from harness.kafka import bounds

if TYPE_CHECKING:
    from halfhitch.engine import Engine

pytestmark = pytest.mark.kafka
C = Resolution.COMMIT


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


def fence(site: Site) -> None:
    """Somebody uses the owners' transactional ids."""
    for partition in range(PARTITION_COUNT):
        stranger = Producer(
            {
                "bootstrap.servers": site.bootstrap,
                "transactional.id": f"{site.names.owner_group}-{partition}",
                "log_level": 0,
            }
        )
        stranger.init_transactions(DEADLINE_S)
        stranger.close()


def outcomes(site: Site) -> list[str]:
    return [call[1] for call in site.observer.of("kafka_transaction")]


async def test_an_owner_that_a_stranger_has_fenced_recovers_by_itself_and_says_so(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "halfhitch")
    async with site.engine() as engine:
        for round_ in range(3):
            fence(site)
            for n in range(6):
                name = f"R{round_}-{n}"
                await site.run(engine, site.pair(name), Fate.COMMITTED, wait_visible=n > 3)
            await until_idle(engine)
        records = await site.until_faultless()
        assert sum(map(len, records.values())) == 2 * 18
        await until(lambda: not engine.degraded_reasons(), "no trouble is left")
    assert outcomes(site).count("ok") > 0
    assert len(outcomes(site)) - outcomes(site).count("ok") >= 3, outcomes(site)
    told = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert sum("half partition" in line for line in told) >= 3, told


async def test_after_an_abort_what_was_read_is_done_although_the_reader_does_not_rewind(
    site: Site,
) -> None:
    """The step that is aborted goes back to the ledger; later ones were read meanwhile."""
    hang = Hang()
    async with hanging_engine(site, hang) as engine:
        handles = await prepared(site, engine, "A", 10)
        hang.hold.set()
        await commit(site, engine, "A", handles)
        await until_hanging(hang, 1)
        fence(site)  # ends what hangs; the owners do not know yet
        more = await prepared(site, engine, "B", 10)
        await commit(site, engine, "B", more)
        hang.hold.clear()
        hang.release.set()
        await until_idle(engine)
        await site.until_faultless()
    assert set(outcomes(site)) > {"ok"}, "something was aborted"
    assert len(site.read(site.orders, "read_uncommitted")) > 20, "there was something to hide"


async def test_a_pause_beyond_the_transaction_timeout_costs_the_step_and_not_the_partition(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The coordinator aborts and fences; librdkafka cannot tell that from a takeover."""
    hang = Hang()
    async with hanging_engine(site, hang, transaction_timeout_ms=5_000) as engine:
        handles = await prepared(site, engine, "A", 6)
        hang.hold.set()
        await commit(site, engine, "A", handles)
        await until_hanging(hang, 1)

        def end_of(isolation: str) -> int:
            return sum(bounds(site.bootstrap, site.orders, isolation)[1].values())

        await until(lambda: end_of("read_uncommitted") > 0, "the step has written")
        await until(
            lambda: end_of("read_committed") == end_of("read_uncommitted"),
            "the coordinator has ended it",
        )
        hang.hold.clear()
        hang.release.set()
        await until_idle(engine)
        await site.until_faultless()
        await until(lambda: not engine.degraded_reasons(), "no trouble is left")
    assert any("half partition" in r.getMessage() for r in caplog.records)
    assert len(site.read(site.orders, "read_uncommitted")) > 6, "the pause was in a transaction"


async def prepared(site: Site, engine: Engine, name: str, count: int) -> list[str]:
    return [
        (await site.prepare(engine, site.pair(f"{name}{n}"), f"{name}{n}")).handle
        for n in range(count)
    ]


async def commit(site: Site, engine: Engine, name: str, handles: list[str]) -> None:
    for n, handle in enumerate(handles):
        await engine.transactions.end(handle, C)
        site.note(f"{name}{n}", site.pair(f"{name}{n}"), Fate.COMMITTED)
