"""What is told of the comparison with dtm is what wrk printed and what came out at the end."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from bench.dtm import page, results
from bench.dtm.account import Told, faults, place_of_body, place_of_gid
from bench.dtm.plan import DTM, HALF_HITCH, read_plan
from bench.dtm.subscriber import Connection, answer

OUTPUT = (
    "Running 5s test\nRequests/sec: 12\n"
    'told {"seconds":5.0,"request_p50_ms":1.5,"request_p99_ms":9.0,"failed":0,"broken":0,'
    '"callers":[[2,1],[1,0]]}\n'
)
TOLD = Told.read(OUTPUT)
ALL = [(7, 1, 1), (7, 1, 2), (7, 2, 1)]

# -- the account -----------------------------------------------------------------------------------


def test_what_wrk_printed_is_read() -> None:
    assert Told(5.0, 1.5, 9.0, 0, 0, ((2, True), (1, False))) == TOLD
    assert TOLD.ended_count == 3
    assert TOLD.per_s == pytest.approx(0.6)


def test_wrk_that_told_nothing_is_an_error_with_its_output() -> None:
    with pytest.raises(ValueError, match="unable to connect"):
        Told.read("unable to connect to 127.0.0.1")


def test_each_that_was_answered_came_out_once() -> None:
    assert faults(7, TOLD, ALL) == []


def test_one_whose_end_was_under_way_may_have_come_out() -> None:
    assert faults(7, TOLD, [*ALL, (7, 1, 3)]) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (ALL[1:], "1 lost, such as [(7, 1, 1)]"),
        ([*ALL, ALL[0]], "1 doubled, such as [(7, 1, 1)]"),
        ([*ALL, (7, 2, 2)], "1 never ended, such as [(7, 2, 2)]"),  # its end was not under way
        ([*ALL, (7, 1, 4)], "1 never ended, such as [(7, 1, 4)]"),
        ([*ALL, (6, 1, 1)], "1 never ended, such as [(6, 1, 1)]"),  # of another run
    ],
)
def test_what_must_not_be_is_found(seen: list[tuple[int, int, int]], said: str) -> None:
    assert faults(7, TOLD, seen) == [said]


def test_wrong_answers_are_faults_though_all_came_out() -> None:
    told = replace(TOLD, failed_count=2, broken_count=1)
    assert faults(7, told, ALL) == ["2 wrong answers, 1 broken connections"]


def test_either_side_names_a_transaction_in_its_own_way() -> None:
    assert place_of_body(b"00000007000000020000000000000031" + b"x" * 992) == (7, 2, 31)
    assert place_of_gid("7-2-31") == (7, 2, 31)


# -- the subscriber --------------------------------------------------------------------------------

CALL = b"POST /branch?branch_id=01&gid=7-2-31&op=action HTTP/1.1\r\nContent-Length: 3\r\n\r\n"


class Written:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.data.append(data)


@pytest.mark.parametrize("cut", [1, 40, len(CALL), len(CALL) + 2])
def test_a_call_is_counted_once_however_it_is_cut(cut: int) -> None:
    called: list[str] = []
    written: Any = Written()
    connection = Connection(called.append)
    connection.connection_made(written)
    whole = CALL + b"abc"
    for part in (whole[:cut], whole[cut:] + whole):
        connection.data_received(part)
    assert called == ["7-2-31", "7-2-31"]
    assert [data[:15] for data in written.data] == [b"HTTP/1.1 200 OK"] * 2


def test_a_question_about_what_was_left_behind_is_answered_with_a_rollback() -> None:
    called: list[str] = []
    told = answer(b"GET /query?gid=7-2-31 HTTP/1.1\r\n\r\n", called.append)
    assert told.startswith(b"HTTP/1.1 409")
    assert called == []


# -- figures ---------------------------------------------------------------------------------------


def run(side: str, number: int, per_s: float, server_us: float) -> results.Run:
    return results.Run(
        side=side,
        round=number,
        connections=32,
        per_s=per_s,
        transaction_count=100,
        request_p50_ms=1.0,
        request_p99_ms=5.0,
        settled_s=6.0,
        seconds=5.0,
        cpu_us={"server": server_us, "wrk": 50.0},
        rss_mib={"server": 70.0, "wrk": 9.0},
        others_percent=number,
        seen_count=101,
        faults=(),
    )


RUNS = [
    run(DTM, 1, 100, 400), run(HALF_HITCH, 1, 200, 100),
    run(DTM, 2, 1_000, 300), run(HALF_HITCH, 2, 3_000, 150),
    run(DTM, 3, 500, 500), run(HALF_HITCH, 3, 1_250, 125),
]  # fmt: skip


def test_ratios_are_of_the_two_runs_of_a_round() -> None:
    (cell,) = results.cells(RUNS)
    rate, cost = cell.ratio("per_s"), cell.ratio("server_us")
    assert rate is not None
    assert cost is not None
    assert (rate.median, rate.low, rate.high) == (2.5, 2, 3)
    assert (cost.median, cost.low, cost.high) == (0.25, 0.25, 0.5)


def test_the_load_is_no_server() -> None:
    assert RUNS[0].server_us == 400


def test_a_side_alone_has_no_ratio() -> None:
    (cell,) = results.cells([r for r in RUNS if r.side == DTM])
    assert cell.ratio("per_s") is None
    assert len(results.rows([r for r in RUNS if r.side == DTM])) == 1


def test_a_fault_is_told_with_its_run_and_the_sums_are_not() -> None:
    wrong = [replace(RUNS[0], faults=("1 lost",)), *RUNS[1:]]
    assert results.faults(wrong) == ["round 1, 32 connections, dtm: 1 lost"]
    assert "NOT AS IT MUST BE" in results.report(wrong)
    assert "once" not in results.report(wrong)


def test_the_page_says_what_the_file_of_results_says() -> None:
    facts = dict.fromkeys(
        ("cores", "processor", "dtm", "redis", "halfhitch", "kafka", "librdkafka"), "5"
    )
    plan = json.loads(json.dumps(asdict(read_plan(["--interpreted", "--no-native"]))))
    text = page.figures({"machine": facts, "plan": plan, "runs": [asdict(r) for r in RUNS]})
    assert "2.50 (2.00 - 3.00)" in text
    assert "0.25 (0.25 - 0.50)" in text
    assert "2 % of the machine in the middle run and 3 % in the worst" in text
    assert "found 303 messages" in text


# -- the plan --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--body", "10"], "--body must be 64 or more"),
        (["--record", "--only", "dtm"], "--record needs both sides"),
        (["--set", "a"], "--set takes NAME=VALUE"),
    ],
)
def test_a_wrong_plan_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        read_plan([*words, "--interpreted", "--no-native"])
    assert said in capsys.readouterr().err
