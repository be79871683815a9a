"""Owners beside somebody else's open Kafka transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.core.check_rules import CheckRules
from harness.defaults import check_rules, owner_limits
from harness.twin import Twin, turn_until_idle

if TYPE_CHECKING:
    from halfhitch.adapters.memory.kafka import KafkaTransaction
    from halfhitch.service.owner.turn import PartitionOwner

RULES = check_rules(immunity_ms=6_000, interval_ms=60_000, jitter=0.0, count_max=3)


def twin_with_producers(room: int = 10, rules: CheckRules = RULES) -> Twin:
    twin = Twin(limits=owner_limits(check_rules=rules))
    twin.gate.room = room
    return twin


def opened(twin: Twin, topic: str, transactional_id: str = "stranger") -> KafkaTransaction:
    """An open Kafka transaction of somebody else, with one record in partition 0 of the topic."""
    epoch = twin.kafka.init_producer(transactional_id)
    transaction = twin.kafka.begin(transactional_id, epoch)
    twin.kafka.append(topic, 0, None, b"?", [], transaction)
    return transaction


def pass_time(twin: Twin, owner: PartitionOwner, seconds: float) -> None:
    for _ in range(int(seconds)):
        twin.clock.advance(1.0)
        turn_until_idle(owner)
