"""Several answers to one question, and answers that come too late: the first decision stands."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.model import ConflictKind, ConflictRead, DecisionRead, Resolution
from halfhitch.core.model import ResolutionSource as Source
from halfhitch.errors import (
    ContraryDecision,
    InvalidHandle,
    TransactionNotFound,
    TransactionParked,
    WrongGroup,
)
from halfhitch.service.api import TransactionState
from harness.check_site import RULES, CheckSite
from harness.check_witness import COMMIT, ROLLBACK, SILENT, UNDECIDED
from harness.checkers import Fate
from harness.defaults import desk_limits
from harness.engines import GROUP, until

if TYPE_CHECKING:
    from halfhitch.embedded import EmbeddedRedis

pytestmark = pytest.mark.kafka

C, R = Resolution.COMMIT, Resolution.ROLLBACK


@pytest.fixture
def site(kafka: Any, redis_server: EmbeddedRedis) -> CheckSite:
    made = CheckSite(kafka.bootstrap, redis_url=redis_server.url)
    made.create_targets()
    return made


async def test_of_two_contrary_answers_at_the_same_time_one_stands(site: CheckSite) -> None:
    """Both producers were asked: the second because the first had not answered in time."""
    async with site.engine() as engine, site.doorkeeper() as other:
        site.link(engine)
        handles = {n: (await site.orphan(engine, f"t{n}", SILENT)).handle for n in range(20)}
        await until(lambda: len(site.witness.by_id()) == 20, "all are asked")
        ends = [
            door.transactions.end(handle, resolution, source=Source.CHECK)
            for handle in handles.values()
            for door, resolution in ((engine, C), (other, R))
        ]
        answers = await asyncio.gather(*ends, return_exceptions=True)
        await site.until_pending(engine)
        decided: dict[str, Resolution] = {}
        for entry in site.ops():
            if isinstance(entry, DecisionRead):
                decided.setdefault(entry.identity[1], entry.resolution)
        for name, resolution in decided.items():
            site.note(
                name, site.pair(name), Fate.COMMITTED if resolution is C else Fate.ROLLED_BACK
            )
        await site.judged()
    # Whoever was told that his answer stands was told the truth, or a conflict is on record.
    recorded = {e.identity[1] for e in site.ops() if isinstance(e, ConflictRead)}
    refused = set()
    for n, name in enumerate(f"t{n}" for n in range(20)):
        for resolution, answer in zip((C, R), answers[2 * n : 2 * n + 2], strict=True):
            if isinstance(answer, ContraryDecision):
                assert decided[name] is not resolution
                refused.add(name)
            else:
                assert not isinstance(answer, BaseException), answer
                assert decided[name] is resolution or name in recorded
    print(f"{len(refused)} refused at once, {len(recorded)} on record, of {len(decided)}")
    assert len(refused | recorded) == len(decided) == 20


async def test_an_answer_after_the_giving_up_is_kept_and_applied_by_resuming(
    site: CheckSite,
) -> None:
    async with site.engine() as engine:
        link = site.link(engine)
        to_commit = await site.orphan(engine, "late-commit", UNDECIDED)
        to_drop = await site.orphan(engine, "late-rollback", UNDECIDED)
        await site.until_pending(engine)
        await site.judged()
        link.disconnect()
        for prepared, resolution in ((to_commit, C), (to_drop, R)):
            with pytest.raises(TransactionParked):
                await engine.transactions.end(prepared.handle, resolution, source=Source.CHECK)
            view = await engine.transactions.view(prepared.handle)
            assert view.state is TransactionState.PARKED
        operations = engine.operations
        for name, resolution in (("late-commit", "commit"), ("late-rollback", "rollback")):
            await until_decision(engine, name, resolution)
            await operations.resume(GROUP, name, reason="the database says so", operator="me")
        site.note("late-commit", site.pair("late-commit"), Fate.COMMITTED)
        site.note("late-rollback", site.pair("late-rollback"), Fate.ROLLED_BACK)
        await site.until_pending(engine)
        await site.until_faultless()
        with pytest.raises(TransactionNotFound):
            await operations.resume(GROUP, "late-commit", reason="again", operator="me")
    assert site.witness.numbers("late-commit") == [1, 2, 3], "nobody was asked again"


async def until_decision(engine: Any, transaction_id: str, wanted: str) -> None:
    async with asyncio.timeout(15):
        while True:
            parked, _ = await engine.operations.parked_messages(GROUP, transaction_id)
            if parked.decision == wanted:
                return
            await asyncio.sleep(0.05)


async def test_a_producers_late_commit_frees_the_check_that_is_out(site: CheckSite) -> None:
    """There is room for one check in all: the next is asked when the first is needless."""
    site.desk_limits = desk_limits(answer_s=60.0, in_flight_max=1)
    async with site.engine() as engine:
        site.link(engine)
        handles = {
            name: (await site.orphan(engine, name, SILENT)).handle for name in ("a", "b", "c")
        }
        loop = asyncio.get_running_loop()
        for count in (1, 2, 3):
            await until(lambda c=count: len(site.witness.asked) == c, "one more is asked", 5)
            asked = site.witness.asked[-1].transaction_id
            begin_s = loop.time()
            await site.end(engine, handles[asked], C)
        await site.until_pending(engine)
        assert loop.time() - begin_s < 5
        await site.judged()
    assert sorted(site.witness.by_id()) == ["a", "b", "c"]


async def test_handles_and_sources_give_no_power_that_their_owner_lacks(site: CheckSite) -> None:
    async with site.engine() as engine:
        end = engine.transactions.end
        mine = await site.orphan(engine, "mine", COMMIT)
        other = await site.orphan(engine, "other", ROLLBACK, group="somebody-else")
        # An answer for another id needs that one's handle, which is signed.
        for forged in (
            mine.handle[:-4] + other.handle[-4:],
            other.handle[: len(other.handle) // 2] + mine.handle[len(other.handle) // 2 :],
            mine.handle + "A",
            "",
            "other",
        ):
            with pytest.raises(InvalidHandle):
                await end(forged, C, source=Source.CHECK)
        with pytest.raises(WrongGroup):
            await end(other.handle, C, source=Source.CHECK, producer_group=GROUP)
        # A check's answer to what is decided already is like any other end.
        await site.end(engine, mine.handle, C, wait_visible=True)
        again = await end(mine.handle, C, source=Source.CHECK)
        assert again.state is TransactionState.COMMITTED
        with pytest.raises(ContraryDecision):
            await end(mine.handle, R, source=Source.CHECK)
        site.link(engine, group="somebody-else")
        await site.until_pending(engine)
        with pytest.raises(ContraryDecision):
            await end(other.handle, C, source=Source.CHECK)
        await site.judged()
    assert site.witness.of("mine") == []
    assert site.witness.numbers("other") == [1]


async def test_an_answer_to_an_earlier_check_of_a_resumed_one_still_counts(
    site: CheckSite,
) -> None:
    """Put back undecided: it has all its checks anew, and any answer to it decides it."""
    site.rules = replace(RULES, count_max=1)
    async with site.engine() as engine:
        site.link(engine)
        prepared = await site.orphan(engine, "t", UNDECIDED)
        await site.until_pending(engine)
        await site.judged()
        site.witness.plans["t"] = SILENT
        site.desk_limits = desk_limits(answer_s=30.0)
        await engine.operations.resume(GROUP, "t", reason="its producer is back", operator="me")
        await until(lambda: site.witness.numbers("t") == [1, 1], "it is asked anew")
        await site.end(engine, prepared.handle, C, source=Source.CHECK)
        await site.until_pending(engine)
        await site.until_faultless()
    kinds = [e.kind for e in site.ops() if isinstance(e, ConflictRead)]
    assert ConflictKind.CONTRARY not in kinds
