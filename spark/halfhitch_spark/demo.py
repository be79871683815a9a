"""The Spark half of the demo: two streams in one Spark, which is killed and started again.

    python -m halfhitch_spark.demo --bootstrap 127.0.0.1:9092 --folder DIR --stop-file FILE

`points` counts each message and sums points per customer; its file `points.json` shows the sums
while it runs. `facts` makes a table of facts, totals and a chart of the whole transactions, and at
the end `totals.json`, which says the totals to those who have no Spark.
"""

import json
import sys
from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession

from halfhitch_spark.facts import Given, finish, given_by, run, start
from halfhitch_spark.points import follow_points

POINTS_FILE: Final = "points.json"
TOTALS_FILE: Final = "totals.json"
CHART: Final = "totals.svg"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: 0 when done, 1 if a message was seen twice, 2 if it could not start."""
    given = given_by(arguments, "demo", "Orders and points, as sums, facts, totals and a chart.")
    return run("demo", given, both)


def both(spark: SparkSession, given: Given) -> int:
    """Follow both streams until the stop file is there and they have caught up."""
    folder = given.folder
    follow_facts = start(spark, given.bootstrap, folder.as_uri(), given.topics)
    points = follow_points(
        spark,
        bootstrap=given.bootstrap,
        topic=given.topics.points,
        checkpoint=folder / "points",
        out=folder / POINTS_FILE,
        stop_file=given.stop_file,
    )
    follow_facts(given.stop_file)
    totals = finish(spark, folder.as_uri(), folder / CHART)
    scratch = folder / f".{TOTALS_FILE}.part"
    scratch.write_text(json.dumps([total._asdict() for total in totals]) + "\n", "utf-8")
    scratch.replace(folder / TOTALS_FILE)
    return 1 if points.duplicates else 0


if __name__ == "__main__":
    sys.exit(main())
