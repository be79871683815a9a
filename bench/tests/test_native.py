"""The two ways are compared only when there are two."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench import native
from bench.before import Turns
from bench.children import BenchmarkError
from bench.director import read_plan
from bench.native import Compared

if TYPE_CHECKING:
    from pathlib import Path


def test_the_report_shows_both_ways_and_the_ratio_within_pairs():
    one = Compared(
        "unix socket, named, 32 callers",
        Turns([1_000, 500, 1_000], [300, 600, 300]),
        Turns([2_000, 1_000, 2_000], [100, 200, 100]),
    )
    lines = [line for line in "\n".join(native.report([one])).splitlines() if "named" in line]
    columns = [[word.strip() for word in line.split("  ") if word.strip()] for line in lines]
    assert [line[1:5] for line in columns] == [
        ["commits/s", "1,000", "2,000", "2.000"],
        ["CPU us/transaction", "300", "100", "0.333"],
    ]
    assert native.report([]) == []


def test_without_a_build_nothing_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(native, "_BUILT", tmp_path)
    (tmp_path / "halfhitch_native.py").write_text("raise ImportError")
    with pytest.raises(BenchmarkError, match="make native"):
        native._require_built()


def test_the_comparison_is_asked_for_on_the_command_line():
    plan = read_plan(["--native", "--pairs", "3", "--seconds", "4", "--concurrency", "32"])
    assert (plan.native, plan.pairs, plan.turn_s, plan.concurrencies) == (True, 3, 4.0, (32,))
    assert not read_plan([]).native
