"""Showing findings: one row for each thing that was looked at."""

from collections.abc import Sequence
from dataclasses import replace

from halfhitch.adapters.kafka.topics import Finding, Severity
from halfhitch_cli.output import OutputForm, Table, emit

#: The name that `halfhitch dev` gives its sidecar.
DEV_INSTANCE = "dev"

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def is_healthy(findings: Sequence[Finding]) -> bool:
    """Whether nothing is broken; warnings do not count."""
    return all(finding.severity is not Severity.FAIL for finding in findings)


def as_dev_has_it(findings: Sequence[Finding]) -> list[Finding]:
    """Of a `halfhitch dev`: what cannot be otherwise there is nothing to warn of."""
    return [
        replace(finding, severity=Severity.OK) if finding.is_right_in_dev else finding
        for finding in findings
    ]


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
