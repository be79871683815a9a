"""Internal topics that are changed under Half Hitch, while it runs and while it is stopped."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from halfhitch.adapters.kafka import inspection, topology
from halfhitch.adapters.kafka.topic_checks import Severity
from halfhitch.core.model import Resolution
from halfhitch.engine import Engine
from halfhitch.errors import ConfigurationError, KafkaUnavailable, TopologyError
from halfhitch_cli.app import main
from harness import positions
from harness.checkers import Fate
from harness.engines import DEADLINE_S, PARTITION_COUNT, Site, until, until_idle
from harness.kafka import admin_client, create_topics, wait_until
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from pathlib import Path

    from halfhitch.adapters.kafka.topic_checks import Finding

pytestmark = pytest.mark.kafka


@pytest.fixture
def site(kafka: Any) -> Site:
    made = Site(kafka.bootstrap)
    made.create_targets()
    return made


def memory(site: Site) -> str | None:
    """What the owners have noted of the topics."""
    where = TopicPartition(site.names.parked, 0)
    (place,) = positions.stored_offsets(site).of([where], DEADLINE_S, "read the note")
    text: str | None = place.metadata
    return text


async def used(site: Site) -> None:
    """The installation has been at work, and what its topics are is remembered."""
    async with site.engine() as engine:
        await site.run(engine, site.pair("T1"), Fate.COMMITTED, wait_visible=True)
        await until(lambda: memory(site), "the topics are remembered")


async def refusal(site: Site) -> str:
    """Why an engine does not start."""
    engine = Engine(site.options(), site.observer)
    await engine.start()
    try:
        error = await asyncio.wait_for(engine.failed(), DEADLINE_S)
        assert engine.unready_reasons() == [error.message]
    finally:
        await engine.stop()
    assert isinstance(error, ConfigurationError)
    return error.message


def doctor(site: Site, **changes: int) -> list[Finding]:
    """What `halfhitch doctor` finds, but for "one copy"."""
    admin = admin_client(site.bootstrap)
    options: Any = {
        "transaction_timeout_ms": 15_000,
        "session_timeout_ms": 10_000,
        "message_bytes_max": 1_000_000,
        "wait_s": DEADLINE_S,
        **changes,
    }
    found = inspection.inspect(admin, positions.stored_offsets(site), site.names, **options)
    found += inspection.inspect_memory(
        admin, positions.stored_offsets(site), site.names, wait_s=DEADLINE_S
    )
    return [
        finding
        for finding in found
        if finding.severity is not Severity.OK and "one copy" not in finding.sentence
    ]


async def test_a_topic_that_was_created_anew_while_all_were_stopped_is_not_taken_for_the_old_one(
    site: Site,
) -> None:
    await used(site)
    assert doctor(site) == []
    positions.recreate(site, site.names.op)
    told = await refusal(site)
    assert f"{site.names.op} was deleted and created anew" in told
    assert "topics init --accept" in told
    assert told in [finding.sentence for finding in doctor(site)]
    # As it says: both anew, accept, start.
    positions.recreate(site, *site.names.all[:2])
    assert "created anew" in await refusal(site)
    topology.accept(admin_client(site.bootstrap), positions.stored_offsets(site), site.names)
    async with site.engine() as engine:
        await site.run(engine, site.pair("T2"), Fate.COMMITTED, wait_visible=True)
        await site.until_faultless()


async def test_a_topic_that_is_created_anew_under_a_running_engine_ends_it_and_says_why(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    await used(site)
    async with site.engine(watch_s=0.3) as engine:
        positions.recreate(site, site.names.half)
        error = await asyncio.wait_for(engine.failed(), DEADLINE_S)
        assert isinstance(error, TopologyError)
        assert re.search(r"created anew|was deleted under", error.message)
        assert engine.unready_reasons()
        with pytest.raises(KafkaUnavailable):
            await site.prepare(engine, site.pair("T2"))
    assert any(record.getMessage() == error.message for record in caplog.records)
    assert "created anew" in await refusal(site), "and it does not come back by itself"


async def test_partitions_that_were_added_while_all_were_stopped_are_refused_until_accepted(
    site: Site,
) -> None:
    await used(site)
    count = PARTITION_COUNT + 1
    positions.add_partitions(site, site.names.half, site.names.op, count=count)
    told = await refusal(site)
    assert f"has {count} partitions, but had {PARTITION_COUNT}" in told
    assert "topics init --accept" in told
    assert told in [finding.sentence for finding in doctor(site)]
    topology.accept(admin_client(site.bootstrap), positions.stored_offsets(site), site.names)
    async with site.engine(working=count) as engine:
        await site.run(engine, site.pair("T2"), Fate.COMMITTED, wait_visible=True)
        await site.until_faultless()


@pytest.mark.parametrize("roles", [("half",), ("half", "op")])
async def test_partitions_that_are_added_under_a_running_engine_take_no_prepares_and_are_told(
    site: Site, caplog: pytest.LogCaptureFixture, roles: tuple[str, ...]
) -> None:
    await used(site)
    async with site.engine(watch_s=0.3) as engine:
        names = [getattr(site.names, role) for role in roles]
        positions.add_partitions(site, *names, count=PARTITION_COUNT + 2)
        await until(engine.degraded_reasons, "it is noticed")
        told = next(r for r in engine.degraded_reasons() if "but had" in r)
        assert "New prepares go to the partitions that were there before" in told
        assert engine.unready_reasons() == []
        for n in range(20):
            await site.run(engine, site.pair(f"N{n}"), Fate.COMMITTED, wait_visible=n % 5 == 0)
        await until_idle(engine)
        await site.until_faultless()
        assert {record.partition for record in site.read(site.names.half)} <= {0, 1}
    assert sum("but had" in record.getMessage() for record in caplog.records) >= 1
    assert "has 4 partitions" in await refusal(site)


async def test_an_engine_with_topics_as_they_were_accepts_only_while_it_is_stopped(
    site: Site,
) -> None:
    await used(site)
    async with site.engine():
        with pytest.raises(TopologyError, match="Stop every sidecar"):
            topology.accept(
                admin_client(site.bootstrap), positions.stored_offsets(site), site.names
            )


async def test_settings_that_are_changed_later_are_told_and_told_when_they_are_mended(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "halfhitch")
    async with site.engine(watch_s=0.2) as engine:
        positions.set_config(site, site.names.half, {"retention.ms": "1000000"})
        positions.set_config(site, site.names.op, {"cleanup.policy": "compact,delete"})
        await until(lambda: len(engine.degraded_reasons()) == 2, "both are noticed")
        first, second = engine.degraded_reasons()
        assert "retention.ms=1000000" in first
        assert "compaction would remove" in second
        assert "--repair" in first
        assert engine.unready_reasons() == []
        assert len(doctor(site)) == 2
        positions.set_config(site, site.names.half, {"retention.ms": "-1"})
        positions.set_config(site, site.names.op, {"cleanup.policy": "delete"})
        await until(lambda: not engine.degraded_reasons(), "both are mended")
    lines = [record.getMessage() for record in caplog.records]
    assert sum("retention.ms=1000000" in line for line in lines) == 2, "begin and end, once each"
    positions.set_config(site, site.names.half, {"retention.ms": "1000000"})
    assert "retention.ms=1000000" in await refusal(site)


async def test_what_promises_less_is_told_once_at_the_start_and_by_the_doctor(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    await used(site)
    positions.set_config(site, site.names.half, {"max.message.bytes": "2000"})
    caplog.clear()
    async with site.engine(watch_s=0.2) as engine:
        await site.run(engine, site.pair("T2"), Fate.COMMITTED, wait_visible=True)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert sum("max.message.bytes=2000" in line for line in told) == 1
    assert [f.severity for f in doctor(site) if "=2000" in f.sentence] == [Severity.WARN]


async def test_timeouts_that_the_brokers_refuse_are_refused_at_the_start(site: Site) -> None:
    engine = Engine(site.options(transaction_timeout_ms=900_001), site.observer)
    await engine.start()
    try:
        error = await asyncio.wait_for(engine.failed(), DEADLINE_S)
    finally:
        await engine.stop()
    assert "Set owner.transaction_timeout_ms to 900000 or less" in error.message
    found = doctor(site, transaction_timeout_ms=900_001, session_timeout_ms=1_000)
    assert {f.check for f in found} == {"transaction timeout", "session timeout"}


async def test_a_target_that_takes_less_than_the_doors_is_told_when_it_is_first_used(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    tight = site.prefix + "tight"
    create_topics(site.bootstrap, {tight: 1}, {"max.message.bytes": "20000"})
    async with site.engine() as engine:
        for n in range(2):
            message = [site.message(tight, None, b"%d" % n), site.message(site.orders)]
            prepared = await site.prepare(engine, message)
            await engine.transactions.end(prepared.handle, Resolution.COMMIT, wait_visible=True)

        def told() -> list[str]:
            lines = [record.getMessage() for record in caplog.records]
            return [line for line in lines if f"{tight} (20000)" in line]

        await until(told, "it is told")
        assert len(told()) == 1
        assert site.orders not in told()[0]
    (finding,) = inspection.inspect_targets(
        admin_client(site.bootstrap),
        site.names,
        [site.prefix + "*"],
        message_bytes_max=1_000_000,
        wait_s=DEADLINE_S,
    )
    assert (finding.severity, tight in finding.sentence) == (Severity.WARN, True)
    assert site.names.half not in finding.sentence


@pytest.mark.long
async def test_serve_and_the_commands_tell_of_a_log_that_was_cut_and_of_topics_created_anew(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with site.engine() as engine:
        for n in range(4):
            await site.run(engine, site.pair(f"T{n}"), Fate.COMMITTED, wait_visible=True)
            await site.run(engine, site.pair(f"P{n}"), Fate.PENDING)
        await until(lambda: memory(site), "the topics are remembered")
    (cut, _) = max(positions.stored(site).items(), key=lambda item: item[0][0] == site.names.half)
    positions.cut(site, cut, positions.ends(site)[cut])
    settings = ("--kafka-bootstrap", site.bootstrap, "--topics-prefix", site.prefix, "-o", "json")
    one = ("--topics-replication-factor", "1", "--topics-partitions", str(PARTITION_COUNT))

    def run(*arguments: str) -> tuple[int, str]:
        code = main([*arguments, *settings])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    def serve() -> Sidecar:
        return Sidecar(site.bootstrap, tmp_path, HALFHITCH_TOPICS_PREFIX=site.prefix)

    with serve() as sidecar:
        wait_until(lambda: sidecar.ask("/readyz")[0] == 200, DEADLINE_S, what="ready, degraded")
        (reason,) = sidecar.ask("/readyz")[1]["degraded"]
        assert "stands still" in reason
        assert "stored watermark" in reason
        assert sidecar.ask("/v1/status")[1]["degraded"] == [reason]
        port = str(sidecar.admin_port)
        code, told = run("doctor", "--handle-key", "k" * 32, "--admin-port", port)
        assert code == 3
        assert "have been deleted from outside" in told
        assert "but half partition" in told, "what the sidecar itself says"
        assert sidecar.terminate() == 0
    assert sidecar.log.read_text().count("have been deleted from outside") == 1

    positions.recreate(site, *site.names.all[:2])
    with serve() as sidecar:
        wait_until(lambda: sidecar.exit_code is not None, DEADLINE_S, what="the end")
        assert sidecar.exit_code == 1
        last = sidecar.log.read_text().splitlines()[-1]
        assert re.match(r"halfhitch: .* was deleted and created anew .*init --accept", last)
    assert "created anew" in run("doctor", "--handle-key", "k" * 32, "--admin-port", "1")[1]
    assert run("topics", "init", *one, "--accept")[0] == 0
    assert "created anew" not in run("doctor", "--handle-key", "k" * 32, "--admin-port", "1")[1]
