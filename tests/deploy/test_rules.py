"""Every alert speaks when it should and is silent when not, judged by promtool.

The cases run against dashboards/rules.yaml and against what the chart renders for namespace `shop`.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from harness.charts import CHARTS, rendered
from harness.monitoring import rules
from harness.places import ROOT
from harness.unprivileged import program

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RULES = ROOT / "dashboards" / "rules.yaml"
ONE = "i1"


def of(metric: str, instance: str = ONE, **labels: str) -> str:
    """One series of an instance in the namespace `shop`."""
    both = {"namespace": "shop", "instance": instance, **labels}
    return metric + "{" + ",".join(f'{name}="{value}"' for name, value in both.items()) + "}"


def owned(partition: str, instance: str = ONE) -> str:
    return of("halfhitch_partition_owned", instance, partition=partition)


#: Somebody owns the half partition, in every case that says nothing else.
WELL = {owned("0"): "1x200"}


@dataclass(frozen=True)
class Case:
    """After `at` minutes the alert says `summary` of these series, nothing of the quiet ones."""

    alert: str
    series: Mapping[str, str]
    quiet: Mapping[str, str]
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)
    at: int = 60


def lag(name: str, below: Mapping[str, str]) -> dict[str, str]:
    """A histogram by its buckets."""
    return {of(f"{name}_bucket", le=bound): values for bound, values in below.items()}


def happened(alert: str, metric: str, summary: str, **labels: str) -> list[Case]:
    """An increase; and what began with its first event. Later it is silent."""
    shown = {name: value for name, value in labels.items() if name != "outcome"}
    return [
        Case(alert, {of(metric, **labels): "0x20 1x60"}, {of(metric, **labels): "0x90"}, summary,
             shown, at=30),
        Case(alert, {of(metric, **labels): "_x20 1x60"}, {of(metric, **labels): "1x90"}, summary,
             shown, at=30),
    ]  # fmt: skip


def stands(
    alert: str, metric: str, value: str, quiet: str, summary: str, *,
    is_summed: bool = False, **labels: str,
) -> Case:  # fmt: skip
    """A gauge that stays; not summed over instances it tells of one."""
    shown = labels if is_summed else {**labels, "instance": ONE}
    return Case(
        alert, {of(metric, **labels): f"{value}x90"}, {of(metric, **labels): quiet}, summary, shown
    )


CASES = [
    Case(
        "HalfHitchPartitionWithoutOwner",
        {owned("0"): "0x90", owned("0", "i2"): "1x10 0x80", owned("1"): "1x90"},
        {owned("0"): "0x90", owned("0", "i2"): "1x90", owned("1"): "1x90"},
        "Nobody owns a half partition, so nothing of it is forwarded and nobody is checked.",
        {"partition": "0"},
    ),
    stands(
        "HalfHitchOutsideItsGroup", "halfhitch_membership_outside_seconds", "100", "0x50 20x40",
        "i1 has been outside the owners' group for 1m 40s.",
    ),
    stands(
        "HalfHitchUndecidedForLong", "halfhitch_oldest_undecided_age_seconds", "4000",
        "4000x57 10x30",
        "A transaction of half partition 1 is undecided for 1h 6m 40s.",
        is_summed=True, partition="1",
    ),
    stands(
        "HalfHitchNobodyToAsk", "halfhitch_unreachable_transactions", "5", "0x55 5x9",
        "5 undecided transactions of group bill, and no producer of it that could be asked.",
        is_summed=True, group="bill",
    ),
    Case(
        "HalfHitchChecksLate",
        lag("halfhitch_check_lag_seconds", {"60": "0x90", "300": "0+9x90", "+Inf": "0+9x90"}),
        lag("halfhitch_check_lag_seconds", {"0.5": "0+9x90", "300": "0+9x90", "+Inf": "0+9x90"}),
        "Checks are sent 4m 57s after they were due.",
    ),
    *happened(
        "HalfHitchConflicts", "halfhitch_conflicts_total",
        "Decisions or messages lost against an earlier decision: contrary.", kind="contrary",
    ),
    Case(
        "HalfHitchRefusesTransactions",
        {of("halfhitch_prepare_refused_total", code="owner_lags"): "0+3x90"},
        {
            of("halfhitch_prepare_refused_total", code="owner_lags"): "7x90",
            of("halfhitch_prepare_refused_total", code="invalid_request"): "0+3x90",
        },
        "New transactions are refused: owner_lags.",
        {"code": "owner_lags"},
    ),
    *happened(
        "HalfHitchParks", "halfhitch_parked_transactions_total",
        "Transactions were parked; somebody has to decide about them.",
    ),
    Case(
        "HalfHitchParkedGrows",
        {of("halfhitch_parked_open_transactions"): "2x60 9x100"},
        {of("halfhitch_parked_open_transactions"): "9x100 2x60"},
        "9 transactions are parked, more than an hour ago.",
        at=110,
    ),
    stands(
        "HalfHitchKafkaTransactionHangs", "halfhitch_unreadable_records", "7", "7x58 0x1 7x30",
        "An open Kafka transaction hides records of orders, partition 2.",
        topic="orders", partition="2",
    ),
    stands(
        "HalfHitchBehind", "halfhitch_owner_lag_seconds", "30", "30x57 0x30",
        "The owner of half partition 3 is 30s behind.",
        is_summed=True, partition="3",
    ),
    Case(
        "HalfHitchForwardsLate",
        lag("halfhitch_visible_latency_seconds", {"30": "0x90", "60": "0+9x90", "+Inf": "0+9x90"}),
        lag("halfhitch_visible_latency_seconds", {"5": "0+9x90", "60": "0+9x90", "+Inf": "0+9x90"}),
        "Committed messages become visible 59.7s after their commit.",
    ),
    stands(
        "HalfHitchTargetAway", "halfhitch_waiting_transactions", "4", "0x55 4x9",
        "4 committed transactions of half partition 0 wait for a target topic that takes nothing.",
        is_summed=True, partition="0",
    ),
    Case(
        "HalfHitchRecyclesProducers",
        {of("halfhitch_producers_recycled_total", partition="1"): "0+1x90"},
        {of("halfhitch_producers_recycled_total", partition="1"): "0x50 3x40"},
        "The owner of half partition 1 replaces its producer again and again: Kafka answers late, "
        "or connections break.",
        {"partition": "1"},
    ),
    stands(
        "HalfHitchProducerHangs", "halfhitch_left_producers", "2", "0x58 2x9",
        "2 producers of i1 hang in a call of Kafka's client.",
    ),
    stands(
        "HalfHitchRedisAway", "halfhitch_redis_up", "0", "1x90",
        "Redis is away; checks reach only producers that are connected to their owner.",
    ),
    stands(
        "HalfHitchLoopLate", "halfhitch_event_loop_lag_seconds", "2", "0x58 2 0x30",
        "i1 is 2s late with everything: it has too little processor, or something blocks it.",
    ),
    stands(
        "HalfHitchClockWrong", "halfhitch_clock_ahead_seconds", "-90", "30x90",
        "A clock is wrong: half partition 0, i1.", partition="0",
    ),
    *happened(
        "HalfHitchOldWatermarks", "halfhitch_old_watermarks_total",
        "Kafka gave watermarks of some time before. Do not reset offsets.", partition="2",
    ),
    *happened(
        "HalfHitchStoriesLost", "halfhitch_audit_entries_total",
        "The audit topic takes nothing: what becomes of transactions is not kept.", outcome="lost",
    ),
    stands(
        "HalfHitchIdentitiesBroken", "halfhitch_identities_file_broken", "1", "0x59 1x1",
        "The file of identities cannot be read; those of before still count.",
    ),
]  # fmt: skip


def promtool_tests(case: Case) -> list[dict[str, Any]]:
    """As promtool wants them: that it speaks, and that it does not."""
    alert = next(one for one in rules.ALERTS if one.name == case.alert)
    said = {
        "exp_labels": {"severity": alert.severity, "namespace": "shop", **case.labels},
        "exp_annotations": {
            "summary": case.summary,
            "runbook": f'docs/runbooks.md, "{case.alert}"',
        },
    }
    return [
        {
            "interval": "1m",
            "input_series": [
                {"series": series, "values": values} for series, values in {**WELL, **given}.items()
            ],
            "alert_rule_test": [
                {"eval_time": f"{case.at}m", "alertname": case.alert, "exp_alerts": expected}
            ],
        }
        for given, expected in ((case.series, [said]), (case.quiet, []))
    ]


def judged(folder: Path, rule_file: Path, tests: list[dict[str, Any]]) -> str:
    """What promtool has to say; empty when all is as expected."""
    path = folder / "test.yaml"
    path.write_text(
        yaml.safe_dump(
            {"rule_files": [str(rule_file)], "evaluation_interval": "1m", "tests": tests}
        )
    )
    command = [program("promtool"), "test", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def of_the_chart(folder: Path) -> Path:
    """The chart's rules, as Prometheus itself takes them."""
    values = {"prometheusRule": {"enabled": True}, **NEEDED}
    (found,) = [o for o in rendered(CHARTS / "halfhitch", values) if o["kind"] == "PrometheusRule"]
    path = folder / "chart.yaml"
    path.write_text(yaml.safe_dump(found["spec"]))
    return path


#: Without these the chart says what is missing.
NEEDED = yaml.safe_load((CHARTS / "halfhitch" / "ci" / "everything-values.yaml").read_text())


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == {alert.name for alert in rules.ALERTS}


def test_every_alert_speaks_when_it_should_and_is_silent_when_not(tmp_path: Path) -> None:
    tests = [test for case in CASES for test in promtool_tests(case)]
    assert judged(tmp_path, RULES, tests) == ""


@pytest.mark.parametrize("cases", [CASES[:3], pytest.param(CASES, marks=pytest.mark.long)])
def test_those_of_the_chart_do_and_hear_nothing_of_other_namespaces(
    cases: list[Case], tmp_path: Path
) -> None:
    tests = [test for case in cases for test in promtool_tests(case)]
    for test in [test for case in cases for test in promtool_tests(case)[:1]]:
        for one in test["input_series"]:
            one["series"] = one["series"].replace('namespace="shop"', 'namespace="bank"')
        test["input_series"].append({"series": owned("0"), "values": "1x200"})
        test["alert_rule_test"][0]["exp_alerts"] = []
        tests.append(test)
    assert judged(tmp_path, of_the_chart(tmp_path), tests) == ""


def test_when_all_instances_are_gone_the_alert_did_not_resolve_itself(tmp_path: Path) -> None:
    (test,) = promtool_tests(CASES[0])[:1]
    test["input_series"] = [{"series": owned("0"), "values": "1x10"}]
    (expected,) = test["alert_rule_test"][0]["exp_alerts"]
    expected["exp_labels"] = {"severity": "critical"}
    assert judged(tmp_path, RULES, [test]) == ""


def test_an_expectation_that_does_not_hold_is_told(tmp_path: Path) -> None:
    case = CASES[0]
    wrong = Case(case.alert, case.quiet, case.series, case.summary, case.labels)
    assert "FAILED" in judged(tmp_path, RULES, promtool_tests(wrong))
