"""A transaction id is for one set of messages, on every instance and whatever has become of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import (
    ConflictKind,
    ProducerGroup,
    Resolution,
    ResolutionSource,
    TransactionId,
)
from halfhitch.core.partitioning import half_partition
from halfhitch.errors import (
    ContraryDecision,
    KafkaUnavailable,
    OutcomeUnknown,
    TransactionReused,
)
from halfhitch.service.api import OutgoingMessage, TransactionState
from halfhitch.service.transactions.prepare import digest as digest_of_message
from harness.coordinator import Coordinator, message, settle
from harness.twin import GROUP, Twin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.service.api import Prepared

C, R = Resolution.COMMIT, Resolution.ROLLBACK
ONE, TWO = message(value=b"one"), message(value=b"two")


async def prepare(
    it: Coordinator, *messages: OutgoingMessage, transaction_id: str | None = "T1"
) -> Prepared:
    return await it.service.prepare(
        producer_group=GROUP, messages=messages or [ONE], transaction_id=transaction_id
    )


async def single(it: Coordinator, message: OutgoingMessage, transaction_id: str = "T1") -> Prepared:
    """Whose producer may ask for another partition when it tries again."""
    return await it.service.prepare(
        producer_group=GROUP,
        messages=[message],
        transaction_id=transaction_id,
        is_partition_chosen=False,
    )


def two_instances() -> tuple[Coordinator, Coordinator]:
    """The first one owns both half partitions."""
    twin = Twin(partition_count=2)
    return Coordinator(twin), Coordinator(twin, owns=())


def visible(it: Coordinator) -> list[bytes | None]:
    return [record.value() for record in it.kafka.committed("orders")]


def conflicts(it: Coordinator) -> list[object]:
    return [kind for kind, count in it.twin.observer.of("conflict") for _ in range(count)]


# -- where it is known at the door -----------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        [TWO],
        [message(topic="points", value=b"one")],
        [message(key=b"k", value=b"one")],
        [message(value=b"one", partition=0)],
        [message(value=b"one", headers=[("a", b"1")])],
        [message(value=None)],
        [TWO, ONE],
    ],
)
@pytest.mark.parametrize("owns", [(0, 1), ()])
async def test_other_messages_under_an_id_are_refused_before_anything_is_stored(
    owns: Sequence[int], other: list[OutgoingMessage]
) -> None:
    it = Coordinator(owns=owns)
    await prepare(it, ONE)
    with pytest.raises(TransactionReused) as caught:
        await prepare(it, *other)
    assert "use a new id" in str(caught.value)
    assert not caught.value.retryable
    assert len(it.halves()) == 1
    assert it.observer.of("prepare_refused") == [("transaction_id_reused",)]


async def test_an_id_in_another_group_is_another_id() -> None:
    it = Coordinator()
    await prepare(it, ONE)
    await it.service.prepare(producer_group="other", messages=[TWO], transaction_id="T1")
    assert len(it.halves()) == 2


async def test_after_the_end_the_id_stands_for_what_it_stood_for() -> None:
    """The first one's instance was started anew: it knows from the logs what the finished said."""
    it = Coordinator()
    handle = (await prepare(it, ONE)).handle
    await it.service.end(handle, C)
    it.carry_out()
    it = Coordinator(it.twin)
    with pytest.raises(TransactionReused):
        await prepare(it, TWO)
    with pytest.raises(TransactionReused):
        await prepare(it, ONE, TWO)
    with pytest.raises(TransactionReused):
        await single(it, TWO)
    assert visible(it) == [b"one"]


@pytest.mark.parametrize(
    ("resolution", "state"), [(C, TransactionState.COMMITTED), (None, TransactionState.PENDING)]
)
async def test_an_equal_repeat_is_harmless_and_told_how_it_stands(
    resolution: Resolution | None, state: TransactionState
) -> None:
    owner, other = two_instances()
    handle = (await prepare(owner, ONE, TWO)).handle
    if resolution is not None:
        await owner.service.end(handle, resolution)
    owner.carry_out()
    assert (await prepare(owner, ONE, TWO)).state is state
    again = await prepare(other, ONE, TWO)
    assert again.state is TransactionState.PENDING, "as far as this instance knows"
    owner.carry_out()
    await other.service.end(again.handle, C)
    owner.carry_out()
    assert visible(owner) == [b"one", b"two"]
    assert conflicts(owner) == []


async def test_one_that_is_rolled_back_is_refused_as_such() -> None:
    it = Coordinator()
    handle = (await prepare(it, ONE)).handle
    await it.service.end(handle, R)
    it.carry_out()
    for messages in ([ONE], [TWO]):
        with pytest.raises(ContraryDecision):
            await prepare(it, *messages)


async def test_a_parked_one_tells_an_equal_repeat_so() -> None:
    it = Coordinator()
    handle = (await prepare(it, message(topic="points", value=b"one"))).handle
    it.kafka.delete_topic("points")
    await it.service.end(handle, C)
    it.carry_out()
    it.kafka.create_topic("points", 1)
    again = await prepare(it, message(topic="points", value=b"one"))
    assert again.state is TransactionState.PARKED


async def test_a_repeat_completes_what_a_failed_prepare_has_left() -> None:
    it = Coordinator()
    it.kafka.faults.appends = [None, AppendFault.REFUSED]
    with pytest.raises(KafkaUnavailable):
        await prepare(it, ONE, TWO)
    handle = (await prepare(it, ONE, TWO)).handle
    await it.service.end(handle, C)
    it.carry_out()
    assert visible(it) == [b"one", b"two"]
    assert conflicts(it) == []


async def test_what_was_surely_not_stored_does_not_hold_its_id() -> None:
    it = Coordinator(owns=())
    it.kafka.faults.appends = [AppendFault.REFUSED] * 2
    with pytest.raises(KafkaUnavailable):
        await prepare(it, ONE)
    with pytest.raises(KafkaUnavailable):
        await single(it, TWO)
    await prepare(it, message(value=b"three"))
    assert len(it.halves()) == 1


async def test_what_was_perhaps_stored_holds_its_id() -> None:
    it = Coordinator(owns=())
    it.kafka.faults.appends = [AppendFault.ANSWER_LOST]
    with pytest.raises(OutcomeUnknown):
        await prepare(it, ONE)
    with pytest.raises(TransactionReused):
        await prepare(it, TWO)
    await prepare(it, ONE)


# -- adds ------------------------------------------------------------------------------------------


async def test_two_adds_with_one_handle_are_one_only_if_they_add_the_same() -> None:
    it = Coordinator()
    handle = (await prepare(it, ONE)).handle
    await it.service.add(handle, [TWO])
    await it.service.add(handle, [TWO])
    with pytest.raises(TransactionReused, match="newest handle"):
        await it.service.add(handle, [ONE])
    assert len(it.halves()) == 3


async def test_a_job_that_runs_again_repeats_its_prepare_and_its_adds() -> None:
    it = Coordinator()
    for _ in range(2):
        handle = (await prepare(it, ONE)).handle
        handle = (await it.service.add(handle, [TWO])).handle
        it.carry_out()
    await it.service.end(handle, C)
    it.carry_out()
    assert (await prepare(it, ONE)).state is TransactionState.COMMITTED
    assert visible(it) == [b"one", b"two"]
    assert conflicts(it) == []


# -- RocketMQ's way --------------------------------------------------------------------------------


async def test_the_next_try_of_a_rocketmq_client_goes_to_another_queue_and_is_a_repeat() -> None:
    it = Coordinator()
    await single(it, message(value=b"one", partition=0))
    await single(it, message(value=b"one", partition=1))
    with pytest.raises(TransactionReused):
        await single(it, message(value=b"two", partition=0))
    it.carry_out()
    assert conflicts(it) == []


# -- where it is known too late --------------------------------------------------------------------


async def test_of_two_instances_the_owner_puts_the_second_message_on_record_and_drops_it() -> None:
    owner, other = two_instances()
    first = (await prepare(owner, ONE)).handle
    second = (await prepare(other, TWO)).handle
    owner.carry_out()
    assert conflicts(owner) == [ConflictKind.REUSED]
    for ask in (
        owner.service.end(second, C),
        owner.service.end(second, R),
        owner.service.add(second, [TWO]),
        owner.service.view(second),
    ):
        with pytest.raises(TransactionReused):
            await ask
    assert owner.decided() == [], "nothing is decided by whoever was refused"
    await owner.service.end(first, C)
    owner.carry_out()
    assert visible(owner) == [b"one"]


async def test_its_commit_with_wait_visible_is_told_so_on_any_instance() -> None:
    """The tail of the op log reads that it was said of another message, and only then the mark."""
    owner, other = two_instances()
    first = (await prepare(owner, ONE)).handle
    second = (await prepare(other, TWO)).handle
    owner.carry_out()
    await owner.service.end(first, C)
    owner.carry_out()
    ending = asyncio.ensure_future(other.service.end(second, C, wait_visible=True))
    equal = asyncio.ensure_future(other.service.end(first, C, wait_visible=True))
    await settle()
    owner.carry_out()
    other.tail_reads()
    with pytest.raises(TransactionReused):
        await ending
    assert (await equal).visible
    assert visible(owner) == [b"one"]
    assert conflicts(owner) == [ConflictKind.REUSED, ConflictKind.REUSED]
    assert other.observer.of("end_refused") == [("transaction_id_reused",)]


async def test_an_owner_who_reads_it_while_its_commit_waits_tells_so() -> None:
    owner, other = two_instances()
    await prepare(owner, ONE)
    second = (await prepare(other, TWO)).handle
    ending = asyncio.ensure_future(
        owner.service.end(second, C, source=ResolutionSource.PRODUCER, wait_visible=True)
    )
    await settle()
    owner.carry_out()
    with pytest.raises(TransactionReused):
        await ending


async def test_a_message_that_others_here_refuse_does_not_bar_the_first_one() -> None:
    it = Coordinator(owns=())
    elsewhere: dict[object, int] = {}

    def claim(identity: object, digest: int) -> bool:
        return elsewhere.setdefault(identity, digest) == digest

    it.service.claim_elsewhere = claim
    elsewhere[GROUP, "T1"] = digest_of_message(ONE, is_partition_chosen=False)
    with pytest.raises(TransactionReused):
        await single(it, TWO)
    assert (await single(it, ONE)).state is TransactionState.PENDING
    with pytest.raises(TransactionReused):
        await single(it, TWO)


async def test_what_was_perhaps_stored_elsewhere_under_a_name_of_ours_is_rolled_back() -> None:
    it = Coordinator(owns=())
    it.service.disown(1, (GROUP, TransactionId("T7")))
    await settle()
    assert it.decided() == [("T7", R, 1)]


async def test_what_was_prepared_is_open_until_a_decision_of_it_is_known() -> None:
    it = Coordinator(owns=(0, 1))
    first, second = await prepare(it, transaction_id=None), await prepare(it, transaction_id=None)
    for made in (first, second):
        assert it.service.is_open(made, GROUP)
    await it.service.end(first.handle, R)
    assert not it.service.is_open(first, GROUP), "this instance was asked for it"
    it.carry_out()
    assert not it.service.is_open(first, GROUP), "its owner has read it"
    assert it.service.is_open(second, GROUP)
    stranger = Coordinator(owns=())
    assert stranger.service.is_open(first, GROUP), "nothing is known there"


async def test_what_signs_and_how_many_partitions_there_are_is_told() -> None:
    it = Coordinator(owns=())
    assert it.service.signer() == it.handles.signer
    assert it.service.partition_count == 2


# -- what is stored elsewhere in this process ------------------------------------------------------


def new(it: Coordinator, says: OutgoingMessage = ONE, transaction_id: str = "T1") -> bool:
    partition = half_partition(None, transaction_id, 2)
    assert partition is not None
    identity = ProducerGroup(GROUP), TransactionId(transaction_id)
    return it.service.claim_new(partition, identity, digest_of_message(says))


async def test_an_id_that_was_claimed_elsewhere_stands_for_that_message() -> None:
    it = Coordinator(owns=())
    assert new(it)
    assert not new(it), "a repeat is looked at here"
    with pytest.raises(TransactionReused):
        await prepare(it, TWO)
    await prepare(it, ONE)


@pytest.mark.parametrize("owns", [(0, 1), ()])
async def test_an_id_that_came_this_way_is_not_new_elsewhere(owns: Sequence[int]) -> None:
    it = Coordinator(owns=owns)
    await prepare(it, ONE)
    assert not new(it)
    assert new(it, transaction_id="T2")


@pytest.mark.parametrize("resolution", [None, C, R])
@pytest.mark.parametrize("is_carried_out", [False, True])
async def test_an_id_that_the_owner_knows_from_before_a_restart_is_not_new(
    resolution: Resolution | None, is_carried_out: bool
) -> None:
    it = Coordinator()
    handle = (await prepare(it, ONE)).handle
    if resolution is not None:
        await it.service.end(handle, resolution)
    if is_carried_out:
        it.carry_out()
    it = Coordinator(it.twin)
    assert not new(it)
    assert new(Coordinator(it.twin, owns=())), "nobody knows where no owner is, on either way"


async def test_an_id_whose_end_is_under_way_is_not_new() -> None:
    """It was prepared at another instance, and no owner is here."""
    one, other = two_instances()
    handle = (await prepare(one, ONE)).handle
    await other.service.end(handle, R)
    assert not new(other)


async def test_what_was_surely_not_stored_elsewhere_may_be_another_message() -> None:
    it = Coordinator()
    identity = ProducerGroup(GROUP), TransactionId("T1")
    assert new(it)
    it.service.unclaim(identity, OutcomeUnknown("nobody knows"))
    with pytest.raises(TransactionReused):
        await prepare(it, TWO)
    it.service.unclaim(identity, KafkaUnavailable("away"))
    await prepare(it, TWO)


@pytest.mark.parametrize("owns", [(0, 1), ()], ids=["the owner", "another instance"])
async def test_a_prepare_behind_a_roll_back_that_is_not_read_yet_was_taken_and_dropped(
    owns: tuple[int, ...],
) -> None:
    """Its commit got 200 as soon as the roll-back was forgotten."""
    it = Coordinator(owns=owns)
    await it.service.end(await it.prepared("T1"), R)
    with pytest.raises(ContraryDecision, match="new id"):
        await it.prepared("T1")
    assert len(it.halves()) == 1
    failed = await it.prepared("T2")
    it.kafka.faults.appends = [AppendFault.REFUSED]
    with pytest.raises(KafkaUnavailable):
        await it.service.end(failed, R)
    await it.prepared("T2")  # that one was not stored


async def test_a_roll_back_while_a_prepare_was_made_to_wait_was_not_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Coordinator()
    handle = await it.prepared("T1")
    pauses = iter([0.001])
    monkeypatch.setattr(type(it.service._parts.intake), "pause_s", lambda *_: next(pauses, 0.0))
    again = asyncio.ensure_future(it.prepared("T1"))
    await asyncio.sleep(0)
    await it.service.end(handle, R)
    with pytest.raises(ContraryDecision):
        await again


@pytest.mark.parametrize("owns", [(0, 1), ()])
async def test_a_rolled_back_id_was_new_to_whoever_asked_natively(owns: Sequence[int]) -> None:
    """One door's roll-back, another door's prepare: 201, its commit 200, and nobody saw it."""
    it = Coordinator(owns=owns)
    gone = ProducerGroup(GROUP), TransactionId("T1")
    partition = half_partition(None, "T1", 2)
    assert partition is not None
    it.decisions.rolled_back_elsewhere.append(lambda _, asked: asked == gone)
    assert not it.service.claim_new(partition, gone, 7)
    assert it.service.claim_new(partition, (gone[0], TransactionId("T2")), 7)
