"""Delivery reports that no broker gives on demand."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from halfhitch.adapters.kafka.record_log import KafkaRecordLog
from halfhitch.errors import OutcomeUnknown


class Report:
    """A record that is stored at this offset, if that is known."""

    def __init__(self, log_offset: int | None) -> None:
        self._log_offset = log_offset

    def offset(self) -> int | None:
        return self._log_offset

    def partition(self) -> int:
        return 2


class ScriptedProducer:
    """Reports every record as stored, with the offsets it was given."""

    def __init__(self, *log_offsets: int | None) -> None:
        self._log_offsets = list(log_offsets)
        self._reports: list[Any] = []
        self._is_there = threading.Event()

    def produce(
        self, _topic: str, _value: bytes, _key: bytes, _partition: int, report: Any, headers: Any
    ) -> None:
        del headers
        self._reports.append(report)
        self._is_there.set()

    def poll(self, wait_s: float) -> int:
        self._is_there.wait(wait_s)
        self._is_there.clear()
        while self._reports:
            self._reports.pop(0)(None, Report(self._log_offsets.pop(0)))
        return 0

    def flush(self, _wait_s: float) -> int:
        return 0

    def close(self) -> None:
        pass


async def test_a_record_that_is_stored_nobody_knows_where_is_unknown_and_not_offset_none() -> None:
    producer: Any = ScriptedProducer(7, None, None)
    log = KafkaRecordLog(lambda: producer, half_topic="half", op_topic="op")
    log.start()
    try:
        assert await log.append_half(0, None, b"", []) == 7
        with pytest.raises(OutcomeUnknown, match="cannot say where"):
            await log.append_half(0, None, b"", [])
        with pytest.raises(OutcomeUnknown, match="would store it twice"):
            await log.append_message("orders", None, None, b"", [])
    finally:
        await log.stop(1.0)
