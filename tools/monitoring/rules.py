"""Alerts and recorded series: the one source of the chart's and of dashboards/rules.yaml.

An alert tells of a symptom that somebody has to look at, not of a cause. Each has a section of its
name in docs/runbooks.md. Expressions name metrics without a selection; whoever writes them for an
installation puts it in (`selected`).

A counter's first event may come before the first scrape, and what begins at 1 has no increase. So
what tells of a single event also asks for a series that was not there before (`_happened`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A recorded series, or one of ours, and what it is selected by.
_SERIES: Final = re.compile(r"((?:namespace:)?\b(?:halfhitch|process)_\w+(?::\w+)?)(\{[^}]*\})?")
#: Stands for the age that an installation may choose.
UNDECIDED_AGE: Final = "<undecided age>"
UNDECIDED_AGE_S: Final = 3_600


@dataclass(frozen=True, slots=True)
class Alert:
    """`lasts` is how long it must be so; `summary` may use labels of the expression."""

    name: str
    expr: str
    summary: str
    lasts: str = ""
    severity: Literal["warning", "critical"] = "warning"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A series that is computed beforehand."""

    name: str
    expr: str


def _happened(metric: str, by: str = "", within: str = "15m") -> str:
    """Something was counted, though it may be the first thing that its series tells."""
    grouped = f"sum by ({', '.join(filter(None, ['namespace', by]))})"
    name = metric.partition("{")[0]
    new = f"({metric} unless {metric} offset {within})"
    assert name.endswith("_total")
    return f"{grouped} (increase({metric}[{within}])) > 0 or {grouped} {new} > 0"


def _p99(histogram: str) -> str:
    return f"histogram_quantile(0.99, sum by (namespace, le) (rate({histogram}_bucket[5m])))"


RECORDED: Final = (
    Recorded(
        "namespace:halfhitch_prepared_transactions:rate5m",
        "sum by (namespace) (rate(halfhitch_prepared_transactions_total[5m]))",
    ),
    Recorded("namespace:halfhitch_prepare_seconds:p99_5m", _p99("halfhitch_prepare_seconds")),
    Recorded(
        "namespace:halfhitch_visible_latency_seconds:p99_5m",
        _p99("halfhitch_visible_latency_seconds"),
    ),
    Recorded("namespace:halfhitch_check_lag_seconds:p99_5m", _p99("halfhitch_check_lag_seconds")),
)

ALERTS: Final = (
    Alert(
        "HalfHitchPartitionWithoutOwner",
        "max by (namespace, partition) (halfhitch_partition_owned) == 0"
        " or absent(halfhitch_partition_owned)",
        "Nobody owns a half partition, so nothing of it is forwarded and nobody is checked.",
        lasts="1m",
        severity="critical",
    ),
    Alert(
        "HalfHitchOutsideItsGroup",
        "halfhitch_membership_outside_seconds > 60",
        "{{ $labels.instance }} has been outside the owners' group for "
        "{{ $value | humanizeDuration }}.",
    ),
    Alert(
        "HalfHitchUndecidedForLong",
        f"max by (namespace, partition) (halfhitch_oldest_undecided_age_seconds) > {UNDECIDED_AGE}",
        "A transaction of half partition {{ $labels.partition }} is undecided for "
        "{{ $value | humanizeDuration }}.",
        lasts="5m",
    ),
    Alert(
        "HalfHitchNobodyToAsk",
        "sum by (namespace, group) (halfhitch_unreachable_transactions) > 0",
        "{{ $value }} undecided transactions of group {{ $labels.group }}, and no producer of it "
        "that could be asked.",
        lasts="10m",
    ),
    Alert(
        "HalfHitchChecksLate",
        "namespace:halfhitch_check_lag_seconds:p99_5m > 60",
        "Checks are sent {{ $value | humanizeDuration }} after they were due.",
        lasts="5m",
    ),
    Alert(
        "HalfHitchConflicts",
        _happened("halfhitch_conflicts_total", "kind"),
        "Decisions or messages lost against an earlier decision: {{ $labels.kind }}.",
    ),
    Alert(
        "HalfHitchRefusesTransactions",
        "sum by (namespace, code) (increase(halfhitch_prepare_refused_total"
        '{code=~"too_many_undecided|too_many_waiting|owner_lags"}[5m])) > 0',
        "New transactions are refused: {{ $labels.code }}.",
        lasts="5m",
    ),
    Alert(
        "HalfHitchParks",
        _happened("halfhitch_parked_transactions_total"),
        "Transactions were parked; somebody has to decide about them.",
    ),
    Alert(
        "HalfHitchParkedGrows",
        "max by (namespace) (halfhitch_parked_open_transactions) > "
        "max by (namespace) (halfhitch_parked_open_transactions offset 1h)",
        "{{ $value }} transactions are parked, more than an hour ago.",
        lasts="30m",
    ),
    Alert(
        "HalfHitchKafkaTransactionHangs",
        "min_over_time(halfhitch_unreadable_records[1m]) > 0",
        "An open Kafka transaction hides records of {{ $labels.topic }}, partition "
        "{{ $labels.partition }}.",
        lasts="1m",
        severity="critical",
    ),
    Alert(
        "HalfHitchBehind",
        "max by (namespace, partition) (halfhitch_owner_lag_seconds) > 5",
        "The owner of half partition {{ $labels.partition }} is {{ $value | humanizeDuration }} "
        "behind.",
        lasts="5m",
    ),
    Alert(
        "HalfHitchForwardsLate",
        "namespace:halfhitch_visible_latency_seconds:p99_5m > 10",
        "Committed messages become visible {{ $value | humanizeDuration }} after their commit.",
        lasts="10m",
    ),
    Alert(
        "HalfHitchTargetAway",
        "max by (namespace, partition) (halfhitch_waiting_transactions) > 0",
        "{{ $value }} committed transactions of half partition {{ $labels.partition }} wait for a "
        "target topic that takes nothing.",
        lasts="10m",
    ),
    Alert(
        "HalfHitchRecyclesProducers",
        "sum by (namespace, partition) (increase(halfhitch_producers_recycled_total[15m])) > 5",
        "The owner of half partition {{ $labels.partition }} replaces its producer again and "
        "again: Kafka answers late, or connections break.",
    ),
    Alert(
        "HalfHitchProducerHangs",
        "halfhitch_left_producers > 0",
        "{{ $value }} producers of {{ $labels.instance }} hang in a call of Kafka's client.",
        lasts="5m",
    ),
    Alert(
        "HalfHitchRedisAway",
        "halfhitch_redis_up == 0",
        "Redis is away; checks reach only producers that are connected to their owner.",
        lasts="5m",
    ),
    Alert(
        "HalfHitchLoopLate",
        "avg_over_time(halfhitch_event_loop_lag_seconds[5m]) > 0.25",
        "{{ $labels.instance }} is {{ $value | humanizeDuration }} late with everything: it has "
        "too little processor, or something blocks it.",
        lasts="5m",
    ),
    Alert(
        "HalfHitchClockWrong",
        "abs(halfhitch_clock_ahead_seconds) > 60",
        "A clock is wrong: half partition {{ $labels.partition }}, {{ $labels.instance }}.",
        lasts="5m",
    ),
    Alert(
        "HalfHitchOldWatermarks",
        _happened("halfhitch_old_watermarks_total", "partition"),
        "Kafka gave watermarks of some time before. Do not reset offsets.",
    ),
    Alert(
        "HalfHitchStoriesLost",
        _happened('halfhitch_audit_entries_total{outcome="lost"}'),
        "The audit topic takes nothing: what becomes of transactions is not kept.",
    ),
    Alert(
        "HalfHitchIdentitiesBroken",
        "halfhitch_identities_file_broken == 1",
        "The file of identities cannot be read; those of before still count.",
        lasts="1m",
    ),
)


def selected(expr: str, selection: str) -> str:
    """The expression for one installation; `selection` as `namespace="shop"`."""

    def within(found: re.Match[str]) -> str:
        inner = (found[2] or "{}")[1:-1]
        return f"{found[1]}{{{', '.join(filter(None, [selection, inner]))}}}"

    return _SERIES.sub(within, expr)


_HEAD: Final = """\
# Alerts and recorded series for Prometheus; made by tools/monitoring, whose rules.py is the source.
# What to do about each: docs/runbooks.md. With Prometheus Operator: `prometheusRule.enabled` of the
# chart. Several installations in one Prometheus are told apart by the label `namespace`.
"""


def rules_text() -> str:
    """dashboards/rules.yaml."""
    lines = ["groups:", "  - name: halfhitch-recorded", "    rules:"]
    for recorded in RECORDED:
        lines += [f"      - record: {recorded.name}", f"        expr: {recorded.expr}"]
    lines += ["  - name: halfhitch", "    rules:"]
    for alert in ALERTS:
        expr = alert.expr.replace(UNDECIDED_AGE, str(UNDECIDED_AGE_S))
        lines += [f"      {line}" for line in _alert(alert, expr, _quoted(alert.summary))]
    return _HEAD + "\n".join(lines) + "\n"


def _alert(alert: Alert, expr: str, summary: str) -> Iterator[str]:
    yield f"- alert: {alert.name}"
    yield f"  expr: {expr}"
    if alert.lasts:
        yield f"  for: {alert.lasts}"
    yield from ("  labels:", f"    severity: {alert.severity}")
    yield from ("  annotations:", f"    summary: {summary}")
    yield f'    runbook: docs/runbooks.md, "{alert.name}"'


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


_TEMPLATE_HEAD: Final = """\
{{- /* Made by tools/monitoring, whose rules.py is the source of dashboards/rules.yaml too. */ -}}
{{- if and .Values.coordinators.enabled .Values.prometheusRule.enabled }}
{{- $job := printf "namespace=%q" .Release.Namespace }}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ include "halfhitch.fullname" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
  labels:
    {{- include "halfhitch.labels" . | nindent 4 }}
    {{- with .Values.metrics.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  groups:
    - name: {{ include "halfhitch.fullname" . | quote }}
      rules:
"""


def template_text() -> str:
    """The chart's template: of one namespace, and with the age that its values say."""
    lines = []
    for recorded in RECORDED:
        expr = selected(recorded.expr, "{{ $job }}")
        lines += [f"- record: {recorded.name}", f"  expr: {_spaced(expr)}"]
    for alert in ALERTS:
        age = "{{ .Values.prometheusRule.undecidedAgeSeconds }}"
        expr = _spaced(selected(alert.expr, "{{ $job }}")).replace(UNDECIDED_AGE, age)
        # Prometheus' own braces are none of Helm's.
        summary = f"{{{{ `{alert.summary}` | quote }}}}"
        lines += _alert(alert, expr, summary)
    return _TEMPLATE_HEAD + "".join(f"        {line}\n" for line in lines) + "{{- end }}\n"


def _spaced(expr: str) -> str:
    """Helm reads three braces in a row as two of its own."""
    ends = ("{{{", "{ {{-"), ("$job }}}", "$job -}} }"), ("$job }},", "$job -}} ,")
    for before, after in ends:
        expr = expr.replace(before, after)
    return expr
