"""What the benchmark of Spark's readers reads are whole transactions of two messages."""

from __future__ import annotations

from collections import Counter

from bench.spark_rows import PARTITIONS, forwarded
from halfhitch_spark.source.rows import understand


def test_its_messages_are_those_of_whole_transactions() -> None:
    stories: dict[str, list[tuple[str, int]]] = {}
    by_partition: Counter[int] = Counter()
    for one in forwarded(250):
        found = understand(one.headers)
        assert found is not None
        assert found.message_count == 2
        stories.setdefault(found.transaction_id, []).append((one.topic, found.message_index))
        by_partition[one.partition] += 1
    assert len(stories) == 250
    assert {tuple(sorted(story)) for story in stories.values()} == {(("orders", 0), ("points", 1))}
    assert set(by_partition) == set(range(PARTITIONS))
