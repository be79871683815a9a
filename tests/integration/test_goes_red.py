"""The judges of the engine's tests find what they are there for, in the engine's own output.

Each test runs one procedure twice: as it is, which must be faultless, and with one promise broken
on purpose, which the judges must notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer

from halfhitch.adapters.kafka import clients
from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.core.watermarks import Watermarks
from halfhitch.errors import TransactionGone
from halfhitch.wire import op as op_wire
from harness.checkers import Fate
from harness.engines import DEADLINE_S, GROUP, PARTITION_COUNT, Site, until, until_idle

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.kafka


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


@pytest.mark.parametrize("broken", [False, True])
async def test_without_done_marks_a_replay_from_the_start_doubles(
    site: Site, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    monkeypatch.setattr(  # or nothing would be left to be replayed
        "halfhitch.adapters.kafka.partition_writer.KafkaPartitionWriter.delete_below",
        lambda *_: None,
    )
    if broken:
        monkeypatch.setattr(op_wire, "write_marks", lambda _: [])
    async with site.engine() as engine:
        for n in range(10):
            await site.run(engine, site.pair(f"T{n}"), Fate.COMMITTED)
            await site.run(engine, site.pair(f"R{n}"), Fate.ROLLED_BACK)
        await until(
            lambda: sum(c[3] for c in site.observer.of("kafka_transaction") if c[1] == "ok") >= 20,
            "all forwards",
        )
    await site.until_faultless()
    site.reset_watermarks()
    async with site.engine() as engine:
        await until_idle(engine)
        await site.run(engine, site.pair("last"), Fate.COMMITTED, wait_visible=True)
    assert len(site.observer.of("takeover")) == 2 * PARTITION_COUNT
    found = site.faults()
    assert set(found) == ({"doubled"} if broken else set()), found


@pytest.mark.parametrize("broken", [False, True])
async def test_a_reader_of_uncommitted_records_invents(
    site: Site, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """A decision in an aborted Kafka transaction is one that nobody has made."""
    if broken:
        level = {"isolation.level": "read_uncommitted"}
        monkeypatch.setattr(clients, "Consumer", lambda c, **o: Consumer({**c, **level}, **o))
    async with site.engine() as engine:
        handle = await site.run(engine, site.pair("T1"), Fate.PENDING)
        known = engine.transactions._parts.handles.decode(handle)
        _abort_a_commit(site, known.partition, known.transaction_id)
        await site.run(engine, site.pair("T1"), Fate.COMMITTED, wait_visible=True)
        await until_idle(engine)
    found = site.faults()
    assert set(found) == ({"invented"} if broken else set()), found


def _abort_a_commit(site: Site, partition: int, transaction_id: str) -> None:
    stranger: Any = Producer(
        {
            "bootstrap.servers": site.bootstrap,
            "transactional.id": site.prefix + "stranger",
            "log_level": 0,
        }
    )
    stranger.init_transactions(DEADLINE_S)
    stranger.begin_transaction()
    entry = op_wire.DecisionEntry(GROUP, transaction_id, 2, 0, ResolutionSource.PRODUCER)
    value, headers = op_wire.write(op_wire.tag_of(Resolution.COMMIT), [entry], [])
    stranger.produce(site.names.op, value, partition=partition, headers=headers)
    assert stranger.flush(DEADLINE_S) == 0
    stranger.abort_transaction(DEADLINE_S)
    stranger.close()


@pytest.mark.parametrize("broken", [False, True])
async def test_a_watermark_that_follows_the_position_loses(
    site: Site, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    if broken:
        monkeypatch.setattr(
            Watermarks, "after_step", lambda self, *_: (self.half_position, self.op_position)
        )
    async with site.engine() as engine:
        pending = [await site.prepare(engine, site.pair(f"T{n}")) for n in range(6)]
        for n in range(6):
            await site.run(engine, site.pair(f"D{n}"), Fate.COMMITTED, wait_visible=True)
    async with site.engine() as engine:
        for n, prepared in enumerate(pending):
            await _commit_if_it_is_known(site, engine, prepared.handle)
            site.note(prepared.transaction_id, site.pair(f"T{n}"), Fate.COMMITTED)
        await until_idle(engine)
    if not broken:
        await site.until_faultless()
    found = site.faults()
    assert set(found) == ({"lost"} if broken else set()), found


async def _commit_if_it_is_known(site: Site, engine: Any, handle: str) -> None:
    """The broken engine says that it is gone, which a producer cannot take back either."""
    try:
        await engine.transactions.end(handle, Resolution.COMMIT)
    except TransactionGone:
        return


@pytest.mark.parametrize("broken", [False, True])
async def test_readers_of_uncommitted_records_find_doubled_what_was_tried_twice(
    site: Site, broken: bool
) -> None:
    """The reader's half of the promise: isolation.level=read_committed."""
    async with site.engine() as engine:
        await site.run(engine, site.pair("T1"), Fate.COMMITTED, wait_visible=True)
        tried = Producer(
            {
                "bootstrap.servers": site.bootstrap,
                "transactional.id": site.prefix + "tried",
                "log_level": 0,
            }
        )
        tried.init_transactions(DEADLINE_S)
        tried.begin_transaction()
        for record in site.read(site.orders):
            tried.produce(site.orders, record.value, record.key, headers=list(record.headers))
        assert tried.flush(DEADLINE_S) == 0
        tried.abort_transaction(DEADLINE_S)
        tried.close()
    found = site.faults("read_uncommitted" if broken else "read_committed")
    assert set(found) == ({"doubled"} if broken else set()), found
