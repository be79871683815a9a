"""Two releases in one group of owners: the newer one's records, and who owns what then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.client import Message as ClientMessage
from halfhitch.client import TransactionProducer
from halfhitch.core.model import Resolution
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire import parked as parked_wire
from harness.engines import PARTITION_COUNT, Site, is_working, until, until_working
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is of a release that writes another version of all records."""
    for module in (half_wire, op_wire, parked_wire):
        monkeypatch.setattr(module, "_VERSION", b"2")


@pytest.mark.usefixtures("newer")
async def test_an_older_owner_gives_everything_to_the_one_that_can_read_it(
    kafka: Any, tmp_path: Path
) -> None:
    """The older one kept its half of the partitions, and what lay there stood still for ever."""
    site = Site(kafka.bootstrap)
    site.create_targets()
    settings = {
        "HALFHITCH_TOPICS_PREFIX": site.prefix,
        "HALFHITCH_TOPICS_CREATE": "true",
        "HALFHITCH_TOPICS_PARTITIONS": str(PARTITION_COUNT),
    }
    with Sidecar(kafka.bootstrap, tmp_path, **settings) as older:
        older.wait_ready()
        async with site.engine(working=None) as engine:
            await until(lambda: is_working(engine, 1), "both own one")
            handles = [
                (await site.prepare(engine, site.pair(f"T{n}"), f"T{n}")).handle for n in range(8)
            ]
            for handle in handles:
                await engine.transactions.end(handle, Resolution.COMMIT)
            await until_working(engine, PARTITION_COUNT)
            await until(lambda: len(site.read(site.orders)) == len(handles), "all are forwarded")
            status, answer = older.ask("/readyz")
            assert status == 200
            assert len(answer["degraded"]) == 1, answer
            (reason,) = answer["degraded"]
            assert "owns no half partition until it is restarted" in reason
            assert "newer release" in reason
            assert "upgrade this instance" in reason
            assert older.ask("/livez")[0] < 300
            log = older.log.read_text()
            assert log.count("action=left_group") == 1
            with TransactionProducer("group", older.address, deadline_s=10) as producer:
                prepared = producer.prepare([ClientMessage(site.orders, b"still taken")])
                assert producer.rollback(prepared.handle) is not None
        assert older.exit_code is None
