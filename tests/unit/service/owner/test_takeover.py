"""A takeover beside somebody else's open Kafka transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.errors import KafkaUnavailable
from harness.open_ones import opened
from harness.twin import RecordingReader, Twin, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.adapters.memory.kafka import KafkaTransaction
    from halfhitch.ports import ReadBatch
    from halfhitch.service.owner.turn import PartitionOwner


def resume_of_another(twin: Twin) -> KafkaTransaction:
    """One that hangs: its note is stored, its end never comes."""
    return opened(twin, twin.kafka.op_topic, twin.kafka.resumer(0))


class PassingReader(RecordingReader):
    """Waiting takes no time but the clock's."""

    def __init__(self, twin: Twin) -> None:
        super().__init__(twin.kafka, twin.calls)
        self._twin = twin

    def read(self, wait_s: float) -> ReadBatch:
        self._twin.clock.advance(wait_s)
        return super().read(0.0)


def _read(owner: PartitionOwner) -> tuple[object, object]:
    batch = owner._reader.read(0.0)
    return batch.half, batch.op


def test_a_takeover_does_not_forward_again_what_was_done_behind_an_open_resume() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("P")  # undecided: it holds the half watermark
    twin.half("T", value=b"paid")
    twin.commit("T", hints=[1])
    owner._feed.take(owner._working_ledger(), *_read(owner))
    resume_of_another(twin)
    turn_until_idle(owner)
    assert twin.written_values() == [b"paid"]
    successor = twin.working_owner(reader=PassingReader(twin))
    turn_until_idle(successor)
    assert twin.values() == [b"paid"]


def test_a_takeover_ends_what_a_dead_resume_has_left_open() -> None:
    twin = Twin()
    twin.half("T", value=b"paid")
    resume_of_another(twin)
    twin.commit("T", hints=[0])
    owner = twin.working_owner(reader=PassingReader(twin))
    turn_until_idle(owner)
    assert twin.values() == [b"paid"]


def test_a_takeover_waits_for_a_strangers_kafka_transaction_and_says_so() -> None:
    twin = Twin()
    twin.half("T", value=b"paid")
    hanging = opened(twin, twin.kafka.op_topic)
    twin.commit("T", hints=[0])
    owner = twin.owner(reader=PassingReader(twin))
    with pytest.raises(KafkaUnavailable, match=r"OP_HALF_TOPIC-0 .* up to 0 of 2: .* open"):
        owner.take_over()
    twin.kafka.abort(hanging)
    owner.take_over()
    turn_until_idle(owner)
    assert twin.values() == [b"paid"]
