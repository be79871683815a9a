"""Everything about a cluster that can break a promise, in one list: for `serve` and `doctor` alike.

Owns the `inspect` functions. Each part that cannot be looked at is a finding itself, and
hides no other. Blocks; changes nothing.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import topology
from halfhitch.adapters.kafka.admin import topic_configs
from halfhitch.adapters.kafka.brokers import inspect_brokers
from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.positions import inspect_positions
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_checks import Finding, Severity, verify
from halfhitch.errors import ConfigurationError, HalfHitchError, TopologyError
from halfhitch.wire.topics import InternalTopics

logger = logging.getLogger(__name__)

#: What a forwarded record has besides the user's bytes: three headers, framing.
FORWARD_OVERHEAD_BYTES: Final = 2_048
_TARGETS_MAX: Final = 1_000
_NAMED_MAX: Final = 5


def inspect(
    admin: AdminClient,
    stored_offsets: StoredOffsets,
    names: InternalTopics,
    *,
    transaction_timeout_ms: int,
    session_timeout_ms: int,
    message_bytes_max: int,
    wait_s: float,
) -> list[Finding]:
    """Brokers, internal topics, stored watermarks."""

    def brokers() -> list[Finding]:
        return inspect_brokers(
            admin,
            transaction_timeout_ms=transaction_timeout_ms,
            session_timeout_ms=session_timeout_ms,
            wait_s=wait_s,
        )

    def topics() -> list[Finding]:
        return verify(admin, names, message_bytes_max=message_bytes_max, wait_s=wait_s)

    def positions() -> list[Finding]:
        now = topology.look(admin, names, wait_s=wait_s)
        count = min(now.half_count, now.op_count)
        return inspect_positions(admin, stored_offsets, names, count, wait_s=wait_s)

    found = _looked("brokers", brokers) + _looked("internal topics", topics)
    if any("does not exist" in finding.sentence for finding in found):
        return found
    return found + _looked("watermarks", positions)


def tell(findings: Sequence[Finding]) -> None:
    """Into the log, what is not as it should be."""
    for finding in findings:
        if finding.severity is not Severity.OK:
            is_worse = finding.severity is Severity.FAIL
            logger.log(
                logging.ERROR if is_worse else logging.WARNING,
                "%s %s",
                finding.sentence,
                finding.remedy,
                extra={"action": "finding", "check": finding.check},
            )


def _looked(part: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except HalfHitchError as error:
        return [Finding(part, Severity.FAIL, error.message, "Run this again.", may_pass=True)]


def inspect_memory(
    admin: AdminClient, stored_offsets: StoredOffsets, names: InternalTopics, *, wait_s: float
) -> list[Finding]:
    """Whether half and op topic are those that were last used."""

    def look() -> list[Finding]:
        before = topology.remembered(stored_offsets, names, wait_s=wait_s)
        if before is None:
            return [Finding("topology", Severity.OK, "Nothing is remembered: no owner has run.")]
        try:
            topology.compare(before, topology.look(admin, names, wait_s=wait_s), names)
        except TopologyError as error:
            return [Finding("topology", Severity.FAIL, error.message, "Until then nothing starts.")]
        return [Finding("topology", Severity.OK, "Half and op topic are those last used.")]

    return _looked("topology", look)


def inspect_bounds(
    stored_offsets: StoredOffsets, names: InternalTopics, *, wait_s: float
) -> list[Finding]:
    """Whether this user may do what instances tell each other their full half partitions by.

    `stored_offsets`: of the group for that. Reading needs Describe, writing Read.
    """
    group = names.bounds_group

    def look() -> list[Finding]:
        try:
            place = [TopicPartition(names.half, 0)]
            stored_offsets.of(place, wait_s, f"read what is stored under the group {group}")
            stored_offsets.probe(f"{names.half}-nowhere", f"store under the group {group}")
        except ConfigurationError as error:
            return [
                Finding(
                    "bounds",
                    Severity.WARN,
                    f"{error.message} Instances tell each other by it which half partitions take "
                    "nothing new; without it each refuses for its own only.",
                    f"Allow this user Read on the group {group}.",
                )
            ]
        return [Finding("bounds", Severity.OK, f"The group {group} may be read and written.")]

    return _looked("bounds", look)


def inspect_targets(
    admin: AdminClient,
    names: InternalTopics,
    allow: Sequence[str],
    *,
    message_bytes_max: int,
    wait_s: float,
) -> list[Finding]:
    """Whether the topics that messages may go to take what the doors accept."""
    try:
        known = admin.list_topics(timeout=wait_s).topics
    except KafkaException as error:
        return [
            Finding(
                "targets",
                Severity.FAIL,
                f"The topics could not be listed: {describe(error)}.",
                "Run this again.",
                may_pass=True,
            )
        ]
    targets = sorted(
        topic
        for topic in known
        if topic not in names.reserved
        and not topic.startswith("__")
        and any(fnmatchcase(topic, pattern) for pattern in allow)
    )[:_TARGETS_MAX]
    configs, refusal = topic_configs(admin, targets, wait_s)
    if refusal is not None:
        return [
            Finding(
                "targets",
                Severity.WARN,
                f"The settings of the target topics could not be read: {refusal}.",
                "Allow this user DescribeConfigs on them.",
            )
        ]
    small = smaller_targets(configs, message_bytes_max)
    if not small:
        return [Finding("targets", Severity.OK, f"{len(targets)} topics take what is accepted.")]
    return [too_small(small, message_bytes_max)]


def smaller_targets(
    configs: Mapping[str, Mapping[str, str | None]], message_bytes_max: int
) -> dict[str, int]:
    """Topics that take less than the doors accept, and how much they take."""
    needed = message_bytes_max + FORWARD_OVERHEAD_BYTES
    return {
        topic: int(limit)
        for topic, config in configs.items()
        if (limit := config.get("max.message.bytes") or "").isdigit() and int(limit) < needed
    }


def too_small(limits: dict[str, int], message_bytes_max: int) -> Finding:
    """Targets that take less than the doors accept; from topic to what it takes."""
    named = ", ".join(f"{topic} ({limit})" for topic, limit in list(limits.items())[:_NAMED_MAX])
    more = len(limits) - _NAMED_MAX
    return Finding(
        "targets",
        Severity.WARN,
        f"messages.bytes_max is {message_bytes_max}, but these topics have a smaller "
        f"max.message.bytes: {named}{f' and {more} more' if more > 0 else ''}. A larger message "
        "is accepted, and parked when it is committed.",
        f"Set max.message.bytes of these topics to {message_bytes_max + FORWARD_OVERHEAD_BYTES} "
        "or more, or lower messages.bytes_max.",
    )
