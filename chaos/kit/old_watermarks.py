"""Kafka gives back watermarks that were committed some time ago, below what was deleted since.

What a coordinator did once that had been killed, done on purpose: all that the group stored beside
the watermarks is taken as it was, pair, stamp and all.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from chaos.kit.nemesis import _WORKING_S
from halfhitch.adapters.kafka.clients import JUDGING
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.errors import KafkaUnavailable
from harness.kafka import bounds, wait_until

if TYPE_CHECKING:
    from chaos.kit.stage import Scene

_ASK_S = 15.0
#: Owners delete every ten seconds at most, and only what a check after its interval lets go.
_TRIMMED_S = 90.0


def give_old_watermarks(scene: Scene) -> None:
    """The watermarks of now are given back when all half logs were cut beyond them."""
    offsets = _stored_offsets(scene)
    old = _stored(scene, offsets)

    def is_trimmed() -> bool:
        scene.revive()
        begins = _half_begins(scene)
        return all(
            begins[place.partition] > place.offset
            for place in old
            if place.topic == scene.names.half
        )

    wait_until(is_trimmed, _TRIMMED_S, interval_s=0.5, what="half logs cut beyond the watermarks")
    for sidecar in scene.sidecars.values():
        sidecar.terminate()
    _give(scene, offsets, old)
    for sidecar in scene.sidecars.values():
        sidecar.start()
    scene.wait_working(_WORKING_S)
    helped = scene.count_in_logs("Kafka gave old watermarks")
    if helped < len(old) // 2:
        raise RuntimeError(f"{helped} half partitions were taken over from a proven pair")


def _half_begins(scene: Scene) -> dict[int, int]:
    return bounds(scene.stage.kafka.bootstrap, scene.names.half, "read_uncommitted")[0]


def _stored_offsets(scene: Scene) -> StoredOffsets:
    config = {
        "bootstrap.servers": scene.stage.kafka.bootstrap,
        "group.id": scene.names.owner_group,
        "log_level": 0,
        **JUDGING,
    }
    return StoredOffsets(lambda: Consumer(config))


def _stored(scene: Scene, offsets: StoredOffsets) -> list[TopicPartition]:
    """Both watermarks of every half partition, with what lies beside them; waits for all."""
    partitions = _half_begins(scene)
    places = [
        TopicPartition(topic, partition)
        for topic in (scene.names.half, scene.names.op)
        for partition in partitions
    ]
    found: list[TopicPartition] = []

    def are_there() -> bool:
        found[:] = offsets.of(places, _ASK_S, "read the watermarks")
        return len(found) == len(places) and all(place.offset >= 0 for place in found)

    wait_until(are_there, _ASK_S, interval_s=0.3, what="watermarks of all half partitions")
    return found


def _give(scene: Scene, offsets: StoredOffsets, old: list[TopicPartition]) -> None:
    scene.resets_ms.append(time.time_ns() // 1_000_000)

    def is_taken() -> bool:
        try:
            offsets.keep(old, "give old watermarks back")
        except KafkaUnavailable:
            return False  # the group is not empty yet
        return True

    wait_until(is_taken, 30.0, interval_s=0.3, what="the old watermarks are stored")
    scene.resets_ms.append(time.time_ns() // 1_000_000)
    halves = {p.partition: p.offset for p in old if p.topic == scene.names.half}
    scene.faults.append(f"old watermarks given back, below the half logs: {halves}")
