"""What instances tell each other of half partitions that are full."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import (
    ConfigurationError,
    KafkaUnavailable,
    TooManyUndecided,
)
from halfhitch.service.api import PartitionState
from halfhitch.service.transactions.intake import Intake
from halfhitch.service.transactions.intake_watch import IntakeWatch
from halfhitch.wire.burden import Burden, Over
from harness.intakes import LIMITS, intake, state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Board:
    """A board that notes what it is told, and answers as it is scripted."""

    def __init__(self) -> None:
        self.told: list[tuple[Mapping[int, Burden], Sequence[int]]] = []
        self.heard: Mapping[int, Burden] = {}
        self.error: Exception | None = None

    def exchange(self, own: Mapping[int, Burden], others: Sequence[int]) -> Mapping[int, Burden]:
        self.told.append((own, others))
        if self.error is not None:
            raise self.error
        return self.heard


async def watched(
    monkeypatch: pytest.MonkeyPatch, board: Board, states: list[PartitionState], count: int = 2
) -> tuple[Intake, IntakeWatch]:
    """An intake, after its watch has run for some rounds."""
    monkeypatch.setattr("halfhitch.service.transactions.intake_watch._LOOK_S", 0.001)
    monkeypatch.setattr("halfhitch.service.transactions.intake_watch._EXCHANGE_S", 0.002)
    it = Intake(LIMITS)
    watch = IntakeWatch(it, board, states=lambda: states, partition_count=lambda: count)
    await run_for_a_while(watch, board)
    return it, watch


async def run_for_a_while(watch: IntakeWatch, board: Board) -> None:
    running = asyncio.ensure_future(watch.run())
    enough = len(board.told) + 3
    for _ in range(500):
        await asyncio.sleep(0.001)
        if len(board.told) >= enough:
            break
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_what_another_owner_says_holds_here_too_unless_the_partition_is_owned_here() -> None:
    hog = Burden(groups={"hog": Over(600, 500)})
    it = intake(state(0), heard={0: hog, 1: hog, 2: Burden(), 3: Burden(lag_s=Over(9, 8))})
    it.admit(0, "hog")
    with pytest.raises(TooManyUndecided):
        it.admit(1, "hog")
    it.admit(2, "hog")
    assert it.full == {3}
    it.look([state(0)], {})
    it.admit(1, "hog")


async def test_the_instances_tell_each_other_what_they_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board = Board()
    board.heard = {1: Burden(lag_s=Over(9, 8))}
    it, _ = await watched(monkeypatch, board, [state(0, 700, hog=600)])
    assert board.told[-1] == ({0: Burden(groups={"hog": Over(600, 500)})}, [1])
    assert it.full == {1}


async def test_one_instance_alone_that_refuses_nothing_asks_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board = Board()
    await watched(monkeypatch, board, [state(0), state(1)])
    assert board.told == []


async def test_without_a_word_from_others_each_refuses_for_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    board = Board()
    board.error = KafkaUnavailable("away")
    it, watch = await watched(monkeypatch, board, [state(0, 700, hog=600)])
    assert watch.trouble is None, "others tell that Kafka is away"
    board.error = ConfigurationError("this user is not allowed to.")
    await run_for_a_while(watch, board)
    assert watch.trouble == (
        "the instances cannot tell each other which half partitions take nothing new, so each "
        "refuses for its own only: this user is not allowed to."
    )
    with pytest.raises(TooManyUndecided):
        it.admit(0, "hog")
    board.error = None
    await run_for_a_while(watch, board)
    assert watch.trouble is None
    assert [record.action for record in caplog.records if record.action.startswith("bounds")] == [  # type: ignore[attr-defined]
        "bounds_not_shared"
    ], "said once, and a level below when it is over"
