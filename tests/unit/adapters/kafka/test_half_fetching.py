"""Single halves are found again by offset, and what is gone is missing and nothing else is."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from halfhitch.adapters.kafka import half_fetching
from halfhitch.adapters.kafka.half_fetching import HalfFetcher
from halfhitch.errors import KafkaUnavailable


class Record:
    def __init__(self, half_offset: int, error: KafkaError | None = None) -> None:
        self._half_offset, self._error = half_offset, error

    def offset(self) -> int:
        return self._half_offset

    def headers(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return self._error


class Log:
    """A consumer over one log whose offsets are `there`, from `low` on; says where reads began."""

    def __init__(self, there: set[int], low: int = 0) -> None:
        self.there, self.low = sorted(there), low
        self.begun: list[tuple[int, int]] = []
        self.is_away = self.is_closed = self.is_silent = False
        self._left: deque[int] = deque()

    def get_watermark_offsets(self, _place: Any, _wait_s: float) -> tuple[int, int]:
        if self.is_away:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        return self.low, max(self.there, default=0) + 1

    def assign(self, places: list[Any]) -> None:
        (place,) = places
        self.begun.append((place.partition, place.offset))
        self._left = deque(found for found in self.there if found >= place.offset)

    def unassign(self) -> None:
        self._left.clear()

    def poll(self, _wait_s: float) -> Record | None:
        if self.is_silent:
            return None
        if not self._left:
            return Record(-1, KafkaError(KafkaError._PARTITION_EOF))
        return Record(self._left.popleft())

    def close(self) -> None:
        self.is_closed = True


def fetched(log: Log, *half_offsets: int) -> list[int]:
    return sorted(HalfFetcher(lambda: log, "half").fetch(3, half_offsets))  # type: ignore[arg-type,return-value]


def test_those_that_lie_close_together_are_read_in_one_go() -> None:
    log = Log(set(range(5_000)))
    assert fetched(log, 4_000, 7, 12, 300) == [7, 12, 300, 4_000]
    assert log.begun == [(3, 7), (3, 4_000)]


def test_what_is_gone_is_missing() -> None:
    log = Log({8, 9, 30}, low=8)
    assert fetched(log, 2, 8, 10, 30, 31) == [8, 30]
    assert log.begun == [(3, 8)], "nothing is read below the log's start"


def cpu_s(count: int) -> float:
    began_s = time.thread_time()
    assert len(fetched(Log(set(range(count))), *range(count))) == count
    return time.thread_time() - began_s


def test_each_half_that_was_found_went_through_all_that_were_missing() -> None:
    few_s = min(cpu_s(2_000) for _ in range(3))
    assert cpu_s(20_000) < 40 * few_s, "ten times as many take ten times as long, not a hundred"


def test_a_kafka_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log({1})
    log.is_away = True
    with pytest.raises(KafkaUnavailable, match="half-3 cannot be read"):
        fetched(log, 1)
    log.is_away, log.is_silent = False, True
    monkeypatch.setattr(half_fetching, "ANSWER_S", 0.0)
    with pytest.raises(KafkaUnavailable, match="could not be read again"):
        fetched(log, 1)
