"""What an owner takes to carry out a committed message: `python bench/owner.py`, some minutes.

Writes bursts of halves and their commits straight into the logs of one half partition, while its
sidecar stands still, and reads the processor time of that sidecar from when it goes on until all
are on their topic. The native way and the interpreted one in turns, on one Kafka; each message must
be there exactly once.

    make native; python bench/owner.py [--compiled] [--rounds 5] [--bytes 1024]
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

if not __package__:
    root = Path(__file__).resolve().parents[1]
    sys.path[:1] = [str(root), str(root / "tests"), str(root / "sidecar"), str(root / "cli")]

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.usage import exact_cpu_s
from halfhitch.core.model import (
    HalfOffset,
    Resolution,
    ResolutionSource,
)
from halfhitch.embedded import EmbeddedKafka
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from harness.kafka import create_topics
from harness.places import ROOT
from harness.sidecar import Sidecar

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX: Final = "bench-owner."
TARGET: Final = "orders"
WAYS: Final = ("interpreted", "native")
#: Decisions that share one record, as they do under load.
_TOGETHER: Final = 32
_ANSWER_S: Final = 60.0


class Logs:
    """Both logs of the half partition, and the target."""

    def __init__(self, bootstrap: str, value_bytes: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 5,
                "acks": "all",
                "message.max.bytes": 2**26,
            }
        )
        self._value = secrets.token_bytes(value_bytes)
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": PREFIX + "count",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.assign([TopicPartition(TARGET, 0, 0)])
        self.seen: Counter[bytes] = Counter()

    def burst(self, count: int) -> list[str]:
        """So many committed messages; gives their ids."""
        ids = [secrets.token_hex(16) for _ in range(count)]
        offsets: dict[str, int] = {}
        for transaction_id in ids:
            record = half_wire.HalfRecord(
                transaction_id, "bench", 0, 0, "bench", TARGET, digest=1 + secrets.randbits(60)
            )
            self._producer.produce(
                PREFIX + "RMQ_SYS_TRANS_HALF_TOPIC",
                self._value,
                transaction_id[:8].encode(),
                0,
                lambda _, message, of=transaction_id: offsets.__setitem__(of, message.offset()),
                headers=half_wire.system_headers(record),
            )
            self._producer.poll(0)
        self._producer.flush(_ANSWER_S)
        for first in range(0, count, _TOGETHER):
            some = ids[first : first + _TOGETHER]
            decisions = [
                op_wire.DecisionEntry("bench", one, 1, 1, ResolutionSource.PRODUCER) for one in some
            ]
            tag = op_wire.tag_of(Resolution.COMMIT)
            value, headers = op_wire.write(tag, decisions, [HalfOffset(offsets[o]) for o in some])
            self._producer.produce(
                PREFIX + "RMQ_SYS_TRANS_OP_HALF_TOPIC", value, None, 0, headers=headers
            )
        self._producer.flush(_ANSWER_S)
        return ids

    def wait_for(self, ids: Sequence[str]) -> None:
        """Until all are on the target."""
        missing = {one.encode() for one in ids}
        give_up_s = time.monotonic() + _ANSWER_S
        while missing:
            for message in self._consumer.consume(5_000, 0.2):
                if message.error() is None:
                    found = dict(message.headers() or [])["UNIQ_KEY"] or b""
                    self.seen[found] += 1
                    missing.discard(found)
            if time.monotonic() > give_up_s:
                raise SystemExit(f"{len(missing)} messages did not come")

    def check(self) -> None:
        """Raises SystemExit when one was there twice."""
        if twice := [one for one, count in self.seen.items() if count > 1]:
            raise SystemExit(f"{len(twice)} messages are there twice")


def measured(
    logs: Logs, bootstrap: str, way: str, *, compiled: bool, count: int
) -> tuple[float, float]:
    """Microseconds of processor for a message, and messages a second."""
    folders = [ROOT / "build" / "compiled"] if compiled else []
    folders += [ROOT / "build" / "native"] if way == "native" else []
    path = [*map(str, folders), *(str(ROOT / name) for name in ("sidecar", "cli", "spark"))]
    with tempfile.TemporaryDirectory(prefix="halfhitch-owner-") as folder:
        sidecar = Sidecar(
            bootstrap,
            Path(folder),
            HALFHITCH_TOPICS_PREFIX=PREFIX,
            PYTHONPATH=os.pathsep.join(path),
            HALFHITCH_OWNER_SESSION_TIMEOUT_MS="45000",
        )
        with sidecar:
            sidecar.wait_ready()
            assert sidecar.process is not None
            pid = sidecar.process.pid
            logs.wait_for(logs.burst(2_000))
            os.kill(pid, signal.SIGSTOP)
            ids = logs.burst(count)
            begun, before_s = time.monotonic(), exact_cpu_s(pid)
            os.kill(pid, signal.SIGCONT)
            logs.wait_for(ids)
            took_s, cpu_s = time.monotonic() - begun, exact_cpu_s(pid) - before_s
            sidecar.terminate()
    return cpu_s / count * 1e6, count / took_s


def main() -> None:
    """Measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000, help="messages of a burst")
    parser.add_argument("--bytes", type=int, default=1_024, help="of a message")
    parser.add_argument("--compiled", action="store_true", help="build/compiled in both")
    given = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with EmbeddedKafka() as kafka:
        create_topics(kafka.bootstrap, {TARGET: 1})
        with (
            tempfile.TemporaryDirectory(prefix="halfhitch-owner-") as folder,
            Sidecar(
                kafka.bootstrap,
                Path(folder),
                HALFHITCH_TOPICS_PREFIX=PREFIX,
                HALFHITCH_TOPICS_CREATE="true",
            ) as first,
        ):
            first.wait_ready()  # makes the topics
            first.terminate()
        logs = Logs(kafka.bootstrap, given.bytes)
        for round_number in range(given.rounds):
            for way in WAYS if round_number % 2 else reversed(WAYS):
                one = measured(
                    logs, kafka.bootstrap, way, compiled=given.compiled, count=given.count
                )
                found[way].append(one)
                print(f"{way:12} {one[0]:6.1f} us   {one[1]:7,.0f} a second", flush=True)
        logs.check()
    ratios = [n[0] / i[0] for i, n in zip(found["interpreted"], found["native"], strict=True)]
    spread = f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    print(f"native to interpreted, processor: {spread}")


if __name__ == "__main__":
    main()
