"""Stored watermarks that are lost, set back, too far, or below a log that was cut: told, not
doubled."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from halfhitch.adapters.kafka import clients
from halfhitch.adapters.kafka.positions import inspect_positions
from halfhitch.adapters.kafka.topic_checks import Severity
from halfhitch.core.model import Resolution
from halfhitch.errors import TransactionGone
from halfhitch.service.api import PartitionPhase
from halfhitch.service.owner import trimming
from harness import positions
from harness.checkers import Fate
from harness.defaults import owner_limits
from harness.engines import DEADLINE_S, PARTITION_COUNT, Site, until, until_idle
from harness.kafka import admin_client

if TYPE_CHECKING:
    from halfhitch.engine import Engine

pytestmark = pytest.mark.kafka
C, R = Resolution.COMMIT, Resolution.ROLLBACK
#: Remembers few, so that the op watermark follows at once.
FORGETFUL = owner_limits(finished_max=2)


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


async def fill(site: Site, engine: Engine) -> list[tuple[str, str]]:
    """Committed, rolled back, and pending; gives names and handles of the pending."""
    for n in range(24):
        fate = Fate.ROLLED_BACK if n % 5 == 4 else Fate.COMMITTED
        await site.run(engine, site.pair(f"T{n}"), fate, wait_visible=n % 8 == 0)
    pending = [
        (f"P{n}", await site.run(engine, site.pair(f"P{n}"), Fate.PENDING)) for n in range(6)
    ]
    await until_idle(engine)
    return pending


async def finish(site: Site, engine: Engine, pending: list[tuple[str, str]]) -> None:
    """End the pending ones, repeat every end; then all must be there once."""
    await until_idle(engine)
    await site.until_faultless()
    for n, (name, handle) in enumerate(pending):
        fate, resolution = (Fate.ROLLED_BACK, R) if n % 2 else (Fate.COMMITTED, C)
        await engine.transactions.end(handle, resolution, wait_visible=True)
        transaction_id = (await engine.transactions.view(handle)).transaction_id
        site.note(transaction_id, site.pair(name), fate)
    await site.until_faultless()


def replayed(site: Site) -> int:
    return sum(count for _, _, count in site.observer.of("takeover"))


async def test_a_group_that_was_deleted_is_replayed_without_doubling(site: Site) -> None:
    async with site.engine() as engine:
        pending = await fill(site, engine)
    await positions.forget_the_group(site)
    before = replayed(site)
    async with site.engine() as engine:
        await finish(site, engine, pending)
    assert replayed(site) - before >= 30, "the op log was read from its beginning"


async def test_a_group_that_was_deleted_is_replayed_from_what_is_left_of_trimmed_logs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming, "_PAUSE_S", 0.0)
    async with site.engine(owner_limits=FORGETFUL) as engine:
        pending = await fill(site, engine)
    assert all(begin > 0 for begin in positions.begins(site).values()), "all were trimmed"
    await positions.forget_the_group(site)
    async with site.engine(owner_limits=FORGETFUL) as engine:
        await finish(site, engine, pending)


async def test_a_group_that_was_deleted_goes_on_from_what_is_proven(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the half log begins earlier again than the op log: a broker that was killed may
    begin a log where it began up to a minute before."""
    monkeypatch.setattr(trimming, "_PAUSE_S", 1e9)
    async with site.engine(owner_limits=FORGETFUL) as engine:
        pending = await fill(site, engine)
    places = positions.stored(site)
    for log, place in places.items():
        if log[0] == site.names.op:
            positions.cut(site, log, place)
    assert not any(positions.begins(site)[log] for log in places if log[0] == site.names.half)
    await positions.forget_the_group(site)
    async with site.engine(owner_limits=FORGETFUL) as engine:
        await until_idle(engine)
        assert sum(state.pending_count for state in engine.partitions()) == len(pending)
        await finish(site, engine, pending)


@pytest.mark.long
async def test_old_watermarks_below_the_logs_stop_nobody_and_doctor_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka gave them when a group's coordinator had been killed, seven minutes old."""
    monkeypatch.setattr(trimming, "_PAUSE_S", 0.0)
    offsets = positions.stored_offsets(site)
    places = [TopicPartition(*log) for log in positions.logs(site)]
    async with site.engine(owner_limits=FORGETFUL) as engine:
        for n in range(8):  # by both half partitions
            await site.run(engine, site.pair(f"E{n}"), Fate.COMMITTED, wait_visible=True)
        await until_idle(engine)
        old = offsets.of(places, DEADLINE_S, "read the watermarks")
        assert all(place.offset >= 0 and place.metadata for place in old)
        pending = await fill(site, engine)
    begins = positions.begins(site)
    assert all(begins[place.topic, place.partition] > place.offset for place in old)
    await positions.store(site, {}, given=old)
    admin = admin_client(site.bootstrap)
    found = inspect_positions(admin, offsets, site.names, PARTITION_COUNT)
    assert [finding.severity for finding in found] == [Severity.WARN] * PARTITION_COUNT
    assert "newer ones were committed" in found[0].sentence
    assert "Do not reset" in found[0].remedy
    async with site.engine(owner_limits=FORGETFUL) as engine:
        assert sorted(site.observer.of("old_watermarks")) == [(0,), (1,)]
        assert sum("gave old watermarks" in r.getMessage() for r in caplog.records) >= 2
        await finish(site, engine, pending)
    found = inspect_positions(admin, offsets, site.names, PARTITION_COUNT)
    assert [finding.severity for finding in found] == [Severity.OK]


async def test_watermarks_that_were_set_back_to_the_earliest_do_not_double(site: Site) -> None:
    async with site.engine(owner_limits=FORGETFUL) as engine:
        pending = await fill(site, engine)
    assert all(positions.stored(site).values()), "all have moved"
    await positions.store(site, positions.begins(site))
    async with site.engine() as engine:
        await finish(site, engine, pending)


async def test_a_half_watermark_that_was_set_back_alone_does_not_double(site: Site) -> None:
    """Its done marks lie below the op watermark: they must be read again all the same."""
    async with site.engine(owner_limits=FORGETFUL) as engine:
        handles = [
            await site.run(engine, site.pair(f"T{n}"), Fate.COMMITTED, wait_visible=True)
            for n in range(16)
        ]
    ops = {log: at for log, at in positions.stored(site).items() if log[0] == site.names.op}
    assert all(at > 4 for at in ops.values()), "the marks lie below"
    begins = positions.begins(site)
    halves = [log for log in begins if log[0] == site.names.half]
    assert all(begins[log] < positions.stored(site)[log] for log in halves)
    await positions.store(site, {log: begins[log] for log in halves})
    async with site.engine() as engine:
        for handle in handles:
            with contextlib.suppress(TransactionGone):  # a right answer too, for what was trimmed
                await engine.transactions.end(handle, C, wait_visible=True)
        await until_idle(engine)
        assert site.faults() == {}
        assert sum(state.pending_count for state in engine.partitions()) == 0


@pytest.mark.parametrize("harm", ["beyond the end", "half log cut", "op log cut"])
async def test_a_watermark_outside_its_log_stops_that_partition_alone_and_is_told_everywhere(
    site: Site, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    async with site.engine() as engine:
        await fill(site, engine)
    half, op = (site.names.half, 0), (site.names.op, 0)
    if harm == "beyond the end":
        await positions.store(site, {half: positions.ends(site)[half] + 50})
    else:
        log = half if harm == "half log cut" else op
        positions.cut(site, log, positions.ends(site)[log])
    admin = admin_client(site.bootstrap)
    found = inspect_positions(admin, positions.stored_offsets(site), site.names, PARTITION_COUNT)
    assert [finding.severity for finding in found] == [Severity.FAIL]
    assert "-0 " in found[0].sentence
    assert "reset-offsets" in found[0].remedy

    with caplog.at_level(logging.INFO, "halfhitch"):
        async with site.engine(working=None) as engine:

            def phases() -> dict[int, PartitionPhase]:
                return {state.partition: state.phase for state in engine.partitions()}

            await until(
                lambda: phases() == {0: PartitionPhase.FAILED, 1: PartitionPhase.WORKING},
                "one works, one does not",
            )
            (reason,) = [r for r in engine.degraded_reasons() if "half partition 0" in r]
            assert "stored watermark" in reason
            assert engine.unready_reasons() == []
            told = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
            assert any("half partition 0 stopped" in line for line in told), "the owner says so"
            assert any("the stored watermark is" in line and "-0 " in line for line in told)
            for n in range(3):  # what has no key goes where it can be carried out
                message = [site.message(site.orders, None, b"free %d" % n)]
                await site.run(engine, message, Fate.COMMITTED, wait_visible=True)

    # The way on that the finding names: what is still there is forwarded once.
    await positions.store(
        site, {log: at for log, at in positions.begins(site).items() if log[1] == 0}
    )
    async with site.engine() as engine:
        await until_idle(engine)
        assert engine.degraded_reasons() == []
        found = inspect_positions(
            admin, positions.stored_offsets(site), site.names, PARTITION_COUNT
        )
        assert [finding.severity for finding in found] == [Severity.OK]
        await site.until_faultless()


async def test_pending_messages_that_are_deleted_under_a_running_owner_are_missed_at_once(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "halfhitch")
    async with site.engine(watch_s=0.2) as engine:
        handle = await site.run(engine, site.pair("T1"), Fate.PENDING)
        view = await engine.transactions.view(handle)
        await until(lambda: len(positions.stored(site)) == 0, "nothing is stored yet")
        # A second transaction moves the watermarks, up to the first one's half.
        for n in range(6):
            await site.run(engine, site.pair(f"W{n}"), Fate.COMMITTED, wait_visible=True)
        (log,) = {
            (site.names.half, s.partition) for s in engine.partitions() if s.pending_count == 1
        }
        await until(lambda: log in positions.stored(site), "its partition has stored one")
        positions.cut(site, log, positions.stored(site)[log] + 1)
        await until(engine.degraded_reasons, "it is noticed")
        assert "have been deleted from outside" in engine.degraded_reasons()[0]
        # This owner still has them in memory; with the end of it the watermark passes the cut.
        await engine.transactions.end(handle, C, wait_visible=True)
        site.note(view.transaction_id, site.pair("T1"), Fate.COMMITTED)
        await until(lambda: not engine.degraded_reasons(), "it is mended")
        await site.until_faultless()
    lines = [record.getMessage() for record in caplog.records]
    assert sum("deleted from outside" in line for line in lines) == 2, "begin and end, once each"


def test_a_position_that_is_gone_is_an_error_and_never_a_jump(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(clients, "Consumer", lambda config, **_: made.append(config))
    clients.log_consumer({}, group="g")
    clients.member_consumer({}, group="g", session_timeout_ms=6_000, group_instance_id=None)
    assert [config["auto.offset.reset"] for config in made] == ["error", "error"]
    assert [config["isolation.level"] for config in made] == ["read_committed"] * 2
