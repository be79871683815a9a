"""Maintainers' command: resolve the roots again and rewrite the committed locks.

    python -m halfhitch.embedded.relock            rewrite every lock
    python -m halfhitch.embedded.relock --check    say what would change, exit 1 if anything does

Owns the roots: which versions the embedded servers have. Not used at run time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from halfhitch.embedded.jars import (
    KAFKA_LOCK,
    KAFKA_VERSION,
    SPARK_AVRO_LOCK,
    SPARK_CONNECTOR_LOCK,
    SPARK_LAKE_LOCK,
    Repositories,
    sha256_of,
)

# name, folder in the cache, roots, artifacts left out.
PLANS: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (
        KAFKA_LOCK,
        f"kafka/{KAFKA_VERSION}",
        # Kafka logs through SLF4J 1.7; a 2.x backend would not be found by it.
        (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36"),
        (),
    ),
    (
        SPARK_CONNECTOR_LOCK,
        "spark-kafka-connector/4.0.0",
        ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",),
        # pyspark has these in its own jars folder; a second copy would shadow or clash.
        (
            "com.google.code.findbugs:jsr305",
            "org.apache.hadoop:hadoop-client-api",
            "org.apache.hadoop:hadoop-client-runtime",
            "org.apache.spark:spark-tags_2.13",
            "org.lz4:lz4-java",
            "org.scala-lang.modules:scala-parallel-collections_2.13",
            "org.scala-lang:scala-library",
            "org.slf4j:slf4j-api",
            "org.xerial.snappy:snappy-java",
        ),
    ),
    (
        SPARK_AVRO_LOCK,
        "spark-avro/4.0.0",
        ("org.apache.spark:spark-avro_2.13:4.0.0",),
        (
            "org.apache.spark:spark-tags_2.13",
            "org.scala-lang.modules:scala-parallel-collections_2.13",
            "org.scala-lang:scala-library",
            "org.tukaani:xz",
        ),
    ),
    (
        SPARK_LAKE_LOCK,
        "spark-lakes/4.0.0",
        (
            "io.delta:delta-spark_2.13:4.0.0",
            "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0",
        ),
        ("org.antlr:antlr4-runtime", "org.scala-lang:scala-library"),
    ),
)


def relock(name: str, folder: str, roots: tuple[str, ...], excluded: tuple[str, ...]) -> str:
    """The text of one lock file, freshly resolved, downloaded and hashed."""
    repositories = Repositories()
    wanted = sorted(
        coordinates
        for coordinates in set(repositories.resolve(roots))
        if coordinates.rpartition(":")[0] not in excluded
    )

    with tempfile.TemporaryDirectory(prefix="halfhitch-relock-") as scratch:

        def lock_one(coordinates: str) -> dict[str, object]:
            place = Path(scratch) / coordinates.replace(":", "_")
            path = repositories.fetch(coordinates, place)
            return {
                "coordinates": coordinates,
                "sha256": sha256_of(path),
                "size_bytes": path.stat().st_size,
            }

        with ThreadPoolExecutor(4) as pool:
            jars = list(pool.map(lock_one, wanted))
    content = {"folder": folder, "roots": roots, "excluded": excluded, "jars": jars}
    sys.stdout.write(f"{name}: {len(jars)} jars\n")
    return json.dumps(content, indent=1) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Rewrite or check every lock; 1 if `--check` found a difference."""
    parser = argparse.ArgumentParser(prog="python -m halfhitch.embedded.relock")
    parser.add_argument("--check", action="store_true", help="change nothing, only compare")
    options = parser.parse_args(arguments)
    stale_count = 0
    for name, folder, roots, excluded in PLANS:
        path = Path(__file__).with_name("locks") / f"{name}.lock.json"
        text = relock(name, folder, roots, excluded)
        if path.is_file() and path.read_text("utf-8") == text:
            continue
        stale_count += 1
        if options.check:
            sys.stdout.write(f"{path.name} is not what its roots resolve to today\n")
        else:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"wrote {path.name}\n")
    return 1 if options.check and stale_count else 0


if __name__ == "__main__":
    sys.exit(main())
