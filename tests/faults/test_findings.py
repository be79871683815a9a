"""The table of findings speaks of tests and scenarios that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from faults.findings import FINDINGS, Finding, finding_lines
from faults.kit.scenarios import SCENARIOS

_TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("finding", FINDINGS, ids=[finding.what[:40] for finding in FINDINGS])
def test_whatever_finds_it_exists(finding: Finding) -> None:
    assert finding.tests or finding.scenarios
    for scenario in finding.scenarios:
        assert scenario in SCENARIOS
    for test in finding.tests:
        path, _, name = test.partition("::")
        text = (_TESTS / path).read_text()
        assert re.search(
            rf"^\s*(async )?def {re.escape(name.partition('[')[0])}\(", text, re.MULTILINE
        ), test
    assert finding.seeds or finding.tests, "how many runs a scenario took is to be said"


def test_no_row_breaks_the_table() -> None:
    rows = [line for line in finding_lines() if line.startswith("| ")]
    assert len(rows) == len(FINDINGS) + 1
    assert {row.count("|") for row in rows} == {4}
