"""Delivery reports that no broker gives on demand."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

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


class FailedProducer(ScriptedProducer):
    """Has a fatal error: whatever serves its callbacks raises it, and records are purged."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error
        self.is_purged = False

    def poll(self, wait_s: float) -> int:
        self._is_there.wait(wait_s)
        if self._reports and self.is_purged:
            self._reports.pop(0)(KafkaError(KafkaError._PURGE_INFLIGHT), Report(None))
        if self._reports or self.is_purged:
            raise self._error
        return 0

    def purge(self) -> None:
        self.is_purged = True

    def flush(self, _wait_s: float) -> int:
        raise self._error

    def close(self) -> None:
        raise self._error

    def __len__(self) -> int:
        return len(self._reports)


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


FATAL: Any = KafkaException(KafkaError(KafkaError._FATAL, "why", fatal=True))


@pytest.mark.parametrize("error", [FATAL, SystemError("an error was set")], ids=["fatal", "system"])
async def test_a_fatal_error_raised_from_poll_does_not_end_the_thread(error: Exception) -> None:
    """Nothing was acknowledged any more, and only a restart helped."""
    failed, second = FailedProducer(error), ScriptedProducer(8)
    producers: list[Any] = [failed, second]
    log = KafkaRecordLog(lambda: producers.pop(0), half_topic="half", op_topic="op")
    log.start()
    try:
        with pytest.raises(OutcomeUnknown, match="did not confirm the record"):
            await log.append_half(0, None, b"", [])
        assert failed.is_purged
        assert await log.append_half(0, None, b"", []) == 8
        assert log.is_alive
    finally:
        await log.stop(1.0)


async def test_a_log_whose_producer_has_failed_ends_all_the_same() -> None:
    log = KafkaRecordLog(lambda: FailedProducer(FATAL), half_topic="half", op_topic="op")  # type: ignore[arg-type,return-value]
    log.start()
    await log.stop(1.0)
    assert not log.is_alive


async def test_what_is_sent_together_is_measured_once_and_what_waits_is_counted() -> None:
    producer: Any = ScriptedProducer(7, 8, 9)
    told: list[float] = []
    log = KafkaRecordLog(
        lambda: producer, half_topic="half", op_topic="op", on_answered=told.append
    )
    log.start()
    try:
        both = [log.append_half(0, None, b"", []), log.append_half(0, None, b"", [])]
        assert log.queued_count == 2
        assert await asyncio.gather(*both) == [7, 8]
        assert (log.queued_count, len(told)) == (0, 1)
        assert await log.append_op(0, b"", []) == 9
        assert len(told) == 2
        assert all(0 <= seconds < 20 for seconds in told)
    finally:
        await log.stop(1.0)
