"""One decision for thousands: each has its own end, and its own failure."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.core.standing import Standing
from halfhitch.errors import (
    ContraryDecision,
    InvalidRequest,
    KafkaUnavailable,
    OutcomeUnknown,
    RedisUnavailable,
    TransactionGone,
    TransactionNotFound,
    TransactionParked,
    TransactionReused,
)
from halfhitch.service.api import Filter
from halfhitch.service.operators import operations
from halfhitch.service.operators.parts import FoundHalves
from harness.operators_world import C, R, World, doubt, identity, parking, pending

if TYPE_CHECKING:
    from halfhitch.service.api import ManyOutcome


async def decided(world: World, *names: str) -> list[ManyOutcome]:
    return await world.service.decide_many(
        [identity(name) for name in names], R, reason="asked the shop", operator="ann"
    )


async def test_thousands_are_looked_up_at_once_and_decided_one_by_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    names = [f"T{number}" for number in range(1_000)]
    world = World(pending=[pending(name, partition=n % 2) for n, name in enumerate(names)])
    assert await decided(world, *names) == ["rolled_back"] * 1_000
    assert world.asked == [("halves_of", 1_000)]
    assert len(world.decisions) == 1_000
    partition, decision = world.decisions[1]
    assert (partition, decision.identity, decision.half_offsets) == (1, identity("T1"), (4, 5))
    assert (decision.source, decision.reason) == (ResolutionSource.OPERATOR, "ann: asked the shop")
    assert len(world.observer.of("ended")) == 1_000
    assert [record.getMessage() for record in caplog.records] == [
        "ann decided rollback of 1000 transactions at once, 0 of them could not be: asked the shop"
    ]


async def test_one_that_cannot_be_decided_stops_no_other() -> None:
    world = World(pending=[pending("T1"), pending("T2"), pending("T3")])
    world.standings["T2"] = Standing.COMMITTED
    first, second, third, nobody = await decided(world, "T1", "T2", "T3", "T9")
    assert (first, third) == ("rolled_back", "rolled_back")
    assert isinstance(second, ContraryDecision)
    assert isinstance(nobody, TransactionNotFound)


async def test_those_of_other_instances_are_looked_for_as_single_ones_are() -> None:
    world = World(
        pending=[pending("T1")], doubts={2: [doubt("T2")]}, found=FoundHalves(2, (80,), 1), first=R
    )
    assert await decided(world, "T1", "T2") == ["rolled_back", "rolled_back"]
    assert [partition for partition, _ in world.decisions] == [0, 2]


async def test_each_of_another_instances_thousand_was_looked_for_on_its_own() -> None:
    """All doubts of Redis were listed for each name, and the logs read: 95 s for 1,000."""
    names = [f"T{number}" for number in range(1_000)]
    world = World(
        doubts={2: [doubt(name) for name in names]}, found=FoundHalves(2, (80,), 1), first=R
    )
    assert await decided(world, *names) == ["rolled_back"] * 1_000
    assert [asked[0] for asked in world.asked] == [
        "halves_of", "known", "known", "find", "look_up_many",
    ]  # fmt: skip
    assert len(world.decisions) == len(world.observer.of("ended")) == 1_000
    world.asked.clear()
    assert await world.service.check_many([identity(name) for name in names]) == ["pending"] * 1_000
    assert [asked[0] for asked in world.asked[:3]] == ["halves_of", "known", "known"]
    assert {asked[0] for asked in world.asked[3:]} == {"post"}


async def test_elsewhere_each_is_told_why_it_could_not_be() -> None:
    found = FoundHalves(2, (80,), 1)
    for first, error in (
        (C, ContraryDecision),
        (Resolution.PARK, TransactionParked),
        (TransactionGone("trimmed"), TransactionNotFound),
        (TransactionReused("other messages"), TransactionReused),
        (KafkaUnavailable("slow"), OutcomeUnknown),
    ):
        (outcome,) = await decided(World(found=found, first=first), "T1")
        assert isinstance(outcome, error)
    world = World(parked=[parking("T1")])
    assert [type(each) for each in await decided(world, "T1", "T2")] == [
        TransactionParked, TransactionNotFound,
    ]  # fmt: skip
    assert world.asked[-2:] == [("parkings", None), ("parkings", identity("T2"))]
    (outcome,) = await decided(World(found=KafkaUnavailable("too long")), "T1")
    assert isinstance(outcome, KafkaUnavailable), "not that there is none"
    (outcome,) = await decided(World(found=found, fails=KafkaUnavailable("away")), "T1")
    assert isinstance(outcome, KafkaUnavailable)
    world = World(standings={"T1": Standing.ROLLED_BACK, "T2": Standing.COMMITTED})
    outcomes = await decided(world, "T1", "T2")
    assert outcomes[0] == "rolled_back"
    assert isinstance(outcomes[1], ContraryDecision)
    assert world.decisions == []


async def test_no_answer_of_kafka_is_no_decision() -> None:
    world = World(pending=[pending("T1")], fails=KafkaUnavailable("away"))
    (outcome,) = await decided(world, "T1")
    assert isinstance(outcome, KafkaUnavailable)
    assert world.observer.of("ended") == []


async def test_without_a_readable_reason_nothing_is_done() -> None:
    world = World(pending=[pending("T1")])
    with pytest.raises(InvalidRequest, match="the reason must be"):
        await world.service.decide_many([identity("T1")], C, reason=" ", operator="ann")
    assert world.decisions == []


async def test_checks_are_hastened_wherever_they_are() -> None:
    world = World(pending=[pending("T1", 1)], doubts={2: [doubt("T2")]})
    names = [identity(name) for name in ("T1", "T2", "T9")]
    first, second, nobody = await world.service.check_many(names)
    assert (first, second) == ("pending", "pending")
    assert isinstance(nobody, TransactionNotFound | RedisUnavailable)
    assert ("check_now", 1, "T1") in world.asked
    assert any(asked[0] == "post" for asked in world.asked)


async def test_one_that_ends_between_the_look_and_the_check_is_looked_for_again() -> None:
    world = World(pending=[pending("T1")])

    async def gone(*_: object) -> bool:
        world.pending = []
        return False

    world.check_now = gone  # type: ignore[method-assign]
    (outcome,) = await world.service.check_many([identity("T1")])
    assert isinstance(outcome, TransactionNotFound)


async def test_names_are_those_of_all_instances_oldest_first() -> None:
    world = World(
        pending=[pending("T1", age_s=5.0), pending("T2", age_s=50.0)],
        doubts={2: [doubt("T3", age_s=20.0)], 3: RedisUnavailable("away")},
    )
    page = await world.service.names(Filter(count_max=2))
    assert page.names == [identity("T2"), identity("T3")]
    assert (page.total_count, page.missing_partitions) == (3, [3])


async def test_what_redis_was_not_asked_for_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "LISTED_MAX", 2)
    world = World(doubts={2: [doubt("T1"), doubt("T2")], 3: [doubt("T3")]})
    page = await world.service.names(Filter())
    assert (page.total_count, page.missing_partitions) == (3, [2])


async def test_a_name_that_two_half_partitions_have_was_given_twice() -> None:
    """And what a chunk with it in was answered was taken for the next one's."""
    world = World(
        pending=[pending("T1", 0, age_s=50.0), pending("T1", 1, age_s=5.0), pending("T2")],
        doubts={2: [doubt("T1"), doubt("T3"), doubt("T3", age_s=1.0)]},
    )
    page = await world.service.names(Filter())
    assert page.names == [identity("T1"), identity("T3"), identity("T2")]
    assert page.total_count == 3


async def test_what_the_log_does_not_say_yet_was_told_as_decided() -> None:
    """It was put back, perhaps as what it had been decided before: only its halves say so."""
    world = World(doubts={2: [doubt("T1")]}, found=FoundHalves(2, (80,), 1), first=None)
    [found] = await decided(world, "T1")
    assert isinstance(found, OutcomeUnknown)
    assert len(world.decisions) == 1
