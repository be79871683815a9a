"""Counters and histograms in plain Python, turned into metrics when somebody looks."""

import pytest

from halfhitch.observability.hot import Buckets, HotCounter, HotHistogram
from halfhitch.observability.table import METRICS

COUNTER = "halfhitch_conflicts_total"
HISTOGRAM = "halfhitch_kafka_transaction_seconds"


def test_lines_of_a_counter_are_kept_apart_and_asked_for_once() -> None:
    counter = HotCounter(COUNTER)
    first = counter.line("reused")
    first.inc()
    counter.line("reused").inc(2)
    counter.line("late").inc()
    (family,) = counter.collect()
    assert {s.labels["kind"]: s.value for s in family.samples} == {"reused": 3, "late": 1}
    assert family.documentation == METRICS[COUNTER].help
    assert counter.line("reused") is first


@pytest.mark.parametrize(
    ("value", "counts"),
    [(0.5, [1, 1, 1]), (1.0, [1, 1, 1]), (1.5, [0, 1, 1]), (2.5, [0, 0, 1])],
)
def test_a_value_counts_for_its_bound_and_all_above(value: float, counts: list[int]) -> None:
    buckets = Buckets((1.0, 2.0))
    buckets.observe(value)
    assert [line[1] for line in buckets.cumulated()] == counts
    assert [line[0] for line in buckets.cumulated()] == ["1.0", "2.0", "+Inf"]


def test_many_that_are_alike_are_as_many_by_themselves() -> None:
    one, other = Buckets((1.0,)), Buckets((1.0,))
    one.observe(0.5, 3)
    for _ in range(3):
        other.observe(0.5)
    assert (one.cumulated(), one.total) == (other.cumulated(), other.total)


@pytest.mark.parametrize("values", [[], [0.5, 3.0, 1.0, 2.0, 0.1, 1.5], [9.0, 9.0]])
def test_very_many_at_once_count_as_one_by_one(values: list[float]) -> None:
    one, other = Buckets((1.0, 2.0)), Buckets((1.0, 2.0))
    one.observe_all(values)
    for value in values:
        other.observe(value)
    assert (one.cumulated(), one.total) == (other.cumulated(), pytest.approx(other.total))


def test_a_histogram_tells_its_sum_and_its_count() -> None:
    histogram = HotHistogram(HISTOGRAM)
    histogram.line("ok").observe(0.25)
    histogram.line("ok").observe(0.5)
    (family,) = histogram.collect()
    values = {s.name: s.value for s in family.samples if "bucket" not in s.name}
    assert values == {f"{HISTOGRAM}_sum": 0.75, f"{HISTOGRAM}_count": 2.0}


def test_a_bucket_has_the_last_trace_that_fell_into_it() -> None:
    buckets = Buckets((1.0, 2.0))
    buckets.observe_all([0.5, 0.7, 9.0])
    for value, trace_id in ((0.5, "a"), (0.7, "b"), (9.0, "c")):
        buckets.example(value, trace_id, 1_000.5)
    first, second, last = (line[2:] for line in buckets.cumulated())
    assert [(e.labels, e.value, e.timestamp) for e in first] == [({"trace_id": "b"}, 0.7, 1_000.5)]
    assert second == ()
    assert last[0].labels == {"trace_id": "c"}
