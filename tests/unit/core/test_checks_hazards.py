"""Check-back in nasty orders: what must not be lost, doubled, hastened or kept for ever."""

import pytest

from halfhitch.core.check_rules import CheckRules
from halfhitch.core.ledger import Step
from halfhitch.core.model import (
    GIVEN_UP,
    PARKED,
    ROLLED_BACK,
    DoneMark,
    HalfOffset,
    HalfRead,
    Resolution,
    Standing,
    TimestampMs,
)
from halfhitch.core.transaction import Transaction
from harness.ledger_script import LedgerScript, identity_of

RULES = CheckRules(jitter=0.0)
IMMUNITY_MS, INTERVAL_MS = RULES.immunity_ms, RULES.interval_ms
BUCKET_MS = 64


def begun(rules: CheckRules = RULES) -> LedgerScript:
    script = LedgerScript(rules=rules)
    script.tick()
    return script


def settle_in(script: LedgerScript, passed_ms: int) -> None:
    """Time passes in turns of a second."""
    for _ in range(passed_ms // 1_000):
        script.tick(1_000)
    script.tick(passed_ms % 1_000 + BUCKET_MS)


def checked(script: LedgerScript, name: str) -> int:
    """One check is written, delivered and answered with nothing; its number."""
    while True:
        step = script.carried_out(permits=1)
        (order,) = step.copies
        if order.transaction.identity[1] == name:
            report(script, name, order.number)
            return order.number


def report(
    script: LedgerScript, name: str, number: int, *, is_counted: bool = True, is_lost: bool = False
) -> None:
    script.ledger.checks.reported(
        script.transaction(name), number, "unknown", "p1", is_counted=is_counted, is_lost=is_lost
    )


def numbers(script: LedgerScript, permits: int = 10) -> list[tuple[str, int]]:
    """What the next step would check; the step is aborted."""
    step = script.plan(permits=permits)
    if step is None:
        return []
    found = [(o.transaction.identity[1], o.number) for o in step.copies if o.is_check]
    script.ledger.abort(step)
    return found


def given_up_and_stored(script: LedgerScript, name: str) -> DoneMark:
    script.give_up(name)
    return script.carried_out().done[0]


# -- clocks --------------------------------------------------------------------------------------


def test_one_dated_into_the_future_does_not_keep_the_others_from_being_checked() -> None:
    """A broker's clock was an hour ahead, or ours is an hour behind: the scale is the earlier."""
    script = LedgerScript(rules=RULES)
    script.now_ms += 3_600_000
    script.half("AHEAD")
    script.now_ms -= 3_600_000
    script.half("T1")
    settle_in(script, IMMUNITY_MS + 2_000)
    assert ("T1", 1) in numbers(script)


def test_one_dated_into_the_future_is_checked_after_its_immunity_and_not_an_hour_later() -> None:
    script = LedgerScript(rules=RULES)
    script.now_ms += 3_600_000
    script.half("AHEAD")
    script.now_ms -= 3_600_000
    settle_in(script, IMMUNITY_MS - 1_000)
    assert numbers(script) == []
    settle_in(script, 3_000)
    assert numbers(script) == [("AHEAD", 1)]


def test_many_dated_into_the_future_are_not_waited_for_one_after_the_other() -> None:
    script = LedgerScript(rules=RULES)
    script.now_ms += 3_600_000
    for number in range(60):
        script.half(f"AHEAD{number}")
    script.now_ms -= 3_600_000
    script.tick()
    script.half("T1")
    settle_in(script, IMMUNITY_MS + 3_000)
    assert len(numbers(script, permits=100)) == 61


# -- numbers and their intervals -----------------------------------------------------------------


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_number_that_arrived_after_all_is_followed_by_the_next_after_the_interval(
    is_lost: bool,
) -> None:
    script = begun()
    script.half("T1")
    settle_in(script, IMMUNITY_MS)
    script.carried_out(permits=1)
    report(script, "T1", 1, is_counted=False, is_lost=is_lost)  # it will be sent again soon
    report(script, "T1", 1)  # an answer by another way
    settle_in(script, INTERVAL_MS - 1_000)
    assert numbers(script) == []
    settle_in(script, 2_000)
    assert numbers(script) == [("T1", 2)]


def test_one_that_waits_to_be_sent_again_and_arrived_is_followed_after_the_interval() -> None:
    script = begun()
    script.half("T1")
    settle_in(script, IMMUNITY_MS)
    script.carried_out(permits=1)
    report(script, "T1", 1, is_counted=False)
    settle_in(script, 2_000)  # it is due again, and nobody is there
    report(script, "T1", 1)
    assert script.ledger.checks.again({identity_of("T1")[0]: 5}) == []
    assert numbers(script) == []
    settle_in(script, INTERVAL_MS - 3_000)
    assert numbers(script) == []
    settle_in(script, 4_000)
    assert numbers(script) == [("T1", 2)]


def test_a_number_that_a_stranger_has_invented_does_not_stop_the_partition() -> None:
    script = LedgerScript(rules=CheckRules(backoff=10.0))
    script.half("T1", check_count=10_000, first_stored_ms=1)
    script.tick(1_000)


# -- who is never woken --------------------------------------------------------------------------


def test_one_whose_check_was_aborted_is_still_renewed() -> None:
    """Its renewal was due in the very step that was aborted."""
    script = begun()
    script.half("T1")
    settle_in(script, IMMUNITY_MS)
    assert script.plan() is None  # nobody to ask
    settle_in(script, RULES.renew_ms + 1_000)
    assert numbers(script) == [("T1", 1)]  # planned and aborted; then the producers are gone again
    renewed = 0
    for _ in range(3):
        settle_in(script, RULES.renew_ms + 1_000)
        step = script.plan()
        if step is not None:
            renewed += len(step.copies)
            script.ledger.confirm(step)
            script.read_back(step)
    assert renewed >= 2


def test_one_that_is_to_be_given_up_while_its_copies_are_on_their_way_waits_for_them() -> None:
    """Whoever gives it up names its halves; so many are given up at once that it waits a turn."""
    script = begun()
    script.half("T1")
    settle_in(script, IMMUNITY_MS + 1_000)
    script.tick(RULES.age_ms_max)
    assert script.ledger.checks.hasten(script.transaction("T1"))
    step = script.plan(permits=1)
    if step is not None:
        script.ledger.confirm(step)
    for transaction in script.ledger.checks.given_up(10):
        assert transaction.messages()
        script.ledger.checks.postpone(transaction)
    if step is not None:
        script.read_back(step)
    settle_in(script, 20_000)
    assert [t.identity[1] for t in script.ledger.checks.given_up(10)] == ["T1"]


def test_one_that_is_being_given_up_is_checked_no_more() -> None:
    script = begun()
    script.half("T1")
    settle_in(script, IMMUNITY_MS + 1_000)
    assert numbers(script) == [("T1", 1)]
    script.tick(RULES.age_ms_max)
    for transaction in script.ledger.checks.given_up(10):
        script.ledger.checks.postpone(transaction)
    assert numbers(script) == []


# -- memory --------------------------------------------------------------------------------------


def test_those_that_were_decided_while_nobody_was_there_to_ask_are_forgotten() -> None:
    """A group that knows no checks, and takes its time: each of its transactions becomes due."""
    script = begun()
    for number in range(5_000):
        script.half(f"T{number}")
    settle_in(script, IMMUNITY_MS)
    for number in range(5_000):
        script.commit(f"T{number}")
    for _ in range(5):
        script.carried_out()
    script.tick(60_000)
    assert script.ledger.counts[:2] == (0, 0)
    checks = script.ledger.checks
    assert checks.counts()[0] < 2_500
    assert sum(checks.demand().values()) < 2_500


def test_a_flood_of_late_decisions_does_not_make_a_step_too_large() -> None:
    script = begun()
    script.half("T1")
    given_up_and_stored(script, "T1")
    for _ in range(5_000):
        script.commit("T1")
    step = script.planned()
    assert 0 < len(step.notes) <= 1_000
    assert step.op_watermark <= max(note.op_offset for note in step.notes) + 1


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
    settle_in(script, IMMUNITY_MS)
    while script.transaction("T1").check_count < 3:
        script.ledger.checks.hasten(script.transaction("T1"))
        for order in script.carried_out(permits=5).copies:
            report(script, order.transaction.identity[1], order.number)
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
    settle_in(script, IMMUNITY_MS)
    checked(script, "T1")
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
    settle_in(heir, 300_000)
    assert ("T1", 1) not in numbers(heir)
    settle_in(heir, 310_000)
    assert ("T1", 1) in numbers(heir)


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
    assert [getattr(ours, name) for name in Transaction.__slots__] == [
        getattr(theirs, name) for name in Transaction.__slots__
    ]
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
    assert (step.conflicts, step.notes) == ([], [])


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


# -- what waits for missing halves ---------------------------------------------------------------


def test_a_commit_whose_copies_are_still_to_be_read_is_never_taken_for_incomplete() -> None:
    """The half log cannot be fetched for a while; all of its messages are there."""
    script = begun()
    script.half("T1")
    settle_in(script, IMMUNITY_MS)
    step = script.written(permits=1)
    assert [order.number for order in step.copies] == [1]
    script.commit("T1")
    script.tick(RULES.incomplete_ms + 1_000)
    assert script.plan() is None, "parked without its message"
    script.read_back(step)
    assert script.planned().forwards == [[1]]


def test_a_roll_back_whose_copies_are_still_to_be_read_ends_rolled_back() -> None:
    script = begun()
    script.half("T1")
    settle_in(script, IMMUNITY_MS)
    step = script.written(permits=1)
    script.roll_back("T1")
    script.tick(RULES.incomplete_ms + 1_000)
    planned = script.plan()
    assert planned is None or planned.done[0].ending == ROLLED_BACK
    del step


def test_one_that_became_whole_before_the_step_is_not_parked_as_incomplete() -> None:
    script = begun()
    script.half("T1")
    script.commit("T1", 2)
    settle_in(script, 2_000)
    script.tick(RULES.incomplete_ms + 1_000)
    assert script.transaction("T1").parked
    script.half("T1", 1)
    step = script.planned()
    assert [mark.ending for mark in step.done] == [2]


def test_one_that_became_whole_has_no_timer_left() -> None:
    script = begun()
    script.half("T1")
    script.commit("T1", 2)
    settle_in(script, 2_000)
    script.half("T1", 1)
    script.carried_out()
    assert script.ledger.checks.asleep_count == 0


def test_whoever_waits_for_missing_messages_is_parked_only_when_the_half_log_was_read() -> None:
    script = begun()
    script.is_caught_up = False
    script.half("T1")
    script.commit("T1", 2)
    settle_in(script, 2_000)
    for _ in range(3):
        script.tick(RULES.incomplete_ms + 1_000)
        assert script.plan() is None
    script.is_caught_up = True
    script.tick(RULES.incomplete_ms + 1_000)
    step = script.carried_out()
    assert (step.forwards, step.done[0].ending) == ([[0]], PARKED)


def test_one_that_was_finished_while_it_counted_as_incomplete_is_left_alone() -> None:
    script = begun()
    script.half("T1")
    script.commit("T1", 2)
    settle_in(script, 2_000)
    script.ledger.tick(script.now_ms + RULES.incomplete_ms + 1_000)
    script.half("T1", 1)  # between the two
    script.ledger.end_incomplete(is_caught_up=True)
    assert script.carried_out().done[0].ending == 2
