"""What is refused while a bound is reached, and what never is."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.errors import (
    OwnerLags,
    TooManyUndecided,
    TooManyWaiting,
)
from halfhitch.service.transactions.intake import Intake
from halfhitch.wire.burden import TEAM, Burden, Over
from halfhitch.wire.handle import Handle
from harness.coordinator import Coordinator, message
from harness.intakes import LIMITS, TAKING_OVER, intake, state
from harness.twin import GROUP

if TYPE_CHECKING:
    pass

C, R = Resolution.COMMIT, Resolution.ROLLBACK


# -- of the partitions that are owned here ---------------------------------------------------------


def test_a_group_that_hogs_is_refused_in_its_half_partition_and_others_are_taken() -> None:
    it = intake(state(0, 700, hog=600, shop=100), state(1, 700, hog=100))
    with pytest.raises(
        TooManyUndecided,
        match=r"group hog has 600 undecided .* half partition 0, and 500 are allowed "
        r"\(limits.undecided_group_max\)",
    ) as refused:
        it.admit(0, "hog")
    assert refused.value.retry_after_s == 5
    it.admit(0, "shop")
    it.admit(1, "hog")
    assert (it.is_free("hog", "orders"), it.is_free("shop", "orders")) == (False, True)
    assert it.full == frozenset()


def test_a_full_half_partition_refuses_every_group() -> None:
    it = intake(state(0, 1_001, hog=400), state(1))
    with pytest.raises(
        TooManyUndecided, match=r"half partition 0 has 1001 .*1000 are allowed.*group shop"
    ):
        it.admit(0, "shop")
    it.admit(1, "shop")
    assert it.full == {0}
    assert not it.is_free("shop", "orders")


def test_an_identity_with_a_pattern_of_groups_cannot_fill_a_half_partition() -> None:
    """Each of its groups had the bound of a group, and all others were told 429."""
    groups = {f"bank-{number}": 100 for number in range(6)}
    it = intake(team_of=lambda group: group.split("-")[0])
    it.look([state(0, 700, shop=100, **groups), state(1)], {})
    for group in ("bank-3", "bank-new"):
        with pytest.raises(
            TooManyUndecided,
            match=r"identity 'bank' has 600 undecided .* partition 0, of all its groups together, "
            r"and 500 are allowed \(half of limits.undecided_max\), so no new one of group "
            + group,
        ):
            it.admit(0, group)
        assert not it.is_free(group, "orders")
    it.admit(0, "shop")
    it.admit(1, "bank-3")
    assert it.is_free("shop", "orders")
    (trouble,) = it.troubles()
    assert "of identity bank: 600 (at most 500) of all its groups together" in trouble
    other = intake(heard=it.own)
    other.admit(0, "bank-3")  # which tells nobody apart
    other.team_of = it.team_of
    with pytest.raises(TooManyUndecided, match="identity 'bank'"):
        other.admit(0, "bank-3")
    assert {*it.own[0].groups} == {TEAM + "bank"}


def test_a_half_partition_whose_owner_is_behind_refuses_every_group() -> None:
    it = intake(state(0, lag_s=12.4))
    with pytest.raises(OwnerLags, match=r"half partition 0 is 12 s behind, and 8 s") as refused:
        it.admit(0, "shop")
    assert refused.value.retry_after_s == 2
    assert it.full == {0}


def test_what_is_for_a_target_that_is_away_and_full_is_refused_and_the_rest_is_taken() -> None:
    """Decided transactions were counted nowhere: days of them ended owner after owner."""
    it = intake(state(0, 10, waiting={"orders": 500, "points": 30}), state(1))
    with pytest.raises(
        TooManyWaiting,
        match=r"^500 decided transactions wait for topic orders in half partition 0, .* 500 are "
        r"allowed \(limits.undecided_group_max\).* when it is back",
    ) as refused:
        it.admit(0, "shop", ["points", "orders"])
    assert (refused.value.code, refused.value.retry_after_s) == ("too_many_waiting", 5)
    it.admit(0, "shop", ["points"])
    it.admit(1, "shop", ["orders"])
    assert (it.is_free("shop", "orders"), it.is_free("shop", "points")) == (False, True)
    assert (set(it.closed_to(["points", "orders"])), set(it.closed_to(["points"]))) == ({0}, set())
    assert it.full == frozenset()
    assert it.troubles() == [
        (
            "half partition 0 takes no new transactions for topic orders: 500 (at most 500) are "
            "decided and wait for it (limits.undecided_group_max)"
        )
    ]
    it.look([state(0, 10), state(1)], {})
    it.admit(0, "shop", ["orders"])


def test_a_half_partition_that_is_full_of_what_waits_says_for_which_topic() -> None:
    it = intake(state(0, 300, waiting={"orders": 499, "points": 201}))
    words = r"or decided and waiting for a topic that is away \(499 for orders, 201 for points\)"
    with pytest.raises(TooManyWaiting, match=f"has 1000 undecided .* {words}, and 1000 are"):
        it.admit(0, "shop", ["elsewhere"])
    assert it.full == {0}
    (trouble,) = it.troubles()
    assert "499 for orders, 201 for points" in trouble
    other = Intake(LIMITS)
    other.look([], it.own)
    with pytest.raises(TooManyWaiting, match="499 for orders"):
        other.admit(0, "shop", ["elsewhere"])


def test_it_opens_again_by_itself_and_says_so_once_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    it = Intake(LIMITS)
    for count in (499, 500, 520, 460, 449, 449):
        it.look([state(0, 800, hog=count)], {})
    it.admit(0, "hog")
    assert [record.message for record in caplog.records] == [
        (
            "half partition 0 takes no new transactions of group hog: 500 (at most 500) of that "
            "group are undecided (limits.undecided_group_max)"
        ),
        "half partition 0 takes new transactions of all groups again",
    ]


def test_a_takeover_that_has_not_counted_yet_does_not_open_the_intake() -> None:
    it = intake(state(0, 1_000))
    it.look([state(0, 0, phase=TAKING_OVER)], {})
    assert it.full == {0}
    it.look([state(0, 0)], {})
    assert it.full == frozenset()


def test_people_are_told_which_bounds_are_reached() -> None:
    it = intake(
        state(1, 1_000, lag_s=9.0, hog=600, shop=500),
        heard={0: Burden(lag_s=Over(30, 8)), 1: Burden(lag_s=Over(99, 8))},
    )
    none = "takes no new transactions"
    group = "of that group are undecided (limits.undecided_group_max)"
    assert it.troubles() == [
        f"half partition 0 {none}: its owner is 30 s behind (limits.lag_s_max: 8 s)",
        f"half partition 1 {none} of group hog: 600 (at most 500) {group}",
        f"half partition 1 {none} of group shop: 500 (at most 500) {group}",
        f"half partition 1 {none}: 1000 (at most 1000) are undecided (limits.undecided_max)",
        f"half partition 1 {none}: its owner is 9 s behind (limits.lag_s_max: 8 s)",
    ]


# -- what the service makes of it ------------------------------------------------------------------


async def test_what_goes_to_a_full_target_is_refused_at_every_door_and_ends_are_taken() -> None:
    it = Coordinator(intake=Intake(LIMITS))
    before = await it.prepared("before")
    it.carry_out()
    full = {"orders": 600}
    it.service._parts.intake.look([state(0, waiting=full), state(1, waiting=full)], {})
    with pytest.raises(TooManyWaiting, match="topic orders"):
        await it.prepared("new")
    with pytest.raises(TooManyWaiting):
        await it.service.prepare(
            producer_group=GROUP, messages=[message()], transaction_id="another", partition_by=b"a"
        )
    assert it.observer.of("prepare_refused") == [("too_many_waiting",)] * 2
    await it.prepared("before")  # a repeat
    more = await it.service.add(before, [message(value=b"more")])
    await it.service.end(more.handle, C)


async def test_what_has_no_key_goes_where_its_target_is_not_full() -> None:
    it = Coordinator(intake=Intake(LIMITS))
    preparing = it.service._preparing
    it.service._parts.intake.look([state(0, waiting={"orders": 600}), state(1)], {})
    assert {preparing.partition_of(None, None, ["orders"]) for _ in range(20)} == {1}


async def test_a_hog_is_refused_what_is_new_and_nothing_else() -> None:
    it = Coordinator(intake=Intake(LIMITS))
    whole = await it.prepared("whole")
    grown = await it.prepared("grown")
    by_check = await it.prepared("by-check")
    it.carry_out()
    it.service._parts.intake.look([state(0, 600, group=600), state(1, 600, group=600)], {})
    with pytest.raises(TooManyUndecided):
        await it.prepared("new")
    with pytest.raises(TooManyUndecided):
        await it.service.prepare(
            producer_group=GROUP, messages=[message()], transaction_id="another", partition_by=b"a"
        )
    assert it.observer.of("prepare_refused") == [("too_many_undecided",)] * 2
    assert len(it.halves()) == 3
    # A repeat is not new, for its first answer may have got lost.
    await it.prepared("whole")
    more = await it.service.add(grown, [message(value=b"more")])
    await it.service.end(whole, R)
    await it.service.end(more.handle, C)
    await it.service.end(by_check, C, source=ResolutionSource.CHECK)
    known = Handle(0, GROUP, "somebody's", (99,))
    await it.service.end_named(known, R, is_awaited=False)
    it.carry_out()
    assert set(it.twin.written_values()) == {b"grown-0", b"more", b"by-check-0"}


async def test_other_groups_are_prepared_while_one_is_refused() -> None:
    it = Coordinator(intake=Intake(LIMITS))
    it.service._parts.intake.look([state(0, 600, group=600), state(1, 600, group=600)], {})
    await it.service.prepare(producer_group="other", messages=[message()], transaction_id="T1")
    assert len(it.halves()) == 1


async def test_what_has_no_key_goes_where_it_is_taken() -> None:
    it = Coordinator(intake=Intake(LIMITS))
    it.service._parts.intake.look([state(0, lag_s=9.0), state(1)], {})
    await it.service.prepare(producer_group=GROUP, messages=[message()])
    assert [record.partition for record, _ in it.halves()] == [1]
    it.service._parts.intake.look([state(0, lag_s=9.0), state(1, lag_s=9.0)], {})
    with pytest.raises(OwnerLags):
        await it.service.prepare(producer_group=GROUP, messages=[message()])


async def test_at_an_owner_that_falls_behind_a_prepare_waits_before_it_is_stored() -> None:
    """Sixty-four threads of RocketMQ's producer outran the owner, and lost thousands of sends."""
    it = Coordinator(intake=Intake(LIMITS))
    look = it.service._parts.intake.look
    look([state(0, lag_s=3.5), state(1, lag_s=3.5)], {})
    slowed = asyncio.create_task(it.prepared("slowed"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert it.halves() == []
    assert await slowed
    assert len(it.halves()) == 1
    look([state(0), state(1)], {})
    at_once = asyncio.create_task(it.prepared("at-once"))
    for _ in range(10):
        await asyncio.sleep(0)
    assert at_once.done()


def test_only_the_partition_that_is_behind_is_slowed_and_no_socket_is_lent_meanwhile() -> None:
    it = intake(state(0, lag_s=5.0), state(1), state(2, phase=TAKING_OVER, lag_s=5.0))
    assert [it.pause_s(partition) > 0 for partition in range(4)] == [True, False, False, False]
    assert not it.is_free("shop", "orders"), "the native way has no pauses"
    assert it.troubles() == []
    it.look([state(0), state(1)], {})
    assert it.pause_s(0) == 0.0
    assert it.is_free("shop", "orders")
