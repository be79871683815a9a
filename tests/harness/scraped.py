"""What a scrape shows, as values by name and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from halfhitch.service.api import PartitionPhase, PartitionState

if TYPE_CHECKING:
    from halfhitch.observability.metrics import Metrics


def samples(metrics: Metrics, *partitions: PartitionState) -> dict[tuple[str, str], float]:
    """Value by (name, labels as text)."""
    return values(metrics.render(partitions).decode())


def values(text: str) -> dict[tuple[str, str], float]:
    """The same of a text that was scraped."""
    found: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()) if k != "le")
            found[sample.name, labels] = sample.value
    return found


def owned(partition: int, phase: PartitionPhase = PartitionPhase.WORKING) -> PartitionState:
    """An owned half partition, each of whose numbers is another one."""
    found = PartitionState(partition, phase, 1, 2, 3, 4, 50, 60, 700, 900, None)
    found.due_count, found.checking_count, found.oldest_age_s = 5, 6, 7.5
    found.pending_by_group, found.clock_ahead_s = {"orders": 1}, -3.5
    found.oldest_age_by_group = {"orders": 7.5}
    found.waiting_count = 8
    return found
