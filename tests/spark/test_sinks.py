"""A batch is taken once, wherever the driver dies: real processes, killed; a real PostgreSQL."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_spark import parquet_sink, postgres_sink, read_parquet_sink
from harness import spark_job
from harness.postgres import EmbeddedPostgres
from harness.spark import add_batch, batches, message, run_stream, stream_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TABLE = """CREATE TABLE messages (
    producer_group text, transaction_id text, message_index int, value bytea, "offset" bigint,
    "timestamp" timestamptz, UNIQUE (producer_group, transaction_id, message_index))"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres() as server:
        yield server


@pytest.fixture
def table(postgres: EmbeddedPostgres) -> Iterator[Callable[[str], list[Any]]]:
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS messages, halfhitch_batches")
        connection.execute(TABLE)
        yield lambda query: connection.execute(query).fetchall()  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_job_that_is_killed_between_write_and_commit_loses_and_doubles_nothing(
    spark: SparkSession,
    tmp_path: Path,
    postgres: EmbeddedPostgres,
    table: Callable[[str], list[Any]],
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for batch in range(3):
        rows = [message(10 * batch + n, f"T{batch}", n, 2) for n in range(2)]
        add_batch(spark, files, [*rows, message(10 * batch + 5, None)])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for point in (*spark_job.POINTS, "none"):
        command = [sys.executable, spark_job.__file__, str(tmp_path), postgres.dsn, point]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=200, check=False, env=environment
        )
        expected = 0 if point == "none" else -signal.SIGKILL
        assert done.returncode == expected, (point, done.stderr[-2_000:])
    everything = sorted(10 * batch + n for batch in range(3) for n in (0, 1, 5))
    taken = read_parquet_sink(spark, (tmp_path / "rows").as_uri())
    assert sorted(row["offset"] for row in taken.collect()) == everything
    assert [at for (at,) in table('SELECT "offset" FROM messages ORDER BY 1')] == everything
    # What the killed attempts have written is there: a reader of the folder would see it twice.
    everywhere = spark.read.option("recursiveFileLookup", "true").parquet(
        (tmp_path / "rows" / "data").as_uri()
    )
    assert everywhere.count() > len(everything)


def test_rows_of_another_checkpoint_are_refused_by_files_and_known_by_a_table(
    spark: SparkSession,
    tmp_path: Path,
    postgres: EmbeddedPostgres,
    table: Callable[[str], list[Any]],
) -> None:
    given = [[message(1, "T", 0, stored_s=3_600), message(2, "T", 0), message(3, None)]]
    stream = batches(spark, tmp_path, given)
    files = parquet_sink((tmp_path / "rows").as_uri())
    rows = postgres_sink(lambda: psycopg.connect(postgres.dsn), "public.messages")

    def each(batch: DataFrame, number: int) -> None:
        rows(batch.select(*spark_job.COLUMNS), number)
        files(batch, number)

    run_stream(stream, tmp_path / "first", each)
    with pytest.raises(Exception, match="a folder of its own"):
        run_stream(stream, tmp_path / "second", each)
    found = table('SELECT "offset", "timestamp" FROM messages ORDER BY 1')
    # By its transaction a message is known again; what has none is another checkpoint's own row.
    assert [at for at, _ in found].count(3) == 2
    begin = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    after_s = {1: 3_600, 2: 1}
    ((at, stored),) = [row for row in found if row[0] != 3]
    assert stored == begin + dt.timedelta(seconds=after_s[at]), "whatever the driver's time zone"
    assert [number for (number,) in table("SELECT batch FROM halfhitch_batches")] == [0, 0]


def test_what_is_no_batch_or_cannot_be_a_column_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = batches(spark, tmp_path, [[message(1, "T", 0)]])
    batch = spark.createDataFrame([], stream.schema)
    for sink in (parquet_sink(tmp_path.as_uri()), postgres_sink(lambda: None, "t")):
        with pytest.raises(ConfigurationError, match="foreachBatch"):
            sink(batch, 0)
    with pytest.raises(Exception, match="column headers is array"):
        run_stream(stream, tmp_path / "checkpoint", postgres_sink(lambda: None, "t"))
    with pytest.raises(ConfigurationError, match="no batch was taken yet"):
        read_parquet_sink(spark, tmp_path.as_uri())


def test_a_file_that_somebody_else_has_changed_is_told(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    run_stream(
        batches(spark, tmp_path, [[message(1, "T", 0)]]),
        tmp_path / "c",
        parquet_sink(folder.as_uri()),
    )
    (written,) = folder.glob("data/*/part-*.parquet")
    written.unlink()
    with pytest.raises(ConfigurationError, match="is not as batch 0 left it"):
        read_parquet_sink(spark, folder.as_uri())


def test_a_column_that_a_job_got_later_was_lost_when_its_files_were_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    sink, checkpoint = (tmp_path / "sink").as_uri(), tmp_path / "checkpoint"
    messages = stream_of(spark, files)
    add_batch(spark, files, [message(1, "T1", 0, 1)])
    run_stream(messages.select("offset"), checkpoint, parquet_sink(sink))
    add_batch(spark, files, [message(2, "T2", 0, 1)])
    run_stream(messages.select("offset", "transaction_id"), checkpoint, parquet_sink(sink))
    found = read_parquet_sink(spark, sink).orderBy("offset").collect()
    assert [(row["offset"], row["transaction_id"]) for row in found] == [(1, None), (2, "T2")]
