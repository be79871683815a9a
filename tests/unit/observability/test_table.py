"""The table of metrics."""

import re
import subprocess

import pytest

from halfhitch.observability.metrics import METRICS, Metrics
from halfhitch.service.api import MembershipState
from harness.scraped import owned
from harness.unprivileged import program


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


def test_promtool_has_nothing_to_say_of_a_scrape() -> None:
    metrics = Metrics()
    metrics.membership(lambda: (2, MembershipState(is_joined=True, outside_s=0.0)))
    metrics.redis(True)
    metrics.forwarded({"orders": 4})
    metrics.parked_open(1)
    text = metrics.render([owned(0)])
    command = [program("promtool"), "check", "metrics"]
    checked = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    said = (checked.stdout + checked.stderr).decode()
    assert (checked.returncode, said) == (0, "")


def test_promtool_says_something_of_a_bad_name() -> None:
    name = b"halfhitch_lag_milliseconds"
    text = b"# HELP %b Bad.\n# TYPE %b gauge\n%b 1\n" % (name, name, name)
    command = [program("promtool"), "check", "metrics"]
    checked = subprocess.run(command, input=text, capture_output=True, timeout=60, check=False)
    assert checked.returncode != 0
