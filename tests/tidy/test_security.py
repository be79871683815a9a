"""What SECURITY.md says of attacks is tested, by tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(test_[a-z0-9_]+(?:\.py)?|tests/[a-z0-9_/]+\.py)`")


def test_every_test_that_security_names_is_there() -> None:
    named = set(NAMED.findall((ROOT / "SECURITY.md").read_text()))
    assert len(named) > 70
    files = list((ROOT / "tests").rglob("test_*.py"))
    there = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}
    there |= {file.name for file in files} | {str(file.relative_to(ROOT)) for file in files}
    assert named - there == set()


def test_every_attack_is_tested_or_stays_for_a_reason() -> None:
    table = (ROOT / "SECURITY.md").read_text().partition("| attack | before | now | test |")[2]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) > 60
    untold = [row[0] for row in rows if not NAMED.search(row[-1]) and "stays: " not in row[2]]
    assert untold == []
