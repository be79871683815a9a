"""Who cannot be told at once which decision is the first: the owner tells, or the logs do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.core.model import Identity, Resolution
from halfhitch.core.standing import Standing
from halfhitch.errors import (
    BackendError,
    HalfHitchError,
    KafkaUnavailable,
    OutcomeUnknown,
    TransactionGone,
    TransactionReused,
)
from halfhitch.service.transactions import first as module
from halfhitch.service.transactions.end import reused
from halfhitch.service.transactions.first import FirstDecisions, LookedUp, Place, gone
from harness.coordinator import settle
from harness.twin import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

T1 = identity("T1")
C, R = Resolution.COMMIT, Resolution.ROLLBACK
PLACE = Place(partition=0, half_offset=3, op_offset=7)


class World:
    """Readers and Inquiry, and who asks them."""

    def __init__(self, *, wait_s: float = 30.0) -> None:
        self.is_read: bool | None = False
        self.stands: Standing | None = Standing.COMMITTING
        self.logs_say: Resolution | HalfHitchError | RuntimeError | None = R
        self.looked_up: list[dict[Identity, int]] = []
        self.may_read = asyncio.Event()
        self.may_read.set()
        self.firsts = FirstDecisions(self, self, wait_s=wait_s)

    def has_read(self, place: Place) -> bool | None:
        assert place.partition == PLACE.partition
        return self.is_read

    def standing(self, partition: int, identity: Identity, half_offset: int) -> Standing | None:
        assert (partition, identity, half_offset) == (0, T1, 3)
        return self.stands

    async def look_up(
        self, partition: int, identity: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        raise AssertionError("several may ask together")

    async def look_up_many(
        self, partition: int, half_offsets: Mapping[Identity, int], seen_ms: int | None = None
    ) -> dict[Identity, LookedUp]:
        assert (partition, seen_ms) == (0, None)
        self.looked_up.append(dict(half_offsets))
        await self.may_read.wait()
        if isinstance(self.logs_say, BackendError | RuntimeError):
            raise self.logs_say
        is_error = isinstance(self.logs_say, HalfHitchError)
        told: Any = self.logs_say if is_error else (self.logs_say, False)
        return dict.fromkeys(half_offsets, told)

    async def find(
        self, which: Identity = T1, place: Place = PLACE, **options: Any
    ) -> Resolution | None:
        return await self.firsts.find(place, which, advice="ask again", **options)

    async def asking(self) -> asyncio.Task[Resolution | None]:
        task = asyncio.create_task(self.find())
        await settle()
        assert not task.done()
        return task


async def test_an_owner_that_has_read_it_tells_at_once() -> None:
    it = World()
    it.is_read = True
    assert await it.find() is C
    assert it.looked_up == []


async def test_an_owner_is_waited_for_until_it_has_read_that_far() -> None:
    it = World()
    asking = await it.asking()
    it.firsts.look_soon()
    await settle()
    assert not asking.done(), "it has read something else"
    it.is_read = True
    await asyncio.to_thread(it.firsts.look_soon)
    assert await asking is C
    assert it.looked_up == []


async def test_where_the_owner_goes_the_logs_tell() -> None:
    it = World()
    asking = await it.asking()
    it.is_read = None
    it.firsts.look_soon()
    async with asyncio.timeout(1):
        assert await asking is R


async def test_where_no_owner_works_or_comes_in_time_the_logs_tell() -> None:
    it = World()
    it.is_read = None
    assert await it.find() is R
    assert await World(wait_s=0.0).find() is R


async def test_an_owner_that_went_between_two_questions_tells_nothing() -> None:
    it = World()
    it.is_read, it.stands = True, Standing.UNKNOWN
    assert await it.find() is R


async def test_a_log_in_which_the_stored_decision_is_missing_says_nothing() -> None:
    """It could not be read that far, and passed for a log without a contrary one."""
    it = World(wait_s=0.0)
    it.logs_say = None
    with pytest.raises(OutcomeUnknown):
        await it.find()


async def test_a_reading_that_is_broken_off_leaves_nobody_waiting() -> None:
    it = World(wait_s=0.0)
    it.may_read.clear()
    asking = asyncio.create_task(it.find())
    await settle()
    it.firsts._reading[0].cancel()
    async with asyncio.timeout(1):
        await asyncio.wait([asking])
    assert asking.cancelled()


async def test_what_its_owner_remembers_no_more_is_gone() -> None:
    it = World()
    it.is_read, it.stands = True, None
    with pytest.raises(TransactionGone):
        await it.find()
    assert it.looked_up == []


@pytest.mark.parametrize(
    ("logs_say", "error"),
    [
        (KafkaUnavailable("nobody leads it"), OutcomeUnknown),
        (gone(T1), TransactionGone),
        (reused(T1), TransactionReused),
        (RuntimeError("a bug"), RuntimeError),
    ],
)
async def test_logs_that_cannot_be_read_say_nothing(
    logs_say: HalfHitchError | RuntimeError, error: type[Exception]
) -> None:
    it = World(wait_s=0.0)
    it.logs_say = logs_say
    with pytest.raises(error):
        await it.find()
    it.logs_say = C
    assert await it.find() is C


async def test_who_does_not_wait_for_a_takeover_asks_the_logs_at_once() -> None:
    it = World()
    async with asyncio.timeout(1):
        assert await it.find(is_patient=False) is R


async def test_one_that_cannot_be_told_of_keeps_no_other_from_being_told() -> None:
    """Its half is trimmed, and what is left of the log cannot be read: it was told that it is
    gone. Then an error without the decision's own words.
    """
    it = World(wait_s=0.0)
    held = KafkaUnavailable("a Kafka transaction is open there")

    async def look_up_many(*_: Any) -> dict[Identity, LookedUp]:
        return {T1: held, identity("T2"): (C, False)}

    it.look_up_many = look_up_many  # type: ignore[method-assign,assignment]
    asking = [asyncio.create_task(it.find(which)) for which in (T1, identity("T2"))]
    with pytest.raises(OutcomeUnknown, match=r"T1 is stored.*a Kafka transaction is open"):
        await asking[0]
    assert await asking[1] is C


async def test_whoever_asks_logs_that_are_read_for_others_was_told_after_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve half partitions were held, and four readings at a time take ten seconds each."""
    monkeypatch.setattr(module, "_LOGS_S", 0.01)
    it = World(wait_s=0.0)
    it.may_read.clear()
    with pytest.raises(OutcomeUnknown, match=r"were not read within 0\.01 s"):
        await it.find()
    monkeypatch.undo()
    it.may_read.set()
    assert await it.find() is R


async def test_each_of_hundreds_took_a_thread_until_it_gave_up() -> None:
    """Those who come while the logs are read share the next reading: it begins behind what they
    have stored.
    """
    it = World()
    it.is_read = None
    it.may_read.clear()
    first = asyncio.create_task(it.find())
    await settle()
    others = [asyncio.create_task(it.find(identity(f"T{n}"))) for n in (1, 2, 2, 3)]
    of_that_name = asyncio.create_task(it.find(place=PLACE._replace(half_offset=9)))
    await settle()
    others[0].cancel()  # the one that asks about the same one is told all the same
    it.may_read.set()
    assert await first is R
    assert await asyncio.gather(*others[1:], of_that_name) == [R] * 4
    assert it.looked_up == [
        {T1: 3}, {identity(f"T{n}"): 3 for n in (1, 2, 3)}, {T1: 9},
    ]  # fmt: skip
    assert (it.firsts._next, it.firsts._reading) == ({}, {})


async def test_whoever_waits_no_more_is_forgotten() -> None:
    it = World()
    asking = await it.asking()
    asking.cancel()
    await asyncio.wait([asking])
    assert it.firsts._waiting == {}
    it.firsts.look_soon()
