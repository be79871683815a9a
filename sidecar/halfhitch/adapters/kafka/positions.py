"""Whether the stored watermarks still lie within their logs.

Owns `inspect_positions`. An owner deletes records only below a watermark that it has stored, so a
log that begins above its watermark was cut by somebody else, and what was pending there is gone; or
Kafka gives an old watermark, and the op log proves a newer one. An owner goes on from that one and
refuses the rest, so the same look is taken here. Blocks; changes nothing.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.admin import answer
from halfhitch.adapters.kafka.log_ends import LogEnds
from halfhitch.adapters.kafka.partition_reader import KafkaPartitionReader
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.adapters.system import SystemClock
from halfhitch.errors import ConfigurationError, HalfHitchError, KafkaUnavailable, TopologyError
from halfhitch.service.owner.proven_pair import newest_proven_pair
from halfhitch.wire.topics import InternalTopics

_Log = tuple[str, int]
CHECK: Final = "watermarks"
_POLL_S = 0.05
#: A topic that was created just now has no leaders for a moment.
_SETTLE_S = 3.0


def inspect_positions(
    admin: AdminClient,
    stored_offsets: StoredOffsets,
    names: InternalTopics,
    partition_count: int,
    *,
    wait_s: float = 10.0,
) -> list[Finding]:
    """One finding for each log whose watermark lies outside; else one that is OK.

    One for a half partition whose owner will help itself.
    """
    logs = [(topic, n) for topic in (names.half, names.op) for n in range(partition_count)]
    # In this order: watermarks only rise, and no owner cuts a log above one that it has stored. An
    # end that is asked for last is above every watermark that was stored before.
    begins = _bounds(admin, logs, OffsetSpec.earliest(), wait_s)  # type: ignore[no-untyped-call]
    try:
        stored = _stored(stored_offsets, names.owner_group, logs, wait_s)
    except ConfigurationError as error:
        return [
            Finding(
                CHECK,
                Severity.WARN,
                error.message,
                f"Allow this user to describe the group {names.owner_group}.",
            )
        ]
    ends = _bounds(admin, logs, OffsetSpec.latest(), wait_s)  # type: ignore[no-untyped-call]
    found: list[Finding] = []
    for partition in range(partition_count):
        of_both = [
            (finding, stored[log] < begins[log])
            for log in ((names.half, partition), (names.op, partition))
            if (finding := _outside(names, log, stored.get(log), begins[log], ends[log]))
        ]
        if of_both and all(is_below for _, is_below in of_both):
            pair, why = _proven(admin, stored_offsets, names, partition)
            if pair is not None:
                found.append(_old(names, partition, stored, pair))
                continue
            found += [replace(f, sentence=f"{f.sentence}{why}") for f, _ in of_both]
        else:
            found += [finding for finding, _ in of_both]
    return found or [Finding(CHECK, Severity.OK, f"{len(stored)} stored, all within their logs.")]


def _outside(
    names: InternalTopics, log: _Log, stored: int | None, begin: int, end: int
) -> Finding | None:
    name = f"{log[0]}-{log[1]}"
    if stored is None or begin <= stored <= end:
        return None
    if stored < begin:
        sentence = (
            f"{name} begins at {begin}, but the stored watermark is {stored}: records that are "
            "still needed have been deleted from outside, and messages may be lost (or the "
            "watermark was set back). Like that no owner takes this half partition over."
        )
    else:
        sentence = (
            f"{name} ends at {end}, but the stored watermark is {stored}: the log was cut, or the "
            "topic was created anew, and messages may be lost (or the watermark was moved). Like "
            "that no owner takes this half partition over."
        )
    return Finding(CHECK, Severity.FAIL, sentence, _remedy(names, log[1]), may_pass=True)


def _proven(
    admin: AdminClient, stored_offsets: StoredOffsets, names: InternalTopics, partition: int
) -> tuple[tuple[int, int] | None, str]:
    """The pair from which an owner goes on; or none, and a sentence when that is not known."""
    reader = KafkaPartitionReader(
        stored_offsets.consumer,
        ends=LogEnds(admin),
        half_topic=names.half,
        op_topic=names.op,
        partition=partition,
    )
    try:
        pair = newest_proven_pair(
            reader, clock=SystemClock(), partition=partition, on_held=lambda _: None
        )
        if pair is not None:
            reader.begin(*pair)  # as an owner would: refused outside the logs
    except TopologyError:
        return None, ""
    except HalfHitchError as error:
        return None, (
            " Whether the op log proves newer watermarks, so that an owner helps itself, could not "
            f"be seen: {error.message}"
        )
    finally:
        reader.close()
    return pair, ""


def _old(
    names: InternalTopics, partition: int, stored: Mapping[_Log, int], pair: tuple[int, int]
) -> Finding:
    half, op = stored.get((names.half, partition)), stored.get((names.op, partition))
    return Finding(
        CHECK,
        Severity.WARN,
        f"Kafka gives old watermarks for half partition {partition} (half {half}, op {op}), below "
        f"its logs; the op log proves that newer ones were committed (half {pair[0]}, op "
        f"{pair[1]}). Its owner goes on from those: nothing is lost or done twice.",
        f"Do not reset the offsets of {names.owner_group}. Look why they went back: a coordinator "
        "that had lost its log, or somebody who set them.",
        may_pass=True,
    )


def _remedy(names: InternalTopics, partition: int) -> str:
    return (
        "Find out who deleted them, and what the applications miss. To go on with what is left: "
        "stop every sidecar, then kafka-consumer-groups.sh --bootstrap-server ... --group "
        f"{names.owner_group} --reset-offsets --to-earliest --topic {names.half}:{partition} "
        f"--topic {names.op}:{partition} --execute; what is still there is forwarded once."
    )


def _stored(
    stored_offsets: StoredOffsets, group: str, logs: list[_Log], wait_s: float
) -> Mapping[_Log, int]:
    asked = [TopicPartition(*log) for log in logs]
    found = stored_offsets.of(asked, wait_s, f"read the watermarks of the group {group}")
    return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}


def _bounds(
    admin: AdminClient, logs: list[_Log], spec: OffsetSpec, wait_s: float
) -> dict[_Log, int]:
    give_up_s = time.monotonic() + min(wait_s, _SETTLE_S)
    asked = {TopicPartition(*log): spec for log in logs}
    while True:
        futures = admin.list_offsets(asked, request_timeout=wait_s)
        try:
            return {
                (place.topic, place.partition): answer(
                    future, wait_s, f"read the bounds of {place.topic}"
                ).offset
                for place, future in futures.items()
            }
        except KafkaUnavailable:
            if time.monotonic() > give_up_s:
                raise
        time.sleep(_POLL_S)
