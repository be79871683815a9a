"""What the benchmark of an idle sidecar reads and says."""

from __future__ import annotations

from bench.idle import Memory, memory, tell

ROLLUP = """55d0-7ffe ---p 00000000 00:00 0                          [rollup]
Rss:               73728 kB
Pss:               60000 kB
Private_Clean:      1024 kB
Private_Dirty:     50176 kB
"""


def test_memory_is_what_the_kernel_tells_of_the_process():
    assert memory(ROLLUP) == Memory(resident=72.0, own=50.0)


def test_the_figures_are_told_with_their_units():
    told = tell([1.5, 1.25, 2.0], 0.0071, Memory(72.4, 50.0), 0.026)
    assert told.splitlines() == [
        "ready after      1.50 s (1.25 to 2.00)",
        "processor        0.71% of a core",
        "memory           72 MiB resident, 50 MiB its own",
        "one probe        26 ms of processor",
    ]


def test_without_a_container_no_probe_is_measured():
    assert "probe" not in tell([1.0], 0.01, Memory(1.0, 1.0), 0.0)
