"""What an engine tells while it starts, and how long it waits while it stops.

Its life on a real Kafka is tests/integration's.
"""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest

from halfhitch.engine import life
from halfhitch.engine.life import WAITED_AGAIN_S, WAITED_S, Engine, tell_waiting
from halfhitch.service.api import PartitionPhase, PartitionState

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


class Clock:
    """It is looked at once for each look at the partitions."""

    now_s = 0.0

    def monotonic_s(self) -> float:
        self.now_s += 0.1
        return self.now_s


def state(phase: PartitionPhase, trouble: str | None = None, **counts: int) -> PartitionState:
    numbers: dict[str, int] = {
        "pending_count": 5, "decided_count": 0, "early_count": 0, "finished_count": 0,
        "half_watermark": 0, "half_position": 0, "op_watermark": 0, "op_position": 0, **counts,
    }  # fmt: skip
    return PartitionState(0, phase, trouble=trouble, **numbers)


async def looks(found: list[list[PartitionState]]) -> int:
    """How often it is looked, when this is found; the last one again and again."""
    count = 0

    def partitions() -> list[PartitionState]:
        nonlocal count
        count += 1
        return found.pop(0) if len(found) > 1 else found[0]

    engine: Any = SimpleNamespace(_clock=Clock(), partitions=partitions)
    await Engine._carry_out(engine)
    return count


async def test_what_is_decided_is_carried_out_before_its_half_partition_is_given_up() -> None:
    busy, idle = state(PartitionPhase.WORKING, decided_count=1), state(PartitionPhase.WORKING)
    assert await looks([[idle], [busy], [busy], [idle]]) == 6  # three in a row find nothing


async def test_a_stop_does_not_wait_long_for_what_is_decided() -> None:
    assert 10 < await looks([[state(PartitionPhase.WORKING, decided_count=1)]]) < 30


@pytest.mark.parametrize(
    "found",
    [
        [],
        [state(PartitionPhase.TAKING_OVER, decided_count=1)],
        [state(PartitionPhase.WORKING, "Kafka does not answer", decided_count=1)],
    ],
)
async def test_what_does_not_work_is_not_waited_for(found: list[PartitionState]) -> None:
    assert await looks([found]) == 1


async def test_what_waits_for_a_target_that_is_away_is_left_to_the_next_owner() -> None:
    away = state(PartitionPhase.WORKING, decided_count=3)
    away.waiting_count = 3
    assert await looks([[away]]) == 3


async def test_it_said_that_it_was_ready_while_prepares_were_still_refused(monkeypatch) -> None:
    """The audit topic is looked for, which takes a moment, before prepares are taken."""
    seen: list[list[str]] = []
    opened: list[int] = []

    async def watched() -> None:
        seen.append(Engine.unready_reasons(engine))

    async def looked_for() -> None:
        await watched()
        assert opened == []

    monkeypatch.setattr(life, "verified", lambda *_, **__: ("cluster", 2))
    engine: Any = SimpleNamespace(
        _parts=SimpleNamespace(
            admin=None, stored_offsets=None, watch=None, half_ends=lambda _: {0: 7, 1: 0}
        ),
        _options=SimpleNamespace(bootstrap=BOOTSTRAP, owner_enabled=False),
        _kafka_trouble="Kafka has not been reached yet",
        _failure=None,
        _is_open=False,
        _is_leaving=False,
        _look_for_audit=looked_for,
        _open_index=lambda: None,
        _watch_topics=watched,
        transactions=SimpleNamespace(open=opened.append),
    )
    await Engine._open(engine)
    assert seen == [["Kafka has not been reached yet"], []]
    assert opened == [2]
