"""Showing findings: one row for each thing that was looked at."""

import json

import pytest

from halfhitch.adapters.kafka.topics import Finding, Severity
from halfhitch_cli.findings import is_healthy, show
from halfhitch_cli.output import OutputForm

GOOD = Finding("topics", Severity.OK, "All are there.")
ODD = Finding("brokers", Severity.WARN, "Only one.", "Add two.")
BAD = Finding("watermarks", Severity.FAIL, "One lies outside.", "Look at it.")


def test_a_warning_is_healthy_and_a_failure_is_not() -> None:
    assert is_healthy([])
    assert is_healthy([GOOD, ODD])
    assert not is_healthy([GOOD, BAD])


def test_as_json_every_finding_stands_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    show(OutputForm.JSON, [ODD, BAD])
    told = json.loads(capsys.readouterr().out)
    assert told["healthy"] is False
    assert [(f["check"], f["severity"], f["remedy"]) for f in told["findings"]] == [
        ("brokers", "warn", "Add two."),
        ("watermarks", "fail", "Look at it."),
    ]


def test_as_a_table_sentence_and_remedy_stand_together(capsys: pytest.CaptureFixture[str]) -> None:
    show(OutputForm.TABLE, [GOOD, BAD])
    text = " ".join(capsys.readouterr().out.split())
    assert "All are there." in text
    assert "One lies outside. Look at it." in text
