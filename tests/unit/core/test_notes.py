"""Decisions that came after the giving up: each is noted once, a bounded number in one step."""

import pytest

from halfhitch.core import notes
from halfhitch.core.model import (
    DecisionRead,
    OpOffset,
    Resolution,
    ResolutionSource,
    TimestampMs,
)
from halfhitch.core.notes import LateNotes
from harness.ledger_script import identity_of


def late(
    op_offset: int, name: str = "T1", resolution: Resolution = Resolution.COMMIT
) -> DecisionRead:
    where = OpOffset(op_offset), TimestampMs(0)
    return DecisionRead(*where, identity_of(name), resolution, 1, ResolutionSource.PRODUCER)


def test_a_decision_is_noted_until_it_is_written_and_one_found_twice_is_one() -> None:
    found = LateNotes()
    assert not found
    found.add(late(5))
    found.add(late(5))
    (note,) = found.for_step()
    assert (note.identity, note.resolution, note.op_offset) == (
        identity_of("T1"),
        Resolution.COMMIT,
        5,
    )
    assert found
    found.written(note)
    found.written(note)
    assert not found
    assert found.for_step() == []


def test_that_it_is_given_up_need_not_be_noted_beside_what_is_given_up() -> None:
    found = LateNotes()
    found.add(late(5, resolution=Resolution.PARK))
    assert not found


def test_two_transactions_may_share_an_op_record() -> None:
    found = LateNotes()
    found.add(late(5, "T1"))
    found.add(late(5, "T2", Resolution.ROLLBACK))
    assert [note.identity[1] for note in found.for_step()] == ["T1", "T2"]


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_a_step_writes_so_many_and_the_rest_must_be_found_by_a_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(notes, "NOTES_MAX", 3)
    found = LateNotes()
    for op_offset in (2, 3, 4):
        found.add(late(op_offset))
    assert found.left_from() is None
    for op_offset in (9, 7, 8):
        found.add(late(op_offset))
    assert [note.op_offset for note in found.for_step()] == [2, 3, 4]
    assert found.left_from() == 7
    for note in found.for_step():
        found.written(note)
    assert [note.op_offset for note in found.for_step()] == [9, 7, 8]
