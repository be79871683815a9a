"""Kafka goes away and comes back, again and again: how soon does somebody own everything?

`python chaos/outages.py --count 50` (three quarters of an hour). All brokers of a cluster
are killed, or stopped with SIGSTOP, for 5 to 120 seconds; sidecars as they are shipped, with the
settings they are shipped with, live through it. Half of the outages are of one broker and half of
three; half of them with one sidecar and half with two.

Time counts from the moment at which Kafka answers again (brokers registered, coordinators at work)
until every half partition has a working owner and has carried one more transaction to its topic.
What the sidecars said meanwhile is looked at, too: for how long was something without an owner and
nobody said so, did a gauge vanish, how many lines did it cost.

The record is `outages.jsonl`, one line for each outage; docs/reliability.md is made from it. The
lengths of the outages come from the seed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.error import URLError
from urllib.request import urlopen
from zlib import crc32

if not __package__:
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests")]

from chaos.kit.stage import FaultSidecar
from halfhitch.client import Message, TransactionProducer
from halfhitch.embedded import EmbeddedKafka, unwind_on_sigterm
from halfhitch.errors import HalfHitchError
from harness.kafka import create_topics, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

RECORD = Path(__file__).with_name("outages.jsonl")
HALF_PARTITIONS = 4
SESSION_S = 10.0  # the default of owner.session_timeout_ms
LIMIT_S = SESSION_S + 5
GIVE_UP_S = 150.0
_SAMPLE_S = 0.2


@dataclass(slots=True)
class Outage:
    """One of them, as it stands in the record. Seconds count from Kafka's return."""

    at: str
    seed: int
    broker_count: int
    sidecar_count: int
    kind: str  # kill or stop
    length_s: float
    boot_s: float = 0.0  # from the start of the brokers until they answered
    is_lost: bool = False  # somebody lost a half partition
    owned_s: float | None = None  # the last moment at which something had no working owner
    forwards_s: float | None = None  # each half partition has carried a transaction
    silent_s: float = 0.0  # something had no owner, and no instance said so
    gauges_min: int = HALF_PARTITIONS  # lines of halfhitch_partition_owned, of any sidecar
    lines: list[int] = field(default_factory=list)  # of each sidecar's log
    machine_load: float = 0.0

    @property
    def is_red(self) -> bool:
        """Whether a promise was broken."""
        return (
            self.owned_s is None
            or self.owned_s > LIMIT_S
            or self.forwards_s is None
            or self.gauges_min < HALF_PARTITIONS
        )


def recorded() -> list[Outage]:
    """All that are on record."""
    if not RECORD.exists():
        return []
    return [Outage(**json.loads(line)) for line in RECORD.read_text().splitlines() if line]


def plan(count: int, seed: int) -> Iterator[tuple[str, float]]:
    """Kind and length: most are short, one in eight is of one to two minutes."""
    dice = random.Random(seed)
    for _ in range(count):
        long = dice.random() < 1 / 8
        yield (
            dice.choice(["kill", "kill", "stop"]),
            round(dice.uniform(60, 120) if long else dice.uniform(5, 35), 1),
        )


class Watch:
    """Asks all sidecars what they say, several times a second, from Kafka's return on."""

    def __init__(self, sidecars: Sequence[FaultSidecar], outage: Outage) -> None:
        self._sidecars = sidecars
        self._outage = outage
        self._began_s = time.monotonic()
        self.unowned_s = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        seen_s = time.monotonic()
        while not self._is_over.wait(_SAMPLE_S):
            owned, is_told = set[int](), False
            for sidecar in self._sidecars:
                owned |= set(sidecar.working())
                is_told |= sidecar.ask("/readyz")[0] in (200, 503)
                self._outage.gauges_min = min(self._outage.gauges_min, _gauges(sidecar))
            now_s = time.monotonic()
            if len(owned) < HALF_PARTITIONS:
                self.unowned_s = round(now_s - self._began_s, 1)
                if not is_told:
                    self._outage.silent_s = round(self._outage.silent_s + now_s - seen_s, 1)
            seen_s = now_s


def _gauges(sidecar: FaultSidecar) -> int:
    """How many half partitions have a line that says whether they are owned."""
    try:
        with urlopen(f"http://127.0.0.1:{sidecar.admin_port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except (URLError, OSError):
        return HALF_PARTITIONS  # not asked is not vanished
    return sum(line.startswith("halfhitch_partition_owned{") for line in lines)


def all_owned(sidecars: Sequence[FaultSidecar]) -> bool:
    """Every half partition has an owner that works."""
    return {p for s in sidecars for p in s.working()} == set(range(HALF_PARTITIONS))


def forward(sidecar: FaultSidecar, topic: str, half_partition: int) -> None:
    """One transaction through this half partition, repeated until it is visible."""
    numbers = (b"%d" % n for n in range(10_000))
    key = next(key for key in numbers if crc32(key) % HALF_PARTITIONS == half_partition)
    give_up_s = time.monotonic() + GIVE_UP_S
    with TransactionProducer(
        "outages", sidecar.address, deadline_s=3.0, answers_checks=False
    ) as producer:
        while True:
            try:
                prepared = producer.prepare([Message(topic, b"after", key)])
                producer.commit(prepared.handle, wait_visible=True)
            except HalfHitchError:
                if time.monotonic() > give_up_s:
                    raise
                time.sleep(0.1)
            else:
                return


class Cluster:
    """Brokers and the sidecars before them."""

    def __init__(self, kafka: EmbeddedKafka, folder: Path) -> None:
        self._kafka = kafka
        self._folder = folder
        self._sites = 0

    def open(self, sidecar_count: int, ends: ExitStack) -> tuple[list[FaultSidecar], str]:
        """A fresh installation: sidecars at work, and a topic for its messages."""
        self._sites += 1
        prefix = f"outages-{self._sites}-"
        topic = f"{prefix}orders"
        create_topics(self._kafka.bootstrap, {topic: 1})
        sidecars = []
        for number in range(sidecar_count):
            name = f"{len(self._kafka.broker_ids)}-{sidecar_count}-{self._sites}-{number}"
            folder = self._folder / name
            folder.mkdir(parents=True)
            sidecar = FaultSidecar(
                self._kafka.bootstrap,
                folder,
                HALFHITCH_INSTANCE_ID="ab"[number],
                HALFHITCH_TOPICS_PREFIX=prefix,
                HALFHITCH_TOPICS_CREATE="true",
                HALFHITCH_TOPICS_PARTITIONS=str(HALF_PARTITIONS),
                HALFHITCH_TOPICS_REPLICATION_FACTOR=str(len(self._kafka.broker_ids)),
                HALFHITCH_OWNER_SESSION_TIMEOUT_MS=str(int(SESSION_S * 1000)),
            )
            sidecars.append(ends.enter_context(sidecar))
        wait_until(lambda: all_owned(sidecars), 60, what="an owner for all at first")
        return sidecars, topic

    def outage(self, sidecars: Sequence[FaultSidecar], topic: str, outage: Outage) -> None:
        """Take Kafka away, give it back, and see."""
        lines_before = [_line_count(sidecar) for sidecar in sidecars]
        for broker_id in self._kafka.broker_ids:
            (self._kafka.kill_broker if outage.kind == "kill" else self._kafka.pause_broker)(
                broker_id
            )
        time.sleep(outage.length_s)
        outage.is_lost = not all_owned(sidecars)
        began_s = time.monotonic()
        self._give_back(outage.kind)
        back_s = time.monotonic()
        outage.boot_s = round(back_s - began_s, 1)
        with Watch(sidecars, outage) as watch, ThreadPoolExecutor(HALF_PARTITIONS) as pool:
            carried = [
                pool.submit(forward, sidecars[p % len(sidecars)], topic, p)
                for p in range(HALF_PARTITIONS)
            ]
            if all(one.exception(GIVE_UP_S + 10) is None for one in carried):
                outage.forwards_s = round(time.monotonic() - back_s, 1)
            if _comes_true(lambda: all_owned(sidecars)):
                # They may have believed to own what they had lost already.
                outage.owned_s = watch.unowned_s
        outage.lines = [
            _line_count(sidecar) - before
            for sidecar, before in zip(sidecars, lines_before, strict=True)
        ]
        outage.machine_load = round(os.getloadavg()[0], 1)

    def _give_back(self, kind: str) -> None:
        for broker_id in self._kafka.broker_ids:
            if kind == "kill":
                self._kafka.restart_broker(broker_id, wait_until_ready=False)
            else:
                self._kafka.resume_broker(broker_id)
        if kind == "kill":
            self._kafka.wait_until_ready()


def _comes_true(condition: Callable[[], bool]) -> bool:
    try:
        wait_until(condition, GIVE_UP_S, interval_s=0.05)
    except TimeoutError:
        return False
    return True


def _line_count(sidecar: FaultSidecar) -> int:
    return len(sidecar.log.read_bytes().splitlines())


def run(
    broker_count: int, sidecar_count: int, count: int, seed: int, folder: Path, record: Path
) -> Iterator[Outage]:
    """So many outages of one cluster and one installation."""
    with ExitStack() as ends:
        kafka = ends.enter_context(EmbeddedKafka(broker_count, short_lived=True, heap_mib=320))
        cluster = Cluster(kafka, folder)
        sidecars, topic = cluster.open(sidecar_count, ends)
        for kind, length_s in plan(count, seed):
            at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            outage = Outage(at, seed, broker_count, sidecar_count, kind, length_s)
            cluster.outage(sidecars, topic, outage)
            with record.open("a") as file:
                file.write(json.dumps(asdict(outage)) + "\n")
            yield outage


def main(given: Sequence[str] | None = None) -> int:
    """The command; 1 when an outage was red."""
    parser = argparse.ArgumentParser(prog="chaos/outages.py", description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brokers", type=int, choices=(1, 3), help="only of so many")
    parser.add_argument("--sidecars", type=int, choices=(1, 2), help="only of so many")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--keep", type=Path, help="a folder for the logs; kept")
    arguments = parser.parse_args(given)
    sites = [
        (brokers, sidecars)
        for brokers in (1, 3)
        for sidecars in (1, 2)
        if arguments.brokers in (None, brokers) and arguments.sidecars in (None, sidecars)
    ]
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="halfhitch-outages-"))
    red_count = 0
    with unwind_on_sigterm(), ExitStack() as ends:
        if arguments.keep is None:
            ends.callback(shutil.rmtree, folder, ignore_errors=True)
        for number, (brokers, sidecars) in enumerate(sites):
            share = arguments.count // len(sites) + (number < arguments.count % len(sites))
            seed = arguments.seed + number
            for outage in run(brokers, sidecars, share, seed, folder, arguments.record):
                red_count += outage.is_red
                print("RED" if outage.is_red else "   ", asdict(outage), flush=True)
    return 1 if red_count else 0


if __name__ == "__main__":
    sys.exit(main())
