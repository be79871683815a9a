"""Transactions of several messages, whole: what one micro-batch cut apart waits for the next.

Owns `Assembly`, which Spark calls for each micro-batch, and what waits between two of them. A
transaction becomes visible as a whole on Kafka, but Spark reads each partition up to an offset of
its own. Invariants:

* every row that is read goes to `each` or to `aside`, or waits in the folder; never two of these;
* rows wait in the folder by batch: a batch that runs again finds what it found before, so a job
  that dies at any point repeats the same output;
* nothing waits for ever: what is incomplete after `wait_s` goes aside. Time is when Spark read a
  row, which its checkpoint keeps; a record's own time may be anything.

Nothing runs in Python on the executors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StructType

from halfhitch.errors import ConfigurationError
from halfhitch_spark.transforms import (
    COMPLETE,
    INCOMPLETE,
    TRANSACTION,
    WAITING,
    Uncounted,
    with_standing,
)

#: A micro-batch and its number.
EachBatch = Callable[[DataFrame, int], None]

_READ: Final = "_read"
_BATCH: Final = "batch="


def assemble_transactions(
    messages: DataFrame,
    folder: str,
    each: EachBatch,
    aside: EachBatch,
    *,
    wait_s: int = 600,
    uncounted: Uncounted = "aside",
) -> DataStreamWriter:
    """A query that gives whole transactions to `each`, batch by batch; start it with a checkpoint.

    `aside` gets all other rows, with a column `standing` that says why: `no_transaction`,
    `uncounted`, `repeated`, `conflict`, `counts_disagree`, or `incomplete`, whose other messages
    did not come within `wait_s`. Both are called once for each batch, and again with the same rows
    for a batch that runs again: the sinks of `halfhitch_spark.sinks` take that. `folder` keeps
    what waits; it belongs to one checkpoint, and lies where that lies.
    """
    if not messages.isStreaming:
        raise ConfigurationError("this is a batch: use complete_transactions or with_standing")
    assembly = Assembly(folder, each, aside, wait_s=wait_s, uncounted=uncounted)
    read = messages.withColumn(_READ, F.current_timestamp())
    return read.writeStream.outputMode("append").foreachBatch(assembly)


@dataclass(slots=True)
class Assembly:
    """See the module's text."""

    folder: str
    each: EachBatch
    aside: EachBatch
    wait_s: int = 600
    uncounted: Uncounted = "aside"

    def __call__(self, batch: DataFrame, number: int) -> None:
        """One micro-batch."""
        spark = batch.sparkSession
        waiting = self._waiting(spark, number - 1, batch.schema)
        together = with_standing(batch.unionByName(waiting), uncounted=self.uncounted)
        judged = self._timed(together).persist()
        try:
            left = judged.where(F.col("standing") == WAITING).drop("standing")
            left.write.mode("overwrite").parquet(self._path(number))
            whole = judged.where(F.col("standing") == COMPLETE)
            self.each(whole.drop("standing", _READ), number)
            rest = judged.where(~F.col("standing").isin(COMPLETE, WAITING))
            self.aside(rest.drop(_READ), number)
        finally:
            judged.unpersist()
        for old in self._numbers(spark):
            if old < number - 1:
                self._files(spark)[0].delete(self._hadoop(spark, self._path(old)), True)

    def _timed(self, together: DataFrame) -> DataFrame:
        """What has waited for too long is incomplete. In an empty batch no time passes."""
        now = together.agg(F.max(_READ)).collect()[0][0]
        if now is None:
            return together
        first = F.min(_READ).over(Window.partitionBy(*TRANSACTION))
        is_late = first < F.lit(now) - F.make_dt_interval(secs=F.lit(self.wait_s))
        standing = F.col("standing")
        timed = F.when((standing == WAITING) & is_late, INCOMPLETE).otherwise(standing)
        return together.withColumn("standing", timed)

    def _waiting(self, spark: SparkSession, number: int, schema: StructType) -> DataFrame:
        known = self._numbers(spark)
        if number >= 0 and number not in known:
            raise ConfigurationError(
                f"{self.folder} does not hold what waits since batch {number} of this query: it "
                "was deleted, or belongs to another checkpoint. Bring it back, or start with a "
                "new checkpoint and an empty folder"
            )
        if number < 0:
            if any(old > 0 for old in known):
                raise ConfigurationError(
                    f"{self.folder} holds what waits of another checkpoint's query: give each "
                    "checkpoint a folder of its own"
                )
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(self._path(number))

    def _path(self, number: int) -> str:
        return f"{self.folder.rstrip('/')}/{_BATCH}{number}"

    def _numbers(self, spark: SparkSession) -> list[int]:
        """Of the batches whose waiting rows are kept."""
        files, folder = self._files(spark)
        if not files.exists(folder):
            return []
        names = [str(one.getPath().getName()) for one in files.listStatus(folder)]
        return [int(name.removeprefix(_BATCH)) for name in names if name.startswith(_BATCH)]

    def _files(self, spark: SparkSession) -> tuple[Any, Any]:
        """Hadoop's own view of the folder: it may lie on any file system that Spark writes to."""
        folder = self._hadoop(spark, self.folder)
        gateway: Any = spark
        return folder.getFileSystem(gateway._jsc.hadoopConfiguration()), folder  # noqa: SLF001

    @staticmethod
    def _hadoop(spark: SparkSession, path: str) -> Any:
        gateway: Any = spark
        return gateway._jvm.org.apache.hadoop.fs.Path(path)  # noqa: SLF001
