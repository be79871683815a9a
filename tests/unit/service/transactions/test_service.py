"""The transaction service, on a Kafka in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import (
    ConflictRead,
    DecisionRead,
    DoneMark,
    Resolution,
    ResolutionSource,
)
from halfhitch.core.partitioning import half_partition
from halfhitch.errors import (
    BackendError,
    ContraryDecision,
    HalfHitchError,
    InvalidHandle,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    TransactionGone,
    TransactionParked,
    UnknownTopic,
    VisibilityUnknown,
    WrongGroup,
)
from halfhitch.service.api import TransactionState
from halfhitch.wire import op as op_wire
from halfhitch.wire.digest import digest_of
from halfhitch.wire.half import HalfRecord
from halfhitch.wire.handle import Handle, HandleCodec
from harness.coordinator import PARTITION_COUNT, Coordinator, message, settle
from harness.defaults import owner_limits
from harness.twin import GROUP, Twin, identity

if TYPE_CHECKING:
    from collections.abc import Iterable

C, R = Resolution.COMMIT, Resolution.ROLLBACK


# -- prepare -------------------------------------------------------------------------------------


async def test_a_prepare_stores_every_message_and_the_handle_says_where() -> None:
    it = Coordinator()
    messages = [
        message("orders", b"customer-7", b"order", headers=[("a", b"1"), ("a", None)]),
        message("points", None, None, partition=2),
    ]
    answer = await it.service.prepare(
        producer_group=GROUP, messages=messages, transaction_id="T1", immunity_s=30
    )
    partition = half_partition(b"customer-7", "T1", PARTITION_COUNT)
    assert answer.transaction_id == "T1"
    assert it.handles.decode(answer.handle) == Handle(
        partition or 0, GROUP, "T1", (0, 1), ("orders", "points")
    )
    (first, first_half), (second, second_half) = it.halves()
    assert {first.partition, second.partition} == {partition}
    assert (first.key(), first.value(), second.key(), second.value()) == (
        b"customer-7",
        b"order",
        None,
        None,
    )
    assert (first.headers() or [])[-2:] == [("a", b"1"), ("a", None)]
    born_ms = it.twin.clock.wall_ms()
    says = digest_of("orders", None, b"customer-7", b"order", [("a", b"1"), ("a", None)])
    assert first_half == HalfRecord(
        "T1", GROUP, 0, born_ms, "instance-9", "orders", None, 30, digest=says
    )
    says = digest_of("points", 2, None, None)
    assert second_half == HalfRecord(
        "T1", GROUP, 1, born_ms, "instance-9", "points", 2, 30, digest=says
    )
    assert it.observer.of("prepared")[0][0] == 2


async def test_an_id_is_made_for_a_caller_who_gives_none_and_an_owned_partition_is_preferred() -> (
    None
):
    it = Coordinator(owns=[1])
    answers = [
        await it.service.prepare(producer_group=GROUP, messages=[message()]) for _ in range(2)
    ]
    assert [answer.transaction_id for answer in answers] == ["made-1", "made-2"]
    assert [record.partition for record, _ in it.halves()] == [1, 1]


async def test_a_handle_key_of_128_characters_does_not_break_every_prepare() -> None:
    """It did, after the half was stored: a sidecar that looked ready answered nothing but 500."""
    it = Coordinator(keys=(b"0f" * 64,))
    handle = await it.prepared("T1")
    assert (await it.service.end(handle, C)).state == "committed"


async def test_a_retried_prepare_lands_where_the_first_one_did_and_is_forwarded_once() -> None:
    it = Coordinator()
    first, again = await it.prepared("T1"), await it.prepared("T1")
    assert len({record.partition for record, _ in it.halves()}) == 1
    assert first != again
    await it.service.end(first, C)
    it.carry_out()
    await it.service.end(again, C)
    it.carry_out()
    assert it.twin.written_values() == [b"T1-0"]


async def test_nothing_is_taken_before_kafka_was_reached() -> None:
    it = Coordinator()
    it.service.open(0)
    with pytest.raises(KafkaUnavailable, match="readyz"):
        await it.prepared()
    assert it.halves() == []
    assert it.observer.of("prepare_refused") == [("kafka_unavailable",)]


async def test_a_refused_prepare_stores_nothing_and_is_counted_by_its_code() -> None:
    it = Coordinator()
    with pytest.raises(UnknownTopic):
        await it.service.prepare(
            producer_group=GROUP, messages=[message(), message("no-such-topic")]
        )
    with pytest.raises(HalfHitchError):
        await it.service.prepare(producer_group="", messages=[message()])
    assert it.halves() == []
    assert it.observer.of("prepare_refused") == [("unknown_topic",), ("invalid_request",)]


async def test_an_id_that_was_rolled_back_is_not_taken_again() -> None:
    it = Coordinator()
    await it.service.end(await it.prepared("T1"), R)
    it.carry_out()
    with pytest.raises(ContraryDecision) as caught:
        await it.prepared("T1")
    assert (caught.value.decided, caught.value.requested) == ("rolled_back", "pending")
    assert len(it.halves()) == 1


async def test_an_id_that_was_committed_may_be_prepared_again_and_is_not_forwarded_again() -> None:
    it = Coordinator()
    await it.service.end(await it.prepared("T1"), C)
    it.carry_out()
    again = await it.prepared("T1")
    it.carry_out()
    assert (await it.service.end(again, C)).state is TransactionState.COMMITTED
    it.carry_out()
    assert it.twin.written_values() == [b"T1-0"]


# -- prepare that fails --------------------------------------------------------------------------


async def test_one_message_that_is_surely_not_stored_leaves_nothing_behind() -> None:
    it = Coordinator()
    it.kafka.faults.appends = [AppendFault.REFUSED]
    with pytest.raises(KafkaUnavailable):
        await it.service.prepare(producer_group=GROUP, messages=[message()])
    await settle()
    assert it.halves() == []
    assert it.decided() == []


@pytest.mark.parametrize("fault", [AppendFault.LOST, AppendFault.ANSWER_LOST])
async def test_one_message_of_unknown_fate_is_rolled_back_when_nobody_knows_its_id(
    fault: AppendFault,
) -> None:
    it = Coordinator()
    it.kafka.faults.appends = [fault]
    with pytest.raises(OutcomeUnknown):
        await it.service.prepare(producer_group=GROUP, messages=[message()])
    await settle()
    assert it.decided() == [("made-1", R, 1)]
    it.carry_out()
    assert it.twin.written_values() == []
    stored = 1 if fault is AppendFault.ANSWER_LOST else 0
    assert len(it.halves()) == stored
    assert len(it.twin.done_ids()) == stored


async def test_one_message_of_unknown_fate_is_left_to_a_caller_who_can_ask_again() -> None:
    it = Coordinator()
    it.kafka.faults.appends = [AppendFault.ANSWER_LOST]
    with pytest.raises(OutcomeUnknown):
        await it.prepared("T1")
    await settle()
    assert it.decided() == []
    await it.service.end(await it.prepared("T1"), C)
    it.carry_out()
    assert it.twin.written_values() == [b"T1-0"]
    assert len(it.halves()) == 2


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        ([None, AppendFault.REFUSED, None], KafkaUnavailable),
        ([AppendFault.REFUSED, None, AppendFault.LOST], OutcomeUnknown),
        ([None, None, AppendFault.ANSWER_LOST], OutcomeUnknown),
    ],
)
async def test_a_torso_is_completed_by_a_caller_who_asks_again_with_the_same_id(
    faults: list[AppendFault | None], error: type[BackendError]
) -> None:
    it = Coordinator()
    it.kafka.faults.appends = list(faults)
    with pytest.raises(error) as caught:
        await it.prepared("T1", count=3)
    assert caught.value.retryable
    await settle()
    assert it.decided() == []
    await it.service.end(await it.prepared("T1", count=3), C)
    it.carry_out()
    assert it.twin.values() == [b"T1-0", b"T1-1", b"T1-2"]


async def test_a_torso_that_nobody_can_complete_is_rolled_back() -> None:
    it = Coordinator()
    it.kafka.faults.appends = [None, AppendFault.REFUSED, None]
    with pytest.raises(KafkaUnavailable):
        await it.service.prepare(producer_group=GROUP, messages=[message()] * 3)
    await settle()
    assert it.decided() == [("made-1", R, 3)]
    it.carry_out()
    assert it.twin.written_values() == []
    assert it.twin.stored()[0] == 2, "nothing is left pending"


TOO_LARGE = [[None, AppendFault.TOO_LARGE], [AppendFault.TOO_LARGE, AppendFault.LOST]]


@pytest.mark.parametrize("faults", TOO_LARGE)
async def test_a_torso_of_our_own_id_is_rolled_back_and_the_refusal_is_told(
    faults: list[AppendFault | None],
) -> None:
    it = Coordinator()
    it.kafka.faults.appends = list(faults)
    with pytest.raises(MessageTooLarge):
        await it.service.prepare(producer_group=GROUP, messages=[message()] * 2)
    await settle()
    assert it.decided() == [("made-1", R, 2)]


@pytest.mark.parametrize("faults", TOO_LARGE)
async def test_a_refused_repetition_rolled_back_what_the_first_prepare_had_acknowledged(
    faults: list[AppendFault | None],
) -> None:
    """A limit was lowered in between; the first one's local transaction may have committed."""
    it = Coordinator()
    handle = await it.prepared("T1", count=2)
    it.kafka.faults.appends = list(faults)
    with pytest.raises(MessageTooLarge):
        await it.prepared("T1", count=2)
    await settle()
    assert it.decided() == []
    await it.service.end(handle, C)
    it.carry_out()
    assert it.twin.values() == [b"T1-0", b"T1-1"]


async def test_a_rollback_of_a_torso_that_fails_too_is_no_second_error() -> None:
    it = Coordinator()
    it.kafka.faults.appends = [None, AppendFault.REFUSED, AppendFault.LOST]
    with pytest.raises(KafkaUnavailable):
        await it.service.prepare(producer_group=GROUP, messages=[message()] * 2)
    await settle()
    assert it.decided() == []


# -- add -----------------------------------------------------------------------------------------


async def test_added_messages_belong_to_the_transaction_and_the_new_handle_covers_all() -> None:
    it = Coordinator()
    handle = await it.prepared("T1", count=2)
    added = await it.service.add(handle, [message("points", b"another key", b"p")])
    assert added.transaction_id == "T1"
    known = it.handles.decode(added.handle)
    assert known.half_offsets == (0, 1, 2)
    assert known.partition == it.handles.decode(handle).partition
    assert [half.index for _, half in it.halves()] == [0, 1, 2]
    await it.service.end(added.handle, C)
    it.carry_out()
    assert it.twin.values("orders") == [b"T1-0", b"T1-1"]
    assert it.twin.values("points") == [b"p"]
    assert [count for count, _ in it.observer.of("prepared")] == [2, 1]


async def test_a_commit_with_the_old_handle_drops_what_was_added_and_says_so() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.add(handle, [message("points", value=b"p")])
    await it.service.end(handle, C)
    it.carry_out()
    assert it.twin.values("orders") == [b"T1-0"]
    assert it.twin.written_values("points") == []
    assert any(isinstance(entry, ConflictRead) for entry in it.twin.ops())


@pytest.mark.parametrize("fault", [AppendFault.REFUSED, AppendFault.LOST, AppendFault.ANSWER_LOST])
@pytest.mark.parametrize("count", [1, 2])
async def test_an_add_that_fails_leaves_the_transaction_as_it_was(
    fault: AppendFault, count: int
) -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    it.kafka.faults.appends = [fault]
    with pytest.raises(BackendError):
        await it.service.add(handle, [message("points")] * count)
    await settle()
    assert it.decided() == []
    await it.service.end(handle, C)
    it.carry_out()
    assert it.twin.written_values("orders") == [b"T1-0"]
    assert it.twin.written_values("points") == []


@pytest.mark.parametrize("resolution", [C, R])
async def test_nothing_can_be_added_to_what_is_decided(resolution: Resolution) -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.end(handle, resolution)
    it.carry_out()
    with pytest.raises(ContraryDecision) as caught:
        await it.service.add(handle, [message()])
    assert caught.value.requested == "pending"
    assert len(it.halves()) == 1


async def test_nothing_can_be_added_while_a_decision_is_under_way() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    ending = asyncio.ensure_future(it.service.end(handle, C))
    await asyncio.sleep(0)
    with pytest.raises(ContraryDecision):
        await it.service.add(handle, [message()])
    await ending


async def test_what_may_not_be_prepared_may_not_be_added() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    with pytest.raises(UnknownTopic):
        await it.service.add(handle, [message("no-such-topic")])
    with pytest.raises(InvalidHandle):
        await it.service.add(handle[:-2] + "xx", [message()])
    assert len(it.halves()) == 1


# -- end -----------------------------------------------------------------------------------------


async def test_a_decision_is_in_the_op_log_when_it_is_answered() -> None:
    it = Coordinator()
    handle = await it.prepared("T1", count=2)
    answer = await it.service.end(
        handle, C, producer_group=GROUP, source=ResolutionSource.CHECK, reason="because"
    )
    assert (answer.transaction_id, answer.state, answer.visible) == (
        "T1",
        TransactionState.COMMITTED,
        False,
    )
    (record,) = it.kafka.committed(it.kafka.op_topic)
    assert record.partition == it.handles.decode(handle).partition
    assert record.value() == b"0,1,"
    assert b"because" in ((record.headers() or [])[1][1] or b"")
    (entry,) = it.twin.ops()
    assert isinstance(entry, DecisionRead)
    assert (entry.source, entry.covered_count) == (ResolutionSource.CHECK, 2)
    assert [call[:2] for call in it.observer.of("ended")] == [(C, ResolutionSource.CHECK)]


async def test_a_rollback_is_carried_out_without_a_trace_on_the_topic() -> None:
    it = Coordinator()
    answer = await it.service.end(await it.prepared("T1"), R)
    assert answer.state is TransactionState.ROLLED_BACK
    it.carry_out()
    assert it.twin.written_values() == []
    assert it.twin.done_ids() == ["T1"]


async def test_a_handle_of_another_installation_or_an_altered_one_is_refused() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    foreign = HandleCodec((b"x" * 32,)).encode(it.handles.decode(handle))
    for wrong in (foreign, "B" + handle[1:], handle[:-1], "", "not a handle", "é" * 40):
        with pytest.raises(InvalidHandle):
            await it.service.end(wrong, C)
    assert it.decided() == []
    assert set(it.observer.of("end_refused")) == {("invalid_handle",)}


async def test_another_group_cannot_end_it() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    with pytest.raises(WrongGroup):
        await it.service.end(handle, C, producer_group="another")
    assert it.decided() == []
    assert it.observer.of("end_refused") == [("wrong_group",)]


async def test_an_equal_decision_may_come_again_at_any_time() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    for _ in range(2):
        assert (await it.service.end(handle, C)).state is TransactionState.COMMITTED
    it.carry_out()
    assert len(it.decided()) == 2
    for _ in range(2):
        assert (await it.service.end(handle, C)).state is TransactionState.COMMITTED
    it.carry_out()
    assert len(it.decided()) == 2, "what is known here to be decided so is not written again"
    assert it.twin.written_values() == [b"T1-0"]
    assert it.observer.of("conflict") == []


@pytest.mark.parametrize(("first", "second"), [(C, R), (R, C)])
@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_contrary_decision_is_refused_where_it_is_known_and_recorded_all_the_same(
    first: Resolution, second: Resolution, carried_out: bool
) -> None:
    it = Coordinator()
    handle = await it.prepared("T1", count=1)
    await it.service.end(handle, first)
    if carried_out:
        it.carry_out()
    else:  # read by the owner, who cannot write for now
        owner = it.owners[it.handles.decode(handle).partition]
        batch = owner._reader.read(0)
        owner._feed.take(owner._working_ledger(), batch.half, batch.op)
    with pytest.raises(ContraryDecision) as caught:
        await it.service.end(handle, second)
    states = {C: "committed", R: "rolled_back"}
    assert (caught.value.decided, caught.value.requested) == (states[first], states[second])
    assert [which for _, which, _ in it.decided()] == [first, second]
    it.carry_out()
    assert it.twin.written_values() == ([b"T1-0"] if first is C else [])
    assert len([entry for entry in it.twin.ops() if isinstance(entry, ConflictRead)]) == 1
    assert it.observer.of("end_refused") == [("contrary_decision",)]


async def test_of_two_contrary_decisions_at_once_the_first_asked_wins_and_the_other_is_told() -> (
    None
):
    it = Coordinator()
    handle = await it.prepared("T1")
    committed, refused = await asyncio.gather(
        it.service.end(handle, C), it.service.end(handle, R), return_exceptions=True
    )
    assert not isinstance(committed, BaseException)
    assert isinstance(refused, ContraryDecision)
    it.carry_out()
    assert it.twin.values() == [b"T1-0"]


async def test_whoever_came_second_wins_when_the_first_one_was_surely_not_stored() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    it.kafka.faults.appends = [AppendFault.REFUSED]
    refused, rolled_back = await asyncio.gather(
        it.service.end(handle, C), it.service.end(handle, R), return_exceptions=True
    )
    assert isinstance(refused, KafkaUnavailable)
    assert not isinstance(rolled_back, BaseException), rolled_back
    assert rolled_back.state is TransactionState.ROLLED_BACK
    it.carry_out()
    assert it.twin.written_values() == []


@pytest.mark.parametrize("fault", [AppendFault.LOST, AppendFault.ANSWER_LOST])
async def test_whoever_came_second_is_told_neither_yes_nor_no_when_the_first_ones_fate_is_unknown(
    fault: AppendFault,
) -> None:
    it = Coordinator(visible_wait_s=0.05)
    it.look_up_answer = KafkaUnavailable("the logs cannot be read")
    handle = await it.prepared("T1")
    it.kafka.faults.appends = [fault]
    first, second = await asyncio.gather(
        it.service.end(handle, C), it.service.end(handle, R), return_exceptions=True
    )
    assert isinstance(first, OutcomeUnknown)
    assert isinstance(second, OutcomeUnknown)
    it.carry_out()
    assert it.twin.values() == ([b"T1-0"] if fault is AppendFault.ANSWER_LOST else [])


@pytest.mark.parametrize(
    ("fault", "error"),
    [(AppendFault.REFUSED, KafkaUnavailable), (AppendFault.ANSWER_LOST, OutcomeUnknown)],
)
async def test_a_decision_that_fails_says_so_and_may_be_repeated(
    fault: AppendFault, error: type[HalfHitchError]
) -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    it.kafka.faults.appends = [fault]
    with pytest.raises(error):
        await it.service.end(handle, C)
    assert it.observer.of("end_refused") == [(error.code,)]
    await it.service.end(handle, C)
    it.carry_out()
    assert it.twin.written_values() == [b"T1-0"]


async def test_what_ended_longer_ago_than_is_remembered_is_gone() -> None:
    twin = Twin(partition_count=PARTITION_COUNT, limits=owner_limits(horizon_ms=1_000))
    it = Coordinator(twin)
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    it.carry_out()
    for n in range(40):
        twin.clock.advance(2)
        await it.service.end(await it.prepared(f"later-{n}"), C)
        it.carry_out()
    before = it.decided()
    with pytest.raises(TransactionGone):
        await it.service.end(handle, R)
    with pytest.raises(TransactionGone):
        await it.service.view(handle)
    with pytest.raises(TransactionGone):
        await it.service.add(handle, [message()])
    assert it.decided() == before


# -- waiting until it is carried out -------------------------------------------------------------


async def waiting(it: Coordinator, handle: str, resolution: Resolution) -> asyncio.Task[Any]:
    """An end that waits, so far that its decision is stored."""
    task = asyncio.ensure_future(it.service.end(handle, resolution, wait_visible=True))
    await settle()
    return task


@pytest.mark.parametrize("resolution", [C, R])
async def test_whoever_waits_is_answered_when_the_owner_here_has_carried_it_out(
    resolution: Resolution,
) -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    task = await waiting(it, handle, resolution)
    assert not task.done()
    it.carry_out()
    answer = await asyncio.wait_for(task, 5)
    assert answer.visible
    assert it.twin.values() == ([b"T1-0"] if resolution is C else [])
    assert it.followed == []
    assert it.markers.asked == ([{"orders"}] if resolution is C else [])
    assert not it.visibility.is_waited_for(it.handles.decode(handle).partition)


async def test_what_is_carried_out_already_is_not_waited_for() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.end(handle, C)
    it.carry_out()
    answer = await asyncio.wait_for(it.service.end(handle, C, wait_visible=True), 5)
    assert answer.visible


async def test_visible_is_said_only_when_readers_of_every_topic_can_see_it() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    handle = (await it.service.add(handle, [message("points")])).handle
    gate = asyncio.Event()

    async def settled(topics: Iterable[str]) -> None:
        assert set(topics) == {"orders", "points"}
        await gate.wait()

    it.markers.settled = settled  # type: ignore[method-assign]
    task = await waiting(it, handle, C)
    it.carry_out()
    await settle()
    assert not task.done()
    gate.set()
    assert (await asyncio.wait_for(task, 5)).visible


async def test_a_topic_held_back_by_others_makes_visibility_unknown_not_the_commit() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")

    async def settled(topics: Iterable[str]) -> None:
        raise VisibilityUnknown(f"held back: {topics}")

    it.markers.settled = settled  # type: ignore[method-assign]
    task = await waiting(it, handle, C)
    it.carry_out()
    with pytest.raises(VisibilityUnknown):
        await asyncio.wait_for(task, 5)
    assert it.twin.values() == [b"T1-0"]


@pytest.mark.parametrize("waits", ["before", "after"])
async def test_whoever_waits_learns_that_a_topic_does_not_take_the_message(waits: str) -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    it.kafka.delete_topic("orders")
    if waits == "before":
        task = await waiting(it, handle, C)
        it.carry_out()
    else:
        await it.service.end(handle, C)
        it.carry_out()
        task = await waiting(it, handle, C)
    with pytest.raises(TransactionParked):
        await asyncio.wait_for(task, 5)
    view = await it.service.view(handle)
    assert (view.state, view.visible) == (TransactionState.PARKED, False)
    with pytest.raises(ContraryDecision):
        await it.service.end(handle, R)


async def test_several_may_wait_for_the_same_transaction() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    tasks = [await waiting(it, handle, C) for _ in range(3)]
    it.carry_out()
    answers = await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert all(answer.visible for answer in answers)
    assert it.twin.written_values() == [b"T1-0"]


async def test_whoever_waits_learns_that_the_other_side_won() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    await Coordinator(it.twin, owns=[]).service.end(handle, R)
    task = await waiting(it, handle, C)
    it.carry_out()
    with pytest.raises(ContraryDecision) as caught:
        await asyncio.wait_for(task, 5)
    assert (caught.value.decided, caught.value.requested) == ("rolled_back", "committed")
    assert it.twin.written_values() == []


async def test_an_instance_that_does_not_own_the_partition_lets_the_op_log_tell() -> None:
    it = Coordinator(owns=[])
    handle = await it.prepared("T1")
    partition = it.handles.decode(handle).partition
    it.kafka.append(it.kafka.op_topic, partition, None, b"", [])
    task = await waiting(it, handle, C)
    assert it.followed == [(partition, 1)], "from its own decision on"
    assert not task.done()
    it.visibility.done(partition, [DoneMark(identity("T1"), 1, [])])
    assert (await asyncio.wait_for(task, 5)).visible


async def test_on_another_instance_too_the_other_side_may_have_won() -> None:
    it = Coordinator(owns=[])
    handle = await it.prepared("T1")
    task = await waiting(it, handle, C)
    it.visibility.done(it.handles.decode(handle).partition, [DoneMark(identity("T1"), 0, [])])
    with pytest.raises(ContraryDecision):
        await asyncio.wait_for(task, 5)


async def test_when_the_partition_goes_the_op_log_goes_on_telling() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    partition = it.handles.decode(handle).partition
    task = await waiting(it, handle, C)
    del it.owners[partition]
    it.visibility.lost(partition)
    await settle()
    assert it.followed == [(partition, 0)]
    it.visibility.done(partition, [DoneMark(identity("T1"), 1, [])])
    assert (await asyncio.wait_for(task, 5)).visible


async def test_what_is_not_seen_in_time_is_called_decided_but_not_known_to_be_visible() -> None:
    it = Coordinator(visible_wait_s=0.02)
    handle = await it.prepared("T1")
    with pytest.raises(VisibilityUnknown) as caught:
        await it.service.end(handle, C, wait_visible=True)
    assert "durable" in caught.value.message
    assert isinstance(caught.value, OutcomeUnknown)
    assert it.decided() == [("T1", C, 1)]
    assert not it.visibility.is_waited_for(it.handles.decode(handle).partition)
    it.carry_out()
    assert (await it.service.end(handle, C, wait_visible=True)).visible


async def test_whoever_goes_away_while_waiting_leaves_nothing_behind() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    task = await waiting(it, handle, C)
    task.cancel()
    await settle()
    assert not it.visibility.is_waited_for(it.handles.decode(handle).partition)
    it.carry_out()
    assert it.twin.values() == [b"T1-0"]


async def test_a_decision_that_lost_at_once_is_not_waited_for() -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    await it.service.end(handle, R)
    it.carry_out()
    with pytest.raises(ContraryDecision):
        await asyncio.wait_for(it.service.end(handle, C, wait_visible=True), 5)


# -- view ----------------------------------------------------------------------------------------


async def test_the_owner_here_knows_how_a_transaction_stands() -> None:
    it = Coordinator()
    handle = await it.prepared("T1", count=2)

    async def seen() -> tuple[TransactionState, bool]:
        view = await it.service.view(handle)
        assert (view.transaction_id, view.producer_group, view.message_count) == ("T1", GROUP, 2)
        return view.state, view.visible

    assert await seen() == (TransactionState.PENDING, False)
    await it.service.end(handle, C)
    owner = it.owners[it.handles.decode(handle).partition]
    batch = owner._reader.read(0)
    owner._feed.take(owner._working_ledger(), batch.half, batch.op)
    assert await seen() == (TransactionState.COMMITTED, False)
    it.carry_out()
    assert await seen() == (TransactionState.COMMITTED, True)
    assert it.looked_up == []


@pytest.mark.parametrize(
    ("found", "state", "visible"),
    [
        ((None, False), TransactionState.PENDING, False),
        ((C, False), TransactionState.COMMITTED, False),
        ((C, True), TransactionState.COMMITTED, True),
        ((R, True), TransactionState.ROLLED_BACK, True),
    ],
)
async def test_an_instance_that_does_not_own_the_partition_looks_into_the_logs(
    found: tuple[Resolution | None, bool], state: TransactionState, visible: bool
) -> None:
    it = Coordinator(owns=[])
    handle = await it.prepared("T1")
    it.look_up_answer = found
    view = await it.service.view(handle)
    assert (view.state, view.visible) == (state, visible)
    partition = it.handles.decode(handle).partition
    assert it.looked_up == [(partition, identity("T1"), 0)]


async def test_what_the_logs_no_longer_hold_is_gone() -> None:
    it = Coordinator(owns=[])
    handle = await it.prepared("T1")
    it.look_up_answer = TransactionGone("long ago")
    with pytest.raises(TransactionGone):
        await it.service.view(handle)
    with pytest.raises(InvalidHandle):
        await it.service.view("nonsense")


async def test_decisions_of_one_moment_share_a_record() -> None:
    it = Coordinator(owns=[0])
    answers = [
        await it.service.prepare(producer_group=GROUP, messages=[message()]) for _ in range(50)
    ]
    await asyncio.gather(*[it.service.end(answer.handle, C) for answer in answers])
    assert len(it.kafka.committed(it.kafka.op_topic)) == 2
    assert len(it.decided()) == 50
    assert op_wire.MARKS_MAX >= 50
