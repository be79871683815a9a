"""Every class of violations: found when it is there, and nothing found in a faultless run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from chaos.kit.checker import INVARIANTS, REQUIRED, Limits
from chaos.kit.history import Outcome
from chaos.kit.invented import (
    IMMUNITY_MS,
    INTERVAL_MS,
    OTHER,
    PARTITION_COUNT,
    TARGET,
    Invented,
    spoiled,
)
from chaos.kit.judges_content import CONTENT
from chaos.kit.judges_course import COURSE
from chaos.kit.readers import Seen, Stall
from harness.checkers import Fate

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.kit.history import Identity

CLOCK_SLACK_MS = Limits().clock_slack_ms


def whole_run() -> Invented:
    """Something of everything that can lawfully happen."""
    run = Invented()
    for n in range(3):
        run.transaction(f"C{n}", Fate.COMMITTED)
        run.transaction(f"R{n}", Fate.ROLLED_BACK)
    run.give_up(run.prepare("N"), 2)
    contested = run.prepare("both")
    run.end(contested, Fate.COMMITTED)
    run.end(contested, Fate.ROLLED_BACK, Outcome.INFO)
    run.decide(contested, "r")
    run.decide(contested, "c")
    run.conflict(contested, run.op[-1].log_offset)
    run.done(contested, 0)
    checked = run.prepare("X")
    run.tick(IMMUNITY_MS)
    run.copy(checked, 1)
    run.asked(checked, 1, "COMMIT")
    run.end(checked, Fate.COMMITTED, Outcome.INFO)
    run.decide(checked, "c", source="check")
    run.forward(checked)
    run.done(checked, 2)
    run.sample()
    return run


def test_a_faultless_run_is_green() -> None:
    run = whole_run()
    report = run.report(
        required=("prepares_acked", "commits_acked", "rollbacks_acked", "checks", "parked")
    )
    assert report.verdict == "green", str(report)
    assert report.counters["decided_by_check"] == 1
    assert report.counters["contested"] == 1
    assert report.counters["conflicts"] == 1
    assert report.counters["copies"] == 6
    assert report.counters["committed"] == 4
    assert report.counters["rolled_back"] == 4


def test_every_class_has_its_judge_and_its_promises() -> None:
    assert set(INVARIANTS) == set(CONTENT) | set(COURSE)
    assert not set(CONTENT) & set(COURSE)
    assert all(INVARIANTS.values())


# -- one thing spoiled at a time -----------------------------------------------------------------

SPOILS: list[tuple[set[str], Callable[[Invented], Any]]] = []


def red(*classes: str) -> Callable[[Callable[[Invented], Any]], Callable[[Invented], Any]]:
    """What is spoiled so is found by exactly these classes."""

    def note(spoil: Callable[[Invented], Any]) -> Callable[[Invented], Any]:
        SPOILS.append((set(classes), spoil))
        return spoil

    return note


def record(run: Invented, name: str, index: int = 0) -> int:
    """Where a message of the final reading stands in its list."""
    ids = [(dict(s.headers)["UNIQ_KEY"], s.value) for s in run.final]
    return ids.index((name.encode(), f"{name} {index}".encode()))


def drop(run: Invented, at: int) -> None:
    """Nobody has ever seen it."""
    del run.final[at]


@red("lost")
def a_committed_message_is_nowhere(run: Invented) -> None:
    for index in (0, 1):
        drop(run, record(run, "C1", index))


@red("lost", "torn")
def a_part_of_a_transaction_is_nowhere(run: Invented) -> None:
    drop(run, record(run, "C1", 1))


@red("lost")
def an_acknowledged_prepare_is_not_in_the_half_log(run: Invented) -> None:
    run.truths["orders", "R0"].acked_count = 3


@red("lost", "conflict-between-client-and-log", "unfinished")
def an_acknowledged_commit_is_not_in_the_op_log(run: Invented) -> None:
    identity = run.prepare("T")
    run.end(identity, Fate.COMMITTED)


@red("lost", "torn")
def a_checks_commit_covers_what_the_question_knew(run: Invented) -> None:
    """The second message was acknowledged while the question was under way; all marks agree."""
    identity = run.prepare("T")
    run.tick(IMMUNITY_MS)
    run.asked(identity, 1, "COMMIT")
    run.end(identity, Fate.COMMITTED, Outcome.INFO)
    leave_out_the_second(run, identity, "check")


@red("lost", "torn")
def an_equal_commit_that_covers_more_is_answered_and_forgotten(run: Invented) -> None:
    identity = run.prepare("T")
    run.end(identity, Fate.COMMITTED)
    leave_out_the_second(run, identity, "check")
    run.decide(identity, "c")


@red("lost", "torn")
def an_operators_commit_is_a_part_only(run: Invented) -> None:
    identity = run.prepare("T")
    run.tick(CLOCK_SLACK_MS + 1)
    leave_out_the_second(run, identity, "operator")


def leave_out_the_second(run: Invented, identity: Identity, source: str) -> None:
    """A commit that covers one message of two, carried out as it stands."""
    run.decide(identity, "c", count=1, source=source)
    run.forward(identity, only=[0])
    run.done(identity, 1)


@red("lost", "early-discarded")
def a_message_that_was_acknowledged_is_not_among_the_parked(run: Invented) -> None:
    identity = run.prepare("T")
    run.end(identity, Fate.COMMITTED)
    run.decide(identity, "c", count=1, source="check")
    run.park(identity, "undeliverable")
    del run.parked[-1]
    run.done(identity, -1)


@red("lost")
def a_parked_message_is_not_kept(run: Invented) -> None:
    del run.parked[1]


@red("duplicate")
def a_message_is_there_twice(run: Invented) -> None:
    again = run.final[record(run, "C2")]
    run.final.append(spoiled(again, log_offset=again.log_offset + 1_000))


@red("duplicate", "phantom")
def a_message_was_there_twice_for_a_while(run: Invented) -> None:
    again = run.final[record(run, "C2")]
    run.committed = [*run.final, spoiled(again, log_offset=again.log_offset + 1_000)]


@red("phantom")
def a_rolled_back_one_is_visible(run: Invented) -> None:
    run.forward(("orders", "R1"))


@red("phantom")
def a_rolled_back_one_was_visible_for_a_while(run: Invented) -> None:
    before = list(run.final)
    run.committed = [*before, *run.forward(("orders", "R1"))]
    run.final = before


@red("phantom", "unfinished")
def a_pending_one_is_visible(run: Invented) -> None:
    run.forward(run.prepare("T"))


@red("phantom")
def a_message_of_nobody_is_visible(run: Invented) -> None:
    run.final.append(Seen(TARGET, 0, 999, None, b"?", ()))


@red("phantom")
def a_message_beyond_the_commit_is_visible(run: Invented) -> None:
    seen = run.final[record(run, "C0")]
    half = run.append_half(("orders", "C0"), 2, b"C0 2", b"k")
    run.done(("orders", "C0"), 2, [half.log_offset])
    marker = (seen.headers[-1][1] or b"").replace(b"1;0;", b"1;2;", 1)
    headers = (*seen.headers[:-1], ("HALFHITCH", marker))
    run.final.append(spoiled(seen, value=b"C0 2", headers=headers, log_offset=900))


@red("phantom")
def a_message_was_visible_before_its_commit(run: Invented) -> None:
    at = record(run, "C0")
    run.final[at] = spoiled(run.final[at], seen_ms=1_000)


@red("misrouted")
def a_message_is_on_another_topic(run: Invented) -> None:
    at = record(run, "C0", 1)
    run.final[at] = spoiled(run.final[at], topic=TARGET, log_offset=900)


@red("misrouted")
def a_message_is_where_java_would_not_put_it(run: Invented) -> None:
    at = record(run, "C0", 1)
    other = (run.final[at].partition + 1) % PARTITION_COUNT
    run.final[at] = spoiled(run.final[at], partition=other)


@red("misrouted")
def a_message_is_not_in_the_partition_asked_for(run: Invented) -> None:
    truth = run.truths["orders", "C0"]
    other = (run.final[record(run, "C0")].partition + 1) % PARTITION_COUNT
    truth.messages[0] = [replace(truth.messages[0][0], partition=other)]


@red("corrupted")
def a_byte_is_flipped(run: Invented) -> None:
    at = record(run, "C0")
    run.final[at] = spoiled(run.final[at], value=b"C0 1")


@red("corrupted")
def a_byte_is_flipped_for_one_of_two_readers(run: Invented) -> None:
    run.committed = list(run.final)
    a_byte_is_flipped(run)


@red("corrupted")
def a_user_header_is_missing(run: Invented) -> None:
    at = record(run, "C0")
    run.final[at] = spoiled(run.final[at], headers=run.final[at].headers[1:])


@red("corrupted")
def a_copy_is_not_what_it_copies(run: Invented) -> None:
    at = next(n for n, s in enumerate(run.half) if "HALFHITCH_COPY" in dict(s.headers))
    run.half[at] = spoiled(run.half[at], value=b"?")


@red("corrupted")
def a_parked_message_is_not_what_was_sent(run: Invented) -> None:
    run.parked[0] = spoiled(run.parked[0], value=b"?")


@red("double-terminal")
def a_committed_one_is_parked_too(run: Invented) -> None:
    run.park(("orders", "C0"))


@red("double-terminal")
def one_is_parked_twice(run: Invented) -> None:
    run.park(("orders", "N"))


@red("double-terminal")
def one_ends_in_two_ways(run: Invented) -> None:
    run.done(("orders", "C0"), 0, run.offsets_of(("orders", "C0")))


@red("early-discarded")
def one_is_given_up_after_one_check(run: Invented) -> None:
    run.give_up(run.prepare("T"), 1)


@red("early-discarded")
def one_is_parked_that_nothing_refused(run: Invented) -> None:
    park_the_undeliverable(run)


def park_the_undeliverable(run: Invented) -> None:
    """Committed, refused by its target, parked."""
    identity = run.prepare("T")
    run.end(identity, Fate.COMMITTED)
    run.decide(identity, "c")
    run.park(identity, "undeliverable")
    run.done(identity, -1)


@red("unfinished")
def one_is_still_undecided(run: Invented) -> None:
    run.prepare("T")


@red("unfinished")
def a_roll_back_is_not_carried_out(run: Invented) -> None:
    identity = run.prepare("T")
    run.end(identity, Fate.ROLLED_BACK)
    run.decide(identity, "r")


@red("over-checked")
def one_is_asked_too_often(run: Invented) -> None:
    run.asked(("orders", "N"), 3)


@red("over-checked")
def a_check_is_skipped(run: Invented) -> None:
    del run.truths["orders", "N"].checks[0]


@red("over-checked")
def one_is_asked_long_after_its_decision(run: Invented) -> None:
    run.tick(10_000)
    run.asked(("orders", "C0"), 1)


@red("early-checked")
def one_is_asked_within_its_immunity(run: Invented) -> None:
    truth = run.truths["orders", "N"]
    at_ms = truth.first_prepare_ms or 0
    truth.checks[0] = replace(truth.checks[0], at_ms=at_ms + IMMUNITY_MS - 1)


@red("early-checked")
def a_producers_own_immunity_is_not_kept(run: Invented) -> None:
    run.truths["orders", "X"].immunity_ms = IMMUNITY_MS * 2


@red("early-checked")
def a_check_is_written_too_soon_after_the_last(run: Invented) -> None:
    hasten(run, "N", 2, INTERVAL_MS)


def hasten(run: Invented, name: str, number: int, by_ms: int) -> None:
    """The copies with this number were stored earlier."""
    for n, seen in enumerate(run.half):
        found = dict(seen.headers)
        if (
            found["UNIQ_KEY"] == name.encode()
            and found.get("TRANSACTION_CHECK_TIMES") == b"%d" % number
        ):
            run.half[n] = spoiled(seen, stored_ms=seen.stored_ms - by_ms)


@red("watermark-overrun", "unfinished")
def the_half_watermark_passes_a_pending_one(run: Invented) -> None:
    run.prepare("T")
    run.sample(half=len(run.half))


@red("watermark-overrun")
def the_half_watermark_passes_what_is_done_later(run: Invented) -> None:
    identity = run.prepare("T")
    run.end(identity, Fate.ROLLED_BACK)
    run.decide(identity, "r")
    run.sample(half=len(run.half))
    run.done(identity, 0)


@red("watermark-overrun")
def the_op_watermark_passes_a_decision_that_is_carried_out_later(run: Invented) -> None:
    identity = run.prepare("T")
    run.end(identity, Fate.ROLLED_BACK)
    run.decide(identity, "r")
    run.sample(op=len(run.op))
    run.done(identity, 0)
    run.sample(op=len(run.op))


@red("watermark-overrun", "unfinished")
def the_op_watermark_passes_the_mark_of_a_half_that_is_read_again(run: Invented) -> None:
    run.prepare("old")
    run.transaction("T", Fate.ROLLED_BACK)
    run.sample(op=len(run.op))


@red("watermark-overrun")
def a_watermark_goes_back(run: Invented) -> None:
    run.sample(half=1)


@red("watermark-overrun")
def a_watermark_lies_below_the_start_of_its_log(run: Invented) -> None:
    last = run.samples[-1]
    run.samples[-1] = replace(last, half_starts={0: last.half[0] + 1})


@red("conflict-between-client-and-log", "phantom")
def a_commit_that_was_refused_counts(run: Invented) -> None:
    truth = run.truths["orders", "C0"]
    truth.asked[0] = replace(truth.asked[0], outcome=Outcome.FAIL)


@red("conflict-between-client-and-log")
def whoever_repeats_a_commit_that_counts_is_refused(run: Invented) -> None:
    truth = run.truths["orders", "C0"]
    repeated = replace(truth.asked[0], outcome=Outcome.FAIL, error="contrary_decision")
    truth.asked.append(repeated)


@red("conflict-between-client-and-log", "phantom")
def a_commit_that_nobody_asked_for_counts(run: Invented) -> None:
    run.truths["orders", "C0"].asked.clear()


@red("conflict-between-client-and-log")
def an_acknowledged_roll_back_is_not_in_the_log(run: Invented) -> None:
    run.end(("orders", "C0"), Fate.ROLLED_BACK)


@red("disordered")
def two_of_one_key_change_places(run: Invented) -> None:
    one, other = record(run, "C0"), record(run, "C1")
    first, second = run.final[one].log_offset, run.final[other].log_offset
    run.final[one] = spoiled(run.final[one], log_offset=second)
    run.final[other] = spoiled(run.final[other], log_offset=first)


@red("stalled")
def readers_are_held_for_too_long(run: Invented) -> None:
    run.stalls.append(Stall(TARGET, 0, 0, 5_001))


@red("late")
def a_commit_is_visible_much_later(run: Invented) -> None:
    at = record(run, "C0")
    run.final[at] = spoiled(run.final[at], seen_ms=run.final[at].seen_ms + 60_001)


@red("open-transaction-left")
def a_kafka_transaction_is_left_open(run: Invented) -> None:
    run.open_transactions.append("some-id: Ongoing")


@pytest.mark.parametrize(("classes", "spoil"), SPOILS, ids=[spoil.__name__ for _, spoil in SPOILS])
def test_what_is_spoiled_is_found(classes: set[str], spoil: Callable[[Invented], Any]) -> None:
    run = whole_run()
    spoil(run)
    report = run.report()
    assert set(report.violations) == classes, str(report)
    assert report.verdict == "red"
    assert set(report.invariants) == {i for name in classes for i in INVARIANTS[name]}


def test_each_class_was_seen_red() -> None:
    assert {name for classes, _ in SPOILS for name in classes} == set(INVARIANTS)


# -- what makes a verdict worth nothing ------------------------------------------------------------


def test_an_empty_run_is_not_green() -> None:
    report = Invented().report(required=REQUIRED)
    assert (report.verdict, report.is_vacuous) == ("not run", True)
    assert report.empty == list(REQUIRED)


def test_what_the_stage_counts_may_be_required() -> None:
    run = whole_run()
    given = {"required": ("faults_injected",)}
    assert run.report(**given).verdict == "not run"
    assert run.report(counters={"faults_injected": 1}, **given).verdict == "green"
    assert run.report(counters={"faults_injected": 0}, **given).verdict == "not run"


def test_a_gap_in_the_copy_of_the_logs_is_a_doubt() -> None:
    run = whole_run()
    run.gaps.append("half-0 began at 7")
    report = run.report()
    assert report.verdict == "not run"
    assert "half-0 began at 7" in report.doubts[0]


def test_a_record_that_is_not_understood_is_a_doubt() -> None:
    for log in ("half", "op", "parked"):
        run = whole_run()
        getattr(run, log).append(Seen(log, 0, 999, None, b"?", (("TAGS", b"c"),)))
        assert run.report().verdict == "not run", log


def test_a_red_run_is_red_whatever_else() -> None:
    run = whole_run()
    run.gaps.append("half-0 began at 7")
    drop(run, 0)
    report = run.report(required=("faults_injected",))
    assert report.verdict == "red"
    assert json.loads(json.dumps(report.to_json()))["verdict"] == "red"
    assert "lost (I1" in str(report)


# -- what is lawful --------------------------------------------------------------------------------


def test_what_a_refusing_target_got_may_be_parked() -> None:
    run = whole_run()
    park_the_undeliverable(run)
    assert run.report(refusing_topics=frozenset({TARGET})).verdict == "green"


def test_a_watermark_may_go_back_when_somebody_sets_it_back() -> None:
    run = whole_run()
    run.sample(half=1)
    assert run.report(resets_ms=(run.samples[-1].t_ms - 1,)).verdict == "green"


def test_a_watermark_may_be_set_below_its_log_on_purpose_and_must_be_right_in_the_end() -> None:
    run = whole_run()
    start, t_ms = 3, run.samples[-1].t_ms
    run.samples[-1].half_starts[0] = 0
    run.sample(half=1)
    run.samples[-1].half_starts[0] = start
    reset = {"resets_ms": (t_ms + 1,)}
    assert run.report(**reset).verdict == "red", "it is so in the end"
    run.sample(half=start)
    run.samples[-1].half_starts[0] = start
    assert run.report(**reset).verdict == "green"
    assert run.report().verdict == "red", "nobody has set it back"
    run.sample(half=start)
    run.samples[-1].half_starts[0] = start + 1
    run.sample(half=start + 1)
    assert run.report(**reset).verdict == "red", "it was right before: this is another one"


def test_some_may_stay_undecided() -> None:
    run = whole_run()
    run.prepare("T")
    assert run.report(may_be_pending=lambda truth: truth.identity[1] == "T").verdict == "green"
    assert run.report(is_settled=False).verdict == "green"


def test_a_message_that_nobody_acknowledged_may_be_left_out() -> None:
    """Its producer commits with the handle that it has, which counts one."""
    run = whole_run()
    identity = run.prepare("T")
    truth = run.truths[identity]
    truth.acked_count = 1
    del truth.acked_ms[1]
    run.end(identity, Fate.COMMITTED)
    leave_out_the_second(run, identity, "producer")
    assert run.report().verdict == "green", str(run.report())


def test_a_message_that_was_added_after_the_commit_was_asked_for_may_be_left_out() -> None:
    run = whole_run()
    identity = run.prepare("T")
    run.end(identity, Fate.COMMITTED)
    run.truths[identity].acked_ms[1] = run.tick()
    leave_out_the_second(run, identity, "producer")
    assert run.report().verdict == "green", str(run.report())


@pytest.mark.parametrize("source", ["check", "operator", "policy"])
def test_a_commit_that_is_nobodys_handle_means_all_that_is_there(source: str) -> None:
    run = whole_run()
    identity = run.prepare("T")
    run.end(identity, Fate.COMMITTED)
    run.decide(identity, "c", count=1, source=source)
    run.forward(identity)
    run.done(identity, 2)
    assert run.report().verdict == "green", str(run.report())


def test_of_equal_commits_the_largest_counts() -> None:
    run = whole_run()
    identity = run.prepare("T")
    run.end(identity, Fate.COMMITTED)
    run.decide(identity, "c", count=1)
    run.decide(identity, "c", count=2)
    run.forward(identity)
    run.done(identity, 2)
    assert run.report().verdict == "green", str(run.report())


def test_a_commit_after_the_giving_up_is_no_loss() -> None:
    """It is told that it came too late, or it lies in the log behind the winner."""
    run = whole_run()
    run.end(("orders", "N"), Fate.COMMITTED)
    run.decide(("orders", "N"), "c")
    assert run.report().verdict == "green", str(run.report())


def test_a_transaction_that_was_put_back_has_a_life_of_its_own() -> None:
    run = whole_run()
    identity = ("orders", "N")
    note = run.note(identity)
    for index in (0, 1):
        value = f"N {index}".encode()
        life = {"first_stored_ms": 0, "resumed_count": 1, "fence": note.log_offset}
        run.append_half(identity, index, value, b"k", topic=(TARGET, OTHER)[index], **life)
    run.resume(identity, note.log_offset)
    run.end(identity, Fate.COMMITTED)
    run.decide(identity, "c")
    newest = run.offsets_of(identity)[-2:]
    assert run.report().violations.keys() == {"lost", "unfinished"}
    run.forward(identity)
    run.done(identity, 2, newest)
    report = run.report()
    assert report.verdict == "green", str(report)
    assert report.counters["resumed"] == 1
    run.park(identity)  # the life before it was parked, and now it is on its target
    assert set(run.report().violations) == {"double-terminal"}
