"""What the promises ask of the internal topics, and looking whether it is so.

Owns the required settings of these topics (`required_config`) and `verify`. A finding
that is FAIL would break a promise: the sidecar does not start. Nothing here changes a topic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka.admin import Layout, topic_configs, topic_layouts
from halfhitch.wire.topics import InternalTopics

#: What our own headers may add to a user's message before it is a half record.
RECORD_OVERHEAD_BYTES = 65_536
# Records below the watermark are deleted by whole segments; the default of 1 GiB would keep far
# more of them on disk than a half log ever needs.
_SEGMENT_BYTES = 134_217_728


class Severity(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"  # works, but promises less
    FAIL = "fail"  # a promise would break: do not start


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str  # what was looked at, short: a topic's name
    severity: Severity
    sentence: str
    remedy: str = ""  # what to do; empty when nothing is wrong
    may_pass: bool = False  # by itself, as when a broker comes back: no reason to refuse a start
    is_right_in_dev: bool = False  # a warning elsewhere; one broker on a desk can have no other


def required_config(
    names: InternalTopics, topic: str, *, message_bytes_max: int, replication_factor: int
) -> dict[str, str]:
    """The topic settings that `ensure` creates and `repair` restores."""
    required = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(message_bytes_max + RECORD_OVERHEAD_BYTES),
        "min.insync.replicas": str(in_sync_min_for(replication_factor)),
        "unclean.leader.election.enable": "false",
        "segment.bytes": str(_SEGMENT_BYTES),
    }
    if topic != names.parked:
        # Ages are measured on broker time: a producer's clock must not delay or hasten a check.
        required["message.timestamp.type"] = "LogAppendTime"
    return required


def in_sync_min_for(replication_factor: int) -> int:
    """How many copies must confirm: two wherever one broker may be away meanwhile."""
    return min(2, max(1, replication_factor - 1))


def copies_of(layout: Layout) -> int:
    """Copies of the partition that has the fewest."""
    return min((partition.replica_count for partition in layout), default=0)


def verify(
    admin: AdminClient,
    names: InternalTopics,
    *,
    message_bytes_max: int = 1_048_576,
    wait_s: float = 30.0,
) -> list[Finding]:
    """Look at the internal topics; one OK row for each topic that has nothing wrong."""
    layouts = topic_layouts(admin, names.all, wait_s)
    findings = [equal_counts(names, layouts)]
    configs, refusal = topic_configs(admin, [t for t in names.all if layouts[t]], wait_s)
    findings += _parked_findings(names, configs)
    for topic in names.all:
        layout = layouts[topic]
        if layout is None:
            findings.append(
                Finding(
                    topic,
                    Severity.FAIL,
                    f"The topic {topic} does not exist.",
                    "Run `halfhitch topics init`.",
                )
            )
            continue
        rows = _replica_findings(topic, layout, configs.get(topic, {}))
        if refusal is None:
            rows += _config_findings(names, topic, layout, configs[topic], message_bytes_max)
        else:
            rows.append(
                Finding(
                    topic,
                    Severity.WARN,
                    f"The settings of {topic} could not be read: {refusal}.",
                    "Allow this user DescribeConfigs on the topic.",
                )
            )
        findings += rows or [
            Finding(
                topic, Severity.OK, f"{len(layout)} partitions, {copies_of(layout)} copies each."
            )
        ]
    return findings


UNEQUAL_REMEDY = (
    "Decisions are looked for in the op partition of the same number. Stop every sidecar, add "
    "partitions to the topic that has fewer, wait until no client repeats an old prepare, and "
    "start again with topics.partitions set to that number."
)


def equal_counts(names: InternalTopics, layouts: Mapping[str, Layout | None]) -> Finding:
    """Whether half and op topic are both there with the same number of partitions."""
    half, op = layouts[names.half], layouts[names.op]
    if half is None or op is None:
        return Finding(
            "partition counts",
            Severity.FAIL,
            "The half and op topics are not both there.",
            "Run `halfhitch topics init`.",
        )
    if len(half) != len(op):
        return Finding(
            "partition counts",
            Severity.FAIL,
            f"{names.half} has {len(half)} partitions, but {names.op} has {len(op)}.",
            UNEQUAL_REMEDY,
        )
    return Finding(
        "partition counts", Severity.OK, f"Half and op topic have {len(half)} partitions each."
    )


def record_bytes_max(config: Mapping[str, str | None]) -> int:
    """The largest batch of records that a topic with these settings takes."""
    return int(config.get("max.message.bytes") or 0)


def _parked_findings(
    names: InternalTopics, configs: Mapping[str, Mapping[str, str | None]]
) -> list[Finding]:
    """What the half topic takes must be able to be parked, or it could go nowhere."""
    half, parked = configs.get(names.half), configs.get(names.parked)
    if half is None or parked is None or record_bytes_max(parked) >= record_bytes_max(half):
        return []
    return [
        Finding(
            names.parked,
            Severity.FAIL,
            f"{names.parked} has max.message.bytes={record_bytes_max(parked)}, but {names.half} "
            f"has {record_bytes_max(half)}: a message that the half topic has taken could not be "
            "parked, and would wait for ever.",
            "Run `halfhitch topics init --repair`.",
        )
    ]


def _replica_findings(
    topic: str, layout: Layout, config: Mapping[str, str | None]
) -> list[Finding]:
    in_sync_min = int(config.get("min.insync.replicas") or 1)
    headless = [n for n, partition in enumerate(layout) if partition.leader is None]
    short = [n for n, partition in enumerate(layout) if partition.in_sync_count < in_sync_min]
    found: list[Finding] = []
    if headless or short:
        number = (headless or short)[0]
        reason = "has no leader" if headless else f"has fewer than {in_sync_min} copies in sync"
        found.append(
            Finding(
                topic,
                Severity.FAIL,
                f"Partition {number} of {topic} {reason}, so nothing can be stored in it.",
                "Bring the missing brokers back.",
                may_pass=True,
            )
        )
    copies = copies_of(layout)
    if copies > 1 and in_sync_min >= copies:
        found.append(
            Finding(
                topic,
                Severity.WARN,
                f"{topic} has min.insync.replicas={in_sync_min} and {copies} copies: while one "
                "broker is away, nothing can be stored in it.",
                f"Set min.insync.replicas to {in_sync_min_for(copies)}, or give it more copies.",
            )
        )
    if copies == 1:
        found.append(
            Finding(
                topic,
                Severity.WARN,
                f"{topic} has one copy: if that broker's disk is lost, so are the transactions.",
                "Fine for development; elsewhere use three brokers and three copies.",
                is_right_in_dev=True,
            )
        )
    elif copies == 2 and in_sync_min < 2:
        found.append(
            Finding(
                topic,
                Severity.WARN,
                f"{topic} has two copies: one broker alone confirms while the other is away, and "
                "may then lose what it confirmed.",
                "Use three brokers and three copies.",
            )
        )
    elif config and in_sync_min < in_sync_min_for(copies):
        found.append(
            Finding(
                topic,
                Severity.WARN,
                f"{topic} has min.insync.replicas={in_sync_min}: one broker alone may confirm a "
                "message and then lose it.",
                "Run `halfhitch topics init --repair`.",
            )
        )
    return found


_WHY: dict[str, tuple[Severity, str]] = {
    "cleanup.policy": (Severity.FAIL, "compaction would remove messages that are still pending"),
    "retention.ms": (Severity.FAIL, "messages that wait longer would be deleted undecided"),
    "retention.bytes": (Severity.FAIL, "messages would be deleted undecided"),
    "message.timestamp.type": (
        Severity.FAIL,
        "ages would follow the producers' clocks instead of the broker's",
    ),
    "max.message.bytes": (Severity.WARN, "messages that the doors accept could not be stored"),
    "unclean.leader.election.enable": (
        Severity.WARN,
        "a stale copy may become leader and confirmed messages vanish",
    ),
}


def _config_findings(
    names: InternalTopics,
    topic: str,
    layout: Layout,
    config: Mapping[str, str | None],
    message_bytes_max: int,
) -> list[Finding]:
    required = required_config(
        names, topic, message_bytes_max=message_bytes_max, replication_factor=copies_of(layout)
    )
    found: list[Finding] = []
    for key, (severity, consequence) in _WHY.items():
        if key not in required or is_enough(key, config.get(key), required[key]):
            continue
        found.append(
            Finding(
                topic,
                severity,
                f"{topic} has {key}={config.get(key)} instead of {required[key]}: {consequence}.",
                "Run `halfhitch topics init --repair`.",
            )
        )
    return found


def is_enough(key: str, actual: str | None, required: str) -> bool:
    """Whether a topic setting keeps the promise; limits may be wider than required."""
    if key == "segment.bytes":
        return True  # a matter of disk space, not of a promise
    if key in ("max.message.bytes", "min.insync.replicas"):
        return actual is not None and int(actual) >= int(required)
    return actual == required
