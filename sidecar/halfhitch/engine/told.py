"""One line in the log for each check that somebody was asked: whom, about what, what was said.

A `ReportSink` in front of the real one. Invariants: the report goes on first, whatever becomes of
the line; in a storm of checks the lines are bounded, and how many were left out is told.
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

from halfhitch.observability.lines import LineBudget
from halfhitch.service.checking.api import CheckOutcome, CheckReport, ReportSink

logger = logging.getLogger(__name__)

#: Ten in a second can be read, or at least looked through; a storm has thousands.
_LINES_A_MINUTE: Final = 600
_WORDS: Final = {
    CheckOutcome.COMMIT: "COMMIT",
    CheckOutcome.ROLLBACK: "ROLLBACK",
    CheckOutcome.UNKNOWN: "it cannot say yet",
    CheckOutcome.SILENT: "no answer in time",
    CheckOutcome.NO_ANSWER: "what came back is no answer",
    CheckOutcome.DECIDED: "decided meanwhile",
    CheckOutcome.LOST: "the connection broke before it answered",
}


class ToldReports:
    """Passes reports on, and tells of those that say something about a producer."""

    def __init__(
        self, reports: ReportSink, *, number_max: int, now_s: Callable[[], float] = monotonic
    ) -> None:
        self._reports = reports
        self._number_max = number_max
        self._budget = LineBudget(now_s, count_max=_LINES_A_MINUTE)

    def report(self, partition: int, report: CheckReport) -> None:
        """See ReportSink."""
        self._reports.report(partition, report)
        said = _WORDS.get(report.outcome)
        # Without a name nobody was asked now: a former owner's check, or one that was not placed.
        if said is None or not report.by or not logger.isEnabledFor(logging.INFO):
            return
        more = self._budget.take()
        if more is None:
            return
        producer_group, transaction_id = report.identity
        because = f", because: {report.reason}" if report.reason else ""
        logger.info(
            "asked %s about %s (check %d of %d): %s%s%s",
            report.by,
            transaction_id,
            report.number,
            self._number_max,
            said,
            because,
            more,
            extra={
                "action": "check_answered",
                "producer_group": producer_group,
                "transaction_id": transaction_id,
                "took_s": round(report.since_s, 3),
            },
        )
