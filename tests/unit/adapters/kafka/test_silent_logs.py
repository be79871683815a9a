"""A log that gives nothing is at its end, or it is stuck."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from halfhitch.adapters.kafka.silent_logs import SilentLogs
from halfhitch.errors import KafkaUnavailable

if TYPE_CHECKING:
    from collections.abc import Collection

HALF, OP = ("half", 0), ("op", 0)


class Ends:
    """Where both logs can be read to; what was asked."""

    def __init__(self) -> None:
        self.ends = {HALF: 0, OP: 0}
        self.is_away = False
        self.asked: list[list[tuple[str, int]]] = []
        self.now_s = 100.0
        self.silent = SilentLogs(self.readable, lambda: self.now_s)
        for log in self.ends:
            self.silent.begin(log)

    def readable(self, logs: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        self.asked.append([*logs])
        if self.is_away:
            raise KafkaUnavailable("away")
        return {log: self.ends[log] for log in logs}

    def after(self, seconds: float, half: int = 0, op: int = 0) -> dict[tuple[str, int], int]:
        self.now_s += seconds
        return self.silent.stuck({HALF: half, OP: op})


def test_a_log_that_has_more_and_gives_it_at_neither_of_two_looks_is_stuck() -> None:
    it = Ends()
    it.ends[OP] = 3
    assert it.after(1) == {}
    assert it.after(10) == {}
    assert it.after(5) == {OP: 3}
    assert it.asked == [[HALF, OP]]


def test_what_comes_between_the_looks_is_no_silence() -> None:
    it = Ends()
    it.ends[OP] = 3
    it.after(10)
    it.silent.heard(OP)
    assert [it.after(5, op=2), it.after(5, op=2)] == [{}, {}]


def test_an_end_that_was_reached_without_a_record_is_no_silence() -> None:
    it = Ends()
    it.ends[OP] = 3
    it.after(10, op=2)
    assert it.after(5, op=3) == {}, "a marker lay there"


def test_logs_at_their_ends_are_asked_about_now_and_then() -> None:
    it = Ends()
    assert [it.after(1) for _ in range(60)] == [{}] * 60
    assert 5 <= len(it.asked) <= 6


def test_a_log_that_is_held_on_purpose_is_not_asked_about() -> None:
    it = Ends()
    it.ends[OP] = 3
    it.silent.leave(OP)
    assert [it.after(10), it.after(10), it.after(10)] == [{}] * 3
    assert it.asked == [[HALF]] * 3
    it.silent.begin(OP)
    assert [it.after(10), it.after(5)] == [{}, {OP: 3}]


def test_a_kafka_that_does_not_say_where_logs_end_says_nothing_of_them() -> None:
    it = Ends()
    it.ends[OP] = 3
    it.is_away = True
    assert [it.after(10), it.after(5)] == [{}, {}]
    it.is_away = False
    assert [it.after(5), it.after(5)] == [{}, {OP: 3}]


def test_records_that_came_slower_than_the_log_was_assigned_anew_would_never_have_come() -> None:
    it = Ends()
    it.ends[OP] = 3

    def tries(seconds: int) -> list[int]:
        told = []
        for second in range(seconds):
            if it.after(1):
                told.append(second)
                it.silent.begin(OP)
        return told

    first, second, third, *_ = told = tries(2_000)
    assert second - first >= 20
    assert third - second >= 40
    assert all(later - earlier <= 320 for earlier, later in itertools.pairwise(told)), told
    it.silent.heard(OP)
    assert tries(30)[0] < 20, "what has given something is waited for no longer than at first"
