"""Ends beside contrary ones of unknown fate, and beside owners that know nothing for a while."""

from __future__ import annotations

import asyncio

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import Resolution
from halfhitch.core.standing import Standing
from halfhitch.errors import ContraryDecision, OutcomeUnknown
from halfhitch.service.api import TransactionState
from harness.coordinator import Coordinator

C, R = Resolution.COMMIT, Resolution.ROLLBACK


async def test_a_takeover_that_began_between_two_questions_hid_what_had_been_decided() -> None:
    """The memory was silent, for the owner had read it; then the owner knew nothing any more."""
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    it.carry_out()

    def takes_over(*_: object) -> Standing:
        it.owners.clear()
        return Standing.UNKNOWN

    it.standing = takes_over  # type: ignore[method-assign,assignment]
    with pytest.raises(ContraryDecision):
        await it.service.end(handle, R)


async def test_whoever_came_second_behind_a_doubt_waited_for_the_readers_of_its_topic() -> None:
    """A stranger's Kafka transaction held them: a commit that counts was told `outcome_unknown`."""
    it = Coordinator()
    handle = await it.prepared("T1")
    it.kafka.faults.appends = [AppendFault.LOST]
    first = asyncio.create_task(it.service.end(handle, R))
    second = asyncio.create_task(it.service.end(handle, C))
    with pytest.raises(OutcomeUnknown):
        await first
    await asyncio.wait([second], timeout=0.05)
    it.carry_out()
    assert (await second).state is TransactionState.COMMITTED
    assert it.markers.asked == []


@pytest.mark.parametrize("fault", [AppendFault.LOST, AppendFault.ANSWER_LOST])
async def test_whoever_came_second_behind_a_doubt_waits_for_what_the_owner_reads(
    fault: AppendFault,
) -> None:
    """It was told that nobody knows, also when the first was not in the log."""
    it = Coordinator()
    handle = await it.prepared("T1")
    it.kafka.faults.appends = [fault]
    first = asyncio.create_task(it.service.end(handle, C))
    second = asyncio.create_task(it.service.end(handle, R))
    with pytest.raises(OutcomeUnknown):
        await first
    await asyncio.wait([second], timeout=0.05)
    assert not second.done()
    it.carry_out()
    if fault is AppendFault.ANSWER_LOST:
        with pytest.raises(ContraryDecision):
            await second
    else:
        assert (await second).state is TransactionState.ROLLED_BACK
    it.carry_out()
    assert it.twin.values() == ([b"T1-0"] if fault is AppendFault.ANSWER_LOST else [])
