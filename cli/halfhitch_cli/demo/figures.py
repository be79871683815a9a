"""What the sidecar counts of its check-back, added up over its lives.

Counters begin at zero whenever a sidecar is started. `Figures` of a life that is over are kept by
whoever ends it; what happened between the last look and the end is missing in them, so these are
for showing and never for the books.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

_CHECKS_SENT: Final = "halfhitch_checks_sent_total"
_OUTCOMES: Final = "halfhitch_check_outcomes_total"
_DECISIONS: Final = "halfhitch_decisions_total"
_GIVEN_UP: Final = "halfhitch_given_up_transactions_total"
_PENDING: Final = "halfhitch_half_messages"
_DUE: Final = "halfhitch_due_checks"


@dataclass(slots=True)
class Figures:
    """The first two are of now; the rest are counters."""

    pending: int = 0
    due: int = 0
    checks_sent: int = 0
    decided: int = 0  # decisions of any source
    given_up: int = 0
    answers: "Counter[str]" = field(default_factory=Counter)

    def after(self, former: "Figures") -> "Figures":
        """With the counters of lives before."""
        return Figures(
            self.pending,
            self.due,
            self.checks_sent + former.checks_sent,
            self.decided + former.decided,
            self.given_up + former.given_up,
            self.answers + former.answers,
        )


def read_figures(metrics: str) -> Figures:
    """From the text of /metrics."""
    samples = [s for family in text_string_to_metric_families(metrics) for s in family.samples]
    answers: Counter[str] = Counter()
    for sample in samples:
        if sample.name == _OUTCOMES:
            answers[sample.labels["outcome"]] += int(sample.value)
    return Figures(
        pending=_sum(samples, _PENDING),
        due=_sum(samples, _DUE),
        checks_sent=_sum(samples, _CHECKS_SENT),
        decided=_sum(samples, _DECISIONS),
        given_up=_sum(samples, _GIVEN_UP),
        answers=answers,
    )


def _sum(samples: Iterable[Sample], name: str) -> int:
    return sum(int(sample.value) for sample in samples if sample.name == name)
