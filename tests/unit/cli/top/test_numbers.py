"""What two scrapes come to."""

from __future__ import annotations

from collections import deque

import pytest

from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.observability.metrics import Metrics
from halfhitch_cli.top import numbers
from halfhitch_cli.top.numbers import COUNTERS, LOOKS_KEPT, Numbers, Pace


def scrape(metrics: Metrics, at_s: float) -> Numbers:
    return numbers.read(metrics.render().decode(), at_s)


def test_every_counter_is_one_of_the_sidecars_own() -> None:
    metrics = Metrics()
    assert set(scrape(metrics, 0.0).counts) == set(COUNTERS)


def test_rates_are_what_was_added_in_a_second() -> None:
    metrics, pace = Metrics(), Pace()
    metrics.prepared(1, 0.01)
    pace.feed(scrape(metrics, 10.0))
    assert pace.rates == {}
    for _ in range(5):
        metrics.prepared(2, 0.01)
    metrics.ended(Resolution.COMMIT, ResolutionSource.PRODUCER, 0.01)
    metrics.ended(Resolution.COMMIT, ResolutionSource.CHECK, 0.01)
    metrics.ended(Resolution.ROLLBACK, ResolutionSource.PRODUCER, 0.01)
    pace.feed(scrape(metrics, 12.0))
    assert pace.rates["prepared"] == 2.5
    assert pace.rates["committed"] == 1.0
    assert pace.rates["rolled back"] == 0.5
    assert list(pace.past["prepared"]) == [2.5]


def test_a_process_that_began_anew_gives_no_rate() -> None:
    pace = Pace()
    for at_s, count in enumerate((100.0, 3.0, 5.0)):
        pace.feed(Numbers(at_s, {"prepared": count}, {}, {}))
        assert pace.rates.get("prepared") == (2.0 if at_s == 2 else None)
    assert list(pace.past["prepared"]) == [2.0]


def test_a_second_scrape_of_the_same_moment_divides_by_nothing() -> None:
    pace = Pace()
    pace.feed(Numbers(1.0, {"prepared": 1.0}, {}, {}))
    pace.feed(Numbers(1.0, {"prepared": 9.0}, {}, {}))
    assert pace.rates == {}


def test_what_was_before_is_bounded() -> None:
    pace = Pace()
    for at_s in range(3 * LOOKS_KEPT):
        pace.feed(Numbers(at_s, {"prepared": float(at_s)}, {}, {}))
    assert len(pace.past["prepared"]) == LOOKS_KEPT


def test_the_latency_is_that_since_the_look_before() -> None:
    metrics, pace = Metrics(), Pace()
    metrics.forwarded_after(60.0, 1_000)
    pace.feed(scrape(metrics, 1.0))
    metrics.forwarded_after(0.004, 99)
    metrics.forwarded_after(8.0, 1)
    pace.feed(scrape(metrics, 2.0))
    assert pace.visible_s is not None
    median_s, rare_s = pace.visible_s
    assert 0.0025 < median_s < 0.005
    assert 0.0025 < rare_s <= 0.005
    pace.feed(scrape(metrics, 3.0))
    assert pace.visible_s is None


def test_what_is_beyond_the_last_bound_is_that_bound() -> None:
    metrics, pace = Metrics(), Pace()
    pace.feed(scrape(metrics, 1.0))
    metrics.forwarded_after(9_999.0, 3)
    pace.feed(scrape(metrics, 2.0))
    assert pace.visible_s == (300.0, 300.0)


def test_records_behind_an_open_kafka_transaction_are_told_by_place() -> None:
    metrics, pace = Metrics(), Pace()
    metrics.unreadable({("orders", 3): 12, ("points", 0): 0})
    pace.feed(scrape(metrics, 1.0))
    assert pace.unreadable == {("orders", "3"): 12.0, ("points", "0"): 0.0}


def test_a_topic_in_a_label_is_no_line_of_its_own() -> None:
    evil = 'x"} 9\nhalfhitch_prepared_transactions_total 1e9\n'
    metrics = Metrics()
    metrics.unreadable({(evil, 0): 1})
    found = scrape(metrics, 1.0)
    assert found.unreadable == {(evil, "0"): 1.0}
    assert found.counts["prepared"] == 0.0


@pytest.mark.parametrize(
    "text", ["halfhitch_unreadable_records{topic=", "halfhitch_unreadable_records x"]
)
def test_what_is_no_scrape_is_an_error_and_no_crash(text: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        numbers.read(text, 0.0)


@pytest.mark.parametrize(
    ("values", "width", "told"),
    [
        ([], 5, ""),
        ([0.0, 0.0], 5, "▁▁"),
        ([0.0, 50.0, 100.0], 5, "▁▅█"),
        ([9.0, 0.0, 100.0], 2, "▁█"),
    ],
)
def test_bars(values: list[float], width: int, told: str) -> None:
    assert numbers.bars(list(deque(values)), width) == told
