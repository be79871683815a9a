"""What is printed of the check-back must be what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from bench import checkback, rows

DRAIN: dict[str, Any] = {
    "kind": "drain",
    "mode": "in process",
    "transaction_count": 10_000,
    "decided_s": 4.321,
    "visible_s": 4.5,
    "check_count": 10_002,
    "checks_per_s": 2_314.7,
    "repeated_count": 2,
    "outcomes": {"rollback": 5_001, "commit": 5_001},
    "cpu_us": {"sidecar": 270.4, "broker": 650.0},
    "others_percent": 39.4,
}
HUNG: dict[str, Any] = {
    "kind": "hung",
    "transaction_count": 2_000,
    "silent_count": 256,
    "ratio": {"median": 1.049, "low": 0.98, "high": 1.11, "count": 5},
}
LAG: dict[str, Any] = {
    "kind": "lag",
    "pending_count": 99_990,
    "checks_per_s": 200.0,
    "committed_per_s": 1_234.5,
    "lag_p50_ms": 64.4,
    "lag_p99_ms": 171.3,
    "lag_max_ms": 180.2,
    "outcomes": {"commit": 3_000, "rollback": 3_000},
    "rss_mib": 250.4,
}
MEMORY: dict[str, Any] = {
    "kind": "memory",
    "count": 100_000,
    "each_bytes": 390.6,
    "rss_mib": 60.2,
    "collected_s": 0.104,
}


def test_a_drain_says_every_figure_under_its_heading():
    assert dict(zip(rows.DRAIN_HEAD, rows.drain_row(DRAIN), strict=True)) == {
        "orphans, their producer is back": "in process",
        "count": "10,000",
        "decided s": "4.32",
        "visible s": "4.50",
        "checks/s": "2,315",
        "asked twice": "2",
        "outcomes": "5,001 commit, 5,001 rollback",
        "us/tx sidecar": "270",
        "client": "-",
        "broker": "650",
        "others": "39 %",
    }


@pytest.mark.parametrize(("durations", "shown"), [([3, 1, 2], 2), ([4, 1, 3, 2], 3), ([7], 7)])
def test_of_repeated_drains_the_middle_one_is_shown_and_of_two_the_slower(durations, shown):
    runs = [{**DRAIN, "decided_s": duration} for duration in durations]
    assert rows.typical(runs)["decided_s"] == shown


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (HUNG, "2,000 orphans take 1.05 times as long as alone (0.98 to 1.11 in 5 pairs)"),
        (HUNG, "256 silent checks"),
        (LAG, "among 99,990 pending, 200/s due, beside 1,234 commits/s"),
        (LAG, "64 ms (p50), 171 ms (p99), 180 ms at most"),
        (MEMORY, "100,000 pending in a ledger: 391 bytes each, process 60 MiB"),
    ],
)
def test_a_line_says_what_was_measured(row, said):
    assert said in rows.line(row)


def test_the_report_has_one_line_for_each_way_and_one_for_each_other_row():
    repeats = [DRAIN, {**DRAIN, "decided_s": 5.0}, {**DRAIN, "mode": "HTTP"}]
    lines = "\n".join(checkback.report([*repeats, HUNG, LAG, MEMORY])).splitlines()
    assert [line.split("  ")[0] for line in lines[:4]] == [
        "orphans, their producer is back",
        "-" * len("orphans, their producer is back"),
        "in process",
        "HTTP",
    ]
    assert "5.00" in lines[2]
    assert len([line for line in lines[4:] if line]) == 3


def test_without_rows_there_is_nothing_to_report():
    assert checkback.report([]) == []
