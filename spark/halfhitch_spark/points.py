"""Sums points per customer while the messages come in: one of the demo's two streams (demo.py).

Values are JSON: `{"order_id": ..., "customer": ..., "points": n}`. Invariants:

* nothing is deduplicated: a message that came twice is counted twice and shows in `duplicates`, so
  that zero duplicates says something about the messages, not about this program;
* the sums live in the checkpoint; the file only shows them. It is replaced as a whole, before Spark
  marks the batch as done: after a crash it is never behind the checkpoint, and a batch that runs
  again replaces it with the same numbers;
* it ends only when everything committed before the stop file appeared is counted.

The state keeps a small row for each message, because that is what a proof of "none twice" costs;
a job that trusts the promise sums by customer alone.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses
from pyspark.sql.streaming.query import StreamingQuery

from halfhitch.errors import ConfigurationError
from halfhitch_spark.reader import read_committed

_IDENTITY: Final = ("producer_group", "transaction_id", "message_index")
_VALUE_TYPE: Final = "order_id string, customer string, points bigint"
_LOOK_EVERY_S: Final = 0.2
_BATCH_EVERY_S: Final = 0.5


@dataclass(slots=True)
class Points:
    """What the file shows; the fields are its JSON."""

    batch: int = -1
    finished: bool = False
    rows: int = 0
    points: int = 0
    #: Messages beyond the first of the same transaction and index. Must be 0.
    duplicates: int = 0
    #: Messages that did not come through Half Hitch; they have no identity to be duplicated.
    foreign_rows: int = 0
    #: Values that are not the JSON above; they count as rows and give no points.
    unreadable_rows: int = 0
    customers: dict[str, int] = field(default_factory=dict)
    #: Sorted, each once.
    order_ids: list[str] = field(default_factory=list)
    #: topic -> partition -> next offset, as of the last batch that Spark has reported as done.
    offsets: dict[str, dict[str, int]] = field(default_factory=dict)


def count_messages(messages: DataFrame) -> DataFrame:
    """The running state: how often each message was seen, and its points."""
    content = F.from_json(F.col("value").cast("string"), _VALUE_TYPE)
    return (
        messages.select(content.alias("content"), *_IDENTITY)
        .groupBy("content.customer", "content.order_id", *_IDENTITY)
        .agg(F.count("*").alias("rows"), F.sum("content.points").alias("points"))
    )


def sum_points(counted: DataFrame, batch: int) -> Points:
    """The numbers of one state of `count_messages`."""
    is_foreign = F.col("transaction_id").isNull()
    # Two questions, one state: without this Spark would read and count everything twice.
    counted.persist()
    by_customer = (
        counted.groupBy("customer")
        .agg(
            F.sum("rows").alias("rows"),
            F.sum("points").alias("points"),
            F.sum(F.when(is_foreign, F.col("rows"))).alias("foreign_rows"),
            F.sum(F.when(F.col("points").isNull(), F.col("rows"))).alias("unreadable_rows"),
            F.collect_set("order_id").alias("order_ids"),
        )
        .collect()
    )
    times_seen = counted.where(~is_foreign).groupBy(*_IDENTITY).agg(F.sum("rows").alias("times"))
    duplicates = times_seen.select(F.sum(F.col("times") - 1)).collect()[0][0]
    counted.unpersist()

    result = Points(batch=batch, duplicates=duplicates or 0)
    order_ids: set[str] = set()
    for row in by_customer:
        result.rows += row["rows"]
        result.points += row["points"] or 0
        result.foreign_rows += row["foreign_rows"] or 0
        result.unreadable_rows += row["unreadable_rows"] or 0
        order_ids.update(row["order_ids"])
        if row["customer"] is not None:
            result.customers[row["customer"]] = row["points"] or 0
    result.order_ids = sorted(order_ids)
    return result


class PointsFile:
    """The latest numbers and the file that shows them. One thread writes at a time."""

    def __init__(self, path: Path, checkpoint: Path) -> None:
        self._path = path
        self.query: StreamingQuery | None = None
        if path.exists():
            # A restart that finds nothing new runs no batch: these are then the last numbers.
            self._points = Points(**json.loads(path.read_text("utf-8")))
        elif (checkpoint / "commits").exists():
            raise ConfigurationError(
                f"{checkpoint} holds sums, but the file that shows them, {path}, is gone: "
                "bring it back, or start again with a new checkpoint folder"
            )
        else:
            self._points = Points()
            self._write()

    def take_batch(self, counted: DataFrame, batch: int) -> None:
        """Spark calls this, on another thread, with the whole state, before the batch is done."""
        points = sum_points(counted, batch)
        points.offsets = self._reported_offsets()
        self._points = points
        self._write()

    def finish(self) -> Points:
        """Write the last numbers; the query has stopped."""
        self._points.offsets = self._reported_offsets()
        self._points.finished = True
        self._write()
        return self._points

    def _reported_offsets(self) -> dict[str, dict[str, int]]:
        progress: Any = self.query.lastProgress if self.query is not None else None
        if progress is None or not progress["sources"][0]["endOffset"]:
            return self._points.offsets
        # JSON text within Spark's JSON.
        reported: dict[str, dict[str, int]] = json.loads(progress["sources"][0]["endOffset"])
        return reported

    def _write(self) -> None:
        scratch = self._path.with_name(f".{self._path.name}.part")
        scratch.write_text(json.dumps(asdict(self._points), sort_keys=True) + "\n", "utf-8")
        scratch.replace(self._path)


def follow_points(
    spark: SparkSession, *, bootstrap: str, topic: str, checkpoint: Path, out: Path, stop_file: Path
) -> Points:
    """Sum until the stop file is there and everything committed by then is counted."""
    file = PointsFile(out, checkpoint)
    query = (
        count_messages(read_committed(spark, bootstrap, topic, streaming=True))
        .writeStream.queryName("points")
        .outputMode("complete")
        .option("checkpointLocation", checkpoint.absolute().as_uri())
        .trigger(processingTime=f"{_BATCH_EVERY_S} seconds")
        .foreachBatch(file.take_batch)
        .start()
    )
    file.query = query
    try:
        while not stop_file.exists():
            # Not only a pause: it raises what ended the query, should something end it.
            query.awaitTermination(_LOOK_EVERY_S)  # type: ignore[arg-type]  # fractions work
        query.processAllAvailable()
    finally:
        query.stop()
    return file.finish()
