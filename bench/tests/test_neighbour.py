"""What `make bench-neighbour` prints: pairs are compared, and their median counts."""

from __future__ import annotations

from bench.neighbour import table
from harness.neighbour.street import Round


def test_the_median_of_pairs_is_told_and_not_the_ratio_of_medians() -> None:
    rounds = [
        Round({"403": 3}, {"HTTP": before, "RocketMQ": before}, {"HTTP": after, "RocketMQ": after})
        for before, after in ((0.001, 0.002), (0.004, 0.004), (0.010, 0.011))
    ]
    assert rounds[0].ratio == 2
    assert table({"read: all (HTTP)": rounds})[2:] == [
        "| read: all (HTTP) | 403 | 4.0 to 4.0 | 4.0 to 4.0 | 1.10 |",
        "| all | | | | 1.10 |",
    ]
