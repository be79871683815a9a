"""The audit on Spark and `halfhitch verify` on the same data: `python bench/spark_audit.py`.

Writes what transactions of two messages leave behind, straight into an embedded Kafka: halves,
decisions, done marks of a hundred transactions each, forwarded messages. Then both read it, each in
a process of its own. Memory is the largest sum over the processes of each, looked at twice a
second: what forked workers share is counted for each of them. What a process takes of the processor
between the last look and its end is not counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if not __package__:
    root = Path(__file__).resolve().parents[1]
    names = (".", "tests", "sidecar", "cli", "spark")
    sys.path[:1] = [str(root / name) for name in names]

from confluent_kafka import Producer

from bench.usage import family_ticks
from halfhitch.core.model import (
    DoneMark,
    HalfOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.embedded import EmbeddedKafka, spark_connector_jars, spark_java_home
from halfhitch.wire import half as half_wire
from halfhitch.wire import op as op_wire
from halfhitch.wire.count import with_count
from halfhitch.wire.digest import digest_of
from halfhitch.wire.op_entries import DecisionEntry
from halfhitch.wire.topics import InternalTopics
from harness.kafka import create_topics
from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PARTITIONS: Final = 4
TARGETS: Final = ("orders", "points")
#: Of one owner's step.
STEP: Final = 100
_LOOK_S: Final = 0.5
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_VALUE: Final = b'{"order_id":"4711","customer":"c-17","points":3,"note":"%s"}' % (b"x" * 120)


class Written(NamedTuple):
    """A record; offsets count from 0 in each partition."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def records(transactions: int, prefix: str) -> Iterator[Written]:
    """What so many committed transactions leave behind."""
    names = InternalTopics(prefix)
    ends: Counter[int] = Counter()
    for first in range(0, transactions, STEP):
        partition = first // STEP % PARTITIONS
        marks = []
        for number in range(first, min(first + STEP, transactions)):
            halves = [HalfOffset(ends[partition] + index) for index in range(len(TARGETS))]
            ends[partition] += len(TARGETS)
            said = yield from _transaction(number, partition, halves, prefix)
            identity = ProducerGroup(f"group-{number % 7}"), TransactionId(f"{number:032x}")
            marks.append(DoneMark(identity, len(TARGETS), halves, said))
        for value, headers, key in op_wire.write_step(marks, []):
            yield Written(names.op, partition, key, value, headers)


def _transaction(
    number: int, partition: int, halves: list[HalfOffset], prefix: str
) -> Iterator[Written]:
    names, group, transaction_id = InternalTopics(prefix), f"group-{number % 7}", f"{number:032x}"
    key, forwards, said = b"customer-%d" % (number % 10_000), [], []
    for index, name in enumerate(TARGETS):
        topic, target_partition = prefix + name, number % PARTITIONS
        digest = digest_of(topic, target_partition, key, _VALUE)
        said.append(digest)
        record = half_wire.HalfRecord(
            transaction_id, group, index, 1_000, "bench", topic, target_partition, digest=digest
        )
        headers = half_wire.system_headers(record)
        yield Written(names.half, partition, key, _VALUE, headers)
        found = half_wire.read_forward(0, headers)
        assert isinstance(found, half_wire.Forward)
        *others, (last, marker) = found.headers
        counted = with_count(marker or b"", len(TARGETS))
        forwards.append(Written(topic, target_partition, key, _VALUE, [*others, (last, counted)]))
    entry = DecisionEntry(
        ProducerGroup(group), TransactionId(transaction_id), len(TARGETS), len(halves),
        ResolutionSource.PRODUCER,
    )  # fmt: skip
    value, headers = op_wire.write(op_wire.tag_of(Resolution.COMMIT), [entry], halves)
    yield Written(names.op, partition, None, value, headers)
    yield from forwards
    return tuple(said)


def store(bootstrap: str, transactions: int, prefix: str) -> int:
    """Topics with these records; how many they are."""
    names = InternalTopics(prefix)
    own = {"message.timestamp.type": "LogAppendTime"}
    create_topics(bootstrap, dict.fromkeys((names.half, names.op, names.parked), PARTITIONS), own)
    create_topics(bootstrap, {prefix + name: PARTITIONS for name in TARGETS})
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50}
    )
    produce: Any = producer.produce
    count = 0
    for topic, partition, key, value, headers in records(transactions, prefix):
        while True:
            try:
                produce(topic, value, key, partition, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
        count += 1
        if not count % 10_000:
            producer.poll(0)
    assert producer.flush(600) == 0
    return count


class Took(NamedTuple):
    """One command."""

    wall_s: float
    cpu_s: float
    memory_mib: float


def timed(command: Sequence[str]) -> Took:
    """Run it; it must find everything clean."""
    path = os.pathsep.join(str(ROOT / name) for name in ("sidecar", "cli", "spark"))
    environment = {**os.environ, "PYTHONPATH": path, "JAVA_HOME": str(spark_java_home())}
    began_s, most, ticks = time.monotonic(), 0.0, dict[int, int]()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            most = max(most, _looked_at(process.pid, ticks))
            time.sleep(_LOOK_S)
        told = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise SystemExit(f"{command[2]} ended with {process.returncode}:\n{told}")
    return Took(time.monotonic() - began_s, sum(ticks.values()) / _TICKS, most)


def _looked_at(parent: int, ticks: dict[int, int]) -> float:
    """MiB of a process and all below it; `ticks`: what each has taken of the processor so far."""
    total = 0
    for pid, taken in family_ticks(parent).items():
        ticks[pid] = max(taken, ticks.get(pid, 0))
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue
    return total * _PAGE / 2**20


def main(arguments: Sequence[str] | None = None) -> int:
    """One line for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, nargs="+", default=[200_000, 1_000_000, 5_000_000])
    options = parser.parse_args(arguments)
    jars = ",".join(str(jar) for jar in spark_connector_jars())
    with EmbeddedKafka() as kafka:
        for wanted in options.records:
            prefix = f"audit-{wanted}."
            count = store(kafka.bootstrap, wanted // 5, prefix)
            asked = ["--kafka-bootstrap", kafka.bootstrap, "--topics-prefix", prefix]
            asked += ["--topics-allow", prefix + "*"]
            python = [sys.executable, "-m"]
            spark = timed(
                [*python, "halfhitch_spark.audit", *asked, "--cores", "2", "--jars", jars]
            )
            alone = timed([*python, "halfhitch_cli", "verify", *asked])
            for name, took in (("audit, two cores", spark), ("verify", alone)):
                sys.stdout.write(
                    f"{count:>10,} records  {name:<17} {took.wall_s:7.1f} s  "
                    f"processor {took.cpu_s:7.1f} s  {took.memory_mib:6.0f} MiB\n"
                )
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
