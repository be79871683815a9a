"""The line that says who was asked, and what was said."""

from __future__ import annotations

import logging

import pytest

from halfhitch.engine.told import ToldReports
from halfhitch.service.checking.api import CheckOutcome, CheckReport


class Owners:
    """Where reports go."""

    def __init__(self) -> None:
        self.got: list[tuple[int, CheckReport]] = []

    def report(self, partition: int, report: CheckReport) -> None:
        self.got.append((partition, report))


def report(outcome: CheckOutcome, by: str = "vm-1", reason: str | None = None) -> CheckReport:
    return CheckReport(("shop", "order-1"), 2, outcome, by, 0.5, reason)


@pytest.fixture(autouse=True)
def _told_at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="halfhitch.engine.told")


def test_a_check_that_was_answered_was_to_be_seen_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    owners = Owners()
    told = ToldReports(owners, number_max=15)
    answered = report(CheckOutcome.COMMIT)
    told.report(3, answered)
    assert owners.got == [(3, answered)]
    (line,) = caplog.records
    assert line.getMessage() == "asked vm-1 about order-1 (check 2 of 15): COMMIT"
    assert line.levelno == logging.INFO
    fields = vars(line)
    found = [fields[name] for name in ("action", "producer_group", "transaction_id", "took_s")]
    assert found == ["check_answered", "shop", "order-1", 0.5]


@pytest.mark.parametrize(
    ("outcome", "reason", "said"),
    [
        (CheckOutcome.ROLLBACK, None, "ROLLBACK"),
        (CheckOutcome.UNKNOWN, "OSError: db down", "it cannot say yet, because: OSError: db down"),
        (CheckOutcome.SILENT, None, "no answer in time"),
        (CheckOutcome.NO_ANSWER, "HTTP 500", "what came back is no answer, because: HTTP 500"),
        (CheckOutcome.DECIDED, None, "decided meanwhile"),
        (CheckOutcome.LOST, None, "the connection broke before it answered"),
    ],
)
def test_every_outcome_has_its_words(
    caplog: pytest.LogCaptureFixture, outcome: CheckOutcome, reason: str | None, said: str
) -> None:
    ToldReports(Owners(), number_max=15).report(0, report(outcome, reason=reason))
    assert [line.getMessage().partition("): ")[2] for line in caplog.records] == [said]


@pytest.mark.parametrize(
    "silent", [report(CheckOutcome.UNDELIVERED), report(CheckOutcome.DECIDED, by="")]
)
def test_who_was_not_asked_is_not_spoken_of(
    caplog: pytest.LogCaptureFixture, silent: CheckReport
) -> None:
    owners = Owners()
    ToldReports(owners, number_max=15).report(0, silent)
    assert (len(owners.got), caplog.records) == (1, [])


def test_a_storm_of_checks_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    owners, now_s = Owners(), [0.0]
    told = ToldReports(owners, number_max=15, now_s=lambda: now_s[0])
    for _ in range(1_000):
        told.report(0, report(CheckOutcome.COMMIT))
    assert (len(owners.got), len(caplog.records)) == (1_000, 600)
    now_s[0] = 61.0
    told.report(0, report(CheckOutcome.COMMIT))
    assert caplog.records[-1].getMessage().endswith("COMMIT (400 such lines were left out)")


def test_where_nobody_reads_the_log_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="halfhitch.engine.told")
    ToldReports(Owners(), number_max=15).report(0, report(CheckOutcome.COMMIT))
    assert caplog.records == []
