"""When an owner rests, and what it reads afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.ports import ReadBatch
from halfhitch.service.owner.pace import (
    BEHIND_S,
    BUSY_TOGETHER,
    FULL_STEP,
    LARGE_STEP,
    LONGER_FOR,
    LONGEST,
    REST_S_MAX,
    Pace,
)
from halfhitch.service.owner.rhythm import Rhythm
from harness.defaults import owner_limits
from harness.twin import RecordingWriter, Twin, turn_until_idle

if TYPE_CHECKING:
    from collections.abc import Callable


class Reads:
    """A reader that gives these, one after the other; each takes a millisecond."""

    def __init__(self, *batches: tuple[str, str]) -> None:
        self.batches = list(batches)
        self.waits: list[float] = []
        self.now_s = 0.0

    def read(self, wait_s: float) -> Any:
        self.waits.append(wait_s)
        self.now_s += 0.001
        half, op = self.batches.pop(0) if self.batches else ("", "")
        return ReadBatch(list(half), list(op))


def reading(reads: Reads) -> tuple[Pace, Callable[[], Any]]:
    pace = Pace(lambda: reads.now_s)
    return pace, lambda: pace.read(reads, 0.1)  # type: ignore[arg-type]


def test_only_a_large_step_is_followed_by_a_rest_as_long_as_it_took() -> None:
    pace = Pace(lambda: 0.0)
    pace.stepped(LARGE_STEP - 1, 0.02)
    assert pace.rest_s == 0.0
    pace.stepped(LARGE_STEP, 0.02)
    assert pace.rest_s == 0.02
    pace.stepped(LARGE_STEP, 3.0)
    assert pace.rest_s == REST_S_MAX
    pace.stepped(1, 0.02)
    assert pace.rest_s == 0.0


def test_a_rest_is_longer_where_more_would_fit_into_a_step_of_hundreds() -> None:
    rests = []
    for count in (
        LONGER_FOR,
        2 * LONGER_FOR,
        LONGEST * LONGER_FOR,
        FULL_STEP // 2,
        FULL_STEP,
        5_000,
    ):
        pace = Pace(lambda: 0.0)
        pace.stepped(count, 0.01)
        rests.append(pace.rest_s)
    assert rests == pytest.approx([0.01, 0.02, 0.03, 0.02, 0.01, 0.01])


def test_a_rest_is_no_longer_after_a_full_step_beside_others_or_while_somebody_waits() -> None:
    count = LONGEST * LONGER_FOR
    full = Pace(lambda: 0.0)
    full.stepped(count, 0.01, leaves_more=True)
    beside = [Pace(lambda: 0.0, partition, rhythm) for rhythm in [Rhythm()] for partition in (0, 1)]
    for pace in beside:
        pace.stepped(count, 0.01)
    awaited = Pace(lambda: 0.0, 0, Rhythm(lambda _: True))
    awaited.stepped(count, 0.01)
    rests = [full.rest_s, beside[1].rest_s, awaited.rest_s]
    assert rests == pytest.approx([0.01] * 3)


def test_an_owner_that_is_behind_does_not_rest() -> None:
    pace = Pace(lambda: 0.0)
    pace.stepped(LARGE_STEP, 0.02, lag_s=BEHIND_S)
    assert pace.rest_s == 0.0
    pace.stepped(LARGE_STEP, 0.02, lag_s=BEHIND_S / 2)
    assert pace.rest_s == 0.02


def test_without_a_rest_one_read_is_enough() -> None:
    reads = Reads(("ab", ""), ("c", "x"))
    _, read = reading(reads)
    assert (read().half, reads.waits) == (["a", "b"], [0.1])


def test_after_a_rest_both_logs_are_read_until_they_brought_something_new() -> None:
    reads = Reads(("a", "x"), ("b", ""), ("c", ""), ("d", "y"), ("never", "never"))
    pace, read = reading(reads)
    pace.stepped(LARGE_STEP, 0.02)
    batch = read()
    assert (batch.half, batch.op) == (["a", "b", "c", "d"], ["x", "y"])
    assert read().half == [*"never"], "the next turn follows no rest"
    assert len(reads.waits) == 5


def test_a_log_that_stays_silent_is_waited_for_only_shortly() -> None:
    reads = Reads(*[(str(n), "") for n in range(99)])
    pace, read = reading(reads)
    pace.stepped(LARGE_STEP, 0.02)
    assert len(reads.batches) == 99
    read()
    assert 80 < len(reads.batches) < 95
    silent = Reads(("a", ""))
    pace, read = reading(silent)
    pace.stepped(LARGE_STEP, 0.02)
    batch = read()
    assert (batch.half, batch.op, len(silent.waits)) == (["a"], [], 2)


def test_an_owner_rests_after_a_large_step_and_forwards_everything() -> None:
    twin = Twin(limits=owner_limits())
    writer = RecordingWriter(twin.kafka, twin.calls)
    writer.before_write = lambda: twin.clock.advance(0.02)
    owner = twin.working_owner(writer=writer)
    for wave in range(3):
        for number in range(LARGE_STEP):
            twin.half(f"T{wave}.{number}", value=f"{wave}.{number}".encode())
            twin.commit(f"T{wave}.{number}")
        assert owner.turn(0.0)
        assert owner.pace.rest_s > 0.0
    turn_until_idle(owner)
    assert owner.pace.rest_s == 0.0
    assert len(twin.values()) == 3 * LARGE_STEP


def test_owners_that_do_much_together_rest_for_as_long_as_the_others_take() -> None:
    rhythm = Rhythm()
    owners = [Pace(lambda: 5.0, partition, rhythm) for partition in range(4)]
    for owner in owners:
        owner.stepped(BUSY_TOGETHER // 4, 0.008)
    assert [owner.rest_s for owner in owners[:3]] == [0.0] * 3  # it was not yet much
    assert owners[3].rest_s == pytest.approx(0.024)
    owners[0].stepped(1, 0.03)
    assert owners[0].rest_s == REST_S_MAX
    owners[0].stepped(1, 0.03, lag_s=BEHIND_S)
    assert owners[0].rest_s == 0.0
