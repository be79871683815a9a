"""One transaction: every state with every trigger, and its halves in every order."""

import pytest

from halfhitch.core.model import (
    PARKED,
    ROLLED_BACK,
    HalfOffset,
    OpOffset,
    Resolution,
    TimestampMs,
)
from halfhitch.core.transaction import State, Transaction, Trigger
from halfhitch.errors import InvariantViolation
from harness.ledger_script import identity_of

#: Written down a second time on purpose: a change of the table must be meant.
LEGAL = {
    ("PENDING", "DECIDED"): "AWAITING",
    ("PENDING", "DECIDED_WHOLE"): "READY",
    ("PENDING", "DONE_READ"): "FINISHED",
    ("AWAITING", "COMPLETED"): "READY",
    ("AWAITING", "DONE_READ"): "FINISHED",
    ("READY", "PLANNED"): "WRITING",
    ("READY", "DONE_READ"): "FINISHED",
    ("WRITING", "CONFIRMED"): "WRITTEN",
    ("WRITING", "ABORTED"): "READY",
    ("WRITTEN", "DONE_READ"): "FINISHED",
}
PAIRS = [(state, trigger) for state in State for trigger in Trigger]
ILLEGAL = [(s, t) for s, t in PAIRS if (s.name, t.name) not in LEGAL]


def begun(state: State = State.PENDING) -> Transaction:
    return Transaction(identity_of("T1"), state, TimestampMs(5))


def with_halves(*indexes: int) -> Transaction:
    """The first half at offset 100, the next at 101, ..."""
    transaction = begun()
    for place, index in enumerate(indexes):
        transaction.take(index, HalfOffset(100 + place), 7)
    return transaction


def decided(transaction: Transaction, resolution: Resolution, covered_count: int) -> Transaction:
    transaction.decide(resolution, covered_count, OpOffset(9))
    return transaction


def everything(transaction: Transaction) -> dict[str, object]:
    return {name: getattr(transaction, name) for name in Transaction.__slots__}


@pytest.mark.parametrize(("state", "trigger"), list(LEGAL))
def test_a_legal_trigger_leads_where_the_table_says(state: str, trigger: str) -> None:
    transaction = begun(State[state])
    transaction.move(Trigger[trigger])
    assert transaction.state is State[LEGAL[state, trigger]]


@pytest.mark.parametrize(("state", "trigger"), ILLEGAL)
def test_an_illegal_trigger_raises_and_changes_nothing(state: State, trigger: Trigger) -> None:
    transaction = with_halves(0, 1, 1)
    transaction.state = state
    before = everything(transaction)
    with pytest.raises(InvariantViolation, match=f"{trigger.name} in state {state.name}"):
        transaction.move(trigger)
    assert everything(transaction) == before


def test_what_is_finished_stays_finished() -> None:
    assert {trigger for state, trigger in ILLEGAL if state is State.FINISHED} == set(Trigger)


def test_a_second_half_of_the_same_index_is_a_copy_and_counts_once() -> None:
    transaction = decided(with_halves(0, 0, 1, 1, 0), Resolution.COMMIT, 2)
    assert list(transaction.covered()) == [100, 102]
    assert transaction.message_count == 2
    assert transaction.size_bytes == 14
    assert sorted(transaction.half_offsets()) == [100, 101, 102, 103, 104]


def test_the_covered_halves_come_by_index_however_they_were_read() -> None:
    transaction = decided(with_halves(2, 0, 1), Resolution.COMMIT, 3)
    assert list(transaction.covered()) == [101, 102, 100]


@pytest.mark.parametrize(
    ("indexes", "covered_count", "is_whole"),
    [
        ((0,), 1, True),
        ((1,), 1, False),
        ((0, 1), 2, True),
        ((1, 0), 2, True),
        ((0,), 2, False),
        ((1, 2), 2, False),
        ((0, 2), 2, False),
        ((0, 0), 2, False),
        ((0, 1, 2), 2, True),
    ],
)
def test_a_commit_is_whole_when_every_covered_half_is_there(
    indexes: tuple[int, ...], covered_count: int, is_whole: bool
) -> None:
    assert decided(with_halves(*indexes), Resolution.COMMIT, covered_count).is_whole is is_whole


@pytest.mark.parametrize("indexes", [(0,), (3,), (1, 2)])
def test_a_roll_back_is_whole_with_whatever_is_there(indexes: tuple[int, ...]) -> None:
    assert decided(with_halves(*indexes), Resolution.ROLLBACK, 5).is_whole


def test_halves_above_the_covered_count_are_uncovered_and_still_have_to_be_marked() -> None:
    transaction = decided(with_halves(3, 0, 1, 2), Resolution.COMMIT, 2)
    assert list(transaction.covered()) == [101, 102]
    assert transaction.uncovered() == [103, 100]
    assert sorted(transaction.half_offsets()) == [100, 101, 102, 103]


def test_a_transaction_of_one_message_covers_all_it_has() -> None:
    transaction = decided(with_halves(0), Resolution.COMMIT, 1)
    assert transaction.uncovered() == []
    assert transaction.half_offsets() == [100]


def test_without_the_first_message_the_others_are_kept_all_the_same() -> None:
    transaction = with_halves(2)
    assert transaction.half_offsets() == [100]
    assert list(transaction.indexed_halves()) == [(2, 100)]
    assert transaction.message_count == 1


def test_every_half_has_an_index_and_a_copy_counts_as_covered() -> None:
    assert sorted(with_halves(0, 2, 2, 0).indexed_halves()) == [
        (0, 100),
        (0, 102),
        (0, 103),
        (2, 101),
    ]
    assert list(with_halves(0).indexed_halves()) == [(0, 100)]


def test_the_ending_is_the_covered_count_unless_it_is_rolled_back_or_parked() -> None:
    committed = decided(with_halves(0, 1), Resolution.COMMIT, 2)
    assert committed.ending == 2
    committed.parked = True
    assert committed.ending == PARKED
    assert decided(with_halves(0), Resolution.ROLLBACK, 1).ending == ROLLED_BACK


def test_a_decision_is_noted_with_where_it_lies() -> None:
    transaction = decided(with_halves(0), Resolution.COMMIT, 4)
    assert transaction.resolution is Resolution.COMMIT
    assert transaction.covered_count == 4
    assert transaction.decided_op_offset == 9
    assert transaction.state is State.PENDING, "whoever decides also moves it"
