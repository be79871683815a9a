"""A played installation (harness.verify_world) as the checker of the fault runs is handed one.

So `halfhitch verify` and the checker can be shown the same logs with the same thing wrong. What the
applications were told follows from the world's lives: every prepare and every decision of a
producer was acknowledged when it was stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.kit.checker import Limits, Readings, Report, check
from chaos.kit.history import Asked, Message, Outcome, Truth
from chaos.kit.log_model import LogModel
from chaos.kit.readers import Seen
from halfhitch.core.model import Resolution, ResolutionSource
from harness.checkers import Fate
from harness.verify_world import HALF, OP, PARKED_TOPIC, TARGETS, USERS_HEADERS

if TYPE_CHECKING:
    from harness.verify_world import Life, Stored, World

_FATES = {Resolution.COMMIT: Fate.COMMITTED, Resolution.ROLLBACK: Fate.ROLLED_BACK}
_SOURCES = {ResolutionSource.PRODUCER: "producer", ResolutionSource.CHECK: "check"}


def check_played(world: World) -> Report:
    """The checker's verdict. What is still undecided may be so."""
    truths = {truth.identity: truth for truth in map(_truth, world.lives)}
    final = _seen(world, *TARGETS)
    return check(
        truths,
        LogModel(_seen(world, HALF), _seen(world, OP)),
        Readings(final=final, committed=final, parked=_seen(world, PARKED_TOPIC)),
        limits=Limits(
            check_count_max=0,
            partition_counts=TARGETS,
            refusing_topics=frozenset(TARGETS),
            may_be_pending=lambda truth: truth is None or not truth.asked,
            required=(),
        ),
    )


def _truth(life: Life) -> Truth:
    truth = Truth(life.identity, prepared=Outcome.OK, first_prepare_ms=life.prepared_ms)
    truth.acked_count = len(life.messages)
    for index, (topic, key, value, fixed) in enumerate(life.messages):
        message = Message.of(topic, value, key, partition=fixed, headers=USERS_HEADERS)
        truth.messages[index] = [message]
        truth.acked_ms[index] = life.prepared_ms
    for resolution, source, stored_ms in life.asked:
        if source in _SOURCES and resolution in _FATES:
            fate, said_ms = _FATES[resolution], max(stored_ms - 1, life.prepared_ms)
            asked = Asked(fate, _SOURCES[source], Outcome.OK, said_ms, stored_ms + 1)
            truth.asked.append(asked)
    return truth


def _seen(world: World, *topics: str) -> list[Seen]:
    return [
        seen_of(record)
        for place, log in world.logs.items()
        if place[0] in topics
        for record in log.records[log.start if place[0] in TARGETS else 0 :]
        if record.state == "visible"
    ]


def seen_of(record: Stored) -> Seen:
    """What a reader finds."""
    content = record.stored_key, record.stored_value, tuple(record.stored_headers)
    return Seen(*record.place, record.at, *content, record.time_ms, record.time_ms)
