"""When a bound counts as reached, and when not any more."""

from __future__ import annotations

from typing import Any

from halfhitch.service.transactions.bounds import NONE, PAUSE_S_MAX, judge, pause_s
from halfhitch.wire.burden import TEAM, Burden, Over
from harness.defaults import intake_limits

LIMITS = intake_limits(undecided_max=1_000, undecided_group_max=500, lag_s_max=8.0)


def judged(
    before: Burden = NONE, count: int = 0, lag_s: float = 0.0, waiting: int = 0,
    topics: dict[str, int] | None = None, **groups: int,
) -> Burden:  # fmt: skip
    values: dict[str, Any] = {"undecided_count": count, "undecided_by_group": groups}
    values |= {"waiting_count": waiting, "waiting_by_topic": topics}
    return judge(LIMITS, before, lag_s=lag_s, **values)


def test_below_every_bound_nothing_is_refused() -> None:
    assert judged(count=999, lag_s=7.9, shop=499, bill=499) is NONE


def test_a_group_that_has_reached_its_bound_is_refused_and_no_other() -> None:
    assert judged(count=700, shop=500, bill=200) == Burden(groups={"shop": Over(500, 500)})


def test_a_half_partition_that_has_reached_its_bound_refuses_everybody() -> None:
    assert judged(count=1_000, shop=499, bill=499) == Burden(undecided=Over(1_000, 1_000))


def test_an_owner_that_is_behind_refuses_everybody() -> None:
    assert judged(lag_s=8.2) == Burden(lag_s=Over(8, 8))


def test_an_owner_that_falls_behind_makes_prepares_wait_before_it_refuses_any() -> None:
    pauses_s = [pause_s(LIMITS, lag_s) for lag_s in (0.0, 2.0, 3.5, 5.0, 8.0, 60.0)]
    assert pauses_s == [0.0, 0.0, PAUSE_S_MAX / 4, PAUSE_S_MAX / 2, PAUSE_S_MAX, PAUSE_S_MAX]
    assert judged(lag_s=7.9) is NONE


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


# -- what is decided, and waits for a target -------------------------------------------------------


def test_what_waited_for_a_target_was_in_no_bound_and_filled_the_memory() -> None:
    assert judged(waiting=499, topics={"orders": 499}) is NONE
    over = judged(waiting=500, topics={"orders": 500, "points": 3})
    assert over == Burden(topics={"orders": Over(500, 500)})
    assert not over.is_whole


def test_the_undecided_and_those_that_wait_share_a_half_partition() -> None:
    over = judged(count=600, waiting=400, topics={"orders": 400, "points": 0})
    assert over == Burden(Over(1_000, 1_000), topics={"orders": Over(400, 500)})


def test_a_target_opens_again_well_below_its_bound_or_when_it_is_back() -> None:
    over = judged(waiting=500, topics={"orders": 500})
    over = judged(over, waiting=450, topics={"orders": 450})
    assert over == Burden(topics={"orders": Over(450, 500)})
    assert judged(over, waiting=449, topics={"orders": 449}) is NONE
    assert judged(over, waiting=450, topics={}) is NONE


def test_a_target_that_was_told_of_only_because_all_was_full_is_not_refused_afterwards() -> None:
    full = judged(count=520, waiting=480, topics={"orders": 480})
    assert full.topics == {"orders": Over(480, 500)}
    assert judged(full, count=300, waiting=480, topics={"orders": 480}) is NONE


def test_the_groups_of_one_identity_count_together() -> None:
    """A pattern of groups has as many as its holder likes, and each has the bound of a group."""
    groups = {f"bank-{number}": 10 for number in range(60)} | {"shop": 300}

    def over(before: Burden, **changed: int) -> Burden:
        counted = {**groups, **changed}
        return judge(
            LIMITS,
            before,
            undecided_count=sum(counted.values()),
            undecided_by_group=counted,
            lag_s=0.0,
            team_of=lambda group: group.split("-")[0] if "-" in group else None,
        )

    reached = over(NONE)
    assert reached == Burden(groups={TEAM + "bank": Over(600, 500)})
    assert over(reached, **{f"bank-{number}": 0 for number in range(14)}).groups, "460 are left"
    assert over(reached, **{f"bank-{number}": 0 for number in range(16)}) is NONE
