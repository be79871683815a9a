"""The checker finds what it is there for: in readings that were spoiled, and in broken systems.

Each real run is done twice where the table says "twice": as it is, which must be green, and with
one promise broken, which must turn the named class red.

| # | what is broken | where | class that must be red |
|---|---|---|---|
| 1 | one record is dropped | the readings of a real run | lost |
| 2 | one record is doubled | the readings of a real run | duplicate |
| 3 | one byte is flipped | the readings of a real run | corrupted |
| 4 | a rolled back message is delivered | the readings of a real run | phantom |
| 5 | no done marks, replay from the earliest | real engines, twice | duplicate |
| 6 | no KIP-890 guard, EndTxn held back | test_end_txn_hold.py, through a proxy | see there |
| 7 | the position in place of the watermark | real engines, twice | watermark-overrun |
| 8 | no group generation, a zombie wakes up | real processes, twice | duplicate |
| 9 | one transactional.id for all partitions | real engines, twice | late |
| 10 | the op log is read uncommitted | real engines, twice | phantom |
| 11 | Redis is believed | real engines and a real Redis, twice | over-checked |
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from redis import Redis

from chaos.kit import zombie
from chaos.kit.watched import watched
from halfhitch.adapters.kafka import clients
from halfhitch.adapters.kafka.partition_writer import KafkaPartitionWriter
from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.core.watermarks import Watermarks
from halfhitch.service.owner.checkback import CheckBack
from halfhitch.wire import op as op_wire
from harness.check_site import RULES, CheckSite, IndexHeld
from harness.check_witness import UNDECIDED, Answer, Witness
from harness.checkers import Fate
from harness.engines import DEADLINE_S, GROUP, until
from harness.places import python_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.kit.checker import Report
    from chaos.kit.watched import Evidence, Watched
    from halfhitch.engine import Engine

pytestmark = pytest.mark.kafka

Patch = pytest.MonkeyPatch
LOAD_S, LOAD_S_MAX, LATE_MS = 2.0, 20.0, 3_000
twice = pytest.mark.parametrize("broken", [False, True], ids=["as it is", "broken"])


def judged(report: Report, broken: bool, *classes: str) -> None:
    """Green as it is; broken, each of these classes is red."""
    print(report)
    if not broken:
        assert report.verdict == "green", str(report)
    else:
        assert set(classes) <= set(report.violations), str(report)


# -- 1 to 4: readings ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clean(kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """A real run with something to lose, something to hide and something pending."""
    return asyncio.run(_clean(kafka.bootstrap, tmp_path_factory.mktemp("clean")))


async def _clean(bootstrap: str, folder: Path) -> Evidence:
    async with watched(bootstrap, folder) as watch:
        async with watch.site.engine() as engine:
            for n in range(6):
                await watch.run(engine, f"C{n}", Fate.COMMITTED)
                await watch.run(engine, f"R{n}", Fate.ROLLED_BACK)
            await watch.run(engine, "P", Fate.PENDING)
            await watch.run(engine, "last", Fate.COMMITTED, wait_visible=True)
            await watch.until_carried_out()
            await asyncio.to_thread(_write_and_abort, watch)
        return await watch.evidence(
            may_be_pending=lambda truth: truth is not None and truth.identity[1] == "P",
            required=("prepares_acked", "commits_acked", "records_hidden", "samples"),
        )


def _write_and_abort(watch: Watched) -> None:
    """What readers of uncommitted records see and others do not: all forwards once more."""
    site = watch.site
    producer = _transactional(site.bootstrap, site.prefix + "aborted")
    for record in site.read(site.orders):
        producer.produce(site.orders, record.value, record.key, headers=list(record.headers))
    assert producer.flush(DEADLINE_S) == 0
    producer.abort_transaction(DEADLINE_S)
    producer.close()


def _transactional(bootstrap: str, transactional_id: str) -> Any:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    return producer


def test_a_real_run_is_green(clean: Evidence) -> None:
    report = clean.report()
    assert report.verdict == "green", str(report)
    assert report.counters["committed"] == 7
    assert report.counters["rolled_back"] == 6
    assert report.counters["pending"] == 1
    assert report.counters["records_final"] == 14
    assert report.counters["records_hidden"] == 7


def dropped(final: list[Any], clean: Evidence) -> list[Any]:
    return final[1:]


def doubled(final: list[Any], clean: Evidence) -> list[Any]:
    return [*final, replace(final[0], log_offset=10_000)]


def flipped(final: list[Any], clean: Evidence) -> list[Any]:
    value = bytes([final[0].value[0] ^ 1]) + final[0].value[1:]
    return [replace(final[0], value=value), *final[1:]]


def delivered_although_rolled_back(final: list[Any], clean: Evidence) -> list[Any]:
    headers = [(name, b"R1" if name == "UNIQ_KEY" else value) for name, value in final[0].headers]
    (message,) = clean.truths[GROUP, "R1"].messages[0]
    forged = replace(final[0], headers=tuple(headers), key=message.key, value=b"order R1")
    return [*final, replace(forged, log_offset=10_000)]


@pytest.mark.parametrize(
    ("spoil", "red"),
    [
        (dropped, "lost"),
        (doubled, "duplicate"),
        (flipped, "corrupted"),
        (delivered_although_rolled_back, "phantom"),
    ],
)
def test_spoiled_readings_are_red(clean: Evidence, spoil: Any, red: str) -> None:
    final = spoil(list(clean.readings.final), clean)
    spoiled = replace(clean, readings=replace(clean.readings, final=final))
    report = spoiled.report()
    assert report.verdict == "red"
    assert red in report.violations, str(report)


# -- 5 to 11: systems ------------------------------------------------------------------------------


@twice
async def test_5_without_done_marks_a_replay_from_the_start_doubles(
    kafka: Any, tmp_path: Path, monkeypatch: Patch, broken: bool
) -> None:
    # Or nothing would be left to be replayed.
    monkeypatch.setattr(KafkaPartitionWriter, "delete_below", lambda *_: None)
    if broken:
        monkeypatch.setattr(op_wire, "write_marks", lambda _: [])
    async with watched(kafka.bootstrap, tmp_path) as watch:
        async with watch.site.engine() as engine:
            for n in range(6):
                await watch.run(engine, f"C{n}", Fate.COMMITTED)
                await watch.run(engine, f"R{n}", Fate.ROLLED_BACK)
            await until(lambda: len(watch.live.records) >= 12, "all forwards")
            if not broken:
                await watch.until_carried_out()
        watch.reset_watermarks()
        async with watch.site.engine() as engine:
            await watch.run(engine, "last", Fate.COMMITTED)
            await until(lambda: len(watch.live.records) >= (15 if broken else 14), "forwards")
            if not broken:
                await watch.until_carried_out()
        evidence = await watch.evidence()
    judged(evidence.report(), broken, "duplicate")


@twice
async def test_7_a_position_in_place_of_the_watermark_loses(
    kafka: Any, tmp_path: Path, monkeypatch: Patch, broken: bool
) -> None:
    if broken:
        monkeypatch.setattr(
            Watermarks, "after_step", lambda self, *_: (self.half_position, self.op_position)
        )
    async with watched(kafka.bootstrap, tmp_path) as watch:
        async with watch.site.engine() as engine:
            pending = [(f"P{n}", await watch.prepare(engine, f"P{n}")) for n in range(6)]
            for n in range(6):
                await watch.run(engine, f"C{n}", Fate.COMMITTED, wait_visible=True)
                await watch.run(engine, f"R{n}", Fate.ROLLED_BACK)
            await watch.until_carried_out()
            await watch.until_sampled()
        async with watch.site.engine() as engine:
            for name, handle in pending:
                await watch.end(engine, name, handle, Fate.COMMITTED)
            if not broken:
                await watch.until_carried_out()
        evidence = await watch.evidence()
    report = evidence.report()
    judged(report, broken, "watermark-overrun")
    # What became of a commit that the broken engine calls gone, its producer does not know.
    assert not broken or {"lost", "unfinished"} & set(report.violations), str(report)


@twice
async def test_8_without_the_generation_a_zombie_doubles(
    kafka: Any, tmp_path: Path, monkeypatch: Patch, broken: bool
) -> None:
    """Both times without the other fence: every process has transactional ids of its own."""
    async with watched(kafka.bootstrap, tmp_path) as watch:
        site = watch.site
        zombie.own_transactional_ids(monkeypatch.setattr, "heir")
        if broken:
            zombie.no_generation(monkeypatch.setattr, site.bootstrap, site.names.owner_group)
        with _zombie(watch, "unfenced" if broken else "fenced") as process:
            assert await _said(process) == ["working"]
            async with site.engine(working=None, owner_enabled=False) as door:
                await until(lambda: not door.unready_reasons(), "readiness")
                await watch.run(door, "R", Fate.ROLLED_BACK)
                # The process must not stand still in the middle of another half partition's step:
                # its heir would wait for that Kafka transaction to time out.
                await watch.until_carried_out()
                await watch.run(door, "T", Fate.COMMITTED)
                await until(lambda: _is_stopped(process.pid), "the owner's standing still")
                async with site.engine():
                    await watch.until_carried_out()
                    process.send_signal(signal.SIGCONT)
                    wrote = await _said(process)
                    assert wrote[0] == "wrote"
                    assert (wrote[1] == "OK") is broken, wrote
        evidence = await watch.evidence()
    judged(evidence.report(), broken, "duplicate")


@contextmanager
def _zombie(watch: Watched, way: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", zombie.__name__, watch.site.bootstrap, watch.site.prefix, way],
        env={**os.environ, "PYTHONPATH": python_path()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


async def _said(process: subprocess.Popen[str]) -> list[Any]:
    assert process.stdout is not None
    line = await asyncio.wait_for(asyncio.to_thread(process.stdout.readline), DEADLINE_S)
    assert line, f"the zombie has ended: {process.poll()}"
    said: list[Any] = json.loads(line)
    return said


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@twice
async def test_9_one_transactional_id_for_all_partitions_is_late(
    kafka: Any, tmp_path: Path, monkeypatch: Patch, broken: bool
) -> None:
    """Safe, for every step is fenced; but under load the owners do little else than fence."""
    if broken:
        original = clients.owner_producer

        def owner_producer(common: Any, *, transactional_id: str, **more: Any) -> Any:
            return original(common, transactional_id=transactional_id[:-2], **more)

        monkeypatch.setattr(clients, "owner_producer", owner_producer)
    async with watched(kafka.bootstrap, tmp_path) as watch:
        async with watch.site.engine() as engine:
            number = await _load(watch, engine, until_late=broken)
            await watch.run(engine, "R", Fate.ROLLED_BACK)
            await until(lambda: len(watch.live.records) >= 2 * number, "all forwards")
        evidence = await watch.evidence(late_ms_max=LATE_MS, is_settled=False)
    judged(evidence.report(), broken, "late")


async def _load(watch: Watched, engine: Engine, *, until_late: bool) -> int:
    """Commits, twenty at a time, for so long or until one of them is late; gives their number.

    How often two owners meet depends on the machine, so the broken one gets more time for it.
    """
    acked_s: dict[str, float] = {}
    number, began_s = 0, time.monotonic()

    async def one(name: str) -> None:
        await watch.run(engine, name, Fate.COMMITTED)
        acked_s[name] = time.monotonic()

    def is_late() -> bool:
        ids = {dict(seen.headers)["UNIQ_KEY"] for seen in watch.live.records}
        waiting = (at_s for name, at_s in acked_s.items() if name.encode() not in ids)
        return time.monotonic() - min(waiting, default=time.monotonic()) > LATE_MS / 1000

    look_s = began_s + LOAD_S
    while True:
        await asyncio.gather(*[one(f"T{number + n}") for n in range(20)])
        number += 20
        now_s = time.monotonic()
        if now_s >= look_s:
            if not until_late or is_late() or now_s > began_s + LOAD_S_MAX:
                return number
            look_s = now_s + 0.3


@twice
async def test_10_a_reader_of_uncommitted_decisions_shows_what_nobody_decided(
    kafka: Any, tmp_path: Path, monkeypatch: Patch, broken: bool
) -> None:
    if broken:
        level = {"isolation.level": "read_uncommitted"}
        config = clients.log_config  # of the librdkafka reader and of the native one
        monkeypatch.setattr(clients, "log_config", lambda c, **o: {**config(c, **o), **level})
    async with watched(kafka.bootstrap, tmp_path) as watch:
        async with watch.site.engine() as engine:
            handle = await watch.prepare(engine, "T")
            known = engine.transactions._parts.handles.decode(handle)
            await asyncio.to_thread(_abort_a_commit, watch, known.partition, known.transaction_id)
            await watch.run(engine, "C", Fate.COMMITTED, wait_visible=True)
            if broken:
                await until(lambda: len(watch.live.records) == 4, "what nobody decided")
            await watch.run(engine, "R", Fate.ROLLED_BACK)
            await watch.until_carried_out()
        evidence = await watch.evidence(may_be_pending=lambda truth: True)
    judged(evidence.report(), broken, "phantom")


def _abort_a_commit(watch: Watched, partition: int, transaction_id: str) -> None:
    producer = _transactional(watch.site.bootstrap, watch.site.prefix + "stranger")
    entry = op_wire.DecisionEntry(GROUP, transaction_id, 2, 0, ResolutionSource.PRODUCER)
    value, headers = op_wire.write(op_wire.tag_of(Resolution.COMMIT), [entry], [])
    producer.produce(watch.site.names.op, value, partition=partition, headers=headers)
    assert producer.flush(DEADLINE_S) == 0
    producer.abort_transaction(DEADLINE_S)
    producer.close()


@pytest.fixture(scope="module")
def believed(kafka: Any, redis_server: Any) -> Any:
    """Redis and Kafka; what Redis holds is wiped by the test."""
    return kafka.bootstrap, redis_server.url


@twice
async def test_11_when_redis_is_believed_checks_begin_anew(
    believed: tuple[str, str], tmp_path: Path, monkeypatch: Patch, broken: bool
) -> None:
    bootstrap, redis_url = believed
    site = CheckSite(bootstrap, redis_url=redis_url, rules=RULES)
    rules = {
        "check_count_max": RULES.count_max,
        "immunity_ms": RULES.immunity_ms,
        "interval_ms": RULES.interval_ms,
    }
    if broken:
        _believe_redis(monkeypatch, redis_url)
    async with watched(bootstrap, tmp_path, site=site, **rules) as watch:
        site.witness = NotingWitness(watch)
        async with site.engine() as engine:
            site.link(engine)
            site.witness.prepares("N", UNDECIDED)
            await watch.prepare(engine, "N")
            await watch.run(engine, "C", Fate.COMMITTED)
            await watch.run(engine, "R", Fate.ROLLED_BACK)
            await until(lambda: 2 in site.witness.numbers("N"), "the second check")
        with Redis.from_url(redis_url, protocol=2) as client:
            client.flushall()
        async with site.engine() as engine:
            site.link(engine)
            await until(site.parked, "the giving up")
            await watch.until_carried_out()
        evidence = await watch.evidence()
    judged(evidence.report(), broken, "over-checked")


def _believe_redis(patch: Patch, redis_url: str) -> None:
    """Numbers and deliveries are what Redis has of them, and nothing is none."""
    original = CheckBack.tick

    def tick(self: Any, ledger: Any) -> None:
        if ledger.checks.now_ms is None:
            with Redis.from_url(redis_url, protocol=2) as client:
                held = IndexHeld.read(client)
            for transaction in ledger.pending():
                transaction.check_count = held.hashes.get(transaction.identity, 0)
                transaction.is_delivered = True
        original(self, ledger)

    patch.setattr(CheckBack, "tick", tick)


class NotingWitness(Witness):
    """Writes checks down as an application does."""

    def __init__(self, watch: Watched) -> None:
        super().__init__()
        self._watch = watch

    def ask(self, transaction_id: str, number: int, by: str) -> Answer:
        answer = super().ask(transaction_id, number, by)
        self._watch.checked(transaction_id, number, answer.name)
        return answer
