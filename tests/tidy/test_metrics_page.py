"""The page of metrics is what the table makes, and nothing else."""

from __future__ import annotations

import importlib.util
import re

from halfhitch.observability.table import METRICS, SECTIONS
from harness.places import ROOT

_SPEC = importlib.util.spec_from_file_location("page_tool", ROOT / "tools" / "metrics_page.py")
tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tool)


def test_the_page_is_what_the_table_makes() -> None:
    assert tool.PAGE.read_text() == tool.page(), "python tools/metrics_page.py"


def test_every_metric_has_one_row() -> None:
    found = re.findall(r"(?m)^\| `(halfhitch\w+)` \|", tool.page())
    assert sorted(found) == sorted(METRICS)
    assert len(METRICS) == sum(len(rows) for rows in SECTIONS.values()), "a name in two sections"
