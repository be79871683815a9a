"""What `make test` makes of the groups it runs: nothing that failed or never ran is passed over."""

from __future__ import annotations

import sys

import pytest

import side_by_side
from side_by_side import GROUPS, TESTS, Group, counted, left_out, summed_up


def ended(closing_line: str, status: int) -> Group:
    """A group whose process has ended so."""
    group = Group("pure", ())
    group.hear(closing_line)
    group.status = status
    return group


PASSED = "============= 12 passed, 1 skipped in 3.05s ============="


def test_a_closing_line_is_counted() -> None:
    line = "=== 1 failed, 12 passed, 2 skipped, 3 errors in 3.05s (0:00:03) ==="
    assert counted(line) == {"passed": 12, "failed": 4, "skipped": 2}


def test_every_folder_of_tests_is_in_a_group() -> None:
    folders = [each.name for each in TESTS.iterdir() if each.is_dir() and each.name[0] not in "._"]
    assert left_out(GROUPS, folders) == []


def test_a_folder_in_no_group_is_named() -> None:
    assert left_out(GROUPS, ["unit", "newcomers", "harness"]) == ["newcomers"]


def test_green_groups_are_summed_up() -> None:
    assert summed_up([ended(PASSED, 0), ended(PASSED, 0)]) == (
        "24 passed, 0 failed, 2 skipped",
        True,
    )


@pytest.mark.parametrize(
    ("closing_line", "status"),
    [
        pytest.param("===== 1 failed, 11 passed in 3.0s =====", 1, id="a test failed"),
        pytest.param(PASSED, -6, id="the process was ended after its last test"),
        pytest.param("collecting ...", -9, id="the process was ended before"),
        pytest.param("===== no tests ran in 0.1s =====", 0, id="nothing ran"),
    ],
)
def test_a_group_that_is_not_green_makes_the_sum_red(closing_line: str, status: int) -> None:
    line, is_well = summed_up([ended(PASSED, 0), ended(closing_line, status)])
    assert not is_well
    assert "1 failed" in line


def test_a_process_is_heard_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    script = f"print('FAILED a::b - why'); print({PASSED!r}); raise SystemExit(3)"
    group = Group("kafka", [sys.executable, "-c", script])
    group.run({})
    assert group.status == 3
    assert group.failures == ["FAILED a::b - why"]
    assert group.counts["passed"] == 12
    assert "kafka | FAILED a::b - why" in capsys.readouterr().out


def test_a_run_that_leaves_a_folder_out_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(side_by_side, "GROUPS", {"pure": ("unit",)})
    monkeypatch.setattr(sys, "argv", ["side_by_side.py"])
    assert side_by_side.main() == 2
    assert "no group runs acceptance" in capsys.readouterr().out
