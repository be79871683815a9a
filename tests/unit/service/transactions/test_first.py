"""Who cannot be told at once which decision is the first: the owner tells, or the logs do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from halfhitch.core.model import Identity, Resolution
from halfhitch.core.standing import Standing
from halfhitch.errors import KafkaUnavailable, OutcomeUnknown, TransactionGone, TransactionReused
from halfhitch.service.transactions.end import reused
from halfhitch.service.transactions.first import FirstDecisions, Place, gone
from harness.coordinator import settle
from harness.twin import identity

if TYPE_CHECKING:
    from halfhitch.errors import HalfHitchError

T1 = identity("T1")
C, R = Resolution.COMMIT, Resolution.ROLLBACK
PLACE = Place(partition=0, half_offset=3, op_offset=7)


class World:
    """Readers and Inquiry, and who asks them."""

    def __init__(self, *, wait_s: float = 30.0) -> None:
        self.is_read: bool | None = False
        self.stands: Standing | None = Standing.COMMITTING
        self.logs_say: Resolution | HalfHitchError | None = R
        self.looked_up: list[int] = []
        self.firsts = FirstDecisions(self, self, wait_s=wait_s)

    def has_read(self, place: Place) -> bool | None:
        assert place == PLACE
        return self.is_read

    def standing(self, partition: int, identity: Identity, half_offset: int) -> Standing | None:
        assert (partition, identity, half_offset) == (0, T1, 3)
        return self.stands

    async def look_up(
        self, partition: int, identity: Identity, half_offset: int
    ) -> tuple[Resolution | None, bool]:
        assert (partition, identity, half_offset) == (0, T1, 3)
        self.looked_up.append(half_offset)
        if isinstance(self.logs_say, Exception):
            raise self.logs_say
        return self.logs_say, False

    async def find(self) -> Resolution | None:
        return await self.firsts.find(PLACE, T1, advice="ask again")

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
    ],
)
async def test_logs_that_cannot_be_read_say_nothing(
    logs_say: HalfHitchError, error: type[HalfHitchError]
) -> None:
    it = World(wait_s=0.0)
    it.logs_say = logs_say
    with pytest.raises(error):
        await it.find()


async def test_whoever_waits_no_more_is_forgotten() -> None:
    it = World()
    asking = await it.asking()
    asking.cancel()
    await asyncio.wait([asking])
    assert it.firsts._waiting == {}
    it.firsts.look_soon()
