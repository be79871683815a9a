"""A commit is a success only if everything it covers is carried out."""

from __future__ import annotations

import asyncio

import pytest

from halfhitch.core.model import DoneMark, Resolution
from halfhitch.errors import CommittedInPart
from harness.coordinator import Coordinator, message, settle
from harness.twin import identity

C = Resolution.COMMIT


async def test_a_commit_that_covers_more_than_what_was_carried_out_is_no_success() -> None:
    it = Coordinator()
    early = await it.prepared("T1", count=1)
    late = (await it.service.add(early, [message(value=b"T1-1")])).handle
    await it.service.end(early, C)
    it.carry_out()
    for wait_visible in (False, True):
        with pytest.raises(CommittedInPart, match="send them under a new id"):
            await it.service.end(late, C, wait_visible=wait_visible)
    assert it.twin.written_values() == [b"T1-0"]


async def test_a_commit_with_a_newer_handle_that_comes_in_time_carries_everything() -> None:
    it = Coordinator()
    early = await it.prepared("T1", count=1)
    late = (await it.service.add(early, [message(value=b"T1-1")])).handle
    await it.service.end(early, C)
    owner = it.owners[it.handles.decode(early).partition]
    batch = owner._reader.read(0)
    owner._feed.take(owner._working_ledger(), batch.half, batch.op)  # it cannot write for now
    ending = asyncio.ensure_future(it.service.end(late, C))
    await settle()
    it.carry_out()
    assert (await ending).visible
    assert it.twin.written_values() == [b"T1-0", b"T1-1"]


async def test_on_another_instance_too_visible_means_all_messages() -> None:
    it = Coordinator()
    early = await it.prepared("T1", count=1)
    late = (await it.service.add(early, [message(value=b"T1-1")])).handle
    await it.service.end(early, C)
    it.carry_out()
    partition = it.handles.decode(late).partition
    del it.owners[partition]
    ending = asyncio.ensure_future(it.service.end(late, C, wait_visible=True))
    await settle()
    assert it.followed
    it.visibility.done(partition, [DoneMark(identity("T1"), 1, [])])
    with pytest.raises(CommittedInPart):
        await ending
