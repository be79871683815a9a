"""The demo's figures of the check-back: read as the sidecar writes them, added up over lives."""

from __future__ import annotations

from halfhitch.core.model import ProducerGroup, Resolution, ResolutionSource
from halfhitch.observability.metrics import Metrics
from halfhitch.service.api import PartitionPhase, PartitionState
from halfhitch.service.checking.api import CheckOutcome
from halfhitch_cli.demo.figures import Figures, read_figures

_GROUP = ProducerGroup("shop")


def _partition(number: int) -> PartitionState:
    return PartitionState(
        partition=number,
        phase=PartitionPhase.WORKING,
        pending_count=3,
        decided_count=1,
        early_count=0,
        finished_count=0,
        half_watermark=0,
        half_position=0,
        op_watermark=0,
        op_position=0,
        trouble=None,
        due_count=2,
    )


def _life() -> Figures:
    metrics = Metrics()
    metrics.check_sent(_GROUP, 0.1)
    metrics.check_sent(_GROUP, 0.1)
    metrics.check_sent(_GROUP, 0.1)
    metrics.check_settled(_GROUP, CheckOutcome.COMMIT, 0.1)
    metrics.check_settled(_GROUP, CheckOutcome.UNKNOWN, 0.1)
    metrics.check_settled(_GROUP, CheckOutcome.UNKNOWN, 0.1)
    metrics.ended(Resolution.COMMIT, ResolutionSource.PRODUCER, 0.1)
    metrics.ended(Resolution.ROLLBACK, ResolutionSource.CHECK, 0.1)
    metrics.given_up("park", "checks_exhausted", 4)
    return read_figures(metrics.render([_partition(0), _partition(1)]).decode())


def test_what_the_sidecar_counts_is_read() -> None:
    found = _life()
    assert (found.pending, found.due) == (6, 4)
    assert (found.checks_sent, found.decided, found.given_up) == (3, 2, 4)
    assert {name: count for name, count in found.answers.items() if count} == {
        "commit": 1,
        "unknown": 2,
    }


def test_counters_go_on_over_lives_and_what_is_pending_does_not() -> None:
    both = _life().after(_life())
    assert (both.pending, both.due) == (6, 4)
    assert (both.checks_sent, both.decided, both.given_up) == (6, 4, 8)
    assert (both.answers["commit"], both.answers["unknown"]) == (2, 4)


def test_a_sidecar_that_has_done_nothing_has_no_figures() -> None:
    assert read_figures(Metrics().render().decode()).checks_sent == 0
