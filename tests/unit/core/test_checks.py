"""When undecided transactions are checked, and what follows: in lawful and in nasty orders."""

import pytest

from halfhitch.core.check_rules import CheckRules
from halfhitch.core.model import PARKED, ROLLED_BACK, HalfOffset, HalfRead, TimestampMs
from harness.attributes import attributes
from harness.defaults import check_rules
from harness.ledger_script import LedgerScript, identity_of

RULES = check_rules(jitter=0.0)
IMMUNITY_MS, INTERVAL_MS = RULES.immunity_ms, RULES.interval_ms


def begun(rules: CheckRules = RULES) -> LedgerScript:
    script = LedgerScript(rules=rules)
    script.tick()
    return script


# -- clocks --------------------------------------------------------------------------------------


def test_one_dated_into_the_future_does_not_keep_the_others_from_being_checked() -> None:
    """A broker's clock was an hour ahead, or ours is an hour behind: the scale is the earlier."""
    script = LedgerScript(rules=RULES)
    script.now_ms += 3_600_000
    script.half("AHEAD")
    script.now_ms -= 3_600_000
    script.half("T1")
    script.pass_time(IMMUNITY_MS + 2_000)
    assert ("T1", 1) in script.due_checks()


def test_one_dated_into_the_future_is_checked_after_its_immunity_and_not_an_hour_later() -> None:
    script = LedgerScript(rules=RULES)
    script.now_ms += 3_600_000
    script.half("AHEAD")
    script.now_ms -= 3_600_000
    script.pass_time(IMMUNITY_MS - 1_000)
    assert script.due_checks() == []
    script.pass_time(3_000)
    assert script.due_checks() == [("AHEAD", 1)]


def test_many_dated_into_the_future_are_not_waited_for_one_after_the_other() -> None:
    script = LedgerScript(rules=RULES)
    script.now_ms += 3_600_000
    for number in range(60):
        script.half(f"AHEAD{number}")
    script.now_ms -= 3_600_000
    script.tick()
    script.half("T1")
    script.pass_time(IMMUNITY_MS + 3_000)
    assert len(script.due_checks(permits=100)) == 61


# -- numbers and their intervals -----------------------------------------------------------------


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_number_that_arrived_after_all_is_followed_by_the_next_after_the_interval(
    is_lost: bool,
) -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.carried_out(permits=1)
    script.report("T1", 1, is_counted=False, is_lost=is_lost)  # it will be sent again soon
    script.report("T1", 1)  # an answer by another way
    script.pass_time(INTERVAL_MS - 1_000)
    assert script.due_checks() == []
    script.pass_time(2_000)
    assert script.due_checks() == [("T1", 2)]


def test_one_that_waits_to_be_sent_again_and_arrived_is_followed_after_the_interval() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.carried_out(permits=1)
    script.report("T1", 1, is_counted=False)
    script.pass_time(2_000)  # it is due again, and nobody is there
    script.report("T1", 1)
    assert script.ledger.checks.again({identity_of("T1")[0]: 5}) == []
    assert script.due_checks() == []
    script.pass_time(INTERVAL_MS - 3_000)
    assert script.due_checks() == []
    script.pass_time(4_000)
    assert script.due_checks() == [("T1", 2)]


def test_a_number_that_a_stranger_has_invented_does_not_stop_the_partition() -> None:
    script = LedgerScript(rules=check_rules(backoff=10.0))
    script.half("T1", check_count=10_000, first_stored_ms=1)
    script.tick(1_000)


# -- who is never woken --------------------------------------------------------------------------


def test_one_whose_check_was_aborted_is_still_renewed() -> None:
    """Its renewal was due in the very step that was aborted."""
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    assert script.plan() is None  # nobody to ask
    script.pass_time(RULES.renew_ms + 1_000)
    assert script.due_checks() == [("T1", 1)], "aborted; then nobody is there any more"
    renewed = 0
    for _ in range(3):
        script.pass_time(RULES.renew_ms + 1_000)
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
    script.pass_time(IMMUNITY_MS + 1_000)
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
    script.pass_time(20_000)
    assert [t.identity[1] for t in script.ledger.checks.given_up(10)] == ["T1"]


def test_one_that_is_being_given_up_is_checked_no_more() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS + 1_000)
    assert script.due_checks() == [("T1", 1)]
    script.tick(RULES.age_ms_max)
    for transaction in script.ledger.checks.given_up(10):
        script.ledger.checks.postpone(transaction)
    assert script.due_checks() == []


# -- memory --------------------------------------------------------------------------------------


def test_those_that_were_decided_while_nobody_was_there_to_ask_are_forgotten() -> None:
    """A group that knows no checks, and takes its time: each of its transactions becomes due."""
    script = begun()
    for number in range(5_000):
        script.half(f"T{number}")
    script.pass_time(IMMUNITY_MS)
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
    script.give_up("T1")
    script.carried_out()
    for _ in range(5_000):
        script.commit("T1")
    step = script.planned()
    assert 0 < len(step.notes) <= 1_000
    assert step.op_watermark <= max(note.op_offset for note in step.notes) + 1


# -- what waits for missing halves ---------------------------------------------------------------


def test_a_commit_whose_copies_are_still_to_be_read_is_never_taken_for_incomplete() -> None:
    """The half log cannot be fetched for a while; all of its messages are there."""
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
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
    script.pass_time(IMMUNITY_MS)
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
    script.pass_time(2_000)
    script.tick(RULES.incomplete_ms + 1_000)
    assert script.transaction("T1").parked
    script.half("T1", 1)
    step = script.planned()
    assert [mark.ending for mark in step.done] == [2]


def test_one_that_became_whole_has_no_timer_left() -> None:
    script = begun()
    script.half("T1")
    script.commit("T1", 2)
    script.pass_time(2_000)
    script.half("T1", 1)
    script.carried_out()
    assert script.ledger.checks.asleep_count == 0


def test_whoever_waits_for_missing_messages_is_parked_only_when_the_half_log_was_read() -> None:
    script = begun()
    script.is_caught_up = False
    script.half("T1")
    script.commit("T1", 2)
    script.pass_time(2_000)
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
    script.pass_time(2_000)
    script.ledger.tick(script.now_ms + RULES.incomplete_ms + 1_000)
    script.half("T1", 1)  # between the two
    script.ledger.end_incomplete()
    assert script.carried_out().done[0].ending == 2


# -- what is said of which number ----------------------------------------------------------------


@pytest.mark.parametrize(("is_counted", "is_lost"), [(True, False), (False, True), (False, False)])
def test_what_is_said_of_an_older_number_says_nothing(is_counted: bool, is_lost: bool) -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.checked("T1")
    script.pass_time(INTERVAL_MS)
    script.carried_out(permits=1)
    transaction = script.transaction("T1")
    before = attributes(transaction)
    for number in (0, 1, 3):
        script.report("T1", number, is_counted=is_counted, is_lost=is_lost)
    assert attributes(transaction) == before
    script.report("T1", 2)
    assert transaction.is_delivered


@pytest.mark.parametrize(("is_lost", "again_s"), [(False, 1), (True, 10)])
def test_what_nobody_took_is_offered_again_soon_and_what_was_lost_a_little_later(
    is_lost: bool, again_s: int
) -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.carried_out(permits=1)
    script.report("T1", 1, is_counted=False, is_lost=is_lost)
    script.tick(again_s * 1_000 - 1)
    assert script.ledger.checks.demand() == {}
    script.tick(65)
    assert script.ledger.checks.demand() == {"orders": 1}


def test_a_check_of_which_nothing_is_heard_is_sent_again_when_its_interval_is_over() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.carried_out(permits=1)
    script.pass_time(INTERVAL_MS - 1_000)
    assert script.ledger.checks.demand() == {}
    script.pass_time(2_000)
    assert script.due_checks() == []
    rooms = {identity_of("T1")[0]: 1}
    assert [t.check_count for t in script.ledger.checks.again(rooms)] == [1]
    assert rooms == {identity_of("T1")[0]: 0}


def test_one_that_was_delivered_late_has_its_next_check_an_interval_after_that() -> None:
    """It was lost at first, and an inbox took it half a minute later."""
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.carried_out(permits=1)
    script.pass_time(50_000)
    transaction = script.transaction("T1")
    script.ledger.checks.reported(
        transaction, 1, "unknown", "p1", is_counted=True, is_lost=False, since_ms=20_000
    )
    assert transaction.due_ms == script.now_ms - 20_000 + INTERVAL_MS
    script.pass_time(39_000)
    assert script.due_checks() == []
    script.pass_time(2_000)
    assert script.due_checks() == [("T1", 2)]


def test_one_that_stands_in_the_wrong_queue_has_no_number_written_before_the_last_arrived() -> None:
    """Hastened, reported a second time, hastened again: it stood in its queue twice."""
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.checked("T1")
    transaction, checks = script.transaction("T1"), script.ledger.checks
    checks.hasten(transaction)
    script.report("T1", 1)
    checks.hasten(transaction)
    assert [order.number for order in script.carried_out(permits=1).copies] == [2]
    script.report("T1", 2, is_counted=False)
    script.pass_time(2_000)
    assert script.plan(permits=1) is None
    assert [t.check_count for t in checks.again({identity_of("T1")[0]: 1})] == [2]


def test_one_that_is_decided_in_the_moment_of_giving_up_is_not_given_up() -> None:
    script = begun(check_rules(jitter=0.0, count_max=1))
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.checked("T1")
    script.pass_time(INTERVAL_MS + 1_000)
    script.commit("T1")
    assert script.ledger.checks.given_up(10) == []


# -- permits and the size of a step --------------------------------------------------------------


def test_no_more_are_sent_again_than_there_are_permits() -> None:
    script = begun()
    for number in range(5):
        script.half(f"T{number}")
    script.pass_time(IMMUNITY_MS)
    script.carried_out(permits=5)
    for number in range(5):
        script.report(f"T{number}", 1, is_counted=False)
    script.pass_time(2_000)
    group = identity_of("T1")[0]
    rooms = {group: 2}
    assert [t.identity[1] for t in script.ledger.checks.again(rooms)] == ["T0", "T1"]
    assert rooms == {group: 0}
    assert script.ledger.checks.again(rooms) == []
    assert [t.identity[1] for t in script.ledger.checks.again({group: 9})] == ["T2", "T3", "T4"]


def test_a_step_checks_no_more_than_there_are_permits_and_takes_them() -> None:
    script = begun()
    for number in range(5):
        script.half(f"T{number}")
    script.pass_time(IMMUNITY_MS)
    group = identity_of("T1")[0]
    rooms = {group: 3}
    step = script.ledger.plan(message_count_max=100, bytes_max=10_000, rooms=rooms)
    assert step is not None
    assert len(step.copies) == 3
    assert rooms == {group: 0}


@pytest.mark.parametrize(
    ("limits", "count"),
    [((10, 10_000), 5), ((100, 100), 5), ((1, 10_000), 1), ((100, 1), 1)],
)
def test_copies_take_half_of_a_step_at_most_but_one_at_least(
    limits: tuple[int, int], count: int
) -> None:
    script = begun()
    for number in range(20):
        script.half(f"T{number}", size_bytes=10)
    script.pass_time(IMMUNITY_MS)
    step = script.planned(message_count_max=limits[0], bytes_max=limits[1], permits=100)
    assert len(step.copies) == count


def test_without_word_of_permits_nobody_is_checked_and_the_old_are_renewed() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    assert script.ledger.plan(message_count_max=100, bytes_max=10_000) is None
    script.tick(RULES.renew_ms)
    script.tick(1_000)
    step = script.ledger.plan(message_count_max=100, bytes_max=10_000)
    assert step is not None
    assert [order.is_check for order in step.copies] == [False]


# -- renewal -------------------------------------------------------------------------------------


def test_one_whose_immunity_is_longer_than_the_renewal_is_renewed_and_not_checked_early() -> None:
    script = begun()
    script.half("T1", immunity_ms=3 * RULES.renew_ms)
    kinds = []
    for _ in range(400):
        script.tick(30_000)
        step = script.plan(permits=1)
        if step is not None:
            kinds += [order.is_check for order in step.copies]
            script.ledger.confirm(step)
            script.read_back(step)
        if True in kinds:
            break
    assert kinds == [False, False, True]
    assert script.now_ms - 1_000_000 >= 3 * RULES.renew_ms


def test_one_that_waits_and_is_being_renewed_is_checked_when_its_copies_were_read() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    assert script.plan() is None  # nobody to ask
    script.tick(RULES.renew_ms)
    script.tick(1_000)
    renewal = script.written()
    assert [order.is_check for order in renewal.copies] == [False]
    assert script.plan(permits=1) is None, "its copies are on their way"
    script.tick(10_000)
    assert script.plan(permits=1) is None
    script.read_back(renewal)
    script.pass_time(2_000)
    assert script.due_checks() == [("T1", 1)]


def test_a_renewal_whose_step_was_aborted_is_made_by_the_next() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.tick(RULES.renew_ms)
    script.tick(1_000)
    step = script.planned()
    script.ledger.abort(step)
    assert [order.is_check for order in script.carried_out().copies] == [False]
    assert script.plan() is None


def test_one_that_waits_to_be_sent_again_and_is_renewed_is_sent_when_its_copies_were_read() -> None:
    script = begun()
    script.half("T1")
    script.pass_time(IMMUNITY_MS)
    script.carried_out(permits=1)
    script.report("T1", 1, is_counted=False)
    script.pass_time(2_000)
    script.tick(RULES.renew_ms)
    script.tick(1_000)
    renewal = script.written()
    assert [order.is_check for order in renewal.copies] == [False]
    checks, group = script.ledger.checks, identity_of("T1")[0]
    assert checks.again({group: 1}) == []
    script.read_back(renewal)
    script.pass_time(2_000)
    (transaction,) = checks.again({group: 1})
    assert [half_offset for _, half_offset in transaction.messages()] == [2]


# -- notes ---------------------------------------------------------------------------------------


def test_notes_that_are_left_for_later_steps_can_be_found_by_a_replay() -> None:
    script = LedgerScript(rules=RULES, horizon_ms=1_000, finished_max=3)
    script.tick()
    script.half("T1")
    script.give_up("T1")
    script.carried_out()
    first = script.commit("T1")
    for _ in range(2_500):
        script.commit("T1")
    noted = 0
    while noted < 2_501:
        step = script.planned()
        noted += len(step.notes)
        if noted < 2_501:
            assert step.op_watermark <= first + noted
        script.ledger.confirm(step)
        script.read_back(step)
        for number in range(4):  # the memory forgets in the meantime
            script.tick(1_000)
            script.done(f"U{noted}-{number}", 1)
    assert noted == 2_501


# -- replay --------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_check", [False, True])
def test_a_replay_that_meets_a_late_duplicate_first_knows_when_it_began(is_check: bool) -> None:
    """A client's retry lies below the copies that were appended since, the first half is gone."""
    script = LedgerScript(rules=check_rules(jitter=0.0))
    script.tick()
    script.half("T1")
    script.pass_time(6_000)
    if not is_check:
        script.tick(3_600_000)
        script.tick(1_000)
    step = script.planned(permits=int(is_check))
    script.half_unread("T1")
    script.ledger.confirm(step)
    script.read_back(step)
    ours = script.transaction("T1")
    heir = script.heir((1, step.op_watermark))
    theirs = heir.transaction("T1")
    for name in ("began_at", "stored_at_ms", "check_count", "first", "resolution"):
        assert getattr(theirs, name) == getattr(ours, name), name
    assert theirs.aged_from_ms == ours.stored_at_ms
    heir.pass_time(2_000)
    if is_check:
        assert abs(theirs.due_ms - ours.due_ms) < 2_000
    heir.commit("T1")
    assert heir.carried_out().done[0].half_offsets == [2, 1]


@pytest.mark.parametrize("given_ms", [7_200_000, -1])
def test_a_late_duplicate_that_a_replay_met_first_changed_the_immunity(given_ms: int) -> None:
    """Seed 622 of the simulation: a check came 9 s before the time that its producer had given."""
    rules = check_rules(jitter=0.0, immunity_ms=5_000_000)
    script = LedgerScript(rules=rules)
    script.tick()
    script.half("T1", immunity_ms=given_ms)
    script.pass_time(6_000)
    script.tick(3_600_000)
    script.tick(1_000)
    step = script.planned(permits=0)  # it is appended anew, not asked about
    script.half_unread("T1", immunity_ms=60_000)
    script.ledger.confirm(step)
    script.read_back(step)
    heir = script.heir((1, step.op_watermark))
    theirs = heir.transaction("T1")
    assert theirs.check_count == 0
    assert theirs.due_ms == (rules.immunity_ms if given_ms < 0 else given_ms)


def test_the_beginning_that_is_learnt_late_moves_no_time_that_is_set_already() -> None:
    script = LedgerScript(rules=RULES, half_position=5)
    script.tick()
    script.half("T1")
    script.pass_time(2_000)
    ours = script.transaction("T1")
    due_ms = ours.due_ms
    copy = HalfRead(
        HalfOffset(6), TimestampMs(script.now_ms), identity_of("T1"), 0, 10,
        immunity_ms=7_200_000, first_stored_ms=1, first_half_offset=2,
    )  # fmt: skip
    script.next_half += 1
    script.halves.append(copy)
    script.ledger.half(copy)
    assert (ours.began_at, ours.stored_at_ms, ours.due_ms) == (2, 1, due_ms)


# -- what is told of -----------------------------------------------------------------------------


@pytest.mark.interpreted("replaces a Final limit, which is built in where it is compiled")
def test_checks_are_behind_while_some_have_grown_old_and_are_not_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("halfhitch.core.checks._TURN_MAX", 2)
    script = LedgerScript(rules=RULES)
    checks = script.ledger.checks
    for number in range(5):
        script.half(f"T{number}")
    assert not checks.is_behind, "the replay is not over"
    script.tick()
    assert not checks.is_behind, "all are young"
    script.now_ms += RULES.doubt_ms
    told = []
    for _ in range(4):
        script.tick()
        told.append((len(checks.changed), checks.is_behind))
    assert told == [(2, True), (4, True), (5, False), (5, False)]
