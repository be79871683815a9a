"""Whether the stored watermarks still lie within their logs.

Owns `inspect_positions`. An owner deletes records only below a watermark that it has stored, so a
log that begins above its watermark was cut by somebody else: what was pending there is gone, and
the owner refuses to go on as if nothing were missing. Blocks; changes nothing.
"""

import time
from collections.abc import Mapping

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.admin import answer
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_checks import Finding, InternalTopics, Severity
from halfhitch.errors import ConfigurationError, KafkaUnavailable

_Log = tuple[str, int]
CHECK = "watermarks"
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
    """One finding for each log whose watermark lies outside; else one that is OK."""
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
    found = [
        finding
        for log in logs
        if (finding := _outside(names, log, stored.get(log), begins[log], ends[log])) is not None
    ]
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
