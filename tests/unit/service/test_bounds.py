"""When a bound counts as reached, and when not any more."""

from __future__ import annotations

from typing import Any

from halfhitch.service.bounds import NONE, IntakeLimits, judge
from halfhitch.wire.burden import Burden, Over

LIMITS = IntakeLimits(undecided_max=1_000, undecided_group_max=500, lag_s_max=8.0)


def judged(before: Burden = NONE, count: int = 0, lag_s: float = 0.0, **groups: int) -> Burden:
    values: dict[str, Any] = {"undecided_count": count, "undecided_by_group": groups}
    return judge(LIMITS, before, lag_s=lag_s, **values)


def test_below_every_bound_nothing_is_refused() -> None:
    assert judged(count=999, lag_s=7.9, shop=499, bill=499) is NONE


def test_a_group_that_has_reached_its_bound_is_refused_and_no_other() -> None:
    assert judged(count=700, shop=500, bill=200) == Burden(groups={"shop": Over(500, 500)})


def test_a_half_partition_that_has_reached_its_bound_refuses_everybody() -> None:
    assert judged(count=1_000, shop=499, bill=499) == Burden(undecided=Over(1_000, 1_000))


def test_an_owner_that_is_behind_refuses_everybody() -> None:
    assert judged(lag_s=8.2) == Burden(lag_s=Over(8, 8))


def test_a_number_that_swings_around_its_bound_does_not_open_and_close_the_intake() -> None:
    over = judged(count=1_000, lag_s=8.0, shop=500)
    for count, lag_s, shop in ((950, 5.0, 470), (900, 4.0, 450)):
        over = judged(over, count=count, lag_s=lag_s, shop=shop)
        assert over == Burden(
            Over(count, 1_000), Over(round(lag_s), 8), {"shop": Over(shop, 500)}
        ), "still refused"
    over = judged(over, count=899, lag_s=3.9, shop=449)
    assert over is NONE
    assert judged(over, count=950, lag_s=7.0, shop=470) is NONE, "and still taken"


def test_a_group_is_looked_for_again_only_when_there_could_be_one() -> None:
    """Ten thousand groups are not walked through four times a second for nothing."""

    class Untouchable(dict[str, int]):
        def items(self) -> Any:
            raise AssertionError("looked through")

    assert not judge(LIMITS, NONE, undecided_count=449, undecided_by_group=Untouchable(), lag_s=0.0)
