"""Consumer groups that read what is not committed: for `doctor`.

Owns `inspect_readers`. Kafka tells nobody with which isolation a group reads. But one that reads
committed records only cannot come behind the last stable offset; so whoever has stored a position
between that and the end of a log reads uncommitted ones. It shows only while a Kafka transaction is
open there: what is found is so, and what is not found is not known. Changes nothing. Blocks.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.errors import HalfHitchError

#: Each is asked by a consumer of its own (stored.py says why), some milliseconds long.
_GROUPS_MAX: Final = 100
_NAMED_MAX: Final = 5
_Log = tuple[str, int]


def inspect_readers(
    admin: AdminClient,
    stored_offsets: Callable[[str], StoredOffsets],
    logs: Iterable[_Log],
    *,
    without: frozenset[str],
    wait_s: float,
) -> list[Finding]:
    """One finding; `logs` are partitions of targets, `without` our own groups."""
    places = [TopicPartition(*log) for log in logs]
    try:
        found = _groups(admin, without, wait_s)
        groups = found[:_GROUPS_MAX]
        # Before the ends are asked for: an end that moves on meanwhile accuses nobody.
        stored = {group: _stored(stored_offsets(group), places, wait_s) for group in groups}
        read = {log for positions in stored.values() for log in positions}
        stable = _ends(admin, read, IsolationLevel.READ_COMMITTED, wait_s)
        last = _ends(admin, read, IsolationLevel.READ_UNCOMMITTED, wait_s)
    except KafkaException as error:
        sentence = f"What reads the targets could not be looked at: {describe(error)}."
        return [Finding("readers", Severity.WARN, sentence, "Run this again.", may_pass=True)]
    ahead = {
        f"{group} on {log[0]}-{log[1]}"
        for group, positions in stored.items()
        for log, position in positions.items()
        # Behind the end is a position of a topic that was made anew since.
        if log in stable and log in last and stable[log] < position <= last[log]
    }
    if not ahead:
        sentence = (
            f"None of {_told(groups, found)} groups is seen to read uncommitted messages (it "
            "shows only while a Kafka transaction is open)."
        )
        return [Finding("readers", Severity.OK, sentence)]
    told = sorted(ahead)
    rest = f" and {len(told) - _NAMED_MAX} more" if len(told) > _NAMED_MAX else ""
    return [
        Finding(
            "readers",
            Severity.WARN,
            f"These groups read messages that are not committed: {', '.join(told[:_NAMED_MAX])}"
            f"{rest}. They see what may never become true.",
            "Set isolation.level=read_committed in these consumers (docs/reading.md).",
        )
    ]


def _groups(admin: AdminClient, without: frozenset[str], wait_s: float) -> list[str]:
    found = admin.list_consumer_groups(request_timeout=wait_s).result(wait_s).valid
    return sorted(one.group_id for one in found if one.group_id not in without)


def _told(looked_at: list[str], found: list[str]) -> str:
    some, all_of_them = len(looked_at), len(found)
    return str(some) if some == all_of_them else f"the first {some} of {all_of_them}"


def _stored(group: StoredOffsets, places: list[TopicPartition], wait_s: float) -> dict[_Log, int]:
    try:
        found = group.of(places, wait_s, "look at what reads the targets") if places else []
    except HalfHitchError:
        return {}  # it is gone, or this user may not look at it
    return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}


def _ends(
    admin: AdminClient, logs: Iterable[_Log], isolation: Any, wait_s: float
) -> Mapping[_Log, int]:
    latest: Any = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {TopicPartition(*log): latest for log in logs}
    if not asked:
        return {}
    ends = {}
    answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=wait_s)
    for place, future in answers.items():
        try:
            ends[place.topic, place.partition] = future.result(wait_s).offset
        except KafkaException:
            continue  # its leader is away, or it is gone
    return ends
