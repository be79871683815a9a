"""What went wrong in RocketMQ's transactions, and goes right here.

Each test bears the number of the report or pull request of apache/rocketmq that tells the story.
What needs brokers, producers or another instance is shown elsewhere; here it is the ledger's part.
"""

from itertools import pairwise

import pytest

from halfhitch.core.check_rules import CheckRules
from halfhitch.core.model import (
    COPIED,
    GIVEN_UP,
    ConflictKind,
    DoneRead,
    OpOffset,
    Resolution,
    TimestampMs,
)
from halfhitch.core.standing import Standing
from harness.defaults import check_rules
from harness.ledger_script import LedgerScript, identity_of

RULES = check_rules(jitter=0.0)
IMMUNITY_MS, INTERVAL_MS = RULES.immunity_ms, RULES.interval_ms


def begun(rules: CheckRules = RULES) -> LedgerScript:
    script = LedgerScript(rules=rules)
    script.tick()
    return script


def everything_forwarded(script: LedgerScript, *, permits: int = 10) -> list[list[int]]:
    """Steps until nothing is left to be done."""
    forwards: list[list[int]] = []
    while (step := script.plan(permits=permits)) is not None:
        forwards += step.forwards
        script.ledger.confirm(step)
        script.read_back(step)
    return forwards


# -- 8158: decisions without a memory --------------------------------------------------------------


def test_8158_a_second_commit_delivers_nothing() -> None:
    script = begun()
    script.half("T1")
    script.commit("T1")
    script.commit("T1")
    assert everything_forwarded(script) == [[0]]
    script.commit("T1")
    assert everything_forwarded(script) == []
    assert script.standing("T1") is Standing.COMMITTED


@pytest.mark.parametrize("is_carried_out", [False, True])
def test_8158_a_commit_after_a_roll_back_delivers_nothing_and_is_on_record(
    is_carried_out: bool,
) -> None:
    script = begun()
    script.half("T1")
    script.roll_back("T1")
    lost = list[tuple[ConflictKind, int]]()
    if is_carried_out:
        script.carried_out()
    losing = script.commit("T1")
    step = script.carried_out()
    lost += [(mark.kind, mark.losing_op_offset) for mark in step.conflicts]
    assert step.forwards == []
    assert lost == [(ConflictKind.CONTRARY, losing)]
    assert script.standing("T1") is Standing.ROLLED_BACK


def test_8158_a_commit_that_names_the_first_copy_ends_the_copy_that_was_appended_since() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.checked("T1")
    script.commit("T1")  # by the handle of the prepare, with the offset of the first copy
    assert everything_forwarded(script) == [[1]]
    script.pass_time(10 * INTERVAL_MS)
    assert script.due_checks() == []
    assert script.ledger.checks.given_up(10) == []


def test_8158_a_commit_after_the_last_check_delivers_nothing_but_is_kept() -> None:
    script = begun()
    script.half("T1")
    script.give_up("T1")
    script.carried_out()
    script.commit("T1")
    step = script.carried_out()
    assert step.forwards == []
    assert [note.resolution for note in step.notes] == [Resolution.COMMIT]


# -- 2694, 5574: the answer of a check and the end of the local transaction meet -------------------


def test_2694_a_check_says_roll_back_and_a_later_commit_does_not_deliver() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    step = script.written(permits=1)  # the check is out
    script.roll_back("T1")  # its answer
    script.commit("T1")  # the slow local transaction
    script.read_back(step)
    assert everything_forwarded(script) == []
    assert script.standing("T1") is Standing.ROLLED_BACK


@pytest.mark.parametrize("is_checked", [False, True])
def test_5574_however_often_it_is_ended_the_message_is_there_once(is_checked: bool) -> None:
    script = begun()
    script.half("T1")
    if is_checked:
        script.pass_time(IMMUNITY_MS)
        script.checked("T1")
    forwards = []
    for _ in range(5):
        script.commit("T1")
        forwards += everything_forwarded(script)
    assert len(forwards) == 1


# -- 615, 8311, 9320: immunity ---------------------------------------------------------------------


@pytest.mark.parametrize("immunity_ms", [20_000, 600_000, 604_800_000])
def test_615_8311_9320_immunity_neither_writes_anything_nor_burns_a_check(immunity_ms: int) -> None:
    rules = check_rules(jitter=0.0, age_ms_max=10**12, renew_ms=10**12)
    script = begun(rules)
    script.half("T1", immunity_ms=immunity_ms)
    script.pass_time(2_000)
    for _ in range(50):  # fifty passes in which RocketMQ would append and count
        script.tick(immunity_ms // 50 - 100)
        assert script.plan(permits=10) is None
    script.pass_time(6_000)
    assert script.due_checks() == [("T1", 1)], "the very first one"


def test_615_a_commit_in_the_immunity_window_is_the_end_of_it() -> None:
    script = begun()
    script.half("T1", immunity_ms=20_000)
    script.pass_time(12_000)
    script.commit("T1")
    assert everything_forwarded(script) == [[0]]
    script.pass_time(20 * INTERVAL_MS)
    assert script.due_checks() == []


def test_8311_nothing_is_given_up_while_a_decision_lies_further_on_in_the_op_log() -> None:
    """The policy decides by an op record too: whichever comes first in the log counts."""
    script = begun(check_rules(jitter=0.0, count_max=1))
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.checked("T1")
    script.pass_time(INTERVAL_MS)
    assert [t.identity for t in script.ledger.checks.given_up(10)] == [identity_of("T1")]
    script.unread("T1", Resolution.COMMIT)  # it lies there, and was not read yet
    script.give_up("T1")
    step = script.carried_out()
    assert (step.forwards, step.done[0].ending) == ([[1]], 1)


# -- 475, 1789: nobody is there to be asked --------------------------------------------------------


def test_475_1789_an_outage_of_the_producers_burns_no_check_however_long_it_is() -> None:
    script = begun()
    script.half("T1")
    for _ in range(48):
        script.pass_time(1_000)
        script.tick(3_600_000)
        step = script.plan()
        if step is not None:
            assert [order.is_check for order in step.copies] == [False]
            script.ledger.confirm(step)
            script.read_back(step)
    assert script.ledger.checks.given_up(10) == []
    script.pass_time(2_000)
    assert script.due_checks() == [("T1", 1)]


def test_1694_a_check_that_could_not_be_handed_over_is_the_same_check_again() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    step = script.carried_out(permits=1)
    assert [order.number for order in step.copies] == [1]
    for _ in range(100):
        script.report("T1", 1, is_counted=False)
        script.pass_time(2_000)
        rooms = {identity_of("T1")[0]: 1}
        assert [t.check_count for t in script.ledger.checks.again(rooms)] == [1]
        assert script.due_checks() == []
    script.report("T1", 1)
    script.pass_time(INTERVAL_MS)
    assert script.due_checks() == [("T1", 2)]


# -- 9640, 1517, 2360: checks although it was decided ----------------------------------------------


def test_9640_1517_2360_nothing_that_is_committed_is_ever_checked() -> None:
    """Ten thousand, committed at every age and read in bursts."""
    script = begun()
    for burst in range(100):
        for number in range(100):
            script.half(f"T{burst}-{number}")
        if burst >= 5:  # five seconds later, within the immunity
            for number in range(100):
                script.commit(f"T{burst - 5}-{number}")
        while (step := script.plan(permits=1_000)) is not None:
            assert step.copies == []
            script.ledger.confirm(step)
            script.read_back(step)
        script.pass_time(900)
    assert script.ledger.counts[0] == 500


@pytest.mark.parametrize("is_replay", [False, True])
def test_9640_not_three_days_later_either_and_not_after_a_takeover(is_replay: bool) -> None:
    script = begun()
    script.half("OLD")  # holds the half log, so a replay reads T1 again
    script.half("T1")
    script.commit("T1")
    script.carried_out()
    if is_replay:
        script = script.heir((0, 0))
        script.tick()
    script.pass_time(2_000)
    script.tick(3 * 86_400_000)
    assert "T1" not in [name for name, _ in script.due_checks()]


# -- 544: the edge ---------------------------------------------------------------------------------


@pytest.mark.parametrize("offset_ms", [-1, 0, 1, 63, 64, 65, 128])
def test_544_in_the_millisecond_in_which_immunity_ends_nothing_is_lost(offset_ms: int) -> None:
    script = begun()
    script.half("T1")
    script.pass_time(2_000)
    script.tick(IMMUNITY_MS - 2_064 + offset_ms)
    found = script.due_checks()
    assert found in ([], [("T1", 1)])
    if offset_ms < 0:
        assert found == [], "early"
    script.tick(128)
    assert script.due_checks() == [("T1", 1)]


# -- 7240: op records marked as done too early -----------------------------------------------------


def test_7240_a_done_mark_that_speaks_of_several_is_kept_for_the_last_of_them() -> None:
    """One op record names halves of T1 and T2; T3 between them is pending and is checked."""
    script = LedgerScript(rules=RULES, horizon_ms=2_000)
    script.tick()
    for name in ("T1", "T3", "T2"):
        script.half(name)
    script.commit("T2")
    script.commit("T1")
    step = script.written()
    marks = OpOffset(script.next_op)
    for mark in step.done:
        halves = tuple(mark.half_offsets)
        event = DoneRead(marks, TimestampMs(script.now_ms), mark.identity, mark.ending, halves)
        script.ledger.op(event)
        script.ops.append(event)
    script.next_op += 1
    for number in range(5):  # the memory of T1 and T2 is long gone
        script.pass_time(2_000)
        script.half(f"U{number}")
        script.commit(f"U{number}")
        step = script.carried_out()
    assert step.half_watermark == 1, "T3 holds it"
    assert step.op_watermark <= marks, "else a replay takes T2 for a new one"
    heir = script.successor(step, ops_first=False)
    heir.tick()
    assert heir.plan() is None


# -- 9500, 1568: one broken record -----------------------------------------------------------------


def test_9500_1568_records_that_cannot_be_read_stop_nobody_and_hold_nothing() -> None:
    script = begun()
    script.ledger.pass_half(script.next_half)
    script.next_half += 1
    script.half("T1")
    script.ledger.pass_op(script.next_op)
    script.next_op += 1
    script.commit("T1")
    step = script.carried_out()
    assert step.forwards == [[1]]
    assert step.half_watermark == 2


def test_9500_one_that_cannot_be_delivered_is_parked_and_those_behind_it_go_on() -> None:
    script = begun()
    for name in ("BROKEN", "T1", "T2"):
        script.half(name)
        script.commit(name)
    step = script.planned()
    step.park(0)
    script.ledger.confirm(step)
    script.read_back(step)
    assert step.half_watermark == 3
    assert script.standing("BROKEN") is Standing.PARKED
    assert script.standing("T2") is Standing.COMMITTED


def test_9500_what_was_done_in_a_step_is_not_done_again_because_a_later_one_failed() -> None:
    script = begun()
    for name in ("T1", "T2"):
        script.half(name)
        script.commit(name)
    first = script.planned(message_count_max=1)
    script.ledger.confirm(first)
    script.read_back(first)
    second = script.planned()
    script.ledger.abort(second)
    heir = script.successor(first, ops_first=False)
    heir.tick()
    assert heir.planned().forwards == [[1]]


# -- 1543: a load that is never decided ------------------------------------------------------------


def test_1543_pending_ones_are_appended_anew_once_for_each_check_and_not_for_ever() -> None:
    script = begun(check_rules(jitter=0.0, count_max=3))
    for number in range(20):
        script.half(f"T{number}")
    appended = 0
    for _ in range(40):
        script.pass_time(15_000)
        for transaction in script.ledger.checks.given_up(100):
            script.give_up(transaction.identity[1])
        step = script.plan(permits=100)
        if step is None:
            continue
        appended += sum(len(mark.half_offsets) for mark in step.copied)
        script.ledger.confirm(step)
        script.read_back(step)
        for order in step.copies:
            script.report(order.transaction.identity[1], order.transaction.check_count)
    assert appended == 20 * 3
    assert script.ledger.counts[:2] == (0, 0)
    assert script.standing("T7") is Standing.GIVEN_UP


# -- 481, 1565, 500: counts and intervals other than documented ------------------------------------


def test_481_1565_500_fifteen_checks_an_interval_apart_and_then_it_is_given_up() -> None:
    script = begun()
    script.half("T1")
    began_ms = script.now_ms
    at_s = []
    given_up_s = 0
    while not given_up_s:
        script.tick(500)
        passed_s = (script.now_ms - began_ms) // 1_000
        if script.ledger.checks.given_up(1):
            given_up_s = passed_s
        step = script.plan(permits=1)
        if step is not None:
            at_s.append(passed_s)
            assert [mark.ending for mark in step.done + step.copied] == [COPIED]
            script.ledger.confirm(step)
            script.read_back(step)
            script.report("T1", len(at_s))
    assert len(at_s) == 15
    assert at_s[0] == 6
    assert {after - before for before, after in pairwise(at_s)} <= {60, 61}
    assert given_up_s - at_s[-1] in (60, 61)


# -- 598: what was discarded -----------------------------------------------------------------------


def test_598_what_is_put_back_has_all_its_checks_and_is_not_too_old_at_once() -> None:
    """RocketMQ's resumed message keeps its born time, and is discarded again when that is old."""
    script = begun(check_rules(jitter=0.0, count_max=1, age_ms_max=3_600_000))
    script.half("T1")
    script.pass_time(2_000)
    script.tick(3_600_000)
    assert len(script.ledger.checks.given_up(10)) == 1
    script.give_up("T1")
    assert script.carried_out().done[0].ending == GIVEN_UP
    script.tick(5 * 86_400_000)
    script.resume("T1")
    script.pass_time(IMMUNITY_MS)
    assert script.ledger.checks.given_up(10) == []
    assert script.due_checks() == [("T1", 1)]
    script.commit("T1")
    assert everything_forwarded(script) == [[1]]
