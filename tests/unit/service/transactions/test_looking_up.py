"""Whoever reads the op log alone is told what its owner knows, or that nothing is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from halfhitch.core.ledger import Ledger
from halfhitch.core.model import (
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
from halfhitch.service.transactions.looking_up import Look, Told
from halfhitch.wire.op import NoteEntry
from harness.defaults import check_rules

if TYPE_CHECKING:
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
    op_log: list[Told | None] = field(default_factory=list)
    half_end: int = 0
    life: int = 0
    #: Where the present life begins in the op log.
    began: int = 0
    late: list[LateNote] = field(default_factory=list)

    def half(self, born: Resolution | None = None) -> None:
        self.ledger.half(
            HalfRead(
                HalfOffset(self.half_end), NOW, IDENTITY, 0, 10,
                first_stored_ms=0 if self.life else -1, resumed_count=self.life,
                fence=self.began if self.life else -1, born=born, born_count=1 if born else 0,
            )
        )  # fmt: skip
        self.half_end += 1

    def decide(self, resolution: Resolution) -> None:
        at, source = OpOffset(len(self.op_log)), ResolutionSource.PRODUCER
        event = DecisionRead(at, NOW, IDENTITY, resolution, 1, source, self.half_end - 1)
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
        notes = [note for note in self.late if note.op_offset > self.began or not self.life]
        born = min(notes, key=lambda note: note.op_offset).resolution if notes else None
        if standing is Standing.PARKED:
            born = Resolution.COMMIT
        self.life, self.began, self.late = self.life + 1, len(self.op_log), []
        self.op_log.append(NoteEntry(*IDENTITY, "resume", "ann", "mended"))
        self.ledger.pass_op(self.began)
        self.half(born)

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


ACTIONS = st.sampled_from([*DECISIONS, "step", "undeliverable", "put-back"])


@given(st.lists(ACTIONS, max_size=14), st.integers(0, 14))
@example(["park", "step", "commit", "step"], 0)
@example(["park", "commit"], 0)
@example(["park", "step", "rollback", "step", "put-back", "commit"], 0)
@example(["park", "step", "commit", "step", "rollback", "step", "put-back"], 3)
@example(["commit", "undeliverable", "put-back", "rollback"], 3)
def test_what_the_op_log_says_is_what_its_owner_knows(actions: list[str], start: int) -> None:
    logs = Logs()
    logs.half()
    for action in actions:
        logs.do(action)
        # A reading begins before the half of this life was stored.
        look = Look(0)
        for event in logs.op_log[min(start, logs.began) :]:
            if event is not None and look.take(event):
                break
        decided, is_done = look.told
        standing = logs.standing
        assert decided in (None, standing.resolution), (logs.op_log, standing)
        assert not is_done or standing.is_carried_out


@pytest.mark.parametrize(
    ("actions", "told"),
    [
        *((f"{first} commit rollback park", (resolution, False))
          for first, resolution in DECISIONS.items()),
        ("park step commit step", (Resolution.PARK, False)),
        ("park step put-back rollback commit", (Resolution.ROLLBACK, False)),
        ("park step put-back", (None, False)),
        ("park step commit step put-back rollback", (None, False)),
        ("park step commit step put-back rollback step", (Resolution.COMMIT, True)),
        ("park step commit step put-back undeliverable", (Resolution.COMMIT, False)),
        ("park step commit step put-back undeliverable put-back", (Resolution.COMMIT, False)),
        ("park step put-back park step put-back rollback", (Resolution.ROLLBACK, False)),
        ("commit undeliverable put-back rollback", (Resolution.COMMIT, False)),
    ],
)  # fmt: skip
def test_whoever_looks_from_the_beginning_is_told(
    actions: str, told: tuple[Resolution | None, bool]
) -> None:
    logs = Logs()
    logs.half()
    for action in actions.split():
        logs.do(action)
    look = Look(0)
    for event in logs.op_log:
        assert event is not None
        if look.take(event):
            break
    assert look.told == told
