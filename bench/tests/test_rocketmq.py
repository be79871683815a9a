"""What is told of RocketMQ's benchmark must be what it printed and what Kafka holds."""

from __future__ import annotations

import math
import struct
from dataclasses import asdict, replace
from xml.etree import ElementTree as ET

import pytest

from bench.rocketmq import page, picture, results
from bench.rocketmq import plan as plan_module
from bench.rocketmq.account import COMMIT, ROLLBACK, UNKNOWN, Account, Told, fate
from bench.rocketmq.load import Printed
from bench.rocketmq.plan import HALF_HITCH, ROCKETMQ, read_plan
from bench.rocketmq.printed import Line, Schedule, Sums

LINE = (
    "Current Time: 2026-11-21 17:22:41,123 | Send TPS: 1173 | Max RT(ms):  286 | AVG RT(ms):27.2 "
    "| Send Failed: 1 | Check: 12 | UnexpectedCheck: 2 | DuplicatedCheck: 3"
)
UNEXPECTED = (
    "17:22:41,123 unexpected check: msgId=7F,txId=7F,checkTimes=1,sendResult=COMMIT_MESSAGE"
)
RESENT = "WARN DefaultMQProducerImpl - sendKernelImpl exception, resend at once, InvokeID: 4"
LOST_END = "WARN RocketmqRemoting - send a request command to channel </127.0.0.1:1> failed."
LOST_SEND = "WARN - send a request command to channel <127.0.0.1:1>, channelId=8d, failed."

# -- lines -----------------------------------------------------------------------------------------


def test_every_number_of_a_line_is_read():
    assert Line.read(LINE) == Line(1173, 286, 27.2, 1, 12, 2, 3)


def test_a_line_of_a_time_in_which_nothing_was_sent_has_no_response_time():
    line = Line.read(LINE.replace("1173", "   0").replace("27.2", "NaN"))
    assert line is not None
    assert line.tps == 0
    assert math.isnan(line.rt_ms)


@pytest.mark.parametrize("text", ["", UNEXPECTED, LINE.replace("Send TPS", "TPS")])
def test_other_lines_are_no_figures(text):
    assert Line.read(text) is None


def test_unexpected_checks_are_counted_from_their_own_lines_and_other_words_are_kept():
    printed = Printed()
    for text in [LINE, UNEXPECTED, "", "trouble\n", UNEXPECTED, RESENT]:
        printed.take(text)
    assert (len(printed.lines), printed.unexpected_count) == (1, 2)
    assert printed.doubtful_count == 3  # one was sent again, one failed; that line is the last too
    assert printed.given_up_count == 2
    assert printed.odd_lines == ["trouble"]


def test_ends_that_the_client_could_not_send_are_told_from_sends_that_it_repeats():
    printed = Printed()
    for text in [LOST_END, LOST_SEND, LOST_END]:
        printed.take(text)
    assert printed.given_up_count == 2
    assert printed.odd_lines == [LOST_SEND]


@pytest.mark.parametrize(
    ("warm_up_s", "seconds", "first", "measured"),
    [(10, 9, 0, [9]), (20, 27, 10, [19, 28, 37]), (20.5, 10, 11, [20, 29]), (0, 0, 0, [9])],
)
def test_the_measured_lines_tell_of_every_second_once(warm_up_s, seconds, first, measured):
    schedule = Schedule.of(warm_up_s, seconds)
    assert (schedule.first, list(schedule.measured)) == (first, measured)
    assert schedule.last == measured[-1]


def test_sums_are_those_of_the_measured_lines_alone():
    warm = Line(9_999, 9_999, 99.0, 99, 99, 99, 99)
    slow, fast = Line(100, 50, 4.0, 1, 2, 3, 4), Line(300, 20, 2.0, 5, 6, 7, 8)
    between = replace(slow, rt_max_ms=70)
    schedule = Schedule.of(11, 18)
    lines = [warm, warm, *[between] * 8, slow, *[between] * 8, fast]
    assert len(lines) == schedule.last + 1
    sums = Sums.of(lines, schedule)
    assert (sums.tps, sums.transaction_count, sums.windows_tps) == (200, 3_600, (100, 300))
    assert sums.rt_ms == pytest.approx(2.5)  # the fast window has three of four transactions
    assert sums.rt_max_ms == 70  # each line tells it of one second alone
    assert (sums.failed_count, sums.check_count) == (6, 8)
    assert (sums.unexpected_count, sums.duplicated_count) == (10, 12)


def test_a_time_in_which_nothing_was_sent_has_sums():
    nothing = Line(0, 0, math.nan, 0, 0, 0, 0)
    sums = Sums.of([nothing] * 10, Schedule.of(10, 9))
    assert sums.tps == 0
    assert math.isnan(sums.rt_ms)


# -- the account -----------------------------------------------------------------------------------


def body(number, *answers, batch=7):
    """As the benchmark makes it: what is not said is a commit."""
    plan = bytes([*answers, *[COMMIT] * (21 - len(answers))])
    return struct.pack("!qII", batch, 0xFFFF_FFFF, number) + plan + b"filler"


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((COMMIT, ROLLBACK), COMMIT),
        ((ROLLBACK, COMMIT), ROLLBACK),
        ((UNKNOWN, UNKNOWN, ROLLBACK), ROLLBACK),
        ((UNKNOWN, COMMIT), COMMIT),
        ((UNKNOWN,) * 21, UNKNOWN),
    ],
)
def test_the_fate_is_the_first_answer_that_is_one(answers, expected):
    assert fate(body(0, *answers)) == expected


def closed(seen, *, unended_count_max=0, commits_all=False, **told):
    account = Account(7)
    for number, one in enumerate(seen):
        account.seen(one, b"id%d" % number)
    counts = {"rolled_back_count": 0, "pending_count": 0, "left_count": 0}
    told = Told(**{"prepared_count": len(seen), **counts, **told})
    return account.close(told, unended_count_max=unended_count_max, commits_all=commits_all)


def test_all_is_well_when_each_is_visible_or_there_is_a_reason():
    # Not visible: one that was rolled back, one that is pending. One was left by an earlier run.
    seen = [body(0), body(2, UNKNOWN, UNKNOWN), body(7)]
    account = closed(seen, prepared_count=8, rolled_back_count=5, pending_count=1, left_count=1)
    assert (account.seen_count, account.unseen_count, account.lacking_count) == (3, 5, 0)
    assert account.faults == []


def test_two_messages_of_one_number_are_two_messages():
    assert closed([body(0), body(0, COMMIT, ROLLBACK)], commits_all=True).faults == []


def test_a_load_that_is_killed_may_leave_some_without_an_end_but_no_more_than_it_has_threads():
    assert closed([body(2)], prepared_count=3, unended_count_max=2).faults == []
    assert closed([body(2)], prepared_count=3, unended_count_max=1).faults == ["2 lost"]
    assert closed([body(2)], prepared_count=0).faults == ["1 more than were prepared"]


def test_where_all_is_committed_nothing_that_is_told_explains_a_message_that_is_not_visible():
    told = {"prepared_count": 4, "rolled_back_count": 3}
    assert closed([body(3)], **told).faults == []
    assert closed([body(3)], **told, commits_all=True).faults == [
        "3 committed and rolled back",
        "3 made and not visible",
    ]
    assert closed([body(3)], pending_count=3, left_count=3).faults == []
    pending = {"prepared_count": 4, "pending_count": 3}
    found = closed([body(3)], **pending, commits_all=True, unended_count_max=1).faults
    assert found == ["3 made and not visible"]


@pytest.mark.parametrize(
    ("seen", "told", "fault"),
    [
        ([body(0), body(0)], {"prepared_count": 1}, "1 doubled"),
        ([body(0, ROLLBACK)], {}, "1 visible although rolled back"),
        ([body(0, UNKNOWN, ROLLBACK)], {}, "1 visible although rolled back"),
        ([body(0), body(0, batch=6)], {"prepared_count": 1}, "1 of another run"),
    ],
)
def test_what_must_not_be_is_found(seen, told, fault):
    assert closed(seen, **told).faults == [fault]


def test_two_messages_of_one_id_are_found():
    account = Account(7)
    for number in (0, 1):
        account.seen(body(number), b"the same")
    forwarded = account.close(Told(2, 0, 0, 0), unended_count_max=0, commits_all=True)
    assert forwarded.faults == ["1 of an id that another one has"]


# -- results ---------------------------------------------------------------------------------------

THEIRS = results.Run(
    side=ROCKETMQ, round=1, load="commit", threads=8, tps=1_000.0, windows_tps=(1_000,), rt_ms=2.0,
    rt_max_ms=9, transaction_count=9_000, failed_count=0, check_count=0, unexpected_count=0,
    duplicated_count=0, doubtful_count=0, odd_lines=(),
    cpu_us={"client": 40.0, "broker": 100.0, "names": 0.1},
    compiling_us=5.0, rss_mib={"client": (2.0, 1.0), "broker": (4.0, 3.0), "names": (6.0, 5.0)},
    others_percent=3.0, forwarded=None,
)  # fmt: skip
GOOD = {
    "seen_count": 9,
    "unseen_count": 1,
    "told": asdict(Told(9, 1, 0, 0)),
    "faults": [],
}
OURS = replace(
    THEIRS, side=HALF_HITCH, tps=1_500.0, forwarded=GOOD,
    cpu_us={"client": 41.0, "broker": 30.0, "sidecar": 60.0},
    rss_mib={"client": (2.0, 1.0), "broker": (40.0, 3.0), "sidecar": (60.0, 5.0)},
)  # fmt: skip


def test_the_ratio_is_within_rounds_whatever_the_machine_did_from_round_to_round():
    runs = [THEIRS, OURS, replace(THEIRS, round=2, tps=100.0), replace(OURS, round=2, tps=160.0)]
    (cell,) = results.cells(runs)
    ratio = cell.ratio
    assert ratio is not None
    assert (ratio.median, ratio.low, ratio.high) == pytest.approx((1.55, 1.5, 1.6))


def test_one_side_alone_has_no_ratio():
    (cell,) = results.cells([OURS])
    assert cell.ratio is None
    assert len(results.rows([OURS])) == 1


def test_a_row_shows_every_figure_under_its_heading():
    runs = [OURS, replace(OURS, round=2, tps=1_300.0), replace(OURS, round=3, tps=1_700.0), THEIRS]
    theirs, ours = [dict(zip(results.HEAD, row, strict=True)) for row in results.rows(runs)]
    assert theirs["TPS"] == "1,000"
    assert theirs["to RocketMQ"] == ""
    assert theirs["of it"] == "broker 100 (compiling 5)"
    assert ours == {
        "load": "commit",
        "threads": "8",
        "server": "Half Hitch",
        "TPS": "1,500 (1,300 - 1,700)",
        "to RocketMQ": "1.50",
        "avg RT ms": "2.0",
        "failed": "0",
        "checks": "0",
        "unexpected": "0",
        "duplicated": "0",
        "us/tx client": "41",
        "us/tx server": "90",
        "of it": "Kafka 30, sidecar 60 (compiling 5)",
        "RSS MiB (anonymous)": "100 (8)",
    }


def test_only_what_is_wrong_with_half_hitch_is_a_fault():
    wrong = {**GOOD, "faults": ["1 doubled"]}
    runs = [
        replace(THEIRS, unexpected_count=5, failed_count=5),
        OURS,
        replace(OURS, round=2, forwarded=wrong, unexpected_count=4, given_up_count=1),
    ]
    assert results.faults(runs) == [
        "round 2, commit, 8 threads: 1 doubled",
        "round 2, commit, 8 threads: 3 checks nobody expected",
    ]
    assert "NOT AS IT MUST BE" in results.report({}, runs)
    assert "9 committed messages in all" in results.report({}, runs[:2])


def test_checks_of_what_the_client_has_given_up_are_no_fault_and_are_shown_apart():
    runs = [replace(OURS, unexpected_count=37, given_up_count=64, doubtful_count=80)]
    assert results.faults(runs) == []
    (row,) = results.rows(runs)
    assert row[results.HEAD.index("unexpected")] == "0 (37 given up)"
    resent = replace(runs[0], given_up_count=30)  # what was sent again has been ended
    assert results.faults([resent]) == ["round 1, commit, 8 threads: 7 checks nobody expected"]


def test_the_picture_is_a_picture_with_a_bar_for_each_side():
    runs = [THEIRS, OURS, replace(THEIRS, load="mix"), replace(OURS, load="mix", tps=20_000.0)]
    tree = ET.fromstring(picture.draw(runs))
    bars = [e for e in tree.iter() if e.tag.endswith("rect") and e.get("width") == "34"]
    heights = [float(bar.get("height", "nan")) for bar in bars]
    assert len(heights) == 4
    assert heights[3] == pytest.approx(20 * heights[0], abs=1.0)
    assert all(float(bar.get("y", "nan")) > 0 for bar in bars)


def test_the_page_keeps_what_was_written_by_hand():
    text = f"# Title\n{page._BEGIN}\nold\n{page._END}\nthe end\n"
    made = page.with_figures(text, "new")
    assert made == text.replace("old", "new")
    with pytest.raises(ValueError, match="lacks its marks"):
        page.with_figures("# Title\n", "new")


def test_the_page_can_be_made_from_the_file_of_results():
    plan = read_plan(["--rounds", "1"])
    facts = dict.fromkeys(["cores", "processor", "java", "python", "kafka", "librdkafka"], "x")
    content = {"machine": facts, "plan": asdict(plan), "runs": []}
    made = page.figures(content, [THEIRS, OURS])
    assert "\n| commit | 8 | Half Hitch | 1,500 | 1.50 | 2.0 | 0 | 0 | 0 | 0 |\n" in made
    assert "\n| commit | 8 | Half Hitch | 41 | 90 | Kafka 30, sidecar 60 (compiling 5) |" in made
    assert made.startswith("\n1 round; 9 s measured")


# -- the command line ------------------------------------------------------------------------------


def test_without_words_five_rounds_of_everything_are_planned():
    plan = read_plan([])
    assert (plan.sides, plan.rounds) == ((ROCKETMQ, HALF_HITCH), 5)
    assert (plan.loads, plan.threads) == (("commit", "mix"), (8, 32, 64))


def test_a_quick_run_is_short_unless_told_otherwise():
    assert read_plan(["--quick"]).rounds == 1
    plan = read_plan(["--quick", "--warm-up", "30", "--only", "halfhitch"])
    assert (plan.warm_up_s, plan.seconds, plan.sides) == (30.0, 9.0, (HALF_HITCH,))


@pytest.mark.parametrize(
    "words",
    [["--only", "kafka"], ["--loads", "x"], ["--warm-up", "5"], ["--set", "x"],
     ["--record", "--only", "rocketmq"]],
)  # fmt: skip
def test_a_plan_that_cannot_be_carried_out_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        read_plan(words)
    assert "error:" in capsys.readouterr().err


def test_compiled_is_run_what_was_compiled(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(plan_module, "COMPILED", tmp_path)
    with pytest.raises(SystemExit):
        read_plan(["--compiled"])
    assert "make compiled" in capsys.readouterr().err
    (tmp_path / "halfhitch" / "core").mkdir(parents=True)
    (tmp_path / "halfhitch" / "core" / "ledger.cpython-311.so").touch()
    assert read_plan(["--compiled"]).is_compiled
    assert not read_plan([]).is_compiled
