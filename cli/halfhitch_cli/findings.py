"""Showing findings: one row for each thing that was looked at."""

from collections.abc import Sequence

from halfhitch.adapters.kafka.topics import Finding, Severity
from halfhitch_cli.output import OutputForm, Table, emit

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def is_healthy(findings: Sequence[Finding]) -> bool:
    """Whether nothing is broken; warnings do not count."""
    return all(finding.severity is not Severity.FAIL for finding in findings)


def show(form: OutputForm, findings: Sequence[Finding]) -> None:
    """Emit the findings."""
    data = {
        "healthy": is_healthy(findings),
        "findings": [
            {
                "check": finding.check,
                "severity": finding.severity.value,
                "sentence": finding.sentence,
                "remedy": finding.remedy,
            }
            for finding in findings
        ],
    }
    rows = [
        [finding.severity.value, finding.check, f"{finding.sentence} {finding.remedy}".strip()]
        for finding in findings
    ]
    emit(form, data, [Table(columns=("", "Check", "Finding"), rows=rows, styles=_STYLES)])
