"""Transforms: which rows come out, and that none is lost on the way."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_spark import (
    complete_transactions,
    deduplicate,
    join_by_transaction,
    with_lineage,
    with_standing,
)
from harness.spark import MESSAGES_SCHEMA, batches, message

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def offsets(rows: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in rows.select("offset").collect())


def frame(spark: SparkSession, *rows: dict[str, Any]) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in rows], MESSAGES_SCHEMA)


def test_of_copies_the_earliest_stays_and_foreign_rows_all_stay(spark: SparkSession) -> None:
    rows = frame(
        spark,
        message(1, "T", 0, stored_s=5),
        message(2, "T", 0, stored_s=3),
        message(3, "T", 1),
        message(4, "T", 0, group="others"),
        message(5, None),
        message(6, None),
    )
    assert offsets(deduplicate(rows)) == [2, 3, 4, 5, 6]
    # Spark's own way takes all foreign rows for copies of one.
    own = rows.dropDuplicates(["producer_group", "transaction_id", "message_index"])
    assert len(offsets(own)) == 4


def test_a_stream_is_deduplicated_across_batches_and_loses_no_row_that_comes_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    hours = 3_600
    given = [
        [message(1, "T", 0, stored_s=9 * hours), message(2, None, stored_s=9 * hours)],
        [message(3, "T", 0, stored_s=9 * hours), message(4, "U", 0, stored_s=9 * hours)],
        # Another partition, hours behind: a watermark on the records' own time drops it unseen.
        [message(5, "V", 0, stored_s=0), message(6, None, stored_s=0)],
    ]
    ours = deduplicate(batches(spark, tmp_path, given), within="1 hour")
    assert run(ours, tmp_path / "ours") == [1, 2, 4, 5, 6]
    plain = batches(spark, tmp_path, given).withWatermark("timestamp", "1 hour")
    keys = ["producer_group", "transaction_id", "message_index"]
    spark_own = plain.dropDuplicatesWithinWatermark(keys)
    assert not {5, 6} & set(run(spark_own, tmp_path / "plain"))


def run(rows: DataFrame, folder: Path) -> list[int]:
    found: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        found.extend(offsets(batch))

    query = (
        rows.writeStream.option("checkpointLocation", (folder / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .foreachBatch(take)
        .start()
    )
    assert query.awaitTermination(120)
    return sorted(found)


def test_only_whole_transactions_are_complete_and_every_row_has_a_standing(
    spark: SparkSession,
) -> None:
    cases = [
        (message(1, "one", 0, 1), "complete"),
        (message(2, "two", 0, 2), "complete"),
        (message(3, "two", 1, 2, topic="points"), "complete"),
        (message(4, "torn", 0, 3), "waiting"),
        (message(5, "torn", 2, 3), "waiting"),
        (message(6, None), "no_transaction"),
        (message(7, None), "no_transaction"),
        (message(8, "old", 0, None), "uncounted"),
        (message(9, "old", 1, None), "uncounted"),
        (message(10, "twice", 0, 1), "complete"),
        (message(11, "twice", 0, 1), "repeated"),
        (message(12, "other", 0, 1), "complete"),
        (message(13, "other", 0, 1, value=b"another"), "conflict"),
        (message(14, "liars", 0, 2), "counts_disagree"),
        (message(15, "liars", 1, 5), "counts_disagree"),
        (message(16, "mixed", 0, 2), "counts_disagree"),
        (message(17, "mixed", 1, None), "counts_disagree"),
        (message(18, "two", 0, 2, group="others"), "waiting"),
        # Two copies of one message are not two messages.
        (message(19, "half", 0, 2), "waiting"),
        (message(20, "half", 0, 2), "repeated"),
    ]
    rows = frame(spark, *(row for row, _ in cases))
    found = {row["offset"]: row["standing"] for row in with_standing(rows).collect()}
    assert found == {row["offset"]: standing for row, standing in cases}
    assert offsets(complete_transactions(rows)) == [1, 2, 3, 10, 12]
    assert offsets(complete_transactions(rows, uncounted="pass")) == [1, 2, 3, 8, 9, 10, 12]
    assert complete_transactions(rows).columns == rows.columns


def test_messages_of_one_transaction_are_joined_and_foreign_ones_have_no_partner(
    spark: SparkSession,
) -> None:
    orders = frame(spark, message(1, "T", 0), message(2, "U", 0), message(3, None))
    points = frame(spark, message(4, "T", 1), message(5, "U", 1, group="x"), message(6, None))
    (row,) = join_by_transaction(orders, points).collect()
    assert (row["transaction_id"], row["left"]["offset"], row["right"]["offset"]) == ("T", 1, 4)


@pytest.mark.long
def test_streams_are_joined_although_their_own_times_lie_hours_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    left = batches(spark, tmp_path, [[message(1, "T", 0)], [message(2, "U", 0)]])
    right = batches(spark, tmp_path, [[message(3, "U", 1, stored_s=36_000)], [message(4, "T", 1)]])
    pairs: list[tuple[int, int]] = []

    def take(batch: DataFrame, _: int) -> None:
        pairs.extend((row["left"]["offset"], row["right"]["offset"]) for row in batch.collect())

    query = (
        join_by_transaction(left, right, within="10 minutes")
        .writeStream.option("checkpointLocation", (tmp_path / "checkpoint").as_uri())
        .trigger(availableNow=True)
        .foreachBatch(take)
        .start()
    )
    assert query.awaitTermination(120)
    assert sorted(pairs) == [(1, 4), (2, 3)]


def test_lineage_says_where_a_row_comes_from(spark: SparkSession) -> None:
    (row,) = with_lineage(frame(spark, message(7, "T", 1, 2, topic="points"))).collect()
    lineage = row["lineage"].asDict()
    assert lineage.pop("stored") > lineage.pop("born") > dt.datetime(2026, 1, 1)  # noqa: DTZ001
    assert lineage == {
        "producer_group": "shop", "transaction_id": "T", "message_index": 1, "message_count": 2,
        "topic": "points", "partition": 0, "offset": 7,
    }  # fmt: skip


def test_a_stream_is_told_what_it_needs(spark: SparkSession, tmp_path: Path) -> None:
    stream = batches(spark, tmp_path, [])
    with pytest.raises(ConfigurationError, match="`within`"):
        deduplicate(stream)
    with pytest.raises(ConfigurationError, match="`within`"):
        join_by_transaction(stream, stream)
    with pytest.raises(ConfigurationError, match="assemble_transactions"):
        complete_transactions(stream)
