"""A Spark job for tests to kill, with Delta and Iceberg: `python lake_job.py FOLDER POINT`.

At POINT of batch 1 the process dies as by kill -9; with `none` it runs until all is read, and
writes what the tables hold.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from halfhitch.embedded import spark_java_home, spark_lake_jars
from halfhitch_spark import delta_sink, iceberg_sink, local_session
from harness.spark import stream_of
from harness.spark_job import COLUMNS, die

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POINTS = ("half-written", "all-written")
TABLE = "lake.db.messages"
_CATALOG = "spark.sql.catalog"


def main(folder: Path, point: str) -> None:
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        f"{_CATALOG}.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        f"{_CATALOG}.lake": "org.apache.iceberg.spark.SparkCatalog",
        f"{_CATALOG}.lake.type": "hadoop",
        f"{_CATALOG}.lake.warehouse": (folder / "iceberg").as_uri(),
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*words, "pyspark-shell"])
    spark = local_session(
        "job", jars=spark_lake_jars(), java_home=spark_java_home(), folder=folder, core_count=1
    )
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {TABLE} (producer_group string, transaction_id string, "
        "message_index int, value binary, offset bigint, timestamp timestamp) USING iceberg"
    )
    delta, iceberg = delta_sink((folder / "delta").as_uri()), iceberg_sink(TABLE)

    def each(batch: DataFrame, number: int) -> None:
        chosen = batch.select(*COLUMNS)
        if number == 1 and point == "half-written":
            threading.Thread(target=die_at_a_new_file, args=(folder / "delta",)).start()
        delta(chosen, number)
        iceberg(chosen, number)
        if number == 1 and point == "all-written":
            die()

    query = (
        stream_of(spark, folder / "files")
        .writeStream.option("checkpointLocation", (folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .foreachBatch(each)
        .start()
    )
    query.awaitTermination()
    # The batches' own session has written; this one remembers the table as it was at the start.
    spark.catalog.refreshTable(TABLE)
    tables = (spark.read.format("delta").load((folder / "delta").as_uri()), spark.table(TABLE))
    found = [sorted(row["offset"] for row in table.collect()) for table in tables]
    (folder / "found.json").write_text(json.dumps(found), "utf-8")


def die_at_a_new_file(folder: Path) -> None:
    """Spark writes files first, and the table's log behind them."""
    before = set(folder.glob("*.parquet"))
    while set(folder.glob("*.parquet")) == before:
        time.sleep(0.001)
    die()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
