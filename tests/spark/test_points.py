"""The demo's sums are right while it runs, after a restart and after a crash."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from halfhitch.errors import ConfigurationError
from halfhitch_spark.points import Points, PointsFile, count_messages, follow_points, sum_points
from harness.forwards import Record, abort_records, commit_records, half_hitch_record
from harness.kafka import create_topics, fresh_name, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from halfhitch.embedded import EmbeddedKafka

_CUSTOMERS = ("ada", "grace", "hedy")


class Orders:
    """Makes messages about points and remembers what the sums must be."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._count = 0
        self.customers: Counter[str] = Counter()
        self.order_ids: set[str] = set()

    def make(self, count: int, *, counted: bool = True) -> list[Record]:
        made = []
        for _ in range(count):
            self._count += 1
            order_id, customer = f"order-{self._count}", self._rng.choice(_CUSTOMERS)
            points = self._rng.randint(1, 100)
            value = {"order_id": order_id, "customer": customer, "points": points}
            made.append(
                half_hitch_record(
                    order_id, json.dumps(value).encode(), index=1, partition=self._count % 2
                )
            )
            if counted:
                self.customers[customer] += points
                self.order_ids.add(order_id)
        return made

    def check(self, points: Points) -> None:
        assert points.customers == dict(self.customers)
        assert points.points == self.customers.total()
        assert points.order_ids == sorted(self.order_ids)
        assert points.rows == len(self.order_ids)
        assert (points.duplicates, points.foreign_rows, points.unreadable_rows) == (0, 0, 0)


class Program:
    """The program with its files, on the test's own session."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.topic = fresh_name("points")
        self.checkpoint = folder / "checkpoint"
        self.out = folder / "points.json"
        self.stop_file = folder / "stop"
        create_topics(bootstrap, {self.topic: 2})

    def run(self) -> Points:
        return follow_points(
            self.spark,
            bootstrap=self.bootstrap,
            topic=self.topic,
            checkpoint=self.checkpoint,
            out=self.out,
            stop_file=self.stop_file,
        )

    def shown(self) -> Points:
        return Points(**json.loads(self.out.read_text("utf-8")))


@pytest.fixture
def points_program(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path) -> Program:
    return Program(spark, kafka.bootstrap, tmp_path)


@pytest.mark.spark
@pytest.mark.kafka
def test_the_sums_are_right_while_it_runs_and_after_each_restart(
    points_program: Program, rng: random.Random
) -> None:
    orders = Orders(rng)
    bootstrap, topic = points_program.bootstrap, points_program.topic
    ended: list[Points] = []
    running = threading.Thread(target=lambda: ended.append(points_program.run()))
    running.start()
    try:
        abort_records(bootstrap, topic, orders.make(20, counted=False))
        commit_records(bootstrap, topic, orders.make(50))
        wait_until(points_program.out.exists, 30)
        wait_until(lambda: points_program.shown().rows == 50, 60, what="the first sums")
        assert not points_program.shown().finished
        commit_records(bootstrap, topic, orders.make(30))
    finally:
        points_program.stop_file.touch()
        running.join(60)
    (first,) = ended
    orders.check(first)
    assert first.finished
    assert points_program.shown() == first
    # One control record ends each of the three Kafka transactions in both partitions.
    assert first.offsets == {topic: {"0": 53, "1": 53}}

    commit_records(bootstrap, topic, orders.make(10))
    second = points_program.run()
    orders.check(second)
    assert second.batch > first.batch

    third = points_program.run()  # nothing new: no batch, and yet the same numbers
    assert third == second


@pytest.mark.spark
@pytest.mark.kafka
def test_a_crash_after_the_file_was_written_does_not_double(
    points_program: Program, rng: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders(rng)
    commit_records(points_program.bootstrap, points_program.topic, orders.make(40))
    points_program.stop_file.touch()
    take_batch = PointsFile.take_batch

    def crash_after(self: PointsFile, counted: DataFrame, batch: int) -> None:
        take_batch(self, counted, batch)
        raise RuntimeError("crashed before Spark marked the batch as done")

    with monkeypatch.context() as patched:
        patched.setattr(PointsFile, "take_batch", crash_after)
        with pytest.raises(StreamingQueryException, match="crashed before"):
            points_program.run()
    assert points_program.shown().rows == 40
    assert not points_program.shown().finished

    orders.check(points_program.run())


@pytest.mark.spark
def test_duplicated_foreign_and_unreadable_messages_are_counted_not_hidden(
    spark: SparkSession,
) -> None:
    good = b'{"order_id": 1, "customer": "ada", "points": 5}'
    other = b'{"order_id": 2, "customer": "grace", "points": 7}'
    rows = [
        ("g", "t-1", 0, good),
        ("g", "t-1", 0, good),  # a duplicate
        ("g", "t-1", 0, other),  # and one more, although it says something else
        ("g", "t-1", 1, good),
        ("another group", "t-1", 0, good),
        (None, None, None, other),
        (None, None, None, other),
        ("g", "t-2", 0, b"no JSON"),
        ("g", "t-3", 0, None),
        ("g", "t-4", 0, b'{"order_id": 3, "customer": "ada", "points": "many"}'),
    ]
    messages = spark.createDataFrame(
        rows, "producer_group string, transaction_id string, message_index int, value binary"
    )
    assert sum_points(count_messages(messages), batch=9) == Points(
        batch=9,
        rows=10,
        points=5 * 4 + 7 * 3,
        duplicates=2,
        foreign_rows=2,
        unreadable_rows=3,
        customers={"ada": 20, "grace": 21},
        order_ids=["1", "2", "3"],
    )


@pytest.mark.spark
def test_no_message_at_all_sums_to_zero(spark: SparkSession) -> None:
    schema = "producer_group string, transaction_id string, message_index int, value binary"
    nothing = spark.createDataFrame([], schema)
    assert sum_points(count_messages(nothing), batch=0) == Points(batch=0)


def test_a_checkpoint_whose_file_is_gone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="bring it back, or start again"):
        PointsFile(tmp_path / "points.json", tmp_path / "checkpoint")
