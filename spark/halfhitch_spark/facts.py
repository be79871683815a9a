"""A data pipeline from beginning to end: orders and points become facts, totals and a chart.

    python -m halfhitch_spark.facts --bootstrap 127.0.0.1:9092 --folder DIR --stop-file FILE

Two topics hold the two messages of each order. Values are the demo's: JSON, `{"order_id": ...,
"customer": ..., "points": n}`. It is meant to be read, and to be copied from. In the folder:

* `facts`: a row for each order and its points, of whole transactions only (`read_parquet_sink`);
* `odd`: whole transactions that are not one order and its points, or cannot be read; `aside`: what
  is no whole transaction, with its `standing`. No row is lost: each is in one of the three;
* `totals` and `totals.svg`: sums per customer, made anew of the facts whenever the program ends.

The program may die at any moment and is started again with the same words: it goes on from its
checkpoint, and each batch is taken once.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that Spark's own documentation uses

from halfhitch.errors import HalfHitchError
from halfhitch.wire.plain import shown
from halfhitch_spark.assembly import assemble_transactions
from halfhitch_spark.payloads import json_payload
from halfhitch_spark.reader import read_stream
from halfhitch_spark.session import local_session
from halfhitch_spark.sinks import parquet_sink, read_parquet_sink
from halfhitch_spark.transforms import TRANSACTION, join_by_transaction

_VALUE: Final = "order_id string, customer string, points bigint"
_LOOK_EVERY_S: Final = 0.2
#: Each batch is a file or more of each table.
_BATCH_EVERY_S: Final = 2.0
#: Incomplete transactions go aside after this.
_WAIT_S: Final = 600
#: More bars make a chart that nobody reads.
_BARS_MAX: Final = 40
_ROW, _NAMES, _WIDTH = 20, 160, 640


class Topics(NamedTuple):
    """Where the two messages of an order are."""

    orders: str = "orders"
    points: str = "points"


class Total(NamedTuple):
    """What one customer has."""

    customer: str | None
    orders: int
    points: int | None


def facts_of(whole: DataFrame, topics: Topics) -> DataFrame:
    """Of whole transactions, a row for each order with its points."""
    good = whole.where("dead_letter is null and payload is not null")
    orders = good.where(F.col("topic") == topics.orders)
    points = good.where(F.col("topic") == topics.points)
    return join_by_transaction(orders, points).select(
        *TRANSACTION,
        F.col("left.payload.order_id").alias("order_id"),
        F.col("left.payload.customer").alias("customer"),
        F.col("right.payload.points").alias("points"),
        F.col("left.born").alias("ordered"),
        F.col("left.timestamp").alias("stored"),
    )


def totals_of(facts: DataFrame) -> DataFrame:
    """Orders and points of each customer, the largest first."""
    sums = facts.groupBy("customer").agg(
        F.count("*").alias("orders"), F.sum("points").alias("points")
    )
    return sums.orderBy(F.desc("points"), "customer")


def start(
    spark: SparkSession, bootstrap: str, folder: str, topics: Topics
) -> "Callable[[Path], None]":
    """Begin, or go on from the checkpoint. What it gives waits for a file, catches up and ends."""
    checkpoint = f"{folder}/checkpoint"
    messages = read_stream(
        spark, bootstrap, topics, checkpoint=checkpoint, payload=json_payload(_VALUE)
    )
    facts, odd = parquet_sink(f"{folder}/facts"), parquet_sink(f"{folder}/odd")

    def each(whole: DataFrame, number: int) -> None:
        made = facts_of(whole, topics)
        odd(whole.join(made, list(TRANSACTION), "left_anti"), number)
        facts(made, number)

    writer = assemble_transactions(
        messages, f"{folder}/waiting", each, parquet_sink(f"{folder}/aside"), wait_s=_WAIT_S
    )
    writer = writer.queryName("facts").trigger(processingTime=f"{_BATCH_EVERY_S} seconds")
    query = writer.option("checkpointLocation", checkpoint).start()

    def follow(stop_file: Path) -> None:
        try:
            while not stop_file.exists():
                # Not only a pause: it raises what ended the query, should something end it.
                query.awaitTermination(_LOOK_EVERY_S)  # type: ignore[arg-type]  # fractions work
            query.processAllAvailable()
        finally:
            query.stop()

    return follow


def finish(spark: SparkSession, folder: str, chart: Path) -> list[Total]:
    """Totals and their chart, of all facts there are; the totals, the largest first."""
    facts = read_parquet_sink(spark, f"{folder}/facts")
    totals_of(facts).write.mode("overwrite").parquet(f"{folder}/totals")
    found = spark.read.parquet(f"{folder}/totals").select(*Total._fields)
    totals = [Total(*row) for row in found.collect()]
    totals.sort(key=lambda total: (-(total.points or 0), total.customer or ""))
    scratch = chart.with_name(f".{chart.name}.part")
    scratch.write_text(chart_of(totals), "utf-8")
    scratch.replace(chart)
    return totals


def chart_of(rows: Sequence[Total]) -> str:
    """Bars of points, by customer, as SVG: it needs no other file and no library."""
    drawn = rows[:_BARS_MAX]
    most = max((points or 0 for _, _, points in drawn), default=0) or 1
    bars = []
    for number, (customer, orders, points) in enumerate(drawn):
        at, width = _ROW * number, max(1.0, (_WIDTH - _NAMES - 170) * max(points or 0, 0) / most)
        name = escape(shown(customer or "nobody")[:24])
        bars.append(
            f"<text x='{_NAMES - 8}' y='{at + 15}' text-anchor='end'>{name}</text>"
            f"<rect x='{_NAMES}' y='{at + 3}' width='{width:.1f}' height='{_ROW - 6}'/>"
            f"<text x='{_NAMES + width + 6:.1f}' y='{at + 15}'>{points or 0:,} points, "
            f"{orders:,} orders</text>"
        )
    left = len(rows) - len(drawn)
    height = _ROW * (len(drawn) + (left > 0))
    if left > 0:
        bars.append(f"<text x='{_NAMES}' y='{height - 5}'>and {left:,} more customers</text>")
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{max(height, _ROW)}' "
        f"font-family='sans-serif' font-size='12'><style>rect {{ fill: #3b7dd8 }}</style>"
        f"<rect width='100%' height='100%' style='fill: #fff'/>{''.join(bars)}</svg>\n"
    )


class Given(NamedTuple):
    """The words of a command line."""

    bootstrap: str
    topics: Topics
    folder: Path
    stop_file: Path
    jars: list[Path]
    java_home: Path | None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 when done, 2 if it could not start or go on."""
    given = given_by(
        arguments, "facts", "Orders and their points as a table of facts, with totals and a chart."
    )
    return run("facts", given, _make)


def _make(spark: SparkSession, given: Given) -> int:
    folder = given.folder.as_uri()
    start(spark, given.bootstrap, folder, given.topics)(given.stop_file)
    chart = given.folder / "totals.svg"
    count = sum(total.orders for total in finish(spark, folder, chart))
    sys.stdout.write(f"{count} orders with their points: {chart}\n")
    return 0


def run(name: str, given: Given, make: Callable[[SparkSession, Given], int]) -> int:
    """What `make` gives; 2, with a sentence, for what it refuses. Spark is stopped in any case."""
    given.folder.mkdir(parents=True, exist_ok=True)
    spark = local_session(name, jars=given.jars, java_home=given.java_home, folder=given.folder)
    try:
        return make(spark, given)
    except HalfHitchError as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    finally:
        spark.stop()


def given_by(arguments: Sequence[str] | None, name: str, description: str) -> Given:
    """The words for this program, and for the demo's."""
    parser = argparse.ArgumentParser(
        prog=f"python -m halfhitch_spark.{name}", description=description
    )
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT of Kafka")
    parser.add_argument("--orders", default="orders", help="topic of the orders")
    parser.add_argument("--points", default="points", help="topic of the points")
    parser.add_argument(
        "--folder", type=Path, required=True, help="for all tables, the chart and the checkpoint"
    )
    parser.add_argument(
        "--stop-file", type=Path, required=True, help="catch up and end once this file exists"
    )
    parser.add_argument(
        "--jars", default="", help="the connector's jars, comma-separated; else Spark fetches them"
    )
    parser.add_argument("--java-home", type=Path, help="a Java of 17 or newer, if JAVA_HOME is not")
    said = parser.parse_args(arguments)
    return Given(
        said.bootstrap,
        Topics(said.orders, said.points),
        said.folder.absolute(),
        said.stop_file.absolute(),
        [Path(jar).absolute() for jar in said.jars.split(",") if jar],
        said.java_home,
    )


if __name__ == "__main__":
    sys.exit(main())
