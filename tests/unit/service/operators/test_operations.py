"""What operators do, over fakes: who is asked, what is written, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from halfhitch.core.model import (
    Resolution,
    ResolutionSource,
)
from halfhitch.core.standing import Standing
from halfhitch.errors import (
    ContraryDecision,
    InvalidRequest,
    KafkaUnavailable,
    OutcomeUnknown,
    RedisUnavailable,
    TransactionNotFound,
    TransactionParked,
)
from halfhitch.service.api import Filter, TransactionState
from halfhitch.service.operators.parts import FoundHalves
from halfhitch.service.transactions.op_appends import Decision
from halfhitch.wire.parked import CHECKS_EXHAUSTED
from harness.operators_world import NOW_MS, C, R, World, doubt, identity, parking, pending

# -- undecided -----------------------------------------------------------------------------------


async def test_own_partitions_and_those_of_others_are_one_list_oldest_first() -> None:
    world = World(
        pending=[pending("T1", age_s=10), pending("T2", age_s=30)],
        doubts={2: [doubt("T3")], 3: RedisUnavailable("away")},
    )
    page = await world.service.undecided(Filter())
    assert [t.transaction_id for t in page.transactions] == ["T2", "T3", "T1"]
    assert (page.total_count, page.missing_partitions) == (3, [3])
    shown = page.transactions[1]
    assert (shown.partition, shown.age_s, shown.next_check_s) == (2, 20.0, 5.0)
    assert (shown.check_count, shown.delivered, shown.from_index) == (2, False, True)
    page = await world.service.undecided(Filter(count_max=1))
    assert ([t.transaction_id for t in page.transactions], page.total_count) == (["T2"], 3)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Filter(producer_group="shop"), {"T1", "T2"}),
        (Filter(producer_group="other"), set()),
        (Filter(topic="points"), {"T2"}),
        (Filter(transaction_id="T1"), {"T1"}),
        (Filter(older_than_s=25), {"T2"}),
        (Filter(check_count_min=3), {"T2"}),
    ],
)
async def test_what_redis_tells_is_filtered(wanted: Filter, names: set[str]) -> None:
    old = doubt("T2", age_s=30, topics=("orders", "points"), check_count=3)
    world = World(doubts={2: [doubt("T1"), old]})
    page = await world.service.undecided(wanted)
    assert {t.transaction_id for t in page.transactions} == names
    assert page.total_count == len(names)


@pytest.mark.parametrize(
    "marks",
    [
        [None, None],  # a new owner writes it
        [None, "one"],  # the rest came during the look
        ["one", None],  # it began to be written anew during the look
        ["one", "two"],  # even twice
    ],
)
async def test_half_a_list_is_shown_and_said_to_be_no_more_than_that(
    marks: list[str | None],
) -> None:
    """A bulk rollback took 6,968 of 10,000 for all while a new owner told Redis of the others."""
    world = World(doubts={2: [doubt("T3")], 3: []}, marks={2: [*marks]})
    page = await world.service.undecided(Filter())
    assert [t.transaction_id for t in page.transactions] == ["T3"]
    assert page.missing_partitions == [2]
    world.marks[2] = [*marks]
    names = await world.service.names(Filter())
    assert (len(names.names), names.missing_partitions) == (1, [2])


async def test_before_kafka_was_reached_nothing_is_said_to_be_undecided_or_not() -> None:
    """It said that there was none, and a list was empty at the start of every sidecar."""
    world = World(owned_here=set(), partition_total=0)
    for ask in (world.service.undecided, world.service.names):
        with pytest.raises(KafkaUnavailable, match="not been reached yet"):
            await ask(Filter())


async def test_without_redis_the_partitions_of_others_are_told_to_be_missing() -> None:
    page = await World(redis=False).service.undecided(Filter())
    assert page.missing_partitions == [2, 3]


async def test_the_last_answer_was_lost_over_a_restart_with_redis_up() -> None:
    answered = doubt(
        "T1", last_answer="unknown", last_instance="node-9", last_reason="RuntimeError: db down"
    )
    world = World(
        pending=[
            pending("T1"),
            pending("T2", last_answer="unknown", asked="node-1"),
            pending("T3", check_count=0),
            pending("T4"),
        ],
        doubts={0: [answered]},
    )
    page = await world.service.undecided(Filter())
    shown = {t.transaction_id: (t.last_answer, t.asked, t.last_reason) for t in page.transactions}
    assert shown == {
        "T1": ("unknown", "node-9", "RuntimeError: db down"),
        "T2": ("unknown", "node-1", None),
        "T3": (None, None, None),
        "T4": (None, None, None),
    }
    assert ("known", 0, ["T1", "T4"]) in world.asked


async def test_without_redis_the_last_answer_is_not_known_and_all_else_is_shown() -> None:
    world = World(pending=[pending("T1")], doubts={0: RedisUnavailable("away")})
    page = await world.service.undecided(Filter())
    assert [(t.transaction_id, t.last_answer) for t in page.transactions] == [("T1", None)]


# -- decide --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resolution", "state"), [(C, TransactionState.COMMITTED), (R, TransactionState.ROLLED_BACK)]
)
async def test_a_decision_names_the_operator_and_the_reason(
    resolution: Resolution, state: TransactionState
) -> None:
    world = World(pending=[pending("T1", partition=1)])
    ended = await world.decide("T1", resolution)
    assert (ended.transaction_id, ended.state, ended.visible) == ("T1", state, False)
    wanted = Decision(
        identity("T1"), resolution, 2, (4, 5), ResolutionSource.OPERATOR, "ann: asked the shop"
    )
    assert world.decisions == [(1, wanted)]
    [(told, source, _)] = world.observer.of("ended")
    assert (told, source) == (resolution, ResolutionSource.OPERATOR)
    assert world.asked == []


async def test_a_transaction_of_another_instance_is_looked_up_in_the_log_and_not_in_redis() -> None:
    world = World(doubts={2: [doubt("T1")]}, found=FoundHalves(2, (80, 81, 82), 3))
    world.first = C
    await world.decide("T1")
    [(partition, decision)] = world.decisions
    assert (partition, decision.covered_count, decision.half_offsets) == (2, 3, (80, 81, 82))
    assert world.asked == [
        ("known", 2, ["T1"]), ("known", 3, ["T1"]),
        ("find", (2, 3), "T1", {2: 70}), ("look_up_many", 2, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (R, ContraryDecision),
        (Resolution.PARK, TransactionParked),
        (KafkaUnavailable("slow"), OutcomeUnknown),
    ],
)
async def test_elsewhere_the_log_says_whether_the_decision_was_the_first(
    first: Any, error: type[Exception]
) -> None:
    world = World(found=FoundHalves(2, (80,), 1), first=first)
    with pytest.raises(error):
        await world.decide("T1")
    assert len(world.decisions) == 1


async def test_an_id_that_nobody_knows_is_told_with_what_to_do() -> None:
    world = World()
    with pytest.raises(TransactionNotFound, match="halfhitch tx list"):
        await world.decide("T1")
    world.parked = [parking("T1")]
    with pytest.raises(TransactionParked, match="parked resume"):
        await world.decide("T1")
    assert world.decisions == []


@pytest.mark.parametrize(
    ("standing", "error"),
    [
        (Standing.ROLLED_BACK, ContraryDecision),
        (Standing.ROLLING_BACK, ContraryDecision),
        (Standing.GIVEN_UP, TransactionParked),
        (Standing.GIVING_UP, TransactionParked),
        (Standing.PARKED, TransactionParked),
    ],
)
async def test_what_has_ended_otherwise_is_refused_and_nothing_is_written(
    standing: Standing, error: type[Exception]
) -> None:
    world = World(standings={"T1": standing})
    with pytest.raises(error):
        await world.decide("T1")
    assert world.decisions == []


async def test_a_decision_that_stands_already_is_no_error_and_is_not_written_again() -> None:
    world = World(standings={"T1": Standing.COMMITTED})
    assert (await world.decide("T1")).state is TransactionState.COMMITTED
    assert world.decisions == []


@pytest.mark.parametrize(
    ("first", "error"), [(R, ContraryDecision), (C, None), (KafkaUnavailable("?"), OutcomeUnknown)]
)
async def test_where_the_owner_went_while_it_was_stored_the_log_says_what_counts(
    first: Resolution | KafkaUnavailable, error: type[Exception] | None
) -> None:
    """It was told as decided, although another decision was the first."""
    world = World(pending=[pending("T1")], first=first, gone={0})
    if error is None:
        await world.decide("T1")
    else:
        with pytest.raises(error):
            await world.decide("T1")


async def test_a_commit_that_lost_meanwhile_is_told_to_have_lost() -> None:
    world = World(pending=[pending("T1")], standings={"T1": Standing.ROLLING_BACK})
    with pytest.raises(ContraryDecision):
        await world.decide("T1")


async def test_no_answer_of_kafka_is_no_decision() -> None:
    world = World(pending=[pending("T1")], fails=OutcomeUnknown("?"))
    with pytest.raises(OutcomeUnknown):
        await world.decide("T1")
    assert world.observer.of("ended") == []


@pytest.mark.parametrize(
    ("reason", "operator"),
    [
        ("", "ann"), ("  ", "ann"), ("x" * 201, "ann"), ("two\nlines", "ann"), ("\x1b[2J", "ann"),
        ("why", ""), ("why", "x" * 101), ("why", "a\tb"), ("\udc80", "ann"),
    ],
)  # fmt: skip
async def test_without_a_readable_reason_nothing_is_done(reason: str, operator: str) -> None:
    world = World(pending=[pending("T1")], parked=[parking("T2")])
    with pytest.raises(InvalidRequest, match="printable"):
        await world.service.decide("shop", "T1", C, reason=reason, operator=operator)
    with pytest.raises(InvalidRequest, match="printable"):
        await world.service.resume("shop", "T2", reason=reason, operator=operator)
    assert (world.decisions, world.asked) == ([], [])


# -- check ---------------------------------------------------------------------------------------


async def test_a_check_goes_to_the_owner_wherever_it_is() -> None:
    world = World(pending=[pending("T1", partition=1)], doubts={3: [doubt("T2")]})
    await world.service.check("shop", "T1")
    await world.service.check("shop", "T2")
    assert [asked for asked in world.asked if asked[0] != "known"] == [
        ("check_now", 1, "T1"), ("post", "node-2", "check_now", (3, identity("T2"))),
    ]  # fmt: skip


async def test_a_check_that_cannot_be_handed_on_says_so() -> None:
    with pytest.raises(TransactionNotFound):
        await World().service.check("shop", "T1")
    with pytest.raises(RedisUnavailable, match="2, 3"):
        await World(redis=False).service.check("shop", "T1")
    world = World(doubts={2: [doubt("T1")]}, posted=False)
    with pytest.raises(RedisUnavailable, match="node-2"):
        await world.service.check("shop", "T1")
    world = World(doubts={2: [doubt("T1")]}, owner_of={})
    with pytest.raises(RedisUnavailable, match="no owner"):
        await world.service.check("shop", "T1")


# -- parked --------------------------------------------------------------------------------------


async def test_the_parked_are_shown_with_all_that_is_known() -> None:
    world = World(parked=[parking("T1", decision="r")])
    page = await world.service.parked(Filter())
    [shown] = page.transactions
    assert (page.total_count, page.left_out_count) == (1, 3)
    assert (shown.transaction_id, shown.producer_group, shown.half_partition) == ("T1", "shop", 2)
    assert (shown.reason, shown.detail, shown.decision) == (
        CHECKS_EXHAUSTED, "nobody answered", "rollback",
    )  # fmt: skip
    assert (shown.check_count, shown.last_answer, shown.resumed_count) == (15, "silent", 1)
    assert (shown.parked_ms, shown.stored_ms) == (NOW_MS - 60_000, NOW_MS - 90_000)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Filter(producer_group="shop"), ["T1", "T2"]),
        (Filter(producer_group="other"), []),
        (Filter(topic="points"), ["T2"]),
        (Filter(transaction_id="T1"), ["T1"]),
        (Filter(older_than_s=61), []),
        (Filter(older_than_s=59), ["T1", "T2"]),
        (Filter(check_count_min=16), []),
    ],
)
async def test_the_parked_are_filtered(wanted: Filter, names: list[str]) -> None:
    world = World(parked=[parking("T1"), parking("T2", topic="points")])
    page = await world.service.parked(wanted)
    assert [t.transaction_id for t in page.transactions] == names


async def test_one_that_is_named_wholly_is_looked_for_even_among_too_many() -> None:
    world = World(parked=[parking("T1")])
    await world.service.parked(Filter(producer_group="shop", transaction_id="T1"))
    assert world.asked == [("parkings", identity("T1"))]


async def test_content_and_resume_go_to_the_store() -> None:
    world = World(parked=[parking("T1")])
    _, [message] = await world.service.parked_messages("shop", "T1")
    assert (message.topic, message.key, message.headers) == ("orders", b"k", [("a", None)])
    shown = await world.service.resume("shop", "T1", reason="fixed", operator="ann")
    assert shown.transaction_id == "T1"
    assert world.asked == [("resume", "T1", "fixed", "ann")]
    assert world.observer.of("resumed") == [(1,)]
