"""A Spark job for tests to kill: `python spark_job.py FOLDER DSN POINT`.

Its stream is a folder of files; each batch goes to Parquet and to PostgreSQL. At POINT of batch 1
the process dies as by kill -9; with `none` it runs until all is read.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from halfhitch.embedded import spark_connector_jars, spark_java_home
from halfhitch_spark import local_session, parquet_sink, postgres_sink, sinks
from harness.spark import stream_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

POINTS = ("before-manifest", "before-commit", "after-all")
COLUMNS = ("producer_group", "transaction_id", "message_index", "value", "offset", "timestamp")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, dsn: str, point: str) -> None:
    spark = local_session(
        "job", jars=spark_connector_jars(), java_home=spark_java_home(), folder=folder, core_count=1
    )
    rows, table = parquet_sink((folder / "rows").as_uri()), postgres_sink(connect(dsn), "messages")

    def each(batch: DataFrame, number: int) -> None:
        if number == 1 and point == "before-manifest":
            sinks._Folder.write = lambda *_: die()  # type: ignore[method-assign,assignment]
        chosen = batch.select(*COLUMNS)
        rows(chosen, number)
        if number == 1 and point == "before-commit":
            psycopg.Connection.__exit__ = lambda *_: die()  # type: ignore[method-assign,assignment]
            psycopg.Transaction.__exit__ = lambda *_: die()  # type: ignore[method-assign,assignment]
        table(chosen, number)
        if number == 1 and point == "after-all":
            die()

    query = (
        stream_of(spark, folder / "files")
        .writeStream.option("checkpointLocation", (folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .foreachBatch(each)
        .start()
    )
    query.awaitTermination()


def connect(dsn: str) -> Any:
    return lambda: psycopg.connect(dsn)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
