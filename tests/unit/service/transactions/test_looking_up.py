"""Whoever reads the op log alone is told what its owner knows, or that nothing is known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halfhitch.core.early import EARLY_MS
from halfhitch.core.ledger import Ledger
from halfhitch.core.model import (
    ConflictKind,
    ConflictRead,
    DecisionRead,
    DoneRead,
    HalfOffset,
    HalfRead,
    OpOffset,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TimestampMs,
    TransactionId,
)
from halfhitch.core.standing import Standing
from halfhitch.errors import TransactionReused
from halfhitch.service.transactions.looking_up import Look, PutBack, Told
from harness.defaults import check_rules

if TYPE_CHECKING:
    from typing import Any

    from halfhitch.core.model import LateNote

IDENTITY = ProducerGroup("shop"), TransactionId("T1")
NOW = TimestampMs(1_000)
DECISIONS = {"commit": Resolution.COMMIT, "rollback": Resolution.ROLLBACK, "park": Resolution.PARK}


@dataclass
class Logs:
    """One transaction: what its owner reads and writes, and the op log that is looked through."""

    ledger: Ledger = field(
        default_factory=lambda: Ledger(
            half_position=0, op_position=0, horizon_ms=10**9, finished_max=1_000,
            rules=check_rules(),
        )
    )  # fmt: skip
    op_log: list[Told] = field(default_factory=list)
    #: Of each life.
    halves: list[HalfRead] = field(default_factory=list)
    #: Where each life begins in the op log.
    began: list[int] = field(default_factory=list)
    late: list[LateNote] = field(default_factory=list)

    def half(self, began: int, born: Resolution | None = None) -> None:
        life = len(self.halves)
        half = HalfRead(
            HalfOffset(life), NOW, IDENTITY, 0, 10, first_stored_ms=0 if life else -1,
            resumed_count=life, fence=began if life else -1, born=born, born_count=1 if born else 0,
        )  # fmt: skip
        self.ledger.half(half)
        self.halves.append(half)
        self.began.append(began)

    def decide(self, resolution: Resolution) -> None:
        at, source = OpOffset(len(self.op_log)), ResolutionSource.PRODUCER
        event = DecisionRead(at, NOW, IDENTITY, resolution, 1, source, len(self.halves) - 1)
        self.op_log.append(event)
        self.ledger.decision(event)

    def step(self, *, is_deliverable: bool = True) -> None:
        step = self.ledger.plan(message_count_max=10, bytes_max=1_000)
        if step is None:
            return
        commits = [t.resolution is Resolution.COMMIT for t in step.transactions]
        if not is_deliverable and commits == [True]:
            step.park(0)
        self.ledger.confirm(step)
        self.late += step.notes
        for mark in step.all_done:
            at = OpOffset(len(self.op_log))
            done = DoneRead(at, NOW, IDENTITY, mark.ending, tuple(mark.half_offsets))
            self.op_log.append(done)
            self.ledger.done(done)

    def put_back(self) -> None:
        standing = self.standing
        if standing not in (Standing.PARKED, Standing.GIVEN_UP) or self.ledger.find(IDENTITY):
            return
        notes = [note for note in self.late if note.op_offset > self.began[-1] or not self.life]
        born = min(notes, key=lambda note: note.op_offset).resolution if notes else None
        if standing is Standing.PARKED:
            born = Resolution.COMMIT
        at, self.late = len(self.op_log), []
        self.op_log.append(PutBack(at, IDENTITY))
        self.ledger.pass_op(at)
        self.half(at, born)

    @property
    def life(self) -> int:
        return len(self.halves) - 1

    def look(self, life: int = 0, start: int = 0) -> Look:
        """Through the half of that life. A reading begins before it was stored."""
        look = Look(self.halves[life].half_offset)
        look.begin(self.halves[life])
        for event in self.op_log[min(start, self.began[life]) :]:
            if look.take(event):
                break
        return look

    @property
    def standing(self) -> Standing:
        return self.ledger.standing(IDENTITY)

    def do(self, what: str) -> None:
        if what in DECISIONS:
            self.decide(DECISIONS[what])
        elif what == "put-back":
            self.put_back()
        else:
            self.step(is_deliverable=what == "step")


def begun() -> Logs:
    logs = Logs()
    logs.half(0)
    return logs


ACTIONS = st.sampled_from([*DECISIONS, "step", "undeliverable", "put-back"])


@settings(max_examples=400)
@given(st.lists(ACTIONS, max_size=14), st.integers(0, 14))
@example(["park", "step", "commit", "step"], 0)
@example(["park", "step", "rollback", "step", "put-back", "commit"], 0)
@example(["park", "step", "commit", "step", "rollback", "step", "put-back"], 3)
@example(["commit", "undeliverable", "put-back", "rollback"], 3)
@example(["park", "commit", "step", "put-back", "rollback"], 2)
@example(["park", "step", "put-back", "park", "commit", "step", "put-back", "rollback"], 2)
@example(["park", "step", "commit", "put-back", "step"], 0)
@example(["park", "step", "put-back", "commit", "undeliverable", "put-back", "rollback"], 0)
def test_what_the_op_log_says_is_what_its_owner_knows(actions: list[str], start: int) -> None:
    logs = begun()
    for action in actions:
        logs.do(action)
        for life in range(len(logs.halves)):
            decided, is_done = logs.look(life, start).told
            standing = logs.standing
            assert decided in (None, standing.resolution), (life, logs.op_log, standing)
            assert not is_done or standing.is_carried_out


@pytest.mark.parametrize(
    ("actions", "told"),
    [
*((f"{first} commit rollback park", (resolution, False))
          for first, resolution in DECISIONS.items()),
        ("park step commit step", (Resolution.PARK, False)),
        ("park step put-back rollback", (None, False)),
        ("park step put-back rollback step", (Resolution.ROLLBACK, True)),
        ("park step commit step put-back rollback", (None, False)),
        ("park step commit step put-back rollback step", (Resolution.COMMIT, True)),
        ("commit undeliverable", (Resolution.COMMIT, False)),
        ("commit undeliverable put-back rollback", (None, False)),
    ],
)  # fmt: skip
def test_whoever_looks_from_the_beginning_is_told(
    actions: str, told: tuple[Resolution | None, bool]
) -> None:
    logs = begun()
    for action in actions.split():
        logs.do(action)
    assert logs.look().told == told


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        ("park step put-back commit rollback", (Resolution.COMMIT, False)),
        ("park step put-back commit rollback step", (Resolution.COMMIT, True)),
        ("park step put-back park step commit", (Resolution.PARK, False)),
        ("park step commit step put-back rollback", (Resolution.COMMIT, False)),
        ("park step rollback step put-back commit step", (Resolution.ROLLBACK, True)),
        ("commit undeliverable put-back rollback", (Resolution.COMMIT, False)),
    ],
)
def test_whoever_knows_the_newest_half_is_told(
    actions: str, told: tuple[Resolution | None, bool]
) -> None:
    logs = begun()
    for action in actions.split():
        logs.do(action)
    assert logs.look(logs.life, 99).told == told


AT = TimestampMs(10 * EARLY_MS)
OLD = TimestampMs(1)


def looking(**half: Any) -> Look:
    look = Look(7)
    look.begin(HalfRead(HalfOffset(7), AT, IDENTITY, 0, 10, **half))
    return look


def decision(resolution: Resolution, stored_ms: TimestampMs = AT, hint: int = 7) -> DecisionRead:
    at, source = OpOffset(1), ResolutionSource.PRODUCER
    return DecisionRead(at, stored_ms, IDENTITY, resolution, 1, source, hint)


def mark(ending: int, *halves: int, stored_ms: TimestampMs = AT) -> DoneRead:
    names = tuple(HalfOffset(one) for one in halves)
    return DoneRead(OpOffset(1), stored_ms, IDENTITY, ending, names)


@pytest.mark.parametrize(
    "older", [decision(Resolution.COMMIT, OLD, 3), mark(1, 3), mark(1, stored_ms=OLD)]
)
def test_of_one_whose_name_stood_for_another_before_nothing_is_known(
    older: DecisionRead | DoneRead,
) -> None:
    """Its owner remembers the other one for a quarter of an hour, and takes this for its copy."""
    look = looking()
    assert not look.take(older)
    assert not look.take(decision(Resolution.ROLLBACK))
    assert look.told == (None, False)
    assert look.take(mark(0, 7, stored_ms=OLD))
    assert look.told == (Resolution.ROLLBACK, True)


def test_a_mark_of_a_late_copy_does_not_say_that_what_lives_was_given_up() -> None:
    look = looking()
    look.take(mark(-2, 7))
    look.take(decision(Resolution.COMMIT))
    assert look.told == (None, False)
    look = looking()
    look.take(decision(Resolution.COMMIT))
    look.take(mark(-2, 7))
    assert look.told == (Resolution.COMMIT, False)


def test_a_late_decision_that_its_owner_has_not_read_when_it_was_put_back_may_count() -> None:
    look = looking(resumed_count=1, fence=1)
    look.take(decision(Resolution.PARK))
    look.take(replace(decision(Resolution.ROLLBACK), op_offset=OpOffset(2)))
    assert look.told == (Resolution.ROLLBACK, False)
    look = looking(resumed_count=1, fence=1)
    look.take(decision(Resolution.COMMIT))
    look.take(replace(decision(Resolution.ROLLBACK), op_offset=OpOffset(2)))
    assert look.told == (None, False)


def test_a_time_that_no_log_has_is_asked_for_as_one_that_kafka_takes() -> None:
    assert looking(first_stored_ms=10**19 - 1).began_ms < 2**63


def test_what_names_its_half_as_another_message_refuses_it() -> None:
    look = Look(7)
    for half_offset in (8, 7):
        conflict = ConflictRead(
            OpOffset(0), NOW, IDENTITY, ConflictKind.REUSED, OpOffset(0), (HalfOffset(half_offset),)
        )
        assert look.take(conflict) is (half_offset == 7)
    assert isinstance(look.refusal, TransactionReused)
