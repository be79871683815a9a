"""What one Kafka transaction must do, put together from whole transactions."""

from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    ConflictMark,
    DoneMark,
    HalfOffset,
    LateNote,
    OpOffset,
    Resolution,
    TimestampMs,
)
from halfhitch.core.step import Step, assemble
from halfhitch.core.transaction import CopyOrder, State, Transaction
from harness.ledger_script import identity_of


def ready(
    name: str, half_offsets: dict[int, int], resolution: Resolution | None, covered_count: int
) -> Transaction:
    """Halves: index -> offset."""
    transaction = Transaction(identity_of(name), State.READY, TimestampMs(0))
    for index, half_offset in half_offsets.items():
        transaction.take(index, HalfOffset(half_offset), 1)
    transaction.covered_count = covered_count
    if resolution is not None:
        transaction.decide(resolution, covered_count, OpOffset(70), TimestampMs(0))
    return transaction


def step_of(*transactions: Transaction, contrary: tuple[ConflictMark, ...] = ()) -> Step:
    return assemble(list(transactions), [], contrary, [], (5, 6))


def test_a_commit_is_forwarded_by_index_and_marked() -> None:
    step = step_of(ready("T1", {1: 11, 0: 10}, Resolution.COMMIT, 2))
    assert step.forwards == [[10, 11]]
    assert step.done == [DoneMark(identity_of("T1"), 2, [10, 11])]
    assert step.conflicts == []
    assert (step.half_watermark, step.op_watermark) == (5, 6)


def test_a_roll_back_is_marked_and_never_forwarded() -> None:
    step = step_of(ready("T1", {0: 10, 1: 11}, Resolution.ROLLBACK, 1))
    assert step.forwards == []
    assert step.done == [DoneMark(identity_of("T1"), ROLLED_BACK, [10, 11])]
    assert step.conflicts == [], "nobody lost: all of it was to be dropped"


def test_a_late_copy_is_nothing_but_a_mark() -> None:
    step = step_of(ready("T1", {0: 10}, None, 3))
    assert step.forwards == []
    assert step.done == [DoneMark(identity_of("T1"), 3, [10])]
    assert step.conflicts == []


def test_a_late_uncovered_half_goes_on_record_with_its_mark() -> None:
    step = step_of(ready("T1", {1: 10}, None, 1))
    assert [(mark.kind, mark.half_offsets) for mark in step.conflicts] == [
        (ConflictKind.UNCOVERED, [10])
    ]


def test_a_late_half_of_what_was_rolled_back_or_parked_is_no_conflict() -> None:
    step = step_of(ready("T1", {1: 10}, None, ROLLED_BACK), ready("T2", {1: 11}, None, PARKED))
    assert step.conflicts == []
    assert [mark.ending for mark in step.done] == [ROLLED_BACK, PARKED]


def test_what_a_commit_drops_goes_on_record_in_the_same_step_before_the_contrary_ones() -> None:
    contrary = ConflictMark(identity_of("T9"), ConflictKind.CONTRARY, OpOffset(8), [])
    dropping = ready("T1", {0: 10, 1: 11, 2: 12}, Resolution.COMMIT, 1)
    step = step_of(dropping, contrary=(contrary,))
    assert step.forwards == [[10]]
    uncovered = ConflictMark(
        identity_of("T1"), ConflictKind.UNCOVERED, OpOffset(70), [HalfOffset(11), HalfOffset(12)]
    )
    assert step.conflicts == [uncovered, contrary]


def test_each_transaction_has_one_mark_in_the_order_of_the_step() -> None:
    step = step_of(
        ready("T1", {0: 10}, Resolution.ROLLBACK, 1),
        ready("T2", {0: 11}, Resolution.COMMIT, 1),
        ready("T3", {0: 12}, None, 1),
    )
    assert [mark.identity[1] for mark in step.done] == ["T1", "T2", "T3"]


def test_a_parked_transaction_is_marked_so_and_its_neighbours_are_not() -> None:
    step = step_of(
        ready("T1", {0: 10}, Resolution.COMMIT, 1),
        ready("T2", {0: 11, 1: 12}, Resolution.COMMIT, 2),
    )
    step.park(1)
    assert step.done == [
        DoneMark(identity_of("T1"), 1, [10]),
        DoneMark(identity_of("T2"), PARKED, [11, 12]),
    ]
    assert [transaction.parked for transaction in step.transactions] == [False, True]


def test_what_is_given_up_is_put_out_whole_and_marked_so() -> None:
    step = step_of(ready("T1", {1: 11, 0: 10}, Resolution.PARK, 1))
    assert step.forwards == [[10, 11]]
    assert step.done == [DoneMark(identity_of("T1"), GIVEN_UP, [10, 11])]
    assert step.conflicts == [], "nothing is uncovered: nobody has decided"


def test_forwards_stand_in_the_order_of_the_transactions_that_have_some() -> None:
    step = step_of(
        ready("T1", {0: 10}, Resolution.PARK, 1),
        ready("T2", {0: 11}, Resolution.ROLLBACK, 1),
        ready("T3", {0: 12}, None, 1),
        ready("T4", {0: 13}, Resolution.COMMIT, 1),
    )
    assert step.forwards == [[10], [13]]


def test_copies_are_marked_as_such_and_forward_nothing() -> None:
    order = CopyOrder(ready("T1", {0: 10, 1: 11}, None, 0), 1)
    step = assemble([], [order], [], [], (5, 6))
    assert step.forwards == step.done == step.transactions == []
    assert step.copied == [DoneMark(identity_of("T1"), COPIED, [10, 11])]
    assert step.copies == [order]


def test_all_marks_of_a_step_are_its_endings_and_then_its_copies() -> None:
    order = CopyOrder(ready("T1", {0: 10}, None, 0), 1)
    step = assemble([ready("T2", {0: 11}, Resolution.COMMIT, 1)], [order], [], [], (5, 6))
    assert [(mark.identity[1], mark.ending) for mark in step.all_done] == [
        ("T2", 1),
        ("T1", COPIED),
    ]


def test_notes_go_along() -> None:
    note = LateNote(identity_of("T1"), Resolution.COMMIT, OpOffset(8))
    assert assemble([], [], [], [note], (5, 6)).notes == [note]


def test_an_order_with_a_higher_number_is_a_check_and_one_with_the_same_a_renewal() -> None:
    transaction = ready("T1", {0: 10}, None, 0)
    transaction.check_count = 3
    assert CopyOrder(transaction, 4).is_check
    assert not CopyOrder(transaction, 3).is_check


def test_what_is_given_up_stays_so_when_the_parked_topic_is_all_that_takes_it() -> None:
    step = step_of(ready("T1", {0: 10}, Resolution.PARK, 1))
    step.park(0)
    assert step.done[0].ending == GIVEN_UP
