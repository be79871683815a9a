"""Transactions of one message without a handle, as RocketMQ's clients have them.

On a Kafka in memory; the rules themselves are tested elsewhere.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import Identity, Resolution, ResolutionSource
from halfhitch.core.partitioning import half_partition
from halfhitch.errors import (
    ContraryDecision,
    HalfHitchError,
    InvalidRequest,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    TransactionGone,
    TransactionParked,
    TransactionReused,
    UnknownTopic,
)
from halfhitch.service.api import OutgoingMessage, Prepared
from halfhitch.wire.handle import Handle
from harness.coordinator import PARTITION_COUNT, Coordinator, message, settle
from harness.twin import GROUP

C, R = Resolution.COMMIT, Resolution.ROLLBACK
PRODUCER = ResolutionSource.PRODUCER


async def prepared(
    it: Coordinator, sent: OutgoingMessage | None = None, transaction_id: str | None = "T1"
) -> Prepared:
    return await it.service.prepare(
        producer_group=GROUP,
        messages=[sent or message()],
        transaction_id=transaction_id,
        is_partition_chosen=False,
    )


def named(answer: Prepared) -> Handle:
    return Handle(answer.partition, GROUP, answer.transaction_id, answer.half_offsets)


async def end_one_way(it: Coordinator, known: Handle, resolution: Resolution) -> None:
    await it.service.end_named(known, resolution, is_awaited=False)


async def test_a_message_is_prepared_and_ended_as_over_any_door() -> None:
    it = Coordinator()
    known = named(await prepared(it))
    await end_one_way(it, known, C)
    it.carry_out()
    await end_one_way(it, known, C)  # an equal end is answered alike
    assert it.twin.written_values() == [b"v"]
    assert it.observer.of("prepared")[0][0] == 1
    assert [call[:2] for call in it.observer.of("ended")] == [(C, PRODUCER)] * 2
    assert it.told == [((GROUP, "T1"), C, PRODUCER)] * 2


async def test_where_the_half_lies_is_what_its_handle_says() -> None:
    it = Coordinator()
    await prepared(it, transaction_id="T0")
    answer = await prepared(it)
    assert it.service.read_handle(answer.handle).half_offsets == answer.half_offsets
    more = await it.service.add(answer.handle, [message(value=b"more")])
    grown = it.service.read_handle(more.handle)
    assert (more.partition, more.half_offsets) == (grown.partition, grown.half_offsets)
    assert len(more.half_offsets) == 2


async def test_a_place_decides_on_the_half_partition_and_the_key_does_not() -> None:
    it = Coordinator()
    for place in (b"a", b"b", b"c", b"d"):
        wanted = half_partition(place, None, PARTITION_COUNT)
        for key in (None, b"k1", b"k2", b"k3"):
            answer = await it.service.prepare(
                producer_group=GROUP, messages=[message(key=key)], partition_by=place
            )
            assert answer.partition == wanted


async def test_the_same_transaction_may_be_ended_by_its_handle_over_http() -> None:
    it = Coordinator()
    answer = await prepared(it)
    await it.service.end(answer.handle, R)
    it.carry_out()
    with pytest.raises(ContraryDecision):
        await end_one_way(it, named(answer), C)
    assert it.observer.of("end_refused") == [("contrary_decision",)]
    assert it.told[-1] == ((GROUP, "T1"), None, PRODUCER)
    with pytest.raises(ContraryDecision):
        await prepared(it)


async def test_a_contrary_end_right_behind_the_first_is_told_the_truth() -> None:
    it = Coordinator()
    known = named(await prepared(it))
    first, second = await asyncio.gather(
        end_one_way(it, known, C), end_one_way(it, known, R), return_exceptions=True
    )
    assert first is None
    assert isinstance(second, ContraryDecision)


async def test_a_contrary_end_that_the_owner_cannot_know_of_yet_is_told_the_truth() -> None:
    """Between the answer to the first and the moment when its owner has read it."""
    it = Coordinator()
    known = named(await prepared(it))
    await end_one_way(it, known, C)
    with pytest.raises(ContraryDecision):
        await end_one_way(it, known, R)
    await end_one_way(it, known, C)


async def test_an_awaited_end_asks_the_logs_only_where_no_owner_can_tell() -> None:
    it = Coordinator(visible_wait_s=0.0)
    known = named(await prepared(it))
    it.carry_out()
    await it.service.end_named(known, C)
    it.carry_out()
    with pytest.raises(ContraryDecision):
        await it.service.end_named(known, R)
    assert it.looked_up == []
    other = named(await prepared(it, transaction_id="T2"))
    it.look_up_answer = (C, False)
    await end_one_way(it, other, C)
    assert it.looked_up == [], "nobody waits for the answer"
    await it.service.end_named(other, C)
    assert it.looked_up == [(other.partition, (GROUP, "T2"), other.half_offsets[0])]


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ((R, False), ContraryDecision),
        ((Resolution.PARK, False), TransactionParked),
        (TransactionGone("no such transaction"), TransactionGone),
        (KafkaUnavailable("away"), OutcomeUnknown),
    ],
)
async def test_an_awaited_end_is_refused_when_the_logs_say_that_it_does_not_count(
    found: Any, kind: type[HalfHitchError]
) -> None:
    it = Coordinator(visible_wait_s=0.0)
    known = named(await prepared(it))
    it.look_up_answer = found
    with pytest.raises(kind):
        await it.service.end_named(known, C)
    assert it.observer.of("end_refused") == [(kind.code,)]
    assert it.observer.of("ended") == []


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (message("nowhere"), UnknownTopic),
        (message(partition=9), InvalidRequest),
        (message(value=bytes(10_001)), MessageTooLarge),
        (message(headers=[("UNIQ_KEY", b"x")]), InvalidRequest),
    ],
)
async def test_what_cannot_be_taken_is_refused_once_and_counted(
    sent: OutgoingMessage, kind: type[HalfHitchError]
) -> None:
    it = Coordinator()
    with pytest.raises(kind):
        await prepared(it, sent)
    assert it.observer.of("prepare_refused") == [(kind.code,)] or kind is InvalidRequest
    assert len(it.observer.of("prepare_refused")) == 1
    with pytest.raises(kind):
        await it.service.sends.send(sent, [])
    assert it.halves() == []


async def test_what_is_perhaps_stored_under_an_id_nobody_knows_is_rolled_back() -> None:
    it = Coordinator()
    it.kafka.faults.appends = [AppendFault.ANSWER_LOST]
    with pytest.raises(OutcomeUnknown):
        await prepared(it, None, None)
    await settle()
    assert it.decided() == [("made-1", R, 1)]
    it.kafka.faults.appends = [AppendFault.ANSWER_LOST]
    with pytest.raises(OutcomeUnknown):
        await prepared(it, None, "T1")
    await settle()
    assert len(it.decided()) == 1, "a client that knows the id can ask again"


async def test_nothing_is_taken_before_kafka_was_reached() -> None:
    it = Coordinator()
    known = named(await prepared(it))
    it.service.open(0)
    with pytest.raises(KafkaUnavailable):
        await prepared(it)
    with pytest.raises(KafkaUnavailable):
        await end_one_way(it, known, C)
    with pytest.raises(KafkaUnavailable):
        await it.service.sends.send(message(), [])


@pytest.mark.parametrize("partition", [-1, 2, 2**40])
async def test_an_end_for_a_half_partition_that_does_not_exist_is_refused(partition: int) -> None:
    it = Coordinator()
    with pytest.raises(InvalidRequest):
        await end_one_way(it, Handle(partition, GROUP, "T1", (0,)), C)
    assert it.decided() == []


async def test_a_topic_that_cannot_be_looked_up_now_is_no_topic_that_does_not_exist() -> None:
    it = Coordinator()
    it.kafka.faults.is_away = True
    with pytest.raises(KafkaUnavailable):
        await prepared(it)


async def test_a_decision_that_is_not_stored_is_told() -> None:
    it = Coordinator()
    known = named(await prepared(it))
    it.kafka.faults.appends = [AppendFault.LOST]
    with pytest.raises(OutcomeUnknown):
        await end_one_way(it, known, C)
    assert it.observer.of("end_refused") == [("outcome_unknown",)]


async def test_an_id_that_stands_for_another_message_elsewhere_is_refused() -> None:
    it = Coordinator()
    asked: list[Identity] = []

    def claim(who: Identity, says: int) -> bool:
        asked.append(who)
        return who[1] != "T1"

    it.service.claim_elsewhere = claim
    with pytest.raises(TransactionReused):
        await prepared(it)
    assert it.halves() == []
    await prepared(it, transaction_id="T2")
    await prepared(it, transaction_id=None)
    await it.service.prepare(producer_group=GROUP, messages=[message()], transaction_id="T3")
    assert asked == [(GROUP, "T1"), (GROUP, "T2")], "ids of ours and other doors' are not claimed"


async def test_a_plain_message_goes_to_its_topic_at_once_with_what_its_door_adds() -> None:
    it = Coordinator()
    sent = message(key=b"k", value=b"plain", headers=[("a", b"1")])
    partition, offset = await it.service.sends.send(sent, [("UNIQ_KEY", b"U1")])
    (record,) = it.kafka.committed("orders")
    assert (record.partition, record.offset()) == (partition, offset)
    assert (record.key(), record.value()) == (b"k", b"plain")
    assert record.headers() == [("a", b"1"), ("UNIQ_KEY", b"U1")]
    assert it.halves() == []
