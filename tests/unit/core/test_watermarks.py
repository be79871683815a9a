"""The two low watermarks: what holds each of them, and what lets it go."""

from halfhitch.core.model import HalfOffset, OpOffset, Resolution, TimestampMs
from halfhitch.core.transaction import State, Transaction
from halfhitch.core.watermarks import Watermarks
from harness.ledger_script import identity_of


def transaction(state: State = State.PENDING, op_offset: int = -1) -> Transaction:
    one = Transaction(identity_of("T"), state, TimestampMs(0))
    if op_offset >= 0:
        one.decide(Resolution.COMMIT, 1, OpOffset(op_offset), TimestampMs(0))
    return one


def read_halves(marks: Watermarks, *transactions: Transaction) -> None:
    for one in transactions:
        marks.half_read(HalfOffset(marks.half_position), one)


def both(marks: Watermarks, memory: int | None = None, *others: int | None) -> tuple[int, int]:
    return marks.after_step(
        None if memory is None else OpOffset(memory),
        [None if other is None else OpOffset(other) for other in others],
    )


def done(marks: Watermarks, op_offset: int, *half_offsets: int) -> None:
    marks.done_read(OpOffset(op_offset), [HalfOffset(half_offset) for half_offset in half_offsets])


def test_with_nothing_open_both_stand_where_reading_stands() -> None:
    marks = Watermarks(7, 3)
    assert both(marks) == (7, 3)
    marks.half_passed(9)
    marks.op_read(OpOffset(4))
    assert both(marks) == (10, 5)


def test_the_half_watermark_is_held_by_the_first_that_still_needs_something() -> None:
    marks = Watermarks(0, 0)
    first, second, third = (transaction() for _ in range(3))
    read_halves(marks, first, second, third)
    assert both(marks)[0] == 0
    second.state = State.WRITING
    assert both(marks)[0] == 0, "a pending one before it holds"
    first.state = State.WRITING
    assert both(marks)[0] == 2, "what is being written is settled once the step is committed"
    first.state = State.READY
    assert both(marks)[0] == 0, "it was aborted and needs its halves again"
    third.state = first.state = State.WRITTEN
    assert both(marks)[0] == 3


def test_a_half_done_in_the_middle_is_passed_over() -> None:
    marks = Watermarks(0, 0)
    first, second, third = transaction(State.WRITING), transaction(), transaction()
    read_halves(marks, first, second, third)
    marks.half_done(HalfOffset(1))
    marks.half_done(HalfOffset(1))
    assert both(marks)[0] == 2
    assert marks.holder(HalfOffset(1)) is None
    assert marks.holder(HalfOffset(2)) is third
    marks.half_done(HalfOffset(0))
    assert both(marks)[0] == 2


def test_a_half_handed_over_is_held_by_the_other() -> None:
    marks = Watermarks(0, 0)
    gone, heir = transaction(State.FINISHED), transaction(State.READY)
    read_halves(marks, gone)
    assert both(marks)[0] == 1
    marks.hand_over(HalfOffset(0), heir)
    assert marks.holder(HalfOffset(0)) is heir
    assert both(marks)[0] == 0


def test_a_decision_holds_the_op_watermark_until_its_mark_is_read_back() -> None:
    marks = Watermarks(0, 0)
    one = transaction(State.READY, op_offset=0)
    marks.op_read(OpOffset(0))
    marks.decided(one)
    for state in (State.READY, State.WRITING, State.WRITTEN):
        one.state = state
        assert both(marks)[1] == 0, state
    one.state = State.FINISHED
    assert both(marks)[1] == 1


def test_an_early_decision_applied_later_holds_at_its_own_place() -> None:
    marks = Watermarks(0, 0)
    for op_offset in range(6):
        marks.op_read(OpOffset(op_offset))
    for op_offset in (1, 5, 3):
        marks.decided(transaction(State.READY, op_offset))
    assert both(marks)[1] == 1
    marks._decided[0].state = State.FINISHED
    assert both(marks)[1] == 3


def test_a_late_copy_holds_the_memory_that_knew_it_until_it_is_marked() -> None:
    marks = Watermarks(0, 10)
    copy = transaction(State.READY)
    marks.late(copy, OpOffset(2))
    assert both(marks, 8)[1] == 2
    copy.state = State.WRITING
    assert both(marks, 8)[1] == 8, "its own mark goes with this step"
    copy.state = State.READY
    assert both(marks, 8)[1] == 2, "aborted"
    copy.state = State.WRITTEN
    assert both(marks, 8)[1] == 8


def test_a_late_copy_behind_one_that_is_being_written_holds_too() -> None:
    marks = Watermarks(0, 10)
    first, second = transaction(State.WRITING), transaction(State.READY)
    marks.late(first, OpOffset(2))
    marks.late(second, OpOffset(4))
    assert both(marks, 8)[1] == 4


def test_a_late_copy_without_a_memory_holds_where_reading_stands() -> None:
    marks = Watermarks(0, 10)
    marks.late(transaction(State.READY), None)
    marks.op_read(OpOffset(12))
    assert both(marks)[1] == 10


def test_the_mark_of_a_half_above_a_pending_one_must_be_read_again() -> None:
    marks = Watermarks(0, 0)
    pending, finished = transaction(), transaction(State.FINISHED)
    read_halves(marks, pending, finished)
    marks.op_read(OpOffset(3))
    done(marks, 4, 1)
    marks.op_read(OpOffset(5))
    assert both(marks) == (0, 4), "without it half 1 would be taken for a new transaction"
    pending.state = State.WRITING
    assert both(marks) == (2, 6)


def test_an_aborted_step_does_not_drop_marks_that_a_smaller_one_needs() -> None:
    marks = Watermarks(0, 0)
    pending, finished = transaction(), transaction(State.FINISHED)
    read_halves(marks, pending, finished)
    done(marks, 0, 1)
    pending.state = State.WRITING
    assert both(marks) == (2, 1)
    pending.state = State.READY
    assert both(marks) == (0, 0)
    pending.state = State.WRITING
    assert both(marks) == (2, 1)
    marks.confirmed(2)
    assert both(marks) == (2, 1)
    assert not marks._done


def test_within_the_memory_every_mark_is_kept() -> None:
    marks = Watermarks(0, 0)
    read_halves(marks, transaction(State.FINISHED))
    done(marks, 0, 0)
    marks.op_read(OpOffset(1))
    marks.confirmed(1)
    assert both(marks, 0)[1] == 0
    assert both(marks, 2)[1] == 2


def test_several_marks_in_one_record_are_one_and_the_highest_half_counts() -> None:
    marks = Watermarks(0, 0)
    read_halves(marks, *(transaction() for _ in range(3)))
    done(marks, 0, 2)
    done(marks, 0, 1)
    done(marks, 1, 0)
    assert [tuple(entry) for entry in marks._done] == [(0, 2), (1, 0)]


def test_a_mark_that_names_the_far_future_holds_nothing() -> None:
    marks = Watermarks(0, 0)
    read_halves(marks, transaction(State.FINISHED), transaction(State.FINISHED))
    done(marks, 0, 10**18)
    done(marks, 1, 10**18, 1)
    done(marks, 2)
    marks.confirmed(2)
    assert both(marks, 3) == (2, 3)


def test_others_hold_the_op_watermark_and_none_of_them_does_not() -> None:
    marks = Watermarks(0, 10)
    assert both(marks, None, None, 4, 6) == (0, 4)
    assert both(marks, None, None) == (0, 10)


def test_marks_above_what_others_hold_are_not_needed_for_it() -> None:
    marks = Watermarks(0, 0)
    read_halves(marks, transaction(), transaction(State.FINISHED))
    marks.op_read(OpOffset(0))
    done(marks, 1, 1)
    assert both(marks, None, 0) == (0, 0)


def test_the_queues_do_not_grow_behind_one_that_holds_for_long() -> None:
    marks = Watermarks(0, 0)
    slow = transaction(State.READY, op_offset=0)
    read_halves(marks, slow)
    marks.decided(slow)
    for number in range(1, 25_000):
        quick = transaction(State.FINISHED, op_offset=number)
        read_halves(marks, quick)
        marks.decided(quick)
        marks.half_done(HalfOffset(number))
        marks.op_read(OpOffset(number))
    assert len(marks._half_order) < 11_000
    assert len(marks._decided) < 11_000
    assert both(marks) == (0, 0)
    slow.state = State.FINISHED
    assert both(marks) == (25_000, 25_000)


def test_a_mark_of_the_half_that_is_read_next_holds_nothing() -> None:
    marks = Watermarks(4, 0)
    done(marks, 0, 4)
    assert [tuple(entry) for entry in marks._done] == [(0, -1)]


def test_the_mark_of_the_very_half_at_the_watermark_is_kept() -> None:
    marks = Watermarks(0, 0)
    pending = transaction()
    read_halves(marks, transaction(State.FINISHED), transaction(State.FINISHED), pending)
    done(marks, 0, 0)
    done(marks, 1, 1)
    marks.confirmed(1)
    assert both(marks, 2)[1] == 2, "half 2 holds; neither mark is above it"
    assert [tuple(entry) for entry in marks._done] == [(1, 1)]
