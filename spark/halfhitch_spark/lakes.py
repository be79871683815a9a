"""Sinks for `foreachBatch` into Delta and Iceberg that take a batch once.

The batch's number goes into the table with its rows, in the one step that makes them visible:

* Delta keeps the highest number of each application (`txnAppId`, `txnVersion`) in its log, and
  leaves out a write whose number it has;
* Iceberg has no such thing. The number is a property of the snapshot, looked for before a write.
  Two drivers of one query at the same time are therefore not kept apart, as Delta keeps them.

A batch is known by its query's id, as in `sinks`: another checkpoint's rows are written again.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from halfhitch_spark.sinks import EachBatch, query_id_of

_QUERY: Final = "halfhitch.query"
_BATCH: Final = "halfhitch.batch"


def delta_sink(path: str) -> EachBatch:
    """Rows into the Delta table at this path; needs Delta's package and settings in the session."""

    def take(batch: DataFrame, number: int) -> None:
        (
            batch.write.format("delta")
            .mode("append")
            .option("txnAppId", query_id_of(batch.sparkSession))
            .option("txnVersion", number)
            .save(path)
        )

    return take


def iceberg_sink(table: str) -> EachBatch:
    """Rows into this Iceberg table (`catalog.database.table`), which is there and has the columns.

    A batch that runs again is known as long as its snapshot is: they expire after five days, or as
    the table says.
    """

    def take(batch: DataFrame, number: int) -> None:
        query_id = query_id_of(batch.sparkSession)
        if _taken(batch.sparkSession, table, query_id) >= number:
            return
        writer = batch.writeTo(table).option(f"snapshot-property.{_QUERY}", query_id)
        writer.option(f"snapshot-property.{_BATCH}", str(number)).append()

    return take


def _taken(spark: SparkSession, table: str, query_id: str) -> int:
    """The highest number of this query's batches that are in the table; -1 for none."""
    spark.catalog.refreshTable(table)  # a session remembers what a table was
    written = spark.table(f"{table}.snapshots").where(f"summary['{_QUERY}'] = '{query_id}'")
    highest = written.selectExpr(f"max(int(summary['{_BATCH}']))").collect()[0][0]
    return -1 if highest is None else int(highest)
