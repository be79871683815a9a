"""Which of a transaction's decisions may count. All of it against a log: test_op_appends.py."""

from __future__ import annotations

import gc
from typing import NamedTuple

import pytest

from halfhitch.core.model import Resolution
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown
from halfhitch.service.transactions.asked import UnderWay, is_read, may_count


class Told(NamedTuple):
    number: int
    is_commit: bool
    is_stored: bool | None
    op_offset: int | None


C, R = Resolution.COMMIT, Resolution.ROLLBACK


def asked(*resolutions: Resolution) -> list[UnderWay]:
    first, *others = [UnderWay(resolution) for resolution in resolutions]
    for other in others:
        other.follow(first)
    return [first, *others]


def test_all_that_are_on_their_way_may_count() -> None:
    both = asked(C, R)
    assert may_count(both[0].order) == both


def test_what_is_stored_ends_the_search_and_what_comes_behind_it_is_not_kept() -> None:
    first, second = asked(C, R)
    first.is_stored = True
    assert may_count(first.order) == [first]
    late = UnderWay(R)
    assert not late.follow(first)
    assert late.order == first.order == [first, second]


def test_what_surely_failed_is_passed_over() -> None:
    first, second = asked(C, R)
    first.fail(KafkaUnavailable("away"))
    assert may_count(second.order) == [second]
    second.fail(KafkaUnavailable("away"))
    assert may_count(second.order) == []


def test_what_nobody_knows_may_count_and_so_may_what_is_stored_behind_it() -> None:
    first, second = asked(C, R)
    first.fail(OutcomeUnknown("no answer"))
    second.is_stored = True
    assert may_count(first.order) == [first, second]


def test_one_from_elsewhere_is_on_its_way_or_stored_or_in_doubt() -> None:
    fates = [UnderWay.elsewhere(Told(1, True, fate, None)) for fate in (None, True, False)]
    assert [one.is_stored for one in fates] == [None, True, False]
    assert [one.has_surely_failed for one in fates] == [False] * 3


@pytest.mark.parametrize(
    ("fates", "read_to", "is_known"),
    [
        ([7], None, False), ([7], 7, False), ([7], 8, True), ([None], 100, False),
        (["unknown"], 100, False), (["unknown", 9], 8, False), (["unknown", 9], 10, True),
        ([7, 9], 8, True), (["failed"], 100, False),
    ],
)  # fmt: skip
def test_the_owner_knows_what_counts_once_it_has_read_the_last_that_may(
    fates: list[str | int | None], read_to: int | None, is_known: bool
) -> None:
    order = asked(*[C] * len(fates))
    for one, fate in zip(order, fates, strict=True):
        if isinstance(fate, int):
            one.is_stored, one.op_offset = True, fate
        elif fate is not None:
            one.fail(OutcomeUnknown("?") if fate == "unknown" else KafkaUnavailable("away"))
    assert is_read(order, read_to) is is_known


def test_one_alone_waited_for_the_collector_of_cycles() -> None:
    """A sidecar grew by a kilobyte for each transaction until then."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            UnderWay(R).follow(UnderWay(C, is_stored=True))
        assert gc.collect() == 0
    finally:
        gc.enable()
