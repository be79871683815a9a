"""The pipeline's facts are right after a death in the middle, and no row is lost."""

from __future__ import annotations

import json
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from halfhitch_spark import facts as program
from halfhitch_spark import read_parquet_sink
from halfhitch_spark.facts import Topics, Total, chart_of, finish, start
from harness.forwards import Record, abort_records, commit_records, forwarded_headers
from harness.kafka import create_topics, fresh_name, wait_for_markers

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from halfhitch.embedded import EmbeddedKafka


def order(number: int, points: int, *, index: int) -> Record:
    value = {"order_id": str(number), "customer": f"c{number % 3}", "points": points}
    headers = forwarded_headers(f"t{number}", index=index, count=2)
    return Record(json.dumps(value).encode(), headers=headers)


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.long
def test_facts_and_totals_are_right_although_it_died_between_its_tables(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    tmp_path: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = Topics(fresh_name("orders"), fresh_name("points"))
    create_topics(kafka.bootstrap, dict.fromkeys(topics, 1))
    folder, stop_file = tmp_path.as_uri(), tmp_path / "stop"
    points = {number: rng.randint(1, 100) for number in range(30)}
    stop_file.touch()

    def write(name: str, index: int, numbers: range) -> None:
        commit_records(kafka.bootstrap, name, [order(n, points[n], index=index) for n in numbers])
        wait_for_markers(kafka.bootstrap, name)

    write(topics.orders, 0, range(20))
    write(topics.points, 1, range(12))  # eight wait for their points
    abort_records(kafka.bootstrap, topics.points, [order(99, 1, index=1)])

    real, deaths = program.facts_of, list[int]()

    def strikes(whole: DataFrame, found: Topics) -> DataFrame:
        deaths.append(whole.count())
        raise RuntimeError("struck down")

    monkeypatch.setattr(program, "facts_of", strikes)
    with pytest.raises(StreamingQueryException, match="struck down"):
        start(spark, kafka.bootstrap, folder, topics)(stop_file)
    monkeypatch.setattr(program, "facts_of", real)
    assert deaths == [24]

    start(spark, kafka.bootstrap, folder, topics)(stop_file)
    assert sum(total.orders for total in finish(spark, folder, tmp_path / "totals.svg")) == 12
    write(topics.points, 1, range(12, 30))
    write(topics.orders, 0, range(20, 30))
    bad = forwarded_headers("bad", index=0, count=1)
    foreign = Record(b'{"order_id":"foreign"}')
    commit_records(kafka.bootstrap, topics.orders, [Record(b"{", headers=bad), foreign])
    wait_for_markers(kafka.bootstrap, *topics)
    start(spark, kafka.bootstrap, folder, topics)(stop_file)
    told = finish(spark, folder, tmp_path / "totals.svg")
    assert sum(total.orders for total in told) == 30

    found = read_parquet_sink(spark, f"{folder}/facts").collect()
    assert sorted((int(row["order_id"]), row["points"]) for row in found) == sorted(points.items())
    expected: Counter[str] = Counter()
    for number, many in points.items():
        expected[f"c{number % 3}"] += many
    totals = spark.read.parquet(f"{folder}/totals").collect()
    assert {row["customer"]: row["points"] for row in totals} == expected
    assert [(total.customer, total.points) for total in told] == sorted(
        expected.items(), key=lambda pair: (-pair[1], pair[0])
    )
    odd = read_parquet_sink(spark, f"{folder}/odd").collect()
    assert [row["transaction_id"] for row in odd] == ["bad"]
    aside = read_parquet_sink(spark, f"{folder}/aside").collect()
    assert [row["standing"] for row in aside] == ["no_transaction"]
    chart = (tmp_path / "totals.svg").read_text("utf-8")
    assert {f"c{n}" for n in range(3)} <= set(re.findall(r">(c\d)<", chart))


def test_the_chart_is_a_picture_whatever_the_customers_are_called() -> None:
    rows = [Total("<b>&\u202e", 2, 7), Total(None, 1, None)]
    drawn = ET.fromstring(chart_of([*rows, *(Total(f"c{n}", 1, 0) for n in range(50))]))
    told = "".join(drawn.itertext())
    assert "<b>&" in told
    assert "\u202e" not in told
    assert "nobody" in told
    assert "and 12 more customers" in told
    assert ET.fromstring(chart_of([])).tag.endswith("svg")


def test_what_cannot_start_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Session:
        def stop(self) -> None:
            pass

    def refuse(*_: Any) -> None:
        raise program.HalfHitchError("there is no topic 'orders'")

    monkeypatch.setattr(program, "local_session", lambda *_, **__: Session())
    monkeypatch.setattr(program, "start", refuse)
    words = ["--bootstrap", "k:1", "--folder", str(tmp_path / "f"), "--stop-file", "s"]
    assert program.main(words) == 2
    assert capsys.readouterr().err == "there is no topic 'orders'\n"
