"""How a transaction ended, against what its commits say."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import (
    ConflictKind,
    ConflictMark,
    HalfOffset,
    OpOffset,
    ResolutionSource,
)
from halfhitch.verify.report import SENTENCES, Kind, Unjudged, Verdict
from halfhitch.wire import op as op_wire
from harness.excusing import LONG_MS, C, R, cut, ended, look, to
from harness.verify_world import (
    BY_BROKER,
    HALF,
    OP,
    Life,
    World,
)

if TYPE_CHECKING:
    pass


@pytest.fixture
def world(rng: random.Random) -> World:
    """Nothing has happened; time is the broker's."""
    return World(rng, target_time=BY_BROKER)


def carried_out(
    world: World, *, counts: list[int], source: ResolutionSource | None = None, ending: int = 1
) -> Life:
    """Two messages lie in the half log; commits count so many, and one is forwarded."""
    life = world.prepare(messages=[*to("orders", 0, b"k"), *to("points", 0, b"k")])
    world.now_ms += LONG_MS
    for count in counts:
        world.decide(life, C, count=count, source=source)
    for index in range(ending):
        world.forward(life, index)
    world.done(life, ending, state="visible")
    life.state, life.resolution = "ended", C
    return life


def dropped(world: World, life: Life, kind: ConflictKind = ConflictKind.UNCOVERED) -> None:
    lost = ConflictMark(life.identity, kind, OpOffset(0), [HalfOffset(life.halves[-1])])
    ((value, headers, _),) = op_wire.write_step([], [lost])
    world.append((OP, life.partition), None, value, headers)


@pytest.mark.parametrize("is_said", [True, False])
@pytest.mark.parametrize("has_half", [True, False])
def test_a_message_whose_add_was_never_acknowledged_was_called_torn(
    world: World, is_said: bool, has_half: bool
) -> None:
    """Its producer's commit counts one message; the other one's add failed, and lies there."""
    life = carried_out(world, counts=[1])
    if is_said:
        dropped(world, life)
    if not has_half:
        cut(world, (HALF, life.partition))
    findings = look(world)
    assert findings.is_clean, findings.violations
    assert findings.examples == {Unjudged.LEFT_OUT: [life.identity]}
    assert findings.verdict(0.0) is Verdict.NOT_JUDGED, "nor is that clean"
    assert "not acknowledged as far as the log tells" in SENTENCES[Unjudged.LEFT_OUT]


@pytest.mark.parametrize("has_half", [True, False])
def test_a_mark_that_counts_less_than_a_commit_of_its_producer_tears(
    world: World, has_half: bool
) -> None:
    """Whoever holds a handle that counts two was told that both are stored."""
    life = carried_out(world, counts=[1, 2])
    if not has_half:
        cut(world, (HALF, life.partition))
    (violation,) = look(world).violations
    assert (violation.kind, violation.indexes) == (Kind.TORN, (1,))
    assert violation.transaction_id == life.identity[1]


def test_a_commit_that_counts_more_after_the_mark_tells_it_too(world: World) -> None:
    life = carried_out(world, counts=[1])
    world.decide(life, C, count=2)
    (violation,) = look(world).violations
    assert (violation.kind, violation.indexes) == (Kind.TORN, (1,))


@pytest.mark.parametrize("source", ["check", "operator", "policy"])
def test_a_commit_about_all_that_left_out_what_was_there_tears(world: World, source: str) -> None:
    life = carried_out(world, counts=[1], source=ResolutionSource(source))
    (violation,) = look(world).violations
    assert (violation.kind, violation.indexes) == (Kind.TORN, (1,))
    assert "about all" in violation.detail
    cut(world, (HALF, life.partition))
    assert look(world).unjudged == {Unjudged.LEFT_OUT: 1}, "when it was stored is not known now"


def test_what_came_after_a_commit_about_all_is_not_called_torn(world: World) -> None:
    life = world.prepare(messages=to("orders", 0, b"k"))
    world.decide(life, C, source=ResolutionSource.CHECK)
    world.settle()
    life.messages += to("points", 0, b"k")
    late = world.append(
        (HALF, life.partition), b"k", b"v", world.half_headers(life, 1), state="visible"
    )
    life.halves = [late.at]
    world.done(life, 1, state="visible")
    dropped(world, life)
    findings = look(world)
    assert findings.is_clean, findings.violations
    assert findings.unjudged == {Unjudged.LEFT_OUT: 1}


def test_another_message_under_a_used_id_is_not_called_torn(world: World) -> None:
    life = ended(world, messages=to("orders", 0, b"k"))
    dropped(world, life, ConflictKind.REUSED)
    life.messages += to("points", 0, b"k")
    world.decide(life, C, count=2)
    findings = look(world)
    assert findings.is_clean, findings.violations
    assert not findings.unjudged


def test_a_commit_carried_out_though_a_roll_back_came_first_was_clean(world: World) -> None:
    life = world.prepare(messages=to("orders", 0, b"k"))
    world.decide(life, R)
    world.decide(life, C)
    life.resolution = C
    world.settle()
    (violation,) = look(world).violations
    assert (violation.kind, violation.transaction_id) == (Kind.PHANTOM, life.identity[1])
    assert "a roll back lies before its commit" in violation.detail
    assert any(where.topic == "orders" for where in violation.where)


def test_a_roll_back_that_named_an_older_copy_was_overlooked(world: World) -> None:
    life = world.prepare(messages=to("orders", 0, b"k"))
    world.decide(life, R)
    world._steps[life.partition] = world.copy(life)
    world.settle()
    world.decide(life, C)
    world.settle()
    (violation,) = look(world).violations
    assert (violation.kind, violation.transaction_id) == (Kind.PHANTOM, life.identity[1])


def test_a_roll_back_that_came_second_changes_nothing(world: World) -> None:
    life = world.prepare(messages=to("orders", 0, b"k"))
    for resolution in (C, R, C):
        world.decide(life, resolution)
    world.settle()
    world.decide(life, R)
    world.decide(life, C)
    world.done(life, 1, state="visible")  # as to who came late
    assert look(world).is_clean


def test_halves_marked_as_rolled_back_and_as_committed_were_clean(world: World) -> None:
    life = ended(world, R, to("orders", 0, b"k"))
    world.forward(life, 0)
    world.done(life, 1, state="visible")
    (violation,) = look(world).violations
    assert violation.kind is Kind.PHANTOM
    assert "the same halves" in violation.detail


def test_an_id_that_was_used_twice_may_end_in_two_ways(world: World) -> None:
    life = ended(world, R, to("orders", 0, b"k"))
    world._write_halves(life)
    life.state = "pending"
    world.decide(life, C)
    life.state, life.resolution = "decided", C
    world.settle()
    findings = look(world)
    assert findings.is_clean, findings.violations
    assert findings.examples == {Unjudged.TWO_ENDINGS: [life.identity]}
