"""What `make test` makes of the lanes it runs: nothing that failed or never ran is passed over."""

from __future__ import annotations

import sys
import threading

import pytest

import side_by_side
from harness.lanes import Spent
from harness.servers import WISH_VARIABLE
from side_by_side import (
    AGAIN_MAX,
    LANES,
    LIVES,
    MORE,
    SEED_VARIABLE,
    SHORT,
    WAITING,
    Lane,
    budgets,
    chosen,
    counted,
    left_out,
    orders,
    summed_up,
    to_try_again,
    with_defaults,
)


def ended(closing_line: str, status: int) -> Lane:
    """A lane whose process has ended so."""
    lane = Lane("1", ())
    lane.hear(closing_line)
    lane.status = status
    return lane


PASSED = "============= 12 passed, 1 skipped in 3.05s ============="
NOTHING_LEFT = "============= no tests ran in 3.05s ============="


def test_a_closing_line_is_counted() -> None:
    line = "=== 1 failed, 12 passed, 2 skipped, 3 errors in 3.05s (0:00:03) ==="
    assert counted(line) == {"passed": 12, "failed": 4, "skipped": 2}


def test_the_lists_name_every_folder_of_tests_and_no_other() -> None:
    folders = side_by_side.test_folders()
    assert {"tests/unit", "chaos/promises", "bench/tests"} < folders
    assert {*SHORT, *LIVES, *WAITING, *MORE} == folders


def test_what_is_long_is_taken_where_all_is() -> None:
    assert chosen(is_all=False) == []
    _, marks = chosen(is_all=True)
    assert "long" not in marks
    assert "not mutation" in marks
    assert "not wheels" in marks


def test_each_lane_takes_everything_and_only_the_first_begins_with_what_thinks() -> None:
    for is_all, added in ((False, ()), (True, MORE)):
        first, *rest = orders(is_all)
        assert len(rest) == LANES - 1
        assert first[0] in SHORT
        for lane in [first, *rest]:
            assert sorted(lane) == sorted([*SHORT, *LIVES, *WAITING, *added])
        for lane in rest:
            assert lane[0] in {*WAITING, *MORE}
            assert lane[-len(SHORT) :] == [*SHORT]


def test_a_folder_in_no_list_is_named() -> None:
    assert left_out(["tests/unit"], ["tests/unit", "tests/newcomers"]) == ["tests/newcomers"]


def test_every_layer_has_a_budget_and_more_lives_may_take_more() -> None:
    usual, all_lives = budgets(is_all=False), budgets(is_all=True)
    assert set(usual) == {*SHORT, *LIVES, *WAITING, *MORE}
    assert all(budget_s > 0 for budget_s in usual.values())
    assert all_lives["tests/simulation"] > usual["tests/simulation"]
    assert all_lives["tests/unit"] == usual["tests/unit"]


def test_what_each_layer_took_is_told_the_longest_first() -> None:
    spent = {"tests/tidy": Spent(97, 10.0, 5.0), "tests/unit": Spent(5_600, 300.0, 100.0)}
    first, second = side_by_side.layer_lines(spent, {"tests/tidy": 20, "tests/unit": 200})
    assert " ".join(first.split()) == "tests/unit 5,600 tests 300 s, processor 100 s of 200 s"
    assert second.startswith("tests/tidy")


def test_the_longest_files_are_told_so_that_one_sees_where_the_minutes_go() -> None:
    spent = {"tests/a.py": Spent(1, 2.0, 1.0), "tests/b.py": Spent(1, 90.0, 4.0)}
    (line,) = side_by_side.file_lines(spent, 1)
    assert line.split() == ["90", "s,", "processor", "4", "s", "tests/b.py"]


def test_green_lanes_are_summed_up() -> None:
    assert summed_up([ended(PASSED, 0), ended(PASSED, 0), ended(NOTHING_LEFT, 5)]) == (
        "24 passed, 0 failed, 2 skipped",
        True,
    )


@pytest.mark.parametrize(
    ("closing_line", "status"),
    [
        pytest.param("===== 1 failed, 11 passed in 3.0s =====", 1, id="a test failed"),
        pytest.param(PASSED, -6, id="the process was ended after its last test"),
        pytest.param("collecting ...", -9, id="the process was ended before"),
        pytest.param("no test of that name", 4, id="it was asked for what is not there"),
    ],
)
def test_a_lane_that_is_not_green_makes_the_sum_red(closing_line: str, status: int) -> None:
    line, is_well = summed_up([ended(PASSED, 0), ended(closing_line, status)])
    assert not is_well
    assert "1 failed" in line


def test_a_run_in_which_nothing_ran_is_red() -> None:
    assert summed_up([ended(NOTHING_LEFT, 5)]) == ("0 passed, 1 failed", False)


def test_a_layer_over_its_budget_makes_the_sum_red() -> None:
    assert summed_up([ended(PASSED, 0)], ["tests/unit took ..."]) == (
        "12 passed, 1 failed, 1 skipped",
        False,
    )


def failed(*names: str, status: int = 1) -> Lane:
    """A lane in which these tests failed, and eleven passed."""
    lane = ended(f"===== {len(names)} failed, 11 passed in 3.0s =====", status)
    for name in names:
        lane.hear(f"FAILED {name} - AssertionError: late")
    return lane


def test_few_that_failed_are_tried_again_by_their_names() -> None:
    lanes = [failed("tests/a.py::b[x y]"), ended(PASSED, 0), failed("tests/c.py::d")]
    assert to_try_again(lanes) == ["tests/a.py::b[x y]", "tests/c.py::d"]


def test_a_line_of_a_captured_log_was_taken_for_a_test_and_nothing_was_tried_again() -> None:
    lane = failed("tests/a.py::b")
    lane.hear("ERROR    halfhitch.service.owner.forwarding:forwarding.py:210 T1 is parked")
    assert to_try_again([lane]) == ["tests/a.py::b"]


@pytest.mark.parametrize(
    "lane",
    [
        pytest.param(ended(PASSED, 0), id="nothing failed"),
        pytest.param(failed(*(f"a::{n}" for n in range(AGAIN_MAX + 1))), id="many failed"),
        pytest.param(failed("a::b", status=2), id="it was broken off"),
        pytest.param(ended("=== 1 failed, 11 passed in 3.0s ===", 1), id="one has no name"),
        pytest.param(failed("a::b", "a::b"), id="its cleaning up failed too"),
    ],
)
def test_nothing_else_is_tried_again(lane: Lane) -> None:
    assert to_try_again([ended(PASSED, 0), lane]) == []


def test_one_lane_that_was_ended_from_outside_is_no_case_for_another_try() -> None:
    assert to_try_again([failed("a::b"), ended("collecting ...", -9)]) == []


def test_what_passes_only_alone_is_counted_apart() -> None:
    assert summed_up([failed("a::b")], only_alone=1) == ("12 passed, 0 failed, 1 only alone", True)
    assert summed_up([failed("a::b")]) == ("11 passed, 1 failed", False)
    assert summed_up([failed("a::b", "a::c")], only_alone=1)[1] is False


def test_what_is_tried_again_meets_the_seed_on_which_it_failed() -> None:
    drawn = with_defaults({"A": "b"})
    assert int(drawn[SEED_VARIABLE]) >= 0
    assert drawn["A"] == "b"
    assert with_defaults(drawn) == drawn


def test_images_that_are_left_on_a_machine_do_not_change_what_the_budgets_are_of() -> None:
    assert with_defaults({})[WISH_VARIABLE] == "no"
    assert with_defaults({WISH_VARIABLE: "yes"})[WISH_VARIABLE] == "yes"


def test_a_process_is_heard_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    script = f"print('FAILED a::b - why'); print({PASSED!r}); raise SystemExit(3)"
    lane = Lane("2", [sys.executable, "-c", script])
    lane.run({})
    assert lane.status == 3
    assert lane.failures == ["FAILED a::b - why"]
    assert lane.counts["passed"] == 12
    assert "2 | FAILED a::b - why" in capsys.readouterr().out


def test_a_lane_ends_when_its_run_is_broken_off() -> None:
    """It went on without the Kafka, which had ended with the run."""
    begun = threading.Event()

    class Heard(Lane):
        def hear(self, line: str) -> None:
            begun.set()

    script = "import time; print('begun', flush=True); time.sleep(99)"
    lane = Heard("1", [sys.executable, "-c", script])
    thread = threading.Thread(target=lane.run, args=({},))
    thread.start()
    assert begun.wait(60)
    lane.interrupt()
    thread.join(60)
    assert not thread.is_alive()
    assert not lane.is_green


def test_a_run_that_leaves_a_folder_out_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(side_by_side, "WAITING", {})
    monkeypatch.setattr(sys, "argv", ["side_by_side.py"])
    assert side_by_side.main() == 2
    assert "no lane runs tests/acceptance" in capsys.readouterr().out
