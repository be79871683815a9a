"""A topic that a pattern finds while the query runs is known to its checkpoint, too."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_spark import read_stream
from halfhitch_spark.kafka_topics import known_ids
from halfhitch_spark.later_topics import LaterTopics
from harness.forwards import commit_records, half_hitch_record
from harness.kafka import (
    admin_client,
    create_topics,
    fresh_name,
    wait_for_markers,
    wait_until,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from halfhitch.embedded import EmbeddedKafka

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def write(kafka: EmbeddedKafka, topic: str, *values: str) -> None:
    made = [half_hitch_record(value, value.encode()) for value in values]
    commit_records(kafka.bootstrap, topic, made)
    wait_for_markers(kafka.bootstrap, topic)


def test_a_topic_that_came_later_and_was_made_anew_lost_its_first_messages_in_silence(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    prefix, checkpoint = fresh_name("later"), (tmp_path / "checkpoint").as_uri()
    first, later = f"{prefix}.a", f"{prefix}.b"
    create_topics(kafka.bootstrap, {first: 1})
    write(kafka, first, "a-1")
    seen: list[str] = []

    def ours() -> DataFrame:
        return read_stream(spark, kafka.bootstrap, pattern=f"{prefix}[.].", checkpoint=checkpoint)

    def take(batch: DataFrame, _: int) -> None:
        seen.extend(bytes(row["value"]).decode() for row in batch.collect())

    query = ours().writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
    try:
        wait_until(lambda: seen == ["a-1"], 60, what="the first topic")
        create_topics(kafka.bootstrap, {later: 1})
        write(kafka, later, "b-1", "b-2")
        wait_until(lambda: seen == ["a-1", "b-1", "b-2"], 60, what="the later topic")
        wait_until(lambda: later in known_ids(spark, checkpoint), 60, what="its id")
    finally:
        query.stop()
    admin = admin_client(kafka.bootstrap)
    for future in admin.delete_topics([later]).values():
        future.result(30)
    wait_until(lambda: later not in admin.list_topics(timeout=10).topics, 30, what="it is gone")
    create_topics(kafka.bootstrap, {later: 1})
    write(kafka, later, *(f"new-{n}" for n in range(5)))
    with pytest.raises(ConfigurationError, match=f"topic {later} was deleted and made anew"):
        ours()


def test_what_cannot_be_kept_is_a_warning_and_ends_no_query(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "metadata").write_text('{"id":"q"}', "utf-8")
    (tmp_path / "halfhitch-topics.json").write_text("{", "utf-8")
    listener = LaterTopics(spark, tmp_path.as_uri(), "127.0.0.1:1", {})

    class Named:
        def __init__(self, **known: Any) -> None:
            self.__dict__.update(known)

    def progress(query: str) -> Any:
        sources = [
            Named(endOffset='{"t": {"0": 1}}'),
            Named(endOffset="a rate's"),
            Named(endOffset=None),
        ]
        return Named(progress=Named(id=query, sources=sources))

    with caplog.at_level(logging.WARNING):
        listener.onQueryProgress(progress("another"))
        assert not caplog.records
        listener.onQueryProgress(progress("q"))
    assert "is damaged" in caplog.text
    ended: Any = Named(id="q")
    listener.onQueryTerminated(ended)
    listener.onQueryStarted(ended)
    listener.onQueryIdle(ended)
