"""What was read of a log is read once, for as long as somebody asks for more of it."""

from __future__ import annotations

import threading
import time
from typing import Any

from halfhitch.adapters.kafka.kept_logs import KeptLog, KeptLogs

A: Any = ("shop", "A")
B: Any = ("shop", "B")


def soon() -> float:
    return time.monotonic() + 30.0


def read(logs: KeptLogs[str], start: int, end: int, partition: int = 0) -> list[int]:
    """What had to be read of a log in which A and B take turns."""
    with logs.lent(partition, soon()) as lent:
        kept = lent.begin(start, end)
        offsets = list(range(kept.read_to, end))
        for at in offsets:
            if not kept.is_full:
                kept.put(at, B if at % 2 else A, f"at {at}")
            kept.read_to = at + 1
    return offsets


def test_who_comes_next_goes_on_where_the_last_one_ended() -> None:
    logs = KeptLogs[str]()
    assert read(logs, 3, 6) == [3, 4, 5]
    assert read(logs, 3, 8) == [6, 7]
    assert read(logs, 5, 8) == []
    assert read(logs, 5, 9, partition=1) == [5, 6, 7, 8]
    with logs.lent(0, soon()) as lent:
        kept = lent.begin(5, 8)
        assert kept.of(A, 0) == ["at 4", "at 6"]
        assert kept.of(A, 5) == ["at 6"]
        assert kept.of(("shop", "C"), 0) == []  # type: ignore[arg-type]


def test_what_was_not_read_or_is_another_log_is_read_from_its_start() -> None:
    for start, end in ((2, 8), (9, 12), (3, 5)):
        logs = KeptLogs[str]()
        read(logs, 3, 8)
        assert read(logs, start, end) == list(range(start, end)), "before, behind a gap, shorter"


def test_two_readers_of_a_log_read_it_once_and_another_log_waits_for_neither() -> None:
    logs, counts = KeptLogs[str](), list[int]()
    with logs.lent(1, soon()):
        readers = [
            threading.Thread(target=lambda: counts.append(len(read(logs, 0, 1_000))))
            for _ in range(4)
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(30)
    assert sorted(counts) == [0, 0, 0, 1_000]


def test_who_cannot_wait_reads_for_himself_and_keeps_nothing() -> None:
    logs = KeptLogs[str]()
    with logs.lent(0, soon()) as first:
        first.begin(0, 5).read_to = 5
        with logs.lent(0, time.monotonic() - 1) as second:
            assert second.begin(0, 5).read_to == 0
    assert read(logs, 0, 5) == []


def test_a_log_too_long_to_be_kept_is_read_again() -> None:
    logs = KeptLogs[str](entries_max=10)
    assert len(read(logs, 0, 9)) == len(read(logs, 0, 9, partition=1)) == 9
    assert read(logs, 0, 9) == [], "and the other had no room left"
    assert len(read(logs, 0, 9, partition=1)) == 9
    assert read(logs, 0, 11) == [9, 10]
    assert len(read(logs, 0, 11)) == 11


def test_what_nobody_asks_for_any_more_is_forgotten() -> None:
    logs = KeptLogs[str]()
    read(logs, 0, 5)
    logs.forget_idle()
    assert read(logs, 0, 5) == []
    logs.forget_idle(idle_s=-1.0)
    assert read(logs, 0, 5) == [0, 1, 2, 3, 4]


def test_a_reader_that_begins_a_record_again_counts_it_once() -> None:
    kept = KeptLog[str](0, 10)
    kept.put(0, A, "first of its record")
    kept.put(0, A, "second")
    kept.read_to = 1
    kept.put(0, A, "first of its record")
    assert kept.of(A, 0) == ["first of its record", "second"]


def test_a_reader_that_fails_leaves_what_it_had_read() -> None:
    logs = KeptLogs[str]()
    try:
        with logs.lent(0, soon()) as lent:
            lent.begin(0, 9).read_to = 4
            raise OSError("trimmed meanwhile")
    except OSError:
        pass
    assert read(logs, 0, 9) == [4, 5, 6, 7, 8]
