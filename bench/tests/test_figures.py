"""What the benchmark prints must be what was measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bench.figures import (
    HEAD,
    Figures,
    Ratio,
    Spread,
    delays_s,
    forwarded_per_s,
    percentile,
    row,
    table,
    typical,
)


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 10), (25, 10), (26, 20), (50, 20), (75, 30), (99, 40), (100, 40)]
)
def test_a_percentile_is_the_nearest_rank_and_always_a_measured_value(percent, expected):
    assert percentile([10, 20, 30, 40], percent) == expected


def test_the_99th_of_a_hundred_values_leaves_one_above():
    assert percentile(list(range(100)), 99) == 98


def test_a_percentile_of_nothing_is_not_a_number():
    assert math.isnan(percentile([], 50))


def test_a_spread_takes_seconds_in_any_order_and_gives_milliseconds():
    assert Spread.of([0.003, 0.001, 0.002]) == Spread(p50_ms=2.0, p99_ms=3.0)


def test_a_ratio_is_that_within_each_pair_in_the_order_of_the_pairs():
    # Each pair agrees, though the machine was four times slower in one of them.
    ratio = Ratio.of([1.0, 4.0, 2.0], [1.5, 6.0, 3.0])
    assert ratio == Ratio(median=1.5, low=1.5, high=1.5, count=3)


def test_a_ratio_shows_where_the_middle_half_of_the_pairs_lies():
    ratio = Ratio.of([1.0] * 4, [4.0, 1.0, 3.0, 2.0])
    assert ratio == Ratio(median=2.5, low=1.0, high=3.0, count=4)
    assert ratio.as_dict() == {"median": 2.5, "low": 1.0, "high": 3.0, "count": 4}


def test_a_ratio_needs_both_of_every_pair():
    with pytest.raises(ValueError, match="argument"):
        Ratio.of([1.0, 2.0], [1.5])


def test_the_rate_counts_until_the_last_message_was_visible():
    # Four messages; the load may have ended long before second 14.
    assert forwarded_per_s(10.0, [10.5, 14.0, 11.0, 12.0]) == 1.0


def test_a_delay_is_below_zero_when_the_consumer_was_quicker_than_the_answer():
    assert delays_s([1.0, 2.0], [1.5, 1.75]) == [0.5, -0.25]


def test_a_delay_needs_an_arrival_for_every_transaction():
    with pytest.raises(ValueError, match="argument"):
        delays_s([1.0, 2.0], [1.5])


FIGURES = Figures(
    mode="HTTP, unix socket",
    concurrency=64,
    transaction_count=40_000,
    forwarded_per_s=9_876.5,
    committed_per_s=10_000.0,
    prepare=Spread(1.234, 9.87),
    commit=Spread(2.0, 20.0),
    visible=Spread(12.5, 101.04),
    cpu_us={"sidecar": 71.4, "client": 12.6, "broker": 50.0, "watcher": 2.0},
    broker_compiling_us=7.6,
    rss_mib=61.2,
    rss_peak_mib=64.9,
    others_percent=3.4,
)


def test_a_row_says_every_figure_under_its_heading():
    assert dict(zip(HEAD, row(FIGURES), strict=True)) == {
        "mode": "HTTP, unix socket",
        "conc": "64",
        "forwarded/s": "9,876",
        "prepare p50/p99": "1.23 / 9.9",
        "commit p50/p99": "2.00 / 20.0",
        "visible p50/p99": "12.50 / 101.0",
        "us/tx sidecar": "71",
        "client": "13",
        "broker (JIT)": "50 (8)",
        "watcher": "2",
        "RSS MiB (peak)": "61 (65)",
        "others": "3 %",
    }


def test_who_takes_no_part_in_a_mode_is_shown_as_a_dash():
    shown = row(replace(FIGURES, cpu_us={"sidecar": 60.0, "broker": 50.0, "watcher": 2.0}))
    assert dict(zip(HEAD, shown, strict=True))["client"] == "-"


@pytest.mark.parametrize(("rates", "shown"), [([3, 1, 2], 2), ([4, 1, 3, 2], 2), ([7], 7)])
def test_of_repeats_the_middle_one_is_shown_and_of_two_the_slower(rates, shown):
    runs = [replace(FIGURES, forwarded_per_s=rate) for rate in rates]
    assert typical(runs).forwarded_per_s == shown


def test_a_table_aligns_words_left_and_numbers_right():
    shown = table(("mode", "rate"), [("a long name", "1"), ("b", "1,000")])
    assert shown.splitlines() == [
        "mode          rate",
        "-----------  -----",
        "a long name      1",
        "b            1,000",
    ]
