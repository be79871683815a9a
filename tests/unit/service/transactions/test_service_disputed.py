"""Ends beside contrary ones of unknown fate, and beside owners that know nothing for a while."""

from __future__ import annotations

import asyncio

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.core.standing import Standing
from halfhitch.errors import (
    CommittedInPart,
    ContraryDecision,
    KafkaUnavailable,
    OutcomeUnknown,
    TransactionParked,
)
from halfhitch.service.api import TransactionState
from halfhitch.service.transactions.op_appends import Decision
from harness.coordinator import PARTITION_COUNT, Coordinator, message, settle
from harness.twin import identity

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


def takeover(it: Coordinator) -> None:
    """The owners know nothing for a while."""
    it.taken_over |= set(it.owners)
    it.owners.clear()


def is_over(it: Coordinator) -> None:
    for partition in it.taken_over:
        it.own(partition)
    it.firsts.look_soon()


def forget(it: Coordinator) -> None:
    """What was decided until now, for others were decided since."""
    for partition in range(PARTITION_COUNT):
        for _ in range(2):
            it.decisions._lane(partition).remembered._turn(100)


async def until_stored(it: Coordinator, count: int) -> None:
    while len(it.decided()) < count:
        await asyncio.sleep(0)
    await settle()


async def test_in_a_takeover_a_contrary_end_counted_once_the_first_was_forgotten() -> None:
    """And whoever repeated the first one then was told that the contrary one had come first."""
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    it.carry_out()
    forget(it)
    takeover(it)
    contrary = asyncio.create_task(it.service.end(handle, R))
    equal = asyncio.create_task(it.service.end(handle, C))
    await until_stored(it, 3)
    assert not contrary.done()
    assert not equal.done()
    is_over(it)
    assert (await equal).state is TransactionState.COMMITTED
    with pytest.raises(ContraryDecision):
        await contrary
    assert it.looked_up == []


async def test_what_was_added_in_a_takeover_was_told_as_committed_and_never_went_out() -> None:
    """The commit of the first message was forgotten, so the second was taken."""
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    it.carry_out()
    forget(it)
    takeover(it)
    grown = await it.service.add(handle, [message(value=b"late")])
    ending = asyncio.create_task(it.service.end(grown.handle, C))
    await until_stored(it, 2)
    is_over(it)
    await settle()
    it.carry_out()
    with pytest.raises(CommittedInPart):
        await ending
    assert it.twin.values() == [b"T1-0"]


async def test_a_repeat_of_a_prepare_in_a_takeover_hid_that_the_first_one_was_committed() -> None:
    """Its half is a new one, behind all that was forgotten."""
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    it.carry_out()
    forget(it)
    takeover(it)
    again = await it.prepared("T1")
    ending = asyncio.create_task(it.service.end(again, R))
    await until_stored(it, 2)
    assert not ending.done()
    is_over(it)
    with pytest.raises(ContraryDecision):
        await ending


async def test_what_was_given_up_a_moment_ago_could_be_committed_in_a_takeover() -> None:
    """A giving up was not remembered, and not known as forgotten."""
    it = Coordinator()
    handle = await it.prepared("T1")
    known = it.handles.decode(handle)
    decision = Decision(
        identity("T1"), Resolution.PARK, 1, known.half_offsets, ResolutionSource.POLICY
    )
    await it.decisions.append(known.partition, decision)
    it.carry_out()
    takeover(it)
    ending = asyncio.create_task(it.service.end(handle, C))
    await until_stored(it, 2)
    is_over(it)
    with pytest.raises(TransactionParked):
        await ending


async def test_a_new_process_told_a_contrary_end_that_it_counts_before_it_had_read_the_logs() -> (
    None
):
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    later = Coordinator(it.twin, owns=())
    later.taken_over |= {0, 1}
    later.decisions.first_half = lambda _: 1
    contrary = asyncio.create_task(later.service.end(handle, R))
    await until_stored(later, 2)
    assert not contrary.done()
    is_over(later)
    with pytest.raises(ContraryDecision):
        await contrary


async def test_a_decision_of_a_process_that_has_died_landed_while_the_next_one_was_told() -> None:
    """Its request was on its way still, and landed before the contrary one: both counted."""
    it = Coordinator()
    handle = await it.prepared("T1")
    known = it.handles.decode(handle)
    later = Coordinator(it.twin)
    later.decisions.first_half = lambda _: 1
    asking = asyncio.create_task(later.service.end(handle, R))
    # The owner had read nothing of it when the contrary one was asked for.
    decision = Decision(identity("T1"), C, 1, known.half_offsets, ResolutionSource.PRODUCER)
    await it.decisions.append(known.partition, decision)
    await until_stored(later, 2)
    assert not asking.done()
    later.carry_out()
    with pytest.raises(ContraryDecision):
        await asking


async def test_a_one_way_end_after_a_restart_was_counted_as_refused() -> None:
    """It is stored, and nobody waits: whether another one came first its owner knows."""
    it = Coordinator()
    known = it.handles.decode(await it.prepared("T1"))
    later = Coordinator(it.twin)
    later.decisions.first_half = lambda _: 1
    await later.service.end_named(known, C, is_awaited=False)
    assert later.told == [(identity("T1"), C, ResolutionSource.PRODUCER)]


async def test_a_minute_after_its_start_an_owner_that_works_is_trusted() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    later = Coordinator(it.twin)
    later.decisions.first_half = lambda _: 1
    later.decisions._began_s = asyncio.get_running_loop().time() - 61
    assert (await later.service.end(handle, C)).state is TransactionState.COMMITTED
    assert later.looked_up == []


async def test_what_was_prepared_and_decided_within_memory_does_not_wait_for_a_takeover() -> None:
    it = Coordinator()
    takeover(it)
    made = await it.service.prepare(producer_group="group", messages=[message()])
    assert (await it.service.end(made.handle, C)).state is TransactionState.COMMITTED


async def test_the_logs_tell_where_a_takeover_takes_too_long() -> None:
    it = Coordinator(visible_wait_s=0.01)
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    it.carry_out()
    forget(it)
    takeover(it)
    with pytest.raises(ContraryDecision):
        await it.service.end(handle, R)
    assert (await it.service.end(handle, C)).state is TransactionState.COMMITTED
    assert len(it.looked_up) == 2
    it.look_up_answer = KafkaUnavailable("nobody leads it")
    with pytest.raises(OutcomeUnknown, match="nobody leads it"):
        await it.service.end(handle, C)


async def test_where_another_instance_came_first_the_second_to_come_here_was_refused() -> None:
    """All that was remembered here was the one that had lost already."""
    elsewhere = Coordinator()
    handle = await elsewhere.prepared("T1")
    await elsewhere.service.end(handle, C)
    it = Coordinator(elsewhere.twin, owns=())
    await it.service.end(handle, R)  # stored, says 200; that it is the first one `wait` says
    assert (await it.service.end(handle, C)).state is TransactionState.COMMITTED


async def test_a_takeover_that_ended_between_two_questions_hid_that_something_was_forgotten() -> (
    None
):
    """The owner had read it when it was asked how far, and knew nothing when it was asked what."""
    it = Coordinator(visible_wait_s=0.01)
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    it.carry_out()
    forget(it)
    stands = it.standing

    def is_taking_over(*_: object) -> Standing | None:
        it.standing = stands  # type: ignore[method-assign]
        takeover(it)
        return Standing.UNKNOWN

    it.standing = is_taking_over  # type: ignore[method-assign,assignment]
    with pytest.raises(ContraryDecision):
        await it.service.end(handle, R)


async def test_what_was_ended_was_pending_to_whoever_looked_before_its_owner_had_read_it() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    it.carry_out()
    assert (await it.service.view(handle)).state is TransactionState.PENDING
    await it.service.end(handle, R)
    assert (await it.service.view(handle)).state is TransactionState.ROLLED_BACK
    it.carry_out()
    assert (await it.service.view(handle)).state is TransactionState.ROLLED_BACK
