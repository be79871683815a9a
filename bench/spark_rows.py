"""How fast Spark reads committed messages: `python bench/spark_rows.py` (make bench-spark).

Forwarded messages of transactions of two, an order and its points, lie in an embedded Kafka. They
are read by Spark's connector and by the source without it, in turns, in one session of two cores
that has read them once before: as a batch, and as a stream that starts with nothing and ends when
it has caught up. Then `complete_transactions` sorts all of them into transactions. What is read is
thrown away behind the last operator (Spark's `noop`). Kafka runs on the same two cores. Beside the
time stands what all of Spark's processes took of the processor, which says more where something
else runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if not __package__:
    root = Path(__file__).resolve().parents[1]
    names = (".", "tests", "sidecar", "cli", "spark")
    sys.path[:1] = [str(root / name) for name in names]

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from bench.spark_audit import TARGETS, Written, records
from bench.usage import family_ticks
from halfhitch.embedded import EmbeddedKafka, spark_connector_jars, spark_java_home
from halfhitch_spark import complete_transactions, read_batch, read_stream
from halfhitch_spark.session import local_settings
from halfhitch_spark.source import register_source
from harness.kafka import create_topics
from harness.places import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame

PARTITIONS: Final = 4
_READERS: Final = ("connector", "source")
_WORKS: Final = ("batch", "stream", "complete")
_LOOK_S: Final = 0.2


def forwarded(transactions: int) -> Iterator[Written]:
    """The messages of so many transactions on their targets."""
    return (one for one in records(transactions, "") if one.topic in TARGETS)


def store(bootstrap: str, transactions: int) -> int:
    """Topics with these; how many messages they are."""
    create_topics(bootstrap, dict.fromkeys(TARGETS, PARTITIONS))
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 0})
    produce: Any = producer.produce
    count = 0
    for count, one in enumerate(forwarded(transactions), 1):
        while True:
            try:
                produce(one.topic, one.value, one.key, one.partition, headers=one.headers)
                break
            except BufferError:
                producer.poll(0.1)
        if not count % 10_000:
            producer.poll(0)
    assert producer.flush(600) == 0
    return count


def session() -> SparkSession:
    """Two cores, and a JVM as a cluster has it: `local_session` has one for a first look."""
    os.environ["JAVA_HOME"] = str(spark_java_home())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    path = os.pathsep.join(str(ROOT / name) for name in ("sidecar", "spark"))
    os.environ["PYTHONPATH"] = path
    settings = local_settings(spark_connector_jars(), 2)
    quiet = settings["spark.driver.extraJavaOptions"].split()[-1]
    builder = SparkSession.builder.appName("rows")
    for name, value in {**settings, "spark.driver.extraJavaOptions": quiet}.items():
        builder = builder.config(name, value)
    return builder.config("spark.driver.memory", "2g").getOrCreate()


class Reads:
    """What is timed. `folder` is for checkpoints."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        self._options = {
            "kafka.bootstrap.servers": bootstrap, "subscribe": ",".join(TARGETS)
        }  # fmt: skip

    def batch(self, reader: str) -> DataFrame:
        """All that there is."""
        if reader == "connector":
            return read_batch(self._spark, self._bootstrap, TARGETS)
        return self._spark.read.format("halfhitch").options(**self._options).load()

    def read_batch(self, reader: str) -> None:
        """As a batch."""
        self.batch(reader).write.format("noop").mode("overwrite").save()

    def read_stream(self, reader: str) -> None:
        """As a stream without a past, up to the end."""
        checkpoint = tempfile.mkdtemp(dir=self._folder)
        if reader == "connector":
            messages = read_stream(self._spark, self._bootstrap, TARGETS, checkpoint=checkpoint)
        else:
            messages = self._spark.readStream.format("halfhitch").options(**self._options).load()
        writer = messages.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        failure = query.exception()
        if failure is not None:
            raise failure

    def assemble(self, reader: str) -> None:
        """Into whole transactions."""
        complete = complete_transactions(self.batch(reader))
        complete.write.format("noop").mode("overwrite").save()


class Took(NamedTuple):
    """Of one reading."""

    wall_s: float
    cpu_s: float


def timed(work: Callable[[], None], others: Sequence[int] = ()) -> Took:
    """`others`: processes that are no part of it.

    Spark's Python processes end meanwhile, and the kernel tells nobody what they took: so all are
    looked at again and again, and what one takes between the last look and its end is not counted.
    """
    began_s, before = time.monotonic(), family_ticks(os.getpid(), others)
    seen, done = dict(before), threading.Event()

    def look() -> None:
        while True:
            is_last = done.wait(_LOOK_S)
            for pid, ticks in family_ticks(os.getpid(), others).items():
                seen[pid] = max(ticks, seen.get(pid, 0))
            if is_last:
                return

    looking = threading.Thread(target=look)
    looking.start()
    try:
        work()
    finally:
        wall_s = time.monotonic() - began_s
        done.set()
        looking.join()
    taken = sum(ticks - before.get(pid, 0) for pid, ticks in seen.items())
    return Took(wall_s, taken / os.sysconf("SC_CLK_TCK"))


def _children() -> list[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in path.read_text().split()]


def main(arguments: Sequence[str] | None = None) -> int:
    """A line for each figure: the median, and the fastest and slowest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--transactions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=_WORKS, nargs="+", default=_WORKS)
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="halfhitch-bench-"))
    try:
        with EmbeddedKafka() as kafka:
            count = store(kafka.bootstrap, options.transactions)
            others = _children()
            spark = session()
            register_source(spark)
            reads = Reads(spark, kafka.bootstrap, folder)
            for work in options.only:
                _measure(reads, work, count, options.rounds, others)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _measure(reads: Reads, work: str, count: int, rounds: int, others: Sequence[int]) -> None:
    readers = ("connector",) if work == "complete" else _READERS
    do = {"batch": reads.read_batch, "stream": reads.read_stream, "complete": reads.assemble}[work]
    for reader in readers:  # nothing is missing; and all has been read once
        messages = reads.batch(reader)
        assert (
            complete_transactions(messages) if work == "complete" else messages
        ).count() == count
    took: dict[str, list[Took]] = {reader: [] for reader in readers}
    for _ in range(rounds):
        for reader in readers:
            took[reader].append(timed(lambda: do(reader), others))  # noqa: B023
    for reader in readers:
        _tell(f"{work}, {reader}", count, took[reader])


def _tell(what: str, rows: int, took: Sequence[Took]) -> None:
    walls = [one.wall_s for one in took]
    middle, cpu_s = statistics.median(walls), statistics.median(one.cpu_s for one in took)
    sys.stdout.write(
        f"{what:<33} {rows:>10,} rows  {middle:6.1f} s ({min(walls):.1f} to {max(walls):.1f})  "
        f"{rows / middle:>9,.0f} rows/s  processor {cpu_s:6.1f} s "
        f"({cpu_s / rows * 1e6:.1f} us a row)\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
