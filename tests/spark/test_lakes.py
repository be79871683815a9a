"""Delta and Iceberg take a batch once, wherever the driver dies: real processes, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import ConfigurationError
from halfhitch_spark import delta_sink, iceberg_sink
from harness import lake_job
from harness.spark import add_batch, message

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_driver_that_dies_between_write_and_commit_doubles_and_loses_no_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for batch in range(3):
        rows = [message(10 * batch + n, f"T{batch}", n, 2) for n in range(2)]
        add_batch(spark, files, [*rows, message(10 * batch + 5, None)])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for point in (*lake_job.POINTS, "none"):
        command = [sys.executable, lake_job.__file__, str(tmp_path), point]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, env=environment
        )
        expected = 0 if point == "none" else -signal.SIGKILL
        assert done.returncode == expected, (point, done.stderr[-2_000:])
    everything = sorted(10 * batch + n for batch in range(3) for n in (0, 1, 5))
    assert json.loads((tmp_path / "found.json").read_text("utf-8")) == [everything, everything]


def test_what_is_no_batch_of_a_stream_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    batch = spark.createDataFrame([(1,)], "n int")
    for sink in (delta_sink(tmp_path.as_uri()), iceberg_sink("lake.db.messages")):
        with pytest.raises(ConfigurationError, match="foreachBatch"):
            sink(batch, 0)
