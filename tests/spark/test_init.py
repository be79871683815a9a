"""The snippets of docs/spark.md, run as they stand there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from harness.forwards import Record, commit_records, forwarded_headers
from harness.kafka import create_topics, fresh_name
from harness.places import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from halfhitch.embedded import EmbeddedKafka

PAGE = ROOT / "docs" / "spark.md"


@pytest.mark.long
@pytest.mark.timeout(500)
@pytest.mark.spark
@pytest.mark.kafka
def test_the_pages_snippets_run_and_do_what_they_say(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    orders, points = fresh_name("orders"), fresh_name("points")
    create_topics(kafka.bootstrap, {orders: 1, points: 1})
    for number in range(3):
        for index, topic in enumerate((orders, points)):
            headers = forwarded_headers(f"t{number}", index=index, count=2)
            value = b'{"order_id":"o","points":3}'
            commit_records(kafka.bootstrap, topic, [Record(value, headers=headers)])
    names: dict[str, Any] = {"spark": spark}
    text = PAGE.read_text("utf-8")
    text = text.replace("broker:9092", kafka.bootstrap).replace("s3a://", tmp_path.as_uri() + "/")
    # Asked by none: these values have no number of a schema.
    text = text.replace("https://schemas:8081", "http://127.0.0.1:1")
    for word, topic in (("orders", orders), ("points", points)):
        text = re.sub(rf"""(["'])({word})\1""", rf"\1{topic}\1", text)
    found = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(found) >= 4
    for snippet in found:
        exec(compile(snippet, str(PAGE), "exec"), names)
        query = names.pop("query", None)
        if query is not None:
            query.processAllAvailable()
            query.stop()
    spark.streams.removeListener(names["metrics"])
    names["metrics"].close()
    assert len(names["letters"]) == 3
    assert names["now"].count() == 3
    assert names["read_parquet_sink"](spark, f"{tmp_path.as_uri()}/jobs/sourced/rows").count() == 3
    avro = spark.read.parquet((tmp_path / "jobs" / "avro" / "out").as_uri())
    assert avro.where("dead_letter.reason like '%Confluent%'").count() == 3
    pairs = spark.read.parquet((tmp_path / "jobs" / "pairs" / "out").as_uri())
    assert sorted(row["transaction_id"] for row in pairs.collect()) == ["t0", "t1", "t2"]
    assert spark.read.parquet((tmp_path / "jobs" / "pairs" / "aside").as_uri()).count() == 0
