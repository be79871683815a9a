"""A transaction that was parked is put back: its lives, and what is said of the wrong one."""

import pytest

from halfhitch.core.check_rules import CheckRules
from halfhitch.core.ledger import Ledger, Step
from halfhitch.core.model import (
    GIVEN_UP,
    ROLLED_BACK,
    ConflictKind,
    DecisionRead,
    HalfOffset,
    HalfRead,
    OpOffset,
    Resolution,
    ResolutionSource,
    TimestampMs,
)
from halfhitch.core.standing import Standing
from harness.attributes import attributes
from harness.defaults import check_rules
from harness.ledger_script import LedgerScript, identity_of

RULES = check_rules(jitter=0.0)
IMMUNITY_MS, INTERVAL_MS = RULES.immunity_ms, RULES.interval_ms


def begun(rules: CheckRules = RULES) -> LedgerScript:
    script = LedgerScript(rules=rules)
    script.tick()
    return script


# -- decisions about what was given up -----------------------------------------------------------


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_decision_between_giving_up_and_its_mark_is_noted_after_a_crash(is_commit: bool) -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    step = script.planned()
    script.ledger.confirm(step)
    # It is appended before the step commits, and read by nobody who lives to tell.
    op_offset = script.commit("T1") if is_commit else script.roll_back("T1")
    script.store(step)
    heir = script.successor(step, ops_first=False)
    heir.tick()
    found = heir.planned()
    assert [(note.identity[1], note.op_offset) for note in found.notes] == [("T1", op_offset)]
    assert found.conflicts == []


# -- putting back --------------------------------------------------------------------------------


def parked_with_a_replay_ahead() -> LedgerScript:
    """T1 was checked, given up and can be put back; an older one holds both watermarks."""
    script = begun()
    script.half("OLD")
    script.half("T1")
    script.half("T1")  # a copy
    script.pass_time(IMMUNITY_MS)
    while script.transaction("T1").check_count < 3:
        script.ledger.checks.hasten(script.transaction("T1"))
        for order in script.carried_out(permits=5).copies:
            script.report(order.transaction.identity[1], order.number)
    script.give_up("T1")
    script.carried_out()
    return script


SOON_OR_LATE = pytest.mark.parametrize("passed_ms", [1_000, 120_000])


@SOON_OR_LATE
def test_a_replay_knows_the_checks_of_the_new_life_and_only_those(passed_ms: int) -> None:
    script = parked_with_a_replay_ahead()
    script.tick(passed_ms)
    script.resume("T1")
    assert script.transaction("T1").check_count == 0
    assert script.heir((0, 0)).transaction("T1").check_count == 0
    script.pass_time(IMMUNITY_MS)
    script.checked("T1")
    heir = script.heir((0, 0))
    heir.tick()
    assert heir.transaction("T1").check_count == 1
    assert heir.transaction("T1").is_delivered is False


@SOON_OR_LATE
def test_a_replay_knows_the_immunity_of_the_new_life(passed_ms: int) -> None:
    script = parked_with_a_replay_ahead()
    script.tick(passed_ms)
    script.resume("T1", immunity_ms=600_000)
    heir = script.heir((0, 0))
    heir.pass_time(300_000)
    assert ("T1", 1) not in heir.due_checks()
    heir.pass_time(310_000)
    assert ("T1", 1) in heir.due_checks()


@SOON_OR_LATE
@pytest.mark.parametrize("born", [None, Resolution.COMMIT, Resolution.ROLLBACK])
def test_live_and_on_replay_the_new_life_is_the_same(
    passed_ms: int, born: Resolution | None
) -> None:
    script = parked_with_a_replay_ahead()
    script.tick(passed_ms)
    script.resume("T1", indexes=(0, 1), born=born)
    heir = script.heir((0, 0))
    ours, theirs = script.transaction("T1"), heir.transaction("T1")
    for transaction in (ours, theirs):
        transaction.aged_from_ms = transaction.decided_op_offset = 0  # type: ignore[assignment]
        transaction.is_told = False
        transaction.wake_ms = -1
    assert attributes(ours) == attributes(theirs)
    assert script.ledger.counts[:3] == heir.ledger.counts[:3]


def undeliverable(script: LedgerScript) -> Step:
    """T1 is committed and parked; all of it was read back."""
    script.half("T1")
    script.commit("T1")
    parking = script.planned()
    parking.park(0)
    script.ledger.confirm(parking)
    script.read_back(parking)
    return parking


def test_what_is_put_back_with_its_decision_needs_no_other() -> None:
    script = begun()
    undeliverable(script)
    script.resume("T1", indexes=(0, 1, 2), born=Resolution.COMMIT)
    assert script.standing("T1") is Standing.COMMITTING
    assert script.carried_out().forwards == [[1, 2, 3]]
    assert script.standing("T1") is Standing.COMMITTED


def test_what_is_put_back_with_its_decision_waits_for_all_that_it_covers() -> None:
    script = begun()
    undeliverable(script)
    script.half("U1")
    fence = script.append(None)
    for index in (1, 0):
        event = HalfRead(
            HalfOffset(script.next_half),
            TimestampMs(script.now_ms),
            identity_of("T1"),
            index,
            10,
            first_stored_ms=0,
            resumed_count=1,
            fence=fence,
            born=Resolution.COMMIT,
            born_count=2,
        )
        assert script.plan() is None
        script._read_half(event)
    assert script.planned().forwards == [[3, 2]]


def test_what_is_put_back_rolled_back_is_dropped() -> None:
    script = begun()
    undeliverable(script)
    script.resume("T1", born=Resolution.ROLLBACK)
    step = script.carried_out()
    assert (step.forwards, step.done[0].ending) == ([], ROLLED_BACK)


def test_a_repeated_mark_of_the_life_before_does_not_undo_a_decision() -> None:
    """A late decision, and at the same time somebody puts it back with a decision."""
    script = begun()
    undeliverable(script)
    script.commit("T1")  # it gets a repeated mark
    repeat = script.planned()
    script.ledger.confirm(repeat)
    script.resume("T1")
    script.commit("T1")  # of the new life, and the repeated mark lies behind it
    script.read_back(repeat)
    assert script.standing("T1") is Standing.COMMITTING
    assert script.planned().forwards == [[1]]


@pytest.mark.parametrize("born", [None, Resolution.COMMIT])
def test_a_repeated_mark_of_the_life_before_does_not_bring_back_what_is_written(
    born: Resolution | None,
) -> None:
    script = begun()
    undeliverable(script)
    script.commit("T1")
    repeat = script.planned()
    script.ledger.confirm(repeat)
    script.resume("T1", born=born)
    script.commit("T1")
    forward = script.planned()
    assert forward.forwards == [[1]]
    script.ledger.confirm(forward)
    script.read_back(repeat)  # only now
    script.commit("T1")  # a client that asks once more
    again = script.plan()
    assert again is None or again.forwards == []
    assert script.ledger.counts[:2] == (0, 0)


def test_a_repeated_mark_that_is_read_in_the_next_life_lets_the_op_watermark_go() -> None:
    script = LedgerScript(rules=RULES, horizon_ms=2_000)
    script.tick()
    script.half("T1")
    script.give_up("T1")
    script.carried_out()
    late = script.commit("T1")  # noted, and answered by a repeated mark
    repeat = script.planned()
    script.ledger.confirm(repeat)
    script.resume("T1")
    script.read_back(repeat)
    for number in range(20):
        script.tick(1_000)
        script.half(f"U{number}")
        script.commit(f"U{number}")
        step = script.carried_out()
    assert step.half_watermark == 1, "T1 is pending again"
    assert step.op_watermark > late


@pytest.mark.parametrize("is_replay", [False, True])
@pytest.mark.parametrize("resolution", list(Resolution))
def test_what_was_committed_and_put_back_is_not_ended_by_an_older_decision(
    resolution: Resolution, is_replay: bool
) -> None:
    """It lies in the op log before the resumption, but the half log is read first."""
    script = begun()
    parking = undeliverable(script)
    script.unread("T1", resolution)
    script.resume("T1", born=Resolution.COMMIT)
    script.read_ops()
    if is_replay:
        script = script.successor(parking, ops_first=False)
        script.tick()
    assert script.standing("T1") is Standing.COMMITTING
    step = script.planned()
    assert len(step.forwards) == 1
    is_contrary = resolution is Resolution.ROLLBACK
    assert [mark.kind for mark in step.conflicts] == [ConflictKind.CONTRARY] * is_contrary
    assert step.notes == []


@pytest.mark.parametrize("is_replay", [False, True])
def test_what_is_put_back_undecided_takes_a_late_decision_but_no_older_giving_up(
    is_replay: bool,
) -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    parking = script.carried_out()
    script.unread("T1", Resolution.PARK)
    script.resume("T1")
    script.read_ops()
    assert script.standing("T1") is Standing.PENDING
    script.unread("T1", Resolution.COMMIT)  # after it was put back
    script.read_ops()
    if is_replay:
        script = script.successor(parking, ops_first=False)
        script.tick()
    assert script.standing("T1") is Standing.COMMITTING


def test_a_late_decision_that_nobody_noted_before_it_was_put_back_counts() -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    script.carried_out()
    script.unread("T1", Resolution.COMMIT)
    script.resume("T1")
    script.read_ops()
    assert script.standing("T1") is Standing.COMMITTING


def test_one_put_back_before_the_mark_that_it_is_parked_was_read_lives() -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    parking = script.written()
    script.store(parking)
    script.resume("T1")
    script.read_ops()
    assert script.standing("T1") is Standing.PENDING
    assert script.ledger.counts == (1, 0, 0, 0)
    script.commit("T1")
    assert script.carried_out().forwards == [[1]]
    assert script.ledger.counts[:3] == (0, 0, 0)


def test_a_copy_of_a_former_life_is_marked_and_changes_nothing() -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    script.carried_out()
    script.resume("T1")
    script.half("T1")  # a producer's very late retry
    late = script.carried_out()
    assert late.forwards == []
    assert [mark.half_offsets for mark in late.done] == [[2]]
    assert script.standing("T1") is Standing.PENDING
    script.commit("T1")
    assert script.carried_out().forwards == [[1]]


def test_a_late_mark_of_a_former_life_does_not_change_how_the_present_one_has_ended() -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    script.carried_out()
    script.resume("T1")
    script.commit("T1")
    script.half("T1")  # its mark goes into the same step, behind that of the commit
    step = script.carried_out()
    assert [mark.ending for mark in step.done] == [1, GIVEN_UP]
    assert script.standing("T1") is Standing.COMMITTED
    script.roll_back("T1")
    lost = script.planned()
    assert (len(lost.conflicts), lost.notes) == (1, [])


def test_one_that_was_put_back_twice_at_once_is_committed_once() -> None:
    """Two operators: the second one's halves are read when all is over."""
    script = begun()
    undeliverable(script)
    script.resume("T1", born=Resolution.COMMIT)
    assert script.carried_out().forwards == [[1]]
    script.resume("T1", born=Resolution.COMMIT)
    step = script.carried_out()
    assert (step.forwards, [mark.half_offsets for mark in step.done]) == ([], [[2]])
    assert script.standing("T1") is Standing.COMMITTED


@pytest.mark.parametrize("life", [0, 1])
@pytest.mark.parametrize("is_replay", [False, True])
def test_a_decision_that_names_the_first_copy_counts_although_the_brokers_clock_went_back(
    life: int, is_replay: bool
) -> None:
    script = begun()
    script.half("T1")
    if life:
        script.give_up("T1")
        script.carried_out()
        script.resume("T1")
    script.pass_time(IMMUNITY_MS)
    step = script.carried_out(permits=1)
    where = OpOffset(script.next_op), TimestampMs(script.now_ms - 7_200_000)
    source = ResolutionSource.PRODUCER
    late = DecisionRead(*where, identity_of("T1"), Resolution.COMMIT, 1, source, half_hint=life)
    if is_replay:
        script = script.successor(step, ops_first=False)
        script.tick()
    script.append(late)
    script.read_ops()
    assert script.standing("T1") is Standing.COMMITTING


def test_a_replay_of_two_lives_that_were_born_decided_knows_which_one_is_over() -> None:
    script = begun()
    undeliverable(script)
    script.resume("T1", born=Resolution.COMMIT)
    parking = script.planned()
    parking.park(0)
    script.ledger.confirm(parking)
    script.read_back(parking)
    script.resume("T1", 2, born=Resolution.COMMIT)
    heir = script.heir((0, 0))
    assert heir.standing("T1") is Standing.COMMITTING
    assert heir.ledger.counts[:2] == script.ledger.counts[:2] == (0, 1)
    heir.tick()
    assert heir.planned().forwards == [[2]]


def test_a_transaction_can_be_put_back_again_and_again() -> None:
    script = begun()
    script.half("T1")
    for count in range(1, 5):
        script.give_up("T1")
        script.carried_out()
        assert script.standing("T1") is Standing.GIVEN_UP
        script.resume("T1", count)
        assert script.standing("T1") is Standing.PENDING
        heir = script.heir((0, 0))
        assert heir.standing("T1") is Standing.PENDING
        assert heir.ledger.counts[:2] == (1, 0)
        heir.tick()
        assert heir.plan() is None, "what was of former lives is done"
    script.commit("T1")
    assert script.carried_out().forwards == [[4]]


def test_a_decision_of_long_before_is_not_noted_beside_what_was_given_up() -> None:
    """The id was used before, and rolled back when its prepare had failed; the halves are gone."""
    script = begun()
    script.half("OLD")
    script.unread("T1", Resolution.ROLLBACK)
    script.read_ops()
    script.tick(70_000)
    script.half("T1")
    script.give_up("T1")
    step = script.written()
    script.store(step)
    heir = script.heir((2, 0))
    heir.tick()
    found = heir.plan()
    assert found is None or found.notes == []


def test_a_replay_that_has_seen_the_older_copy_learns_the_decision_from_the_renewed_one() -> None:
    """Its decision may lie below where the op log is read from: the halves carry it."""
    ledger = Ledger(
        half_position=0, op_position=0, horizon_ms=900_000, finished_max=1_000, rules=RULES
    )
    where = TimestampMs(1), identity_of("T1"), 0, 7
    ledger.half(HalfRead(HalfOffset(0), *where))
    assert ledger.standing(identity_of("T1")) is Standing.PENDING
    renewed = HalfRead(
        HalfOffset(1),
        *where,
        first_stored_ms=1,
        first_half_offset=0,
        born=Resolution.COMMIT,
        born_count=1,
    )
    ledger.half(renewed)
    assert ledger.standing(identity_of("T1")) is Standing.COMMITTING
    step = ledger.plan(message_count_max=10, bytes_max=1_000)
    assert step is not None
    assert (step.forwards, step.done[0].half_offsets) == ([[1]], [1, 0])
