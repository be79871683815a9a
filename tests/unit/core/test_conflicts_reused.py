"""An id is for one set of messages: the first stands, another is dropped, and it is on record."""

import pytest

from halfhitch.core.conflicts import CONFLICTS_MAX, REUSED_MAX, Conflicts
from halfhitch.core.model import (
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    DecisionRead,
    HalfOffset,
    OpOffset,
    Resolution,
    ResolutionSource,
    TimestampMs,
)
from halfhitch.core.standing import Standing
from halfhitch.core.step import Step
from harness.ledger_script import LedgerScript, identity_of

FIRST, OTHER, THIRD = 11, 22, 33
REUSED = ConflictKind.REUSED


def on_record(step: Step | None) -> list[tuple[str, int, tuple[int, ...]]]:
    """What the step says of reused ids: id, op offset of the decision, halves."""
    return [
        (mark.identity[1], mark.losing_op_offset, tuple(mark.half_offsets))
        for mark in (step.conflicts if step is not None else [])
        if mark.kind is REUSED
    ]


def finished(it: LedgerScript, name: str = "T1", digest: int = FIRST) -> None:
    it.half(name, digest=digest)
    it.commit(name)
    it.carried_out()


# -- while it is undecided -------------------------------------------------------------------------


def test_another_message_under_an_id_is_dropped_and_put_on_record_at_once() -> None:
    it = LedgerScript()
    first = it.half("T1", digest=FIRST)
    other = it.half("T1", digest=OTHER)
    step = it.carried_out()
    assert (on_record(step), step.forwards, step.done) == ([("T1", 0, (other,))], [], [])
    assert it.standing("T1") is Standing.PENDING
    it.commit("T1")
    step = it.carried_out()
    assert step.forwards == [[first]]
    assert sorted(step.done[0].half_offsets) == [first, other], "it needs its mark all the same"
    assert (on_record(step), it.plan()) == ([], None)


@pytest.mark.parametrize("second", [FIRST, 0])
def test_a_repeat_is_harmless_and_so_is_one_that_says_nothing_of_itself(second: int) -> None:
    """An older release writes no digest."""
    it = LedgerScript()
    first = it.half("T1", digest=FIRST)
    it.half("T1", digest=second)
    assert it.plan() is None
    it.commit("T1")
    step = it.carried_out()
    assert (step.forwards, step.conflicts) == ([[first]], [])


def test_nothing_is_compared_with_a_first_message_that_says_nothing_of_itself() -> None:
    it = LedgerScript()
    first = it.half("T1")
    it.half("T1", digest=FIRST)
    it.half("T1", digest=OTHER)
    assert it.plan() is None
    it.commit("T1")
    step = it.carried_out()
    assert (step.forwards, step.conflicts, step.done[0].digests) == ([[first]], [], ())


def test_each_message_of_a_transaction_is_compared_with_its_own_index() -> None:
    it = LedgerScript()
    halves = [it.half("T1", index, digest=FIRST + index) for index in range(3)]
    it.half("T1", 1, digest=FIRST + 1)
    other = it.half("T1", 2, digest=OTHER)
    assert on_record(it.carried_out()) == [("T1", 0, (other,))]
    it.commit("T1", 3)
    step = it.carried_out()
    assert step.forwards == [halves]
    assert step.done[0].digests == (FIRST, FIRST + 1, FIRST + 2)


def test_a_message_that_is_missing_keeps_its_place_among_the_digests() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.half("T1", 2, digest=THIRD)
    it.roll_back("T1")
    assert it.carried_out().done[0].digests == (FIRST, 0, THIRD)


def test_a_step_that_is_aborted_puts_it_on_record_again() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    other = it.half("T1", digest=OTHER)
    it.ledger.abort(it.planned())
    assert on_record(it.carried_out()) == [("T1", 0, (other,))]


# -- when it has ended -----------------------------------------------------------------------------


@pytest.mark.parametrize("is_read_back", [True, False])
def test_another_message_after_the_end_is_done_at_once_and_put_on_record(
    is_read_back: bool,
) -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.commit("T1")
    if is_read_back:
        it.carried_out()
    else:
        it.written()
    other = it.half("T1", digest=OTHER)
    step = it.planned()
    assert on_record(step) == [("T1", 0, (other,))]
    assert [(mark.half_offsets, mark.digests) for mark in step.done] == [([other], (FIRST,))]
    assert step.forwards == []


@pytest.mark.parametrize("ending", [2, ROLLED_BACK, PARKED])
def test_a_successor_knows_what_the_finished_said(ending: int) -> None:
    """The halves of the finished are gone from the log; their marks say what they were."""
    it = LedgerScript()
    it.done("T1", ending, 0, 1, digests=(FIRST, THIRD))
    it.half("T1", 1, digest=THIRD)
    it.half("T1", digest=FIRST)
    assert on_record(it.carried_out()) == []
    other = it.half("T1", 1, digest=OTHER)
    assert on_record(it.carried_out()) == [("T1", 0, (other,))]


def test_the_mark_of_a_late_copy_hands_on_what_the_finished_said() -> None:
    it = LedgerScript()
    finished(it)
    it.half("T1", digest=FIRST)
    it.commit("T1")
    step = it.carried_out()
    assert [mark.digests for mark in step.done] == [(FIRST,), (FIRST,)]


def test_it_is_not_put_on_record_twice_by_a_successor() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.half("T1", digest=OTHER)
    step = it.carried_out()
    heir = it.successor(step, ops_first=False)
    assert heir.plan() is None
    assert heir.ledger.is_reused([1])


def test_a_successor_that_meets_the_other_message_first_learns_from_the_mark() -> None:
    """The first one lies below the watermark; a repeat of it is no conflict in the end."""
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.commit("T1")
    it.carried_out()
    heir = LedgerScript(half_position=1)
    heir.next_half = 1
    other = heir.half("T1", digest=OTHER)
    repeat = heir.half("T1", digest=FIRST)
    further = heir.half("T1", 1, digest=THIRD)
    assert heir.ledger.is_reused([repeat])
    heir.done("T1", 2, 0, digests=(FIRST, THIRD))
    step = heir.carried_out()
    assert on_record(step) == [("T1", 0, (other,))]
    assert not heir.ledger.is_reused([repeat, further])
    assert step.forwards == []


def test_a_successor_that_sees_both_messages_and_then_the_first_ones_mark_forgets_nothing() -> None:
    """The other one was stored after the mark, and the owner died before it was on record."""
    it = LedgerScript()
    first = it.half("T1", digest=FIRST)
    other = it.half("T1", digest=OTHER)
    it.done("T1", ROLLED_BACK, first, digests=(FIRST,))
    step = it.carried_out()
    assert on_record(step) == [("T1", 0, (other,))]
    assert [mark.half_offsets for mark in step.done] == [[other]]


# -- what the end did not know ---------------------------------------------------------------------


def end_without_the_first(it: LedgerScript) -> None:
    """A retry of its second message comes first, long after it was rolled back."""
    it.roll_back("T1")
    it.half("T1", 1, digest=THIRD)
    assert it.carried_out().done[0].digests == (0, THIRD)


@pytest.mark.parametrize("how", ["at once", "written", "read back"])
def test_a_message_that_the_end_did_not_know_stands_against_another_one(how: str) -> None:
    """It was swallowed in silence: the late message was marked, and what it said was forgotten."""
    it = LedgerScript()
    end_without_the_first(it)
    first = it.half("T1", digest=FIRST)
    if how == "written":
        step = it.written()
    elif how == "read back":
        step = it.carried_out()
    other = it.half("T1", digest=OTHER)
    it.half("T1", digest=FIRST)
    if how == "written":
        it.read_back(step)
    step = it.carried_out()
    assert on_record(step) == [("T1", 0, (other,))]
    assert not it.ledger.is_reused([first])
    assert {mark.digests for mark in step.done} == {(FIRST, THIRD)}
    assert it.ledger.differs(identity_of("T1"), 0, (OTHER,)), "a door knows it, too"


def test_a_further_message_that_the_end_did_not_know_stands_against_another_one() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.roll_back("T1")
    step = it.written()
    it.half("T1", 2, digest=THIRD)
    one = it.half("T1", 2, digest=OTHER)
    it.read_back(step)
    two = it.half("T1", 2, digest=OTHER)
    it.half("T1", 2, digest=THIRD)
    step = it.carried_out()
    assert on_record(step) == [("T1", 0, (one,)), ("T1", 0, (two,))]
    another = it.half("T1", 2, digest=OTHER)
    assert on_record(it.carried_out()) == [("T1", 0, (another,))]


def test_a_successor_learns_from_the_late_ones_mark_what_the_end_did_not_know() -> None:
    it = LedgerScript()
    end_without_the_first(it)
    it.half("T1", digest=FIRST)
    it.carried_out()
    heir = it.heir((0, 0))
    other = heir.half("T1", digest=OTHER)
    assert on_record(heir.carried_out()) == [("T1", 0, (other,))]


def test_a_successor_that_finds_the_late_one_unmarked_learns_from_it() -> None:
    it = LedgerScript()
    end_without_the_first(it)
    it.half("T1", digest=FIRST)
    heir = it.heir((0, 0))
    other = heir.half("T1", digest=OTHER)
    step = heir.carried_out()
    assert on_record(step) == [("T1", 0, (other,))]
    assert {mark.digests for mark in step.done} == {(FIRST, THIRD)}


def test_a_successor_that_finds_only_the_other_one_unmarked_puts_it_on_record() -> None:
    """The late one is marked, and deleted: of two marks only the second one knows it."""
    it = LedgerScript()
    end_without_the_first(it)
    it.half("T1", digest=FIRST)
    it.carried_out()
    other, repeat = it.half("T1", digest=OTHER), it.half("T1", digest=FIRST)
    heir = it.heir((2, 0))
    step = heir.carried_out()
    assert on_record(step) == [("T1", 0, (other,))]
    assert not heir.ledger.is_reused([repeat])
    assert OTHER not in {digest for mark in step.done for digest in mark.digests}
    again = heir.half("T1", digest=OTHER)
    assert on_record(heir.carried_out()) == [("T1", 0, (again,))]


def test_a_successor_puts_on_record_what_seemed_to_be_added_to_a_given_up_one() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.give_up("T1")
    it.carried_out()
    it.half("T1", 1, digest=THIRD)
    assert it.carried_out().forwards == [[1]]
    other = it.half("T1", 1, digest=OTHER)
    step = it.heir((2, 0)).carried_out()
    assert on_record(step) == [("T1", 0, (other,))]
    assert step.forwards == []


def test_nothing_is_learned_where_an_older_release_wrote_the_end() -> None:
    it = LedgerScript()
    it.done("T1", ROLLED_BACK, 0)
    it.half("T1", digest=OTHER)
    it.half("T1", digest=FIRST)
    step = it.carried_out()
    assert (on_record(step), {mark.digests for mark in step.done}) == ([], {()})


# -- copies ----------------------------------------------------------------------------------------


def test_a_copy_says_what_the_first_one_said() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.pass_time(7_000)
    it.checked("T1")
    it.half("T1", digest=FIRST)
    assert it.plan() is None
    other = it.half("T1", digest=OTHER)
    assert on_record(it.carried_out()) == [("T1", 0, (other,))]


def test_another_message_read_before_the_copy_never_takes_its_place() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.pass_time(7_000)
    step = it.written(permits=1)
    other = it.half_unread("T1", digest=OTHER)
    it.read_back(step)
    assert on_record(it.carried_out()) == [("T1", 0, (other,))]
    copy = it.transaction("T1").first
    it.commit("T1")
    assert it.carried_out().forwards == [[copy]]


def test_a_replay_that_meets_the_other_message_before_the_copy_keeps_the_copy() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.pass_time(7_000)
    step = it.written(permits=1)
    other = it.half_unread("T1", digest=OTHER)
    it.read_back(step)
    heir = it.heir((1, 0))  # the first one is deleted
    copy = heir.transaction("T1").first
    assert copy != other
    assert on_record(heir.carried_out()) == [("T1", 0, (other,))]
    heir.commit("T1")
    assert heir.carried_out().forwards == [[copy]]


# -- decisions of whoever was too late -------------------------------------------------------------


@pytest.mark.parametrize("hints", [(1,), (1, 2), (2, 1)])
def test_a_decision_that_names_the_other_message_is_put_on_record_too(
    hints: tuple[int, ...],
) -> None:
    it = LedgerScript()
    finished(it)
    it.half("T1", digest=OTHER)
    it.half("T2", digest=OTHER)
    assert len(on_record(it.carried_out())) == 1
    decided = it.commit("T1", len(hints), *hints)
    step = it.carried_out()
    assert on_record(step) == [("T1", decided, ())]
    assert [mark.identity[1] for mark in step.done] == ["T1"], "whoever waits is told"
    assert it.plan() is None


def test_a_decision_that_names_the_first_message_is_the_first_callers() -> None:
    it = LedgerScript()
    first = it.half("T1", digest=FIRST)
    it.half("T1", digest=OTHER)
    it.carried_out()
    it.commit("T1", 1, first)
    step = it.carried_out()
    assert (step.forwards, on_record(step)) == ([[first]], [])


def test_a_decision_on_record_is_not_recorded_again_by_a_successor() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    other = it.half("T1", digest=OTHER)
    decided = it.commit("T1", 1, other)
    step = it.carried_out()
    assert on_record(step) == [("T1", 0, (other,)), ("T1", decided, ())]
    assert it.heir((0, 0)).plan() is None


# -- what a door asks ------------------------------------------------------------------------------


def test_a_door_is_told_whether_messages_are_those_of_the_id() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.half("T1", 1, digest=THIRD)
    finished(it, "T2")
    it.half("T3")

    def differs(name: str, *digests: int, first_index: int = 0) -> bool:
        return it.ledger.differs(identity_of(name), first_index, digests)

    assert not differs("T1", FIRST, THIRD)
    assert not differs("T1", FIRST, THIRD, OTHER), "a torso is completed by a repeat"
    assert not differs("T1", 0, THIRD)
    assert differs("T1", OTHER)
    assert differs("T1", FIRST, OTHER)
    assert differs("T1", OTHER, first_index=1)
    assert not differs("T2", FIRST)
    assert differs("T2", OTHER)
    assert differs("T2", FIRST, THIRD), "committed as one message, it stays one"
    assert not differs("T3", OTHER), "an older release did not say what it was"
    assert not differs("T4", OTHER)


def test_one_rolled_back_is_known_by_what_it_said_and_by_nothing_else() -> None:
    it = LedgerScript()
    it.half("T1", digest=FIRST)
    it.roll_back("T1")
    it.carried_out()
    assert it.ledger.differs(identity_of("T1"), 0, (OTHER,))
    assert not it.ledger.differs(identity_of("T1"), 0, (FIRST, THIRD))


def test_a_door_is_told_which_halves_are_of_reused_ids() -> None:
    it = LedgerScript()
    first, other = it.half("T1", digest=FIRST), it.half("T1", digest=OTHER)
    assert it.ledger.is_reused([first, other])
    assert not it.ledger.is_reused([first])


def test_two_decisions_in_one_record_that_name_reused_ids_are_both_put_on_record() -> None:
    conflicts = Conflicts()
    for half_offset, name in enumerate(("T1", "T2")):
        conflicts.reused(identity_of(name), HalfOffset(half_offset))
    for half_offset, name in enumerate(("T1", "T2")):
        said = (identity_of(name), Resolution.COMMIT, 1, ResolutionSource.PRODUCER)
        conflicts.decided(DecisionRead(OpOffset(7), TimestampMs(0), *said, half_offset))
    marks = [mark for mark in conflicts.for_step() if not mark.half_offsets]
    assert [(mark.identity[1], mark.losing_op_offset) for mark in marks] == [("T1", 7), ("T2", 7)]
    conflicts.recorded(marks[0])
    left = [mark for mark in conflicts.for_step() if not mark.half_offsets]
    assert [mark.identity[1] for mark in left] == ["T2"]


# -- bounds ----------------------------------------------------------------------------------------


def test_a_flood_of_reused_ids_is_spread_over_steps_and_the_oldest_are_forgotten() -> None:
    conflicts = Conflicts()
    for half_offset in range(REUSED_MAX + 1):
        conflicts.reused(identity_of("T1"), HalfOffset(half_offset))
    assert (conflicts.is_reused([0]), conflicts.is_reused([1])) == (False, True)
    taken = 0
    while marks := conflicts.for_step():
        assert len(marks) <= CONFLICTS_MAX
        taken += len(marks)
        for mark in marks:
            conflicts.recorded(mark)
    assert taken == REUSED_MAX + 1
    assert not conflicts


def test_decisions_that_are_left_over_must_be_read_again_by_a_replay() -> None:
    it = LedgerScript()
    finished(it)
    others = [it.half("T1", digest=OTHER + number) for number in range(CONFLICTS_MAX)]
    decided = it.commit("T1", 1, others[0])
    step = it.planned()
    assert len(step.conflicts) == CONFLICTS_MAX
    assert step.op_watermark <= decided
    it.ledger.confirm(step)
    it.read_back(step)
    assert on_record(it.carried_out()) == [("T1", OpOffset(decided), ())]


def test_giving_up_is_said_of_the_first_message() -> None:
    it = LedgerScript()
    first = it.half("T1", digest=FIRST)
    it.half("T1", digest=OTHER)
    it.give_up("T1")
    step = it.carried_out()
    assert step.transactions[0].resolution is Resolution.PARK
    assert step.forwards == [[first]]
    it.resume("T1")
    assert it.standing("T1") is Standing.PENDING
    assert it.ledger.find(identity_of("T1")) is not None
