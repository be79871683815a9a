"""`halfhitch verify` against a world at work: never a false alarm, and no wrong goes unseen."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfhitch.core.model import Resolution
from halfhitch.verify.bounds import Rules
from halfhitch.verify.report import Kind
from halfhitch.verify.run import verify
from harness.verify_logs import WorldLogs
from harness.verify_world import BY_BROKER, CREATED, OP, TARGETS, Stored, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.verify_world import Life

#: A step of this world takes some milliseconds; a target's retention may take what it likes.
RULES = Rules(step_ms=30, memory_ms=300)

seeds = st.integers(0, 2**32)


@given(
    seed=seeds,
    length=st.integers(0, 300),
    target_time=st.sampled_from((CREATED, BY_BROKER)),
    trims_targets=st.booleans(),
)
def test_a_world_at_work_is_clean_wherever_it_is_looked_at(
    seed: int, length: int, target_time: int, trims_targets: bool
) -> None:
    world = World(random.Random(seed), target_time=target_time)
    world.trims_targets = trims_targets
    world.run(length)
    findings = verify(WorldLogs(world, still=False), rules=RULES).findings
    assert findings.is_clean, findings.violations


@given(seed=seeds)
def test_a_world_that_rests_is_judged_whole(seed: int) -> None:
    world = settled(seed)
    findings = verify(WorldLogs(world), rules=RULES).findings
    assert findings.is_clean, findings.violations
    assert findings.is_complete
    assert findings.committed_judged == len(world.committed())
    assert findings.forwards_judged == sum(len(life.messages) for life in world.committed())
    assert not findings.unjudged


def settled(seed: int) -> World:
    world = World(random.Random(seed))
    world.trims = False
    world.run(200)
    world.settle()
    return world


def drop(world: World, life: Life, record: Stored) -> set[Kind]:
    record.state = "aborted"
    return {Kind.LOST} if len(life.messages) == 1 else {Kind.TORN}


def duplicate(world: World, life: Life, record: Stored) -> set[Kind]:
    again(world, record.place, record, record.stored_value)
    return {Kind.DOUBLED}


def flip(world: World, life: Life, record: Stored) -> set[Kind]:
    record.stored_value = (record.stored_value or b"") + b"!"
    return {Kind.CORRUPTED}


def divert(world: World, life: Life, record: Stored) -> set[Kind]:
    record.state = "aborted"
    other = "points" if record.place[0] == "orders" else "orders"
    again(world, (other, record.place[1]), record, record.stored_value)
    return {Kind.MISROUTED}


def forget_the_mark(world: World, life: Life, record: Stored) -> set[Kind]:
    for mark in world.logs[OP, life.partition].records:
        if mark.stored_headers[:1] == [("TAGS", b"d")] and life.identity[1] in str(
            mark.stored_headers
        ):
            mark.state = "aborted"
    return {Kind.PHANTOM}


def roll_back_instead(world: World, life: Life, record: Stored) -> set[Kind]:
    forget_the_mark(world, life, record)
    life.resolution = Resolution.ROLLBACK
    world.done(life, 0, state="visible")
    return {Kind.PHANTOM}


def forge(world: World, life: Life, record: Stored) -> set[Kind]:
    headers = [
        (name, b"forged" if name == "UNIQ_KEY" else value) for name, value in record.stored_headers
    ]
    world.append(record.place, None, b"v", headers)
    return {Kind.PHANTOM, Kind.CORRUPTED}  # it says that it is the message that it was made from


def pass_over(world: World, life: Life, record: Stored) -> set[Kind]:
    left = world.prepare()
    world.watermarks[left.partition] = left.halves[-1] + 1
    return {Kind.LOST}


def again(world: World, place: tuple[str, int], record: Stored, value: bytes | None) -> None:
    world.append(place, record.stored_key, value, record.stored_headers)


MUTATIONS: tuple[Callable[[World, Life, Stored], set[Kind]], ...] = (
    drop,
    duplicate,
    flip,
    divert,
    forget_the_mark,
    roll_back_instead,
    forge,
    pass_over,
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@given(seed=seeds)
def test_whatever_is_done_to_it_is_found(
    mutation: Callable[[World, Life, Stored], set[Kind]], seed: int
) -> None:
    world = settled(seed)
    committed = world.committed()
    if not committed:
        return  # a short world; the next one has some: see the test above
    life = world.rng.choice(committed)
    record = world.rng.choice(world.records_of(life, *TARGETS))
    expected = mutation(world, life, record)
    if mutation is forge and record.place[0] not in {r.place[0] for r in world.records_of(life)}:
        return
    findings = verify(WorldLogs(world), rules=RULES).findings
    found = set(findings.violation_counts)
    if mutation in (forget_the_mark, roll_back_instead):
        found.discard(Kind.LOST)  # its halves may lie below the watermark, and no mark names them
    assert found == expected, findings.violations


def test_worlds_hold_what_the_mutations_need() -> None:
    counts = [len(settled(seed).committed()) for seed in range(20)]
    assert sum(count > 0 for count in counts) >= 19
    assert sum(counts) >= 150


def test_taking_the_ends_in_another_order_raises_false_alarms() -> None:
    """The order in run.py is what keeps it quiet: with the targets' ends first it does not."""

    class Hasty(WorldLogs):
        def layout(self):
            self.early = super().ends(TARGETS)
            return super().layout()

        def ends(self, topics):
            late = super().ends(topics)
            return {place: self.early.get(place, end) for place, end in late.items()}

        def _some(self, place, take, skipped):
            if self._position.get(place, 0) < self.early.get(place, 10**9):
                super()._some(place, take, skipped)

    def is_clean(seed: int) -> bool:
        world = World(random.Random(seed))
        world.run(100)
        return verify(Hasty(world, still=False), rules=RULES).findings.is_clean

    assert not all(is_clean(seed) for seed in range(60))
