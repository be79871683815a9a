"""Transactions as operators ask for them and see them."""

from typing import Any

import pytest

from halfhitch.service.api import Filter, Undecided
from halfhitch.service.operators.shown import matches

SHOWN = Undecided(
    transaction_id="T1",
    producer_group="shop",
    partition=0,
    topics=("orders", "points"),
    message_count=2,
    half_offsets=(1, 2),
    age_s=60.0,
    check_count=3,
    check_max=15,
    delivered=True,
    next_check_s=None,
    last_answer=None,
    asked=None,
    stored_ms=0,
)


@pytest.mark.parametrize(
    ("wanted", "is_match"),
    [
        ({}, True),
        ({"producer_group": "shop"}, True),
        ({"producer_group": "bank"}, False),
        ({"transaction_id": "T1"}, True),
        ({"transaction_id": "T"}, False),
        ({"topic": "points"}, True),
        ({"topic": "bills"}, False),
        ({"older_than_s": 60.0}, True),
        ({"older_than_s": 60.1}, False),
        ({"check_count_min": 3}, True),
        ({"check_count_min": 4}, False),
        ({"producer_group": "shop", "topic": "bills"}, False),
    ],
)
def test_all_given_conditions_must_hold(wanted: dict[str, Any], is_match: bool) -> None:
    assert matches(Filter(**wanted), SHOWN) is is_match
