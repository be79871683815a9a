"""How far an owner is behind its logs, measured on a Kafka in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import KafkaUnavailable
from harness.defaults import owner_limits
from harness.twin import BlindReader, RecordingWriter, Twin

if TYPE_CHECKING:
    from halfhitch.service.owner.turn import PartitionOwner


def turn(twin: Twin, owner: PartitionOwner, *, passed_s: float = 0.0) -> float:
    """One turn that takes so long; the lag after it."""
    owner.turn(0.0)
    twin.clock.advance(passed_s)
    return owner.lag.seconds()


def busy(twin: Twin, first: int, count: int = 10) -> None:
    """So many transactions more, committed."""
    for number in range(first, first + count):
        twin.half(f"T{number}")
    for number in range(first, first + count):
        twin.commit(f"T{number}")


def test_an_owner_that_keeps_up_is_not_behind() -> None:
    twin = Twin()
    owner = twin.working_owner()
    for number in range(0, 1_000, 10):
        busy(twin, number)
        assert turn(twin, owner, passed_s=0.1) < 0.3


def test_an_owner_that_writes_more_slowly_than_is_stored_is_seconds_behind() -> None:
    """What is read but not written yet counts: decisions of the same moment share records."""
    twin = Twin(limits=owner_limits(batch_count_max=10))
    owner = twin.working_owner()
    worst_s = 0.0
    for number in range(0, 1_000, 20):
        busy(twin, number, 20)
        worst_s = max(worst_s, turn(twin, owner, passed_s=0.5))
    assert worst_s > 8.0
    while owner.turn(0.0):
        twin.clock.advance(0.5)
    for _ in range(10):
        lag_s = turn(twin, owner, passed_s=0.5)
    assert lag_s == 0.0, "and not any more when everything is done"


def test_a_step_that_hangs_is_lag_while_it_hangs() -> None:
    twin = Twin()
    seen: list[float] = []
    writer = RecordingWriter(twin.kafka, twin.calls, partition=0)
    owner = twin.working_owner(writer=writer)
    busy(twin, 0)

    def hang() -> None:
        twin.clock.advance(9.0)
        seen.append(owner.lag.seconds())

    writer.before_write = hang
    owner.turn(0.0)
    assert seen[0] >= 9.0


def test_a_log_that_somebody_hides_is_not_the_owners_lag() -> None:
    """An open Kafka transaction of a stranger: nothing can be read, however fast the owner is."""
    twin = Twin()
    reader = BlindReader(twin.kafka, twin.calls, partition=0)
    owner = twin.working_owner(reader=reader)
    reader.set_blind(blind=True, log=1)
    worst_s = 0.0
    for number in range(0, 200, 2):
        busy(twin, number, 2)
        worst_s = max(worst_s, turn(twin, owner, passed_s=0.2))
    assert worst_s < 3.0


def test_the_clock_of_the_broker_has_no_say() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.clock.jump(-3_600.0)
    busy(twin, 0)
    assert turn(twin, owner, passed_s=1.1) < 2.0
    twin.clock.jump(7_200.0)
    busy(twin, 10)
    turn(twin, owner)
    assert turn(twin, owner) < 2.0


def test_a_broker_in_trouble_is_not_asked_in_every_turn() -> None:
    twin = Twin()
    owner = twin.working_owner()
    asked = 0

    def half_end() -> int:
        nonlocal asked
        asked += 1
        raise KafkaUnavailable("away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner._reader, "half_end", half_end)
        for number in range(0, 140, 10):
            busy(twin, number)
            assert turn(twin, owner, passed_s=1.0) == 0.0
    assert asked == 1


def test_an_idle_owner_asks_nothing() -> None:
    twin = Twin()
    owner = twin.working_owner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner._reader, "half_end", lambda: pytest.fail("asked"))
        for _ in range(20):
            turn(twin, owner, passed_s=1.0)
