"""The ledger: what one half partition's records come to, in lawful and in nasty orders."""

from collections.abc import Callable

import pytest

from halfhitch.core import conflicts, early
from halfhitch.core.early import EARLY_MS, KEPT_MS
from halfhitch.core.ledger import Step
from halfhitch.core.model import (
    PARKED,
    ROLLED_BACK,
    ConflictKind,
    ConflictMark,
    DoneMark,
    HalfOffset,
)
from halfhitch.core.standing import Standing
from halfhitch.errors import InvariantViolation
from harness.ledger_script import LedgerScript, identity_of

NOTHING_YET = Step([], [], [], 0, 0, [])
BOTH_ORDERS = pytest.mark.parametrize("ops_first", [False, True], ids=["halves first", "ops first"])


def mark(name: str, ending: int, *half_offsets: int) -> DoneMark:
    return DoneMark(identity_of(name), ending, [HalfOffset(o) for o in half_offsets])


def contrary(name: str, losing: int) -> tuple[str, ConflictKind, int]:
    return name, ConflictKind.CONTRARY, losing


def on_record(marks: list[ConflictMark]) -> list[tuple[str, ConflictKind, int]]:
    return [(lost.identity[1], lost.kind, lost.losing_op_offset) for lost in marks]


# -- the plain way -------------------------------------------------------------------------------


@pytest.mark.parametrize("is_early", [False, True])
def test_a_committed_message_is_forwarded_once_whichever_log_was_read_first(is_early: bool) -> None:
    script = LedgerScript()
    if is_early:
        script.commit("T1")
    script.half("T1")
    if not is_early:
        script.commit("T1")
    step = script.carried_out()
    assert step.forwards == [[0]]
    assert step.done == [mark("T1", 1, 0)]
    assert script.plan() is None


@pytest.mark.parametrize("is_early", [False, True])
def test_a_message_rolled_back_is_never_forwarded(is_early: bool) -> None:
    script = LedgerScript()
    if is_early:
        script.roll_back("T1")
    script.half("T1")
    if not is_early:
        script.roll_back("T1")
    step = script.carried_out()
    assert step.forwards == []
    assert step.done == [mark("T1", ROLLED_BACK, 0)]
    assert script.plan() is None


def test_a_pending_message_stays_where_it_is() -> None:
    script = LedgerScript()
    script.half("T1")
    assert script.plan() is None
    assert script.standing("T1") is Standing.PENDING


def test_transactions_go_in_the_order_in_which_they_became_ready() -> None:
    script = LedgerScript()
    for name in ("T1", "T2", "T3"):
        script.half(name)
    for name in ("T3", "T1", "T2"):
        script.commit(name)
    assert script.carried_out().forwards == [[2], [0], [1]]


def test_a_commit_waits_for_every_half_it_covers_and_goes_by_index() -> None:
    script = LedgerScript()
    script.half("T1", 2)
    script.commit("T1", 3)
    assert script.plan() is None
    assert script.standing("T1") is Standing.COMMITTING
    script.half("T1", 0)
    assert script.plan() is None
    script.half("T1", 1)
    step = script.carried_out()
    assert step.forwards == [[1, 2, 0]]
    assert sorted(step.done[0].half_offsets) == [0, 1, 2]


def test_a_roll_back_does_not_wait_for_halves() -> None:
    script = LedgerScript()
    script.half("T1", 1)
    script.roll_back("T1")
    script.half("T1", 0)
    assert sorted(script.carried_out().done[0].half_offsets) == [0, 1]


# -- copies --------------------------------------------------------------------------------------


def test_copies_before_the_end_collapse_to_one_forward_and_all_are_marked() -> None:
    script = LedgerScript()
    script.half("T1")
    script.half("T1")
    script.commit("T1")
    script.half("T1")
    step = script.carried_out()
    assert step.forwards == [[0]]
    assert step.done == [mark("T1", 1, 0, 1, 2)]


@pytest.mark.parametrize("is_read_back", [True, False])
@pytest.mark.parametrize("ending", [1, ROLLED_BACK, PARKED])
def test_a_late_copy_is_marked_done_and_never_forwarded(ending: int, is_read_back: bool) -> None:
    script = LedgerScript()
    script.half("T1")
    if ending == ROLLED_BACK:
        script.roll_back("T1")
    else:
        script.commit("T1")
    step = script.planned()
    if ending == PARKED:
        step.park(0)
    script.ledger.confirm(step)
    if is_read_back:
        script.read_back(step)
    script.half("T1")
    late = script.written()
    assert late.forwards == []
    assert late.done == [mark("T1", ending, 1)]
    assert late.half_watermark == 2


def test_a_late_copy_has_no_second_mark_when_one_was_read() -> None:
    """It was an owner before us who wrote it."""
    script = LedgerScript()
    script.done("T1", 1)
    script.half("T1")
    script.done("T1", 1, 0)
    assert script.plan() is None


def test_a_mark_of_another_transaction_does_not_finish_a_half() -> None:
    script = LedgerScript()
    script.half("T1")
    script.done("T2", 1, 0)
    script.commit("T1")
    assert script.carried_out().forwards == [[0]]


# -- uncovered -----------------------------------------------------------------------------------


def test_what_a_commit_does_not_cover_is_dropped_and_goes_on_record_once() -> None:
    script = LedgerScript()
    script.half("T1", 0)
    script.half("T1", 1)
    decided = script.commit("T1", 1)
    aborted = script.planned()
    script.ledger.abort(aborted)
    step = script.carried_out()
    assert step.forwards == [[0]]
    assert step.done == [mark("T1", 1, 0, 1)]
    assert [(c.kind, c.losing_op_offset, c.half_offsets) for c in step.conflicts] == [
        (ConflictKind.UNCOVERED, decided, [1])
    ]
    assert script.plan() is None


def test_a_half_that_comes_uncovered_after_the_end_goes_on_record_with_its_mark() -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    script.carried_out()
    script.half("T1", 1)
    step = script.carried_out()
    assert step.forwards == []
    assert [(c.kind, c.half_offsets) for c in step.conflicts] == [(ConflictKind.UNCOVERED, [1])]


# -- several decisions ---------------------------------------------------------------------------


def test_the_first_decision_wins_and_the_contrary_one_goes_on_record_once() -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    losing = script.roll_back("T1")
    script.commit("T1")
    step = script.carried_out()
    assert step.forwards == [[0]]
    assert on_record(step.conflicts) == [contrary("T1", losing)]
    assert script.plan() is None


def test_a_contrary_decision_read_after_the_step_gets_a_step_of_its_own() -> None:
    script = LedgerScript()
    script.half("T1")
    script.roll_back("T1")
    first = script.written()
    losing = script.commit("T1")
    step = script.written()
    assert step.done == []
    assert on_record(step.conflicts) == [contrary("T1", losing)]
    script.read_back(first)
    assert script.plan() is None


def test_the_mark_is_repeated_once_for_all_who_decide_the_same_again() -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    script.carried_out()
    script.commit("T1")
    script.commit("T1")
    step = script.carried_out()
    assert step.forwards == []
    assert step.done == [mark("T1", 1)]
    assert step.conflicts == []
    script.commit("T1")
    assert script.carried_out().done == [mark("T1", 1)]


@pytest.mark.parametrize("ending", [1, ROLLED_BACK, PARKED])
def test_a_contrary_decision_after_the_end_goes_on_record_and_is_answered(ending: int) -> None:
    script = LedgerScript()
    script.done("T1", ending)
    losing = script.commit("T1") if ending == ROLLED_BACK else script.roll_back("T1")
    step = script.carried_out()
    assert step.forwards == []
    assert step.done == [mark("T1", ending)]
    assert on_record(step.conflicts) == [contrary("T1", losing)]
    assert script.plan() is None


def test_a_contrary_decision_already_on_record_is_not_recorded_again() -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    losing = script.roll_back("T1")
    script.conflict("T1", losing)
    assert script.planned().conflicts == []


def test_an_uncovered_on_record_says_nothing_about_a_contrary_decision() -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    losing = script.roll_back("T1")
    script.conflict("T1", losing, ConflictKind.UNCOVERED)
    assert on_record(script.planned().conflicts) == [contrary("T1", losing)]


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_a_flood_of_contrary_decisions_is_spread_over_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conflicts, "CONFLICTS_MAX", 2)
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    losers = [script.roll_back("T1") for _ in range(3)]
    first = script.written()
    assert on_record(first.conflicts) == [contrary("T1", losing) for losing in losers[:2]]
    second = script.written()
    assert on_record(second.conflicts) == [contrary("T1", losers[2])]
    script.read_back(first)
    script.read_back(second)
    assert script.plan() is None


# -- early decisions -----------------------------------------------------------------------------


def test_of_two_early_decisions_the_first_wins() -> None:
    script = LedgerScript()
    script.commit("T1")
    losing = script.roll_back("T1")
    assert script.standing("T1") is Standing.EARLY
    assert script.ledger.early_count == 2
    script.half("T1")
    step = script.carried_out()
    assert step.forwards == [[0]]
    assert on_record(step.conflicts) == [contrary("T1", losing)]


@pytest.mark.parametrize(("age_ms", "counts"), [(EARLY_MS, True), (EARLY_MS + 1, False)])
def test_an_early_decision_counts_for_a_minute_and_no_longer(age_ms: int, counts: bool) -> None:
    script = LedgerScript()
    script.roll_back("T1")
    script.now_ms += age_ms
    script.half("T1")
    script.commit("T1")
    step = script.carried_out()
    assert step.forwards == ([] if counts else [[0]])
    assert script.ledger.unknown_decision_count == (0 if counts else 1)


def test_only_the_first_half_says_when_the_transaction_began() -> None:
    script = LedgerScript()
    script.commit("T1", 2)
    script.half("T1", 0)
    script.now_ms += 2 * EARLY_MS
    script.half("T1", 1)
    assert script.carried_out().forwards == [[0, 1]]


def test_a_strangers_decision_holds_the_op_watermark_until_it_is_forgotten_and_counted() -> None:
    script = LedgerScript(horizon_ms=1)
    stored_at_ms = script.now_ms
    script.commit("stranger")
    script.now_ms += 10 * EARLY_MS
    for number in range(4):  # the memory is short: it holds nothing for long
        script.half(f"T{number}")
        script.commit(f"T{number}")
        assert script.carried_out().op_watermark == 0
        script.now_ms += 1
    script.ledger.expire_early(stored_at_ms + KEPT_MS - 1)
    assert script.standing("stranger") is Standing.EARLY
    script.ledger.expire_early(stored_at_ms + KEPT_MS)
    assert script.standing("stranger") is Standing.UNKNOWN
    assert script.ledger.unknown_decision_count == 1
    assert script.ledger.early_count == 0
    script.half("T9")
    script.commit("T9")
    assert script.planned().op_watermark > 4


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_reading_the_op_log_stops_while_too_many_decisions_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(early, "EARLY_MAX", 2)
    script = LedgerScript()
    script.commit("T1")
    assert script.ledger.reads_op
    script.commit("T2")
    assert not script.ledger.reads_op
    script.half("T1")
    assert script.ledger.reads_op


# -- steps ---------------------------------------------------------------------------------------


def test_a_step_is_cut_by_messages_but_never_within_a_transaction() -> None:
    script = LedgerScript()
    for name in ("T1", "T2", "T3"):
        for index in range(2):
            script.half(name, index)
        script.commit(name, 2)
    step = script.planned(message_count_max=3)
    assert step.forwards == [[0, 1], [2, 3]]
    script.ledger.confirm(step)
    assert script.planned(message_count_max=1).forwards == [[4, 5]]


def test_a_step_is_cut_by_bytes_but_takes_one_however_large() -> None:
    script = LedgerScript()
    for name in ("T1", "T2"):
        script.half(name, size_bytes=1_000)
        script.commit(name)
    step = script.planned(bytes_max=10)
    assert step.forwards == [[0]]
    script.ledger.confirm(step)
    assert script.planned(bytes_max=10).forwards == [[1]]


def test_an_aborted_step_may_be_followed_by_a_smaller_one_with_the_order_kept() -> None:
    script = LedgerScript()
    for name in ("T1", "T2", "T3"):
        script.half(name)
        script.commit(name)
    aborted = script.planned()
    assert aborted.half_watermark == 3
    script.ledger.abort(aborted)
    assert script.standing("T1") is Standing.COMMITTING
    smaller = script.planned(message_count_max=1)
    assert smaller.forwards == [[0]]
    assert smaller.half_watermark == 1
    script.ledger.confirm(smaller)
    rest = script.planned()
    assert rest.forwards == [[1], [2]]
    assert rest.half_watermark == 3


def test_a_parked_transaction_ends_so_and_its_neighbour_is_committed() -> None:
    script = LedgerScript()
    for name in ("T1", "T2"):
        script.half(name)
        script.commit(name)
    step = script.planned()
    step.park(0)
    assert step.done == [mark("T1", PARKED, 0), mark("T2", 1, 1)]
    script.ledger.confirm(step)
    standings = [script.standing("T1"), script.standing("T2")]
    assert standings == [Standing.PARKED, Standing.COMMITTED], "written, not read back"
    script.read_back(step)
    assert [script.standing("T1"), script.standing("T2")] == standings
    assert script.plan() is None


def test_an_aborted_step_takes_its_parking_back() -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    aborted = script.planned()
    aborted.park(0)
    script.ledger.abort(aborted)
    assert script.standing("T1") is Standing.COMMITTING
    assert script.carried_out().done == [mark("T1", 1, 0)]
    assert script.standing("T1") is Standing.COMMITTED


def test_a_contrary_decision_is_recorded_once_by_the_step_that_follows_an_aborted_one() -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    losing = script.roll_back("T1")
    script.ledger.abort(script.planned())
    assert on_record(script.carried_out().conflicts) == [contrary("T1", losing)]
    assert script.plan() is None


@pytest.mark.parametrize(
    "act",
    [
        lambda script: script.half("T2"),
        lambda script: script.commit("T2"),
        lambda script: script.done("T2", 1),
        lambda script: script.conflict("T2", 0),
        lambda script: script.plan(),
    ],
    ids=["half", "decision", "done", "conflict", "plan"],
)
def test_while_a_step_is_out_nothing_else_may_happen(act: Callable[[LedgerScript], object]) -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    step = script.planned()
    positions = script.ledger.positions
    with pytest.raises(InvariantViolation, match="while"):
        act(script)
    assert script.ledger.positions == positions
    assert script.standing("T2") is Standing.UNKNOWN
    script.ledger.confirm(step)
    assert script.standing("T1") is Standing.COMMITTED


@pytest.mark.parametrize("answer", ["confirm", "abort"])
def test_a_step_is_answered_once(answer: str) -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    step = script.planned()
    getattr(script.ledger, answer)(step)
    for again in (script.ledger.confirm, script.ledger.abort):
        with pytest.raises(InvariantViolation, match="not the step that is out"):
            again(step)


# -- watermarks ----------------------------------------------------------------------------------


def test_a_pending_half_holds_both_watermarks_against_those_after_it() -> None:
    script = LedgerScript(finished_max=3)
    script.half("slow")
    for number in range(6):
        script.half(f"T{number}")
        script.commit(f"T{number}")
        script.carried_out()
    script.half("T9")
    script.commit("T9")
    step = script.planned()
    assert step.half_watermark == 0
    assert step.op_watermark == 1, "the mark of half 1 must be found by whoever reads half 1 again"


def test_a_decision_that_waits_for_halves_holds_the_op_watermark_beyond_the_memory() -> None:
    script = LedgerScript(finished_max=3)
    script.half("slow")
    script.roll_back("other")
    script.half("other")
    script.carried_out()
    waiting_from = script.commit("slow", 2)
    for number in range(6):
        script.half(f"T{number}")
        script.commit(f"T{number}")
        script.carried_out()
    script.half("slow", 1)
    step = script.planned(message_count_max=1)
    assert step.forwards == [[0, 8]]
    assert step.half_watermark == 9
    assert step.op_watermark == waiting_from, "its mark was not read back"


def test_the_op_watermark_follows_the_memory_when_nothing_else_holds_it() -> None:
    script = LedgerScript(finished_max=3)
    for number in range(9):
        script.half(f"T{number}")
        script.commit(f"T{number}")
        step = script.carried_out()
    assert step.half_watermark == 9
    assert step.op_watermark > 9


def test_a_late_copy_holds_the_mark_that_knew_it_when_the_memory_rolls_over() -> None:
    script = LedgerScript(finished_max=3)
    script.half("T1")
    script.commit("T1")
    script.carried_out()
    for number in range(4):
        script.half(f"backlog {number}")
        script.commit(f"backlog {number}")
    script.half("T1")
    steps = []
    for _ in range(4):
        step = script.planned(message_count_max=1)
        script.ledger.confirm(step)
        script.read_back(step)
        steps.append(step)
    assert script.standing("T1") is Standing.UNKNOWN, "the memory has rolled over"
    for step in steps:
        assert step.op_watermark <= 1
        heir = script.successor(step, ops_first=False)
        assert heir.standing("T1") is not Standing.PENDING, "it would be a new transaction"
    last = script.carried_out()
    assert last.forwards == []
    assert last.done == [mark("T1", 1, 5)]


def test_records_that_cannot_be_read_are_passed_over_in_both_logs() -> None:
    script = LedgerScript()
    script.ledger.pass_half(0)
    script.ledger.pass_op(0)
    assert script.ledger.positions == (1, 1)
    script.next_half = script.next_op = 1
    script.half("T1")
    script.commit("T1")
    step = script.planned()
    assert step.half_watermark == 2


def test_a_forged_mark_of_the_far_future_does_not_hold_the_op_watermark() -> None:
    script = LedgerScript(finished_max=3)
    script.done("forged", 1, 10**15)
    for number in range(9):
        script.half(f"T{number}")
        script.commit(f"T{number}")
        step = script.carried_out()
    assert step.op_watermark > 0


# -- takeover ------------------------------------------------------------------------------------


@BOTH_ORDERS
def test_a_successor_forwards_nothing_twice_when_the_marks_are_in_the_log(ops_first: bool) -> None:
    script = LedgerScript()
    script.half("slow")
    script.half("T1")
    script.half("T1")
    script.commit("T1")
    step = script.carried_out()
    heir = script.successor(step, ops_first=ops_first)
    if ops_first:  # the halves look late, and are marked once more
        assert heir.carried_out().forwards == []
    assert heir.plan() is None
    assert heir.standing("T1") is Standing.COMMITTED
    assert heir.standing("slow") is Standing.PENDING
    heir.commit("slow")
    assert heir.carried_out().forwards == [[0]]


@BOTH_ORDERS
def test_a_successor_finds_what_was_decided_after_the_step(ops_first: bool) -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    step = script.carried_out()
    script.half("T2")
    script.half("T3")
    script.commit("T2")
    script.roll_back("T3")
    heir = script.successor(step, ops_first=ops_first)
    final = heir.carried_out()
    assert final.forwards == [[1]]
    assert heir.standing("T3") is Standing.ROLLED_BACK


@BOTH_ORDERS
def test_a_successor_records_a_loser_between_the_winner_and_its_mark(ops_first: bool) -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    step = script.written()
    losing = script.roll_back("T1")
    script.read_back(step)
    heir = script.successor(step, ops_first=ops_first)
    final = heir.carried_out()
    assert final.forwards == []
    assert on_record(final.conflicts) == [contrary("T1", losing)]


@BOTH_ORDERS
def test_a_copy_above_the_mark_of_a_predecessor_gets_a_mark_of_its_own(ops_first: bool) -> None:
    script = LedgerScript()
    script.half("T1")
    script.commit("T1")
    step = script.planned()
    script.ledger.confirm(step)
    script.half("T1")  # stored after the step, before its mark is read
    script.half("T1", 1)
    script.read_back(step)
    heir = script.successor(NOTHING_YET, ops_first=ops_first)
    final = heir.carried_out()
    assert final.forwards == []
    marked = {half_offset for one in final.done for half_offset in one.half_offsets}
    assert marked >= {1, 2}
    assert [(c.kind, c.half_offsets) for c in final.conflicts] == [(ConflictKind.UNCOVERED, [2])]
    assert final.half_watermark == 3


def test_a_copy_above_the_mark_of_a_predecessor_holds_the_half_watermark_until_marked() -> None:
    script = LedgerScript()
    script.half("T1")
    script.half("T2")
    script.half("T1")
    script.commit("T2")
    script.done("T1", 1, 0)
    first = script.planned(message_count_max=1)
    assert first.forwards == [[1]]
    assert first.half_watermark == 2
    script.ledger.confirm(first)
    second = script.planned()
    assert second.done == [mark("T1", 1, 2)]
    assert second.half_watermark == 3


def test_a_mark_finishes_what_waits_in_the_queue_and_it_is_not_written_again() -> None:
    script = LedgerScript()
    script.half("T1")
    script.half("T2")
    script.commit("T1")
    script.commit("T2")
    script.done("T1", 1, 0)
    assert script.carried_out().forwards == [[1]]
    assert script.ledger.counts == (0, 0, 0, 2)


def test_a_mark_finishes_what_is_pending_or_still_incomplete() -> None:
    script = LedgerScript()
    script.half("T1")
    script.half("T2")
    script.commit("T2", 2)
    script.done("T1", 1, 0)
    script.done("T2", ROLLED_BACK, 1)
    assert script.plan() is None
    assert script.standing("T1") is Standing.COMMITTED
    assert script.standing("T2") is Standing.ROLLED_BACK
    assert script.ledger.counts == (0, 0, 0, 2)


def test_a_false_winner_of_a_replay_and_its_losers_leave_no_trace() -> None:
    """The true winner lies below where the replay began; that the roll back lost is on record."""
    script = LedgerScript()
    script.half("T1")
    script.roll_back("T1")
    script.commit("T1")
    script.done("T1", 1, 0)
    assert script.plan() is None
    assert script.standing("T1") is Standing.COMMITTED


def test_early_decisions_that_lost_against_a_mark_go_on_record() -> None:
    script = LedgerScript()
    script.commit("T1")
    losing = script.roll_back("T1")
    script.done("T1", 1)
    assert script.ledger.early_count == 0
    step = script.carried_out()
    assert step.done == []
    assert on_record(step.conflicts) == [contrary("T1", losing)]


def test_an_early_decision_before_the_winner_of_a_mark_was_not_meant_for_it() -> None:
    script = LedgerScript()
    script.roll_back("T1")
    script.commit("T1")
    script.done("T1", 1)
    assert script.ledger.early_count == 0
    assert script.plan() is None


def test_a_loser_on_record_cannot_win_a_replay_that_begins_at_it() -> None:
    script = LedgerScript()
    losing = script.roll_back("T1")
    script.conflict("T1", losing)
    script.half("T1")
    assert script.standing("T1") is Standing.PENDING
    assert script.plan() is None


# -- what is known -------------------------------------------------------------------------------


def test_everybody_is_told_where_a_transaction_stands_at_each_moment() -> None:
    script = LedgerScript()
    seen = [script.standing("T1")]
    script.commit("T1", 2)
    seen.append(script.standing("T1"))
    script.half("T1")
    seen.append(script.standing("T1"))
    script.half("T1", 1)
    seen.append(script.standing("T1"))
    step = script.planned()
    seen.append(script.standing("T1"))
    script.ledger.confirm(step)
    seen.append(script.standing("T1"))
    script.read_back(step)
    seen.append(script.standing("T1"))
    assert seen == [
        Standing.UNKNOWN,
        Standing.EARLY,
        Standing.COMMITTING,
        Standing.COMMITTING,
        Standing.COMMITTING,
        Standing.COMMITTED,
        Standing.COMMITTED,
    ]


def test_a_roll_back_is_told_in_its_own_words() -> None:
    script = LedgerScript()
    script.half("T1")
    script.roll_back("T1")
    seen = [script.standing("T1")]
    step = script.written()
    seen.append(script.standing("T1"))
    script.read_back(step)
    seen.append(script.standing("T1"))
    assert seen == [Standing.ROLLING_BACK, Standing.ROLLED_BACK, Standing.ROLLED_BACK]


def test_the_counts_for_people_follow_a_transaction_to_its_end() -> None:
    script = LedgerScript()
    script.commit("T2")
    script.half("T1")
    seen = [script.ledger.counts]
    script.half("T2")
    seen.append(script.ledger.counts)
    step = script.written()
    seen.append(script.ledger.counts)
    script.read_back(step)
    seen.append(script.ledger.counts)
    assert seen == [(1, 0, 1, 0), (1, 1, 0, 0), (1, 0, 0, 0), (1, 0, 0, 1)]


def test_an_id_is_free_again_once_its_memory_is_gone() -> None:
    script = LedgerScript(finished_max=3)
    script.half("T1")
    script.commit("T1")
    script.carried_out()
    for number in range(4):
        script.half(f"other {number}")
        script.roll_back(f"other {number}")
        script.carried_out()
    assert script.standing("T1") is Standing.UNKNOWN
    script.half("T1")
    script.commit("T1")
    assert script.carried_out().forwards == [[5]]
