"""What an engine tells while it starts; its life on a real Kafka is tests/integration's."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from halfhitch.engine.life import WAITED_AGAIN_S, WAITED_S, tell_waiting

if TYPE_CHECKING:
    import pytest

BOOTSTRAP = "kafka-7:9092"


def told(caplog: pytest.LogCaptureFixture, waits: list[bool]) -> tuple[list[str], list[float]]:
    """What is said while `waits` are the answers, and the pauses in between."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    with caplog.at_level(logging.INFO, "halfhitch.engine.life"):
        asyncio.run(tell_waiting(BOOTSTRAP, lambda: waits.pop(0), sleep))
    return caplog.messages, pauses


def test_a_start_without_kafka_was_silent_for_25_seconds(caplog: pytest.LogCaptureFixture) -> None:
    messages, pauses = told(caplog, [True, True, True, False])
    assert len(messages) == 3
    assert all(BOOTSTRAP in line and "waiting for Kafka" in line for line in messages)
    assert "kafka.bootstrap" in messages[0]
    assert pauses == [WAITED_S, *[WAITED_AGAIN_S] * 3]


def test_a_kafka_that_is_there_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    assert told(caplog, [False]) == ([], [WAITED_S])
