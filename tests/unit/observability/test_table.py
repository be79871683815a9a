"""The table of metrics."""

import re

import pytest

from halfhitch.observability.metrics import (
    METRICS,
)


@pytest.mark.parametrize("name", METRICS)
def test_names_have_the_prefix_base_units_and_total_on_counters(name: str) -> None:
    row = METRICS[name]
    assert re.fullmatch(r"halfhitch(_[a-z]+)+", name)
    assert name.endswith("_total") == (row.kind == "counter")
    assert not re.search(r"_(ms|milliseconds|minutes|kb|mb|percent)(_|$)", name)
    assert (row.kind == "histogram") == bool(row.buckets)
    if row.kind == "histogram":
        assert name.endswith("_seconds")
        assert list(row.buckets) == sorted(set(row.buckets))
    assert row.help.endswith(".")
    assert all(re.fullmatch(r"[a-z]+", label) for label in row.labels)
