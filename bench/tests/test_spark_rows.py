"""What the benchmark of Spark's readers reads are whole transactions of two messages."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter

from bench.spark_rows import PARTITIONS, forwarded, timed
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


_THINKS = """\
import sys, time
while time.process_time() < 1.0:
    pass
print(flush=True)
sys.stdin.read()
"""


def test_what_a_process_took_that_nobody_waits_for_was_subtracted_at_its_end() -> None:
    """As Spark's Python processes are: the kernel then adds it to nobody's sum."""
    usual = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with subprocess.Popen(
            [sys.executable, "-c", _THINKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert timed(process.communicate).cpu_s >= 0
    finally:
        signal.signal(signal.SIGCHLD, usual)

    def think() -> None:
        subprocess.run([sys.executable, "-c", _THINKS], input=b"", check=True, timeout=60)

    assert 0.3 < timed(think).cpu_s < 3
