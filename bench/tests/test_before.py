"""Two trees are compared only when two trees have run."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench import before
from bench.before import Compared, Turns
from bench.children import BenchmarkError, plain_environment
from bench.director import read_plan


def test_the_report_shows_middle_values_and_the_middle_of_the_ratios_within_pairs():
    # The machine was half as fast in the second pair; that says nothing of the trees.
    slow = Compared(
        "abc", "engine", Turns([1_000, 500, 1_000], [100, 200, 100]),
        Turns([1_010, 505, 1_010], [102, 204, 104]),
    )  # fmt: skip
    lines = [line for line in "\n".join(before.report([slow])).splitlines() if "engine" in line]
    columns = [[word.strip() for word in line.split("  ") if word.strip()] for line in lines]
    assert columns == [
        ["engine", "commits/s", "1,000", "1,010", "1.010", "1.010 to 1.010", "3"],
        ["engine", "CPU us/transaction", "100", "104", "1.020", "1.020 to 1.040", "3"],
    ]


def test_with_nothing_compared_there_is_nothing_to_report():
    assert before.report([]) == []


def test_a_tree_whose_code_would_not_run_is_refused(tmp_path):
    (tmp_path / "sidecar").mkdir()
    with pytest.raises(BenchmarkError, match="is not what runs"):
        before._checked(tmp_path)


def test_a_commit_that_is_not_there_is_refused_with_what_git_says(tmp_path):
    director = cast("Any", SimpleNamespace(folder=tmp_path))
    with pytest.raises(BenchmarkError, match=r"no-such-commit cannot be taken out: .+"):
        before._committed(director, "no-such-commit")


def test_a_path_of_its_own_comes_before_all_others():
    path = plain_environment(PYTHONPATH="/first")["PYTHONPATH"]
    assert path.split(os.pathsep)[0] == "/first"
    assert "tests" in [place.rpartition(os.sep)[2] for place in path.split(os.pathsep)]


def test_a_comparison_is_asked_for_on_the_command_line():
    plan = read_plan(["--before", "abc", "--pairs", "7", "--seconds", "2", "--only", "http"])
    assert (plan.before, plan.pairs, plan.turn_s, plan.modes) == ("abc", 7, 2.0, ("http",))
    assert read_plan([]).before is None
