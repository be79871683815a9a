"""One transaction: every state with every trigger, and its halves in every order."""

import pytest

from halfhitch.core.model import (
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    HalfOffset,
    OpOffset,
    Resolution,
    TimestampMs,
)
from halfhitch.core.transaction import State, Transaction, Trigger
from halfhitch.errors import InvariantViolation
from harness.attributes import attributes
from harness.ledger_script import identity_of

#: Written down a second time on purpose: a change of the table must be meant.
LEGAL = {
    ("PENDING", "DECIDED"): "AWAITING",
    ("PENDING", "DECIDED_WHOLE"): "READY",
    ("PENDING", "DONE_READ"): "FINISHED",
    ("PENDING", "COPY_PLANNED"): "COPYING",
    ("COPYING", "CONFIRMED"): "PENDING",
    ("COPYING", "ABORTED"): "PENDING",
    ("AWAITING", "COMPLETED"): "READY",
    ("AWAITING", "INCOMPLETE"): "READY",
    ("AWAITING", "DONE_READ"): "FINISHED",
    ("READY", "EXTENDED"): "AWAITING",
    ("READY", "PLANNED"): "WRITING",
    ("READY", "DONE_READ"): "FINISHED",
    ("READY", "PUT_ASIDE"): "ASIDE",
    ("ASIDE", "EXTENDED"): "AWAITING",
    ("ASIDE", "TAKEN_BACK"): "READY",
    ("ASIDE", "COPY_PLANNED"): "RENEWING",
    ("ASIDE", "DONE_READ"): "FINISHED",
    ("RENEWING", "CONFIRMED"): "AWAITING",
    ("RENEWING", "ABORTED"): "ASIDE",
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
    transaction.decide(resolution, covered_count, OpOffset(9), TimestampMs(7))
    return transaction


@pytest.mark.parametrize(("state", "trigger"), list(LEGAL))
def test_a_legal_trigger_leads_where_the_table_says(state: str, trigger: str) -> None:
    transaction = begun(State[state])
    transaction.move(Trigger[trigger])
    assert transaction.state is State[LEGAL[state, trigger]]


@pytest.mark.parametrize(("state", "trigger"), ILLEGAL)
def test_an_illegal_trigger_raises_and_changes_nothing(state: State, trigger: Trigger) -> None:
    transaction = with_halves(0, 1, 1)
    transaction.state = state
    before = attributes(transaction)
    with pytest.raises(InvariantViolation, match=f"{trigger.name} in state {state.name}"):
        transaction.move(trigger)
    assert attributes(transaction) == before


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


@pytest.mark.parametrize("is_parked", [False, True])
def test_what_is_given_up_ends_so_whether_or_not_the_step_parks_it(is_parked: bool) -> None:
    given_up = decided(with_halves(0), Resolution.PARK, 1)
    given_up.parked = is_parked
    assert given_up.ending == GIVEN_UP


# -- appended anew -------------------------------------------------------------------------------


def test_messages_are_told_by_index_without_duplicates() -> None:
    assert with_halves(2, 0, 0, 1).messages() == [(0, 101), (1, 103), (2, 100)]
    assert with_halves(2).messages() == [(2, 100)]
    assert begun().messages() == []


def test_a_half_that_supersedes_takes_the_place_and_the_older_one_is_its_copy() -> None:
    transaction = with_halves(0, 1)
    transaction.take(0, HalfOffset(200), 7, supersedes=True)
    transaction.take(1, HalfOffset(201), 7, supersedes=True)
    assert transaction.messages() == [(0, 200), (1, 201)]
    assert sorted(transaction.half_offsets()) == [100, 101, 200, 201]
    assert transaction.size_bytes == 14, "it is the same two messages"


@pytest.mark.parametrize("index", [0, 3])
def test_a_half_that_supersedes_nothing_is_simply_taken(index: int) -> None:
    transaction = begun()
    transaction.take(index, HalfOffset(200), 7, supersedes=True)
    assert transaction.messages() == [(index, 200)]
    assert transaction.half_offsets() == [200]
    assert transaction.size_bytes == 7


@pytest.mark.parametrize(
    ("half_offset", "messages", "all_offsets"),
    [
        (100, [(1, 101), (2, 102)], [101, 102, 103]),
        (101, [(0, 100), (2, 102)], [100, 102, 103]),
        (103, [(0, 100), (1, 101), (2, 102)], [100, 101, 102]),
        (999, [(0, 100), (1, 101), (2, 102)], [100, 101, 102, 103]),
    ],
)
def test_a_half_that_is_dropped_is_needed_no_more_and_the_others_are(
    half_offset: int, messages: list[tuple[int, int]], all_offsets: list[int]
) -> None:
    transaction = with_halves(0, 1, 2, 0)
    transaction.drop(HalfOffset(half_offset))
    assert transaction.messages() == messages
    assert sorted(transaction.half_offsets()) == all_offsets


def test_dropping_what_is_not_there_changes_nothing() -> None:
    transaction = with_halves(0)
    transaction.drop(HalfOffset(7))
    assert transaction.half_offsets() == [100]


def test_what_is_lifted_has_no_halves_and_misses_each_message_once() -> None:
    transaction = with_halves(0, 1, 1, 2)
    transaction.lift()
    assert transaction.messages() == transaction.half_offsets() == []
    assert (transaction.missing_count, transaction.message_count) == (3, 0)
    assert transaction.size_bytes == 0
    assert not transaction.is_whole


@pytest.mark.parametrize("resolution", [Resolution.ROLLBACK, Resolution.PARK])
def test_what_is_not_delivered_waits_for_its_copies_too(resolution: Resolution) -> None:
    """Their halves must be marked done in the same step."""
    transaction = decided(with_halves(0), resolution, 1)
    assert transaction.is_whole
    transaction.lift()
    assert not transaction.is_whole
    transaction.take(0, HalfOffset(200), 7, supersedes=True)
    transaction.missing_count = 0
    assert transaction.is_whole


def test_a_new_transaction_is_unchecked_and_has_nothing_to_deliver() -> None:
    transaction = begun()
    assert (transaction.check_count, transaction.is_delivered) == (0, True)
    assert (transaction.is_waiting, transaction.is_told) == (False, False)
    assert (transaction.wake_ms, transaction.answer) == (-1, None)


def test_a_decision_is_noted_with_where_and_when_it_was_stored() -> None:
    transaction = decided(with_halves(0), Resolution.COMMIT, 4)
    assert transaction.resolution is Resolution.COMMIT
    assert transaction.covered_count == 4
    assert transaction.decided_op_offset == 9
    assert transaction.decided_ms == 7
    assert transaction.state is State.PENDING, "whoever decides also moves it"
