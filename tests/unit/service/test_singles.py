"""Single messages by callback, on a Kafka in memory; the rules themselves are tested elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from halfhitch.adapters.memory import AppendFault
from halfhitch.core.model import Resolution, ResolutionSource
from halfhitch.errors import (
    ContraryDecision,
    HalfHitchError,
    InvalidRequest,
    KafkaUnavailable,
    MessageTooLarge,
    OutcomeUnknown,
    TransactionGone,
    TransactionParked,
    UnknownTopic,
)
from halfhitch.wire.handle import Handle
from harness.coordinator import Coordinator, message, settle
from harness.twin import GROUP

C, R = Resolution.COMMIT, Resolution.ROLLBACK
PRODUCER = ResolutionSource.PRODUCER


async def prepared(it: Coordinator, sent: Any = None, transaction_id: str | None = "T1") -> Any:
    answers: list[Any] = []
    it.service.singles.prepare(GROUP, sent or message(), transaction_id, None, answers.append)
    return await only(answers)


async def ended(it: Coordinator, handle: Handle, resolution: Resolution) -> Any:
    answers: list[Any] = []
    it.service.singles.end(handle, resolution, PRODUCER, answers.append)
    return await only(answers)


async def only(answers: list[Any]) -> Any:
    for _ in range(100):
        await asyncio.sleep(0)
    (answer,) = answers
    return answer


def handle(answer: tuple[int, int, str]) -> Handle:
    partition, half_offset, transaction_id = answer
    return Handle(partition, GROUP, transaction_id, (half_offset,))


async def test_a_message_is_prepared_and_ended_as_over_any_door() -> None:
    it = Coordinator()
    answer = await prepared(it)
    assert await ended(it, handle(answer), C) is None
    it.carry_out()
    assert await ended(it, handle(answer), C) is None, "an equal end is answered alike"
    assert it.twin.written_values() == [b"v"]
    assert it.observer.of("prepared")[0][0] == 1
    assert [call[:2] for call in it.observer.of("ended")] == [(C, PRODUCER)] * 2
    assert it.told == [((GROUP, "T1"), C, PRODUCER)] * 2


async def test_the_same_transaction_may_be_ended_by_its_handle_over_http() -> None:
    it = Coordinator()
    answer = await prepared(it)
    await it.service.end(it.handles.encode(handle(answer)), R)
    it.carry_out()
    error = await ended(it, handle(answer), C)
    assert isinstance(error, ContraryDecision)
    assert it.observer.of("end_refused") == [("contrary_decision",)]
    assert it.told[-1] == ((GROUP, "T1"), None, PRODUCER)
    assert isinstance(await prepared(it), ContraryDecision), "nor is it taken again"


async def test_a_contrary_end_right_behind_the_first_is_told_the_truth() -> None:
    it = Coordinator()
    known = handle(await prepared(it))
    answers: list[Any] = []
    for resolution in (C, R):
        it.service.singles.end(known, resolution, PRODUCER, answers.append)
    for _ in range(100):
        await asyncio.sleep(0)
    assert answers[0] is None
    assert isinstance(answers[1], ContraryDecision)


async def test_a_contrary_end_that_the_owner_cannot_know_of_yet_is_told_the_truth() -> None:
    """Between the answer to the first and the moment when its owner has read it."""
    it = Coordinator()
    known = handle(await prepared(it))
    assert await ended(it, known, C) is None
    assert isinstance(await ended(it, known, R), ContraryDecision)
    assert await ended(it, known, C) is None


async def test_an_end_for_certain_asks_the_logs_only_where_no_owner_can_tell() -> None:
    it = Coordinator()
    known = handle(await prepared(it))
    it.carry_out()
    await it.service.singles.end_surely(known, C, PRODUCER)
    it.carry_out()
    with pytest.raises(ContraryDecision):
        await it.service.singles.end_surely(known, R, PRODUCER)
    assert it.looked_up == []
    other = handle(await prepared(it, transaction_id="T2"))
    it.look_up_answer = (C, False)
    await it.service.singles.end_surely(other, C, PRODUCER)
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
async def test_an_end_for_certain_is_refused_when_the_logs_say_that_it_does_not_count(
    found: Any, kind: type[HalfHitchError]
) -> None:
    it = Coordinator()
    known = handle(await prepared(it))
    it.look_up_answer = found
    with pytest.raises(kind):
        await it.service.singles.end_surely(known, C, PRODUCER)
    assert it.observer.of("end_refused") == [(kind.code,)]


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
    sent: Any, kind: type[HalfHitchError]
) -> None:
    it = Coordinator()
    assert isinstance(await prepared(it, sent), kind)
    assert it.observer.of("prepare_refused") == [(kind.code,)] or kind is InvalidRequest
    assert len(it.observer.of("prepare_refused")) == 1
    answers: list[Any] = []
    it.service.singles.send(sent, [], answers.append)
    assert isinstance(await only(answers), kind)
    assert it.halves() == []


async def test_what_is_perhaps_stored_under_an_id_nobody_knows_is_rolled_back() -> None:
    it = Coordinator()
    it.kafka.faults.appends = [AppendFault.ANSWER_LOST]
    assert isinstance(await prepared(it, None, None), OutcomeUnknown)
    await settle()
    assert it.decided() == [("made-1", R, 1)]
    it.kafka.faults.appends = [AppendFault.ANSWER_LOST]
    assert isinstance(await prepared(it, None, "T1"), OutcomeUnknown)
    await settle()
    assert len(it.decided()) == 1, "a client that knows the id can ask again"


async def test_nothing_is_taken_before_kafka_was_reached() -> None:
    it = Coordinator()
    known = handle(await prepared(it))
    it.service.open(0)
    assert isinstance(await prepared(it), KafkaUnavailable)
    assert isinstance(await ended(it, known, C), KafkaUnavailable)
    answers: list[Any] = []
    it.service.singles.send(message(), [], answers.append)
    assert isinstance(await only(answers), KafkaUnavailable)


@pytest.mark.parametrize("partition", [-1, 2, 2**40])
async def test_an_end_for_a_half_partition_that_does_not_exist_is_refused(partition: int) -> None:
    it = Coordinator()
    error = await ended(it, Handle(partition, GROUP, "T1", (0,)), C)
    assert isinstance(error, InvalidRequest)
    assert it.decided() == []


async def test_a_topic_that_cannot_be_looked_up_now_is_no_topic_that_does_not_exist() -> None:
    it = Coordinator()
    it.kafka.faults.is_away = True
    assert isinstance(await prepared(it), KafkaUnavailable)


async def test_a_decision_that_is_not_stored_is_told() -> None:
    it = Coordinator()
    known = handle(await prepared(it))
    it.kafka.faults.appends = [AppendFault.LOST]
    assert isinstance(await ended(it, known, C), OutcomeUnknown)
    assert it.observer.of("end_refused") == [("outcome_unknown",)]


async def test_a_bug_behind_the_door_is_an_answer_too() -> None:
    it = Coordinator()

    async def broken(topic: str) -> int:
        raise RuntimeError("broken")

    it.service._parts.admission._catalog.refresh = broken  # type: ignore[method-assign]
    error = await prepared(it)
    assert type(error) is HalfHitchError
    assert "RuntimeError" in error.message


async def test_a_handle_of_another_door_can_be_read() -> None:
    it = Coordinator()
    known = Handle(1, GROUP, "T1", (7,))
    assert it.service.singles.read_handle(it.handles.encode(known)) == known
