"""Whole transactions out of a stream, whatever a micro-batch cuts apart and wherever a job dies."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_spark import assemble_transactions
from harness.spark import add_batch, batches, message, stream_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


class Outputs:
    """What came out, by batch; a batch that runs again replaces what it gave before."""

    def __init__(self) -> None:
        self.whole: dict[int, list[int]] = {}
        self.rest: dict[int, list[tuple[int, str]]] = {}
        self.dies_at: int | None = None

    def each(self, batch: DataFrame, number: int) -> None:
        self.whole[number] = sorted(row["offset"] for row in batch.collect())

    def aside(self, batch: DataFrame, number: int) -> None:
        if number == self.dies_at:
            raise RuntimeError("the driver died here")
        rows = batch.select("offset", "standing").collect()
        self.rest[number] = sorted((row["offset"], row["standing"]) for row in rows)

    @property
    def shown(self) -> list[int]:
        return sorted(offset for batch in self.whole.values() for offset in batch)

    @property
    def put_aside(self) -> dict[int, str]:
        return dict(pair for batch in self.rest.values() for pair in batch)


def run(messages: DataFrame, folder: Path, outputs: Outputs, **more: Any) -> None:
    query = (
        assemble_transactions(
            messages, (folder / "waiting").as_uri(), outputs.each, outputs.aside, **more
        )
        .option("checkpointLocation", (folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(150)


def test_a_transaction_that_a_batch_cuts_apart_comes_out_whole_or_goes_aside_in_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    add_batch(spark, files, [message(1, "T", 0, 2), message(2, "U", 0, 1), message(3, None)])
    add_batch(spark, files, [message(4, "T", 1, 2, topic="points"), message(5, "V", 0, 2)])
    outputs = Outputs()
    run(stream_of(spark, files), tmp_path, outputs)
    assert (outputs.whole[0], outputs.whole[1]) == ([2], [1, 4])
    assert outputs.put_aside == {3: "no_transaction"}

    # The job dies while it gives its rows away, and finds the same ones when it runs again.
    add_batch(spark, files, [message(6, "W", 0, 2), message(7, "old", 0, None)])
    outputs.dies_at = 2
    with pytest.raises(Exception, match="the driver died here"):
        run(stream_of(spark, files), tmp_path, outputs)
    outputs.dies_at = None
    add_batch(spark, files, [message(8, "W", 1, 2)])
    run(stream_of(spark, files), tmp_path, outputs)
    assert outputs.shown == [1, 2, 4, 6, 8]

    # Nothing waits for ever, and what comes later still is a row somewhere.
    add_batch(spark, files, [message(9, "V", 0, 2), message(10, None)])
    run(stream_of(spark, files), tmp_path, outputs, wait_s=0)
    assert outputs.put_aside == {
        3: "no_transaction", 5: "incomplete", 7: "uncounted", 9: "repeated", 10: "no_transaction"
    }  # fmt: skip
    kept = [path.name for path in (tmp_path / "waiting").iterdir()]
    assert len(kept) == 2, "older batches' folders are taken away"


def test_a_folder_that_is_gone_or_of_another_checkpoint_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for number in range(3):
        add_batch(spark, files, [message(number, f"T{number}", 0, 2)])
    outputs = Outputs()
    run(stream_of(spark, files), tmp_path, outputs)
    shutil.move(tmp_path / "checkpoint", tmp_path / "before")
    with pytest.raises(Exception, match="of another checkpoint's query"):
        run(stream_of(spark, files), tmp_path, outputs)
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.move(tmp_path / "before", tmp_path / "checkpoint")
    shutil.rmtree(tmp_path / "waiting")
    add_batch(spark, files, [message(4, "T4", 0, 1)])
    with pytest.raises(Exception, match="does not hold what waits since batch 2"):
        run(stream_of(spark, files), tmp_path, outputs)


def test_a_batch_is_sent_to_the_function_for_batches(spark: SparkSession, tmp_path: Path) -> None:
    batch = batches(spark, tmp_path, [])
    still = spark.createDataFrame([], batch.schema)
    with pytest.raises(ConfigurationError, match="complete_transactions"):
        assemble_transactions(still, "folder", Outputs().each, Outputs().aside)
