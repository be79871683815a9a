"""Messages as Spark shows them, made by hand; and streams of them, a micro-batch a list."""

from __future__ import annotations

import datetime as dt
import itertools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

MESSAGES_SCHEMA = (
    "key binary, value binary, transaction_id string, producer_group string, message_index int, "
    "message_count int, born timestamp, topic string, partition int, offset bigint, "
    "timestamp timestamp, headers array<struct<key:string,value:binary>>"
)
_BEGIN = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
_numbers = itertools.count()


def message(
    offset: int,
    transaction_id: str | None,
    index: int | None = None,
    count: int | None = None,
    *,
    group: str = "shop",
    topic: str = "orders",
    value: bytes = b"value",
    stored_s: int = 1,
) -> dict[str, Any]:
    """One row; without a transaction it is a foreign producer's."""
    is_foreign = transaction_id is None
    return {
        "key": None,
        "value": value,
        "transaction_id": transaction_id,
        "producer_group": None if is_foreign else group,
        "message_index": index,
        "message_count": count,
        "born": None if is_foreign else _BEGIN,
        "topic": topic,
        "partition": 0,
        "offset": offset,
        "timestamp": _BEGIN + dt.timedelta(seconds=stored_s),
        "headers": [],
    }


def batches(
    spark: SparkSession, folder: Path, given: Sequence[Sequence[dict[str, Any]]]
) -> DataFrame:
    """A stream that gives one list of rows with each micro-batch."""
    files = folder / f"given-{next(_numbers)}"
    files.mkdir()
    for rows in given:
        add_batch(spark, files, rows)
    return stream_of(spark, files)


def stream_of(spark: SparkSession, files: Path) -> DataFrame:
    """The stream of what `add_batch` has put there, and of what it puts there later."""
    source = spark.readStream.schema(MESSAGES_SCHEMA).option("maxFilesPerTrigger", 1)
    return source.parquet(files.as_uri())


def add_batch(spark: SparkSession, files: Path, rows: Sequence[dict[str, Any]]) -> None:
    """One more micro-batch; Spark takes files in the order of their times."""
    number = next(_numbers)
    scratch = files.parent / f"written-{number}"
    made = spark.createDataFrame([tuple(row.values()) for row in rows], MESSAGES_SCHEMA)
    made.coalesce(1).write.parquet(scratch.as_uri())
    (written,) = scratch.glob("part-*.parquet")
    when_s = 1_700_000_000 + number
    os.utime(written, (when_s, when_s))
    written.rename(files / f"{number:06}.parquet")


def run_stream(
    messages: DataFrame, checkpoint: Path, each: Callable[[DataFrame, int], None]
) -> None:
    """Give all that there is to `each`, batch by batch."""
    query = (
        messages.writeStream.option("checkpointLocation", checkpoint.as_uri())
        .trigger(availableNow=True)
        .foreachBatch(each)
        .start()
    )
    assert query.awaitTermination(120)
