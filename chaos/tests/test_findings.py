"""The table of findings speaks of tests and scenarios that exist."""

from __future__ import annotations

import re

import pytest

from chaos.findings import FINDINGS, Finding, finding_lines
from chaos.kit.scenarios import SCENARIOS
from harness.places import ROOT


@pytest.mark.parametrize("finding", FINDINGS, ids=[finding.what[:40] for finding in FINDINGS])
def test_whatever_finds_it_exists(finding: Finding) -> None:
    assert finding.tests, "each has a test at the lowest layer that can show it"
    for scenario in finding.scenarios:
        assert scenario in SCENARIOS
    for test in finding.tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text()
        assert re.search(
            rf"^\s*(async )?def {re.escape(name.partition('[')[0])}\(", text, re.MULTILINE
        ), test
    simulations = "".join(
        path.read_text() for path in (ROOT / "tests" / "simulation").glob("test_*goes_red.py")
    )
    for mutation in finding.mutations:
        assert f"\ndef {mutation}(" in simulations, mutation
    assert bool(finding.runs) == bool(finding.scenarios), "how many runs a scenario took"


def test_no_row_breaks_the_table() -> None:
    rows = [line for line in finding_lines() if line.startswith("| ")]
    assert len(rows) == len(FINDINGS) + 1
    assert {row.count("|") for row in rows} == {4}
