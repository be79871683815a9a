"""What a stream's metrics say: of events made by hand, and beside an open transaction in Kafka."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from halfhitch.errors import KafkaUnavailable
from halfhitch_spark import QueryMetrics, read_stream
from harness.forwards import ANSWER_S, commit_records, half_hitch_record, store_undecided
from harness.kafka import create_topics, fresh_name, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from halfhitch.embedded import EmbeddedKafka
    from halfhitch_spark.progress import Place

NOBODY: Any = None


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Metrics(QueryMetrics):
    """With a Kafka of our own words: `known` are last stable offset and end of each partition."""

    known: dict[Place, tuple[int, int]] | None = None

    def _ends(self, places: list[Place]) -> dict[Place, tuple[int, int]]:
        if self.known is None:
            raise KafkaUnavailable("Kafka is away")
        return {place: self.known[place] for place in places}


def started(metrics: QueryMetrics, name: str | None = "points") -> None:
    event: Any = SimpleNamespace(id="q", name=name, runId="r")
    metrics.onQueryStarted(event)


def batch(metrics: QueryMetrics, rows: int, took_ms: int, end: object) -> None:
    progress = SimpleNamespace(
        id="q",
        name="points",
        batchId=3,
        numInputRows=rows,
        durationMs={"triggerExecution": took_ms},
        sources=[SimpleNamespace(endOffset=end if isinstance(end, str) else json.dumps(end))],
    )
    event: Any = SimpleNamespace(progress=progress)
    metrics.onQueryProgress(event)


def ended(metrics: QueryMetrics, exception: str | None) -> None:
    event: Any = SimpleNamespace(id="q", runId="r", exception=exception)
    metrics.onQueryTerminated(event)


def idle(metrics: QueryMetrics) -> None:
    event: Any = SimpleNamespace(id="q", runId="r")
    metrics.onQueryIdle(event)


def samples(text: str) -> dict[tuple[str, str], float]:
    """By name and topic; whoever reads Prometheus' format must be able to read it."""
    return {
        (one.name.removeprefix("halfhitch_spark_"), one.labels.get("topic", "")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_batches_rows_and_time_add_up_over_the_runs_of_a_query() -> None:
    metrics = Metrics(NOBODY)
    started(metrics)
    batch(metrics, 5, 1_500, {"points": {"0": 5}})
    batch(metrics, 7, 500, "no JSON")
    ended(metrics, None)
    first = samples(metrics.text())
    assert first["running", ""] == 0
    started(metrics)
    batch(metrics, 1, 0, '"a source that is not Kafka"')
    ended(metrics, "org.apache.spark.SparkException: no\n\tat ...")
    found = samples(metrics.text())
    assert {name: value for (name, _), value in found.items() if "timestamp" not in name} == {
        "running": 0, "failures_total": 1, "rows_total": 13, "batch_seconds_sum": 2.0,
        "batch_seconds_count": 3, "unanswered_total": 0,
    }  # fmt: skip


def test_lag_ends_at_the_last_stable_offset_and_what_is_behind_it_is_held_back() -> None:
    clock = Clock()
    metrics = Metrics(NOBODY, "kafka", clock_s=clock)
    started(metrics)
    metrics.known = {("a", 0): (10, 14), ("a", 1): (3, 3), ("b", 0): (7, 7)}
    batch(metrics, 1, 1, {"a": {"0": 4, "1": 3}, "b": {"0": 5}})
    found = samples(metrics.text())
    assert (found["lag_messages", "a"], found["lag_messages", "b"]) == (6, 2)
    assert (found["held_back_messages", "a"], found["held_back_messages", "b"]) == (4, 0)
    clock.now_s += 60
    idle(metrics)
    assert samples(metrics.text())["held_back_seconds", "a"] == 60
    metrics.known["a", 0] = (12, 14)  # it moves: another transaction holds it
    clock.now_s += 60
    idle(metrics)
    assert samples(metrics.text())["held_back_seconds", "a"] == 0
    metrics.known["a", 0] = (14, 14)
    clock.now_s += 60
    idle(metrics)
    found = samples(metrics.text())
    assert (found["held_back_messages", "a"], found["held_back_seconds", "a"]) == (0, 0)


def test_a_kafka_that_does_not_answer_is_counted_and_harms_no_query() -> None:
    clock = Clock()
    metrics = Metrics(NOBODY, "kafka", clock_s=clock)
    started(metrics, None)
    batch(metrics, 1, 1, {"a": {"0": 4}})
    idle(metrics)  # too soon to ask again
    clock.now_s += 60
    idle(metrics)
    assert samples(metrics.text())["unanswered_total", ""] == 2


def test_progress_is_a_line_of_json_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "halfhitch_spark.progress")
    metrics = Metrics(NOBODY)
    started(metrics)
    batch(metrics, 5, 1_500, {"points": {"0": 5}})
    ended(metrics, "first line\nsecond")
    lines = [json.loads(record.message) for record in caplog.records]
    assert [line["event"] for line in lines] == ["spark_started", "spark_batch", "spark_ended"]
    assert (lines[1]["query"], lines[1]["rows"], lines[1]["seconds"]) == ("points", 5, 1.5)
    assert lines[2]["error"] == "first line"


def test_a_name_of_a_query_cannot_break_the_format_and_only_metrics_are_served() -> None:
    metrics = Metrics(NOBODY)
    started(metrics, 'a"b\\c\nd')
    port = metrics.serve(0)
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        with pytest.raises(HTTPError, match="404") as refused:
            urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        refused.value.close()
    finally:
        metrics.close()
        metrics.close()
    (label,) = {s.labels["query"] for f in text_string_to_metric_families(text) for s in f.samples}
    assert label == 'a"b\\c\nd'


@pytest.fixture
def often(spark: SparkSession) -> Iterator[None]:
    """Idle queries say so soon."""
    name = "spark.sql.streaming.noDataProgressEventInterval"
    before = spark.conf.get(name)
    spark.conf.set(name, "200ms")
    yield
    spark.conf.set(name, str(before))


@pytest.mark.timeout(300)
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.usefixtures("often")
def test_a_stream_that_an_open_transaction_holds_back_says_so_and_is_not_idle(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halfhitch_spark.progress._ASK_EVERY_S", 0.1)
    topic, checkpoint = fresh_name("held"), (tmp_path / "checkpoint").as_uri()
    create_topics(kafka.bootstrap, {topic: 1})
    commit_records(kafka.bootstrap, topic, [half_hitch_record("t", b"first", count=1)])
    open_producer = store_undecided(kafka.bootstrap, topic, [half_hitch_record("open", b"open")])
    metrics = QueryMetrics(spark, kafka.bootstrap)
    spark.streams.addListener(metrics)

    def shown(name: str) -> float:
        return samples(metrics.text()).get((name, topic), -1)

    try:
        commit_records(kafka.bootstrap, topic, [half_hitch_record("t2", b"behind", count=1)])
        messages = read_stream(spark, kafka.bootstrap, topic, checkpoint=checkpoint)
        writer = messages.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.queryName("held").start()
        try:
            wait_until(lambda: shown("held_back_messages") == 3, 90)
            assert shown("lag_messages") == 0, "to Spark all is read"
            open_producer.abort_transaction(ANSWER_S)
            wait_until(lambda: shown("held_back_messages") == 0, 90)
            # Events come after what they tell: the batch of what was behind may still be to come.
            wait_until(lambda: samples(metrics.text())["rows_total", ""] == 2, 90)
        finally:
            query.stop()
    finally:
        spark.streams.removeListener(metrics)
