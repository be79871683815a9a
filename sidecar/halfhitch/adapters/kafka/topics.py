"""The internal topics: creating, verifying and repairing them.

Owns `ensure`, `repair` and `partition_count`; names, required settings and `verify` come from
topic_checks.py and are offered here too. Invariants: a topic that exists is never changed except by
`repair`, which somebody must ask for; half and op topic are never created one without the other
when the remaining one holds records, because that would present a loss as a fresh start.
Everything here blocks and is called from threads, with a plain AdminClient.

It does not look at the topics that messages are forwarded to, nor at what the records say.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from halfhitch.adapters.kafka.admin import Layout, answer, topic_configs, topic_layouts
from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.topic_checks import (
    RECORD_OVERHEAD_BYTES,
    UNEQUAL_REMEDY,
    Finding,
    Severity,
    copies_of,
    equal_counts,
    is_enough,
    record_bytes_max,
    required_config,
    verify,
)
from halfhitch.errors import ConfigurationError, KafkaUnavailable, TopologyError
from halfhitch.wire.topics import InternalTopics

__all__ = [
    "RECORD_OVERHEAD_BYTES",
    "Ensured",
    "Finding",
    "Severity",
    "ensure",
    "partition_count",
    "repair",
    "required_config",
    "verify",
]

_POLL_S = 0.05
_SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Ensured:
    """What `ensure` found or made."""

    created: tuple[str, ...]
    partition_count: int  # of half and op topic
    findings: tuple[Finding, ...]  # FAIL only for what may pass by itself


def ensure(
    admin: AdminClient,
    names: InternalTopics,
    *,
    partition_count: int,
    replication_factor: int,
    message_bytes_max: int = 1_048_576,
    adopt: bool = False,
    wait_s: float = 30.0,
) -> Ensured:
    """Create what is missing, then verify everything.

    With `adopt` an existing partition count is taken as it is; without it another count than
    `partition_count` is refused. Safe to run on several instances at once. Raises TopologyError
    for topics that would break a promise, KafkaUnavailable when Kafka does not answer.
    """
    layouts = topic_layouts(admin, names.all, wait_s)
    known_count = _common_count(names, layouts)
    if known_count is not None:
        if known_count != partition_count and not adopt:
            raise TopologyError(_why_counts_are_fixed(names, known_count, partition_count))
        partition_count = known_count
    missing = [topic for topic in names.all if layouts[topic] is None]
    _refuse_a_lost_topic(admin, names, layouts, wait_s)
    created: tuple[str, ...] = ()
    if missing:
        created = _create(
            admin,
            names,
            missing,
            count=partition_count,
            replication_factor=replication_factor,
            message_bytes_max=message_bytes_max,
            wait_s=wait_s,
        )
    findings = _settled(
        admin,
        names,
        message_bytes_max=message_bytes_max,
        wait_s=wait_s,
        settle_s=wait_s if missing else min(wait_s, _SETTLE_S),
    )
    # Another instance may have created them meanwhile, with another number.
    layouts = topic_layouts(admin, names.all, wait_s)
    return Ensured(created, _common_count(names, layouts) or partition_count, tuple(findings))


def repair(
    admin: AdminClient,
    names: InternalTopics,
    *,
    message_bytes_max: int = 1_048_576,
    wait_s: float = 30.0,
) -> tuple[str, ...]:
    """Set the settings of existing topics back to what is required; says what was changed."""
    layouts = topic_layouts(admin, names.all, wait_s)
    present = [topic for topic in names.all if layouts[topic]]
    configs, refusal = topic_configs(admin, present, wait_s)
    if refusal is not None:
        raise ConfigurationError(f"The settings of the topics could not be read: {refusal}.")
    changed: list[str] = []
    for topic in present:
        required = required_config(
            names,
            topic,
            message_bytes_max=message_bytes_max,
            replication_factor=copies_of(layouts[topic] or ()),
        )
        if topic == names.parked:  # whatever the half topic takes
            least = max(
                int(required["max.message.bytes"]), record_bytes_max(configs.get(names.half, {}))
            )
            required["max.message.bytes"] = str(least)
        wrong = {
            key: value
            for key, value in required.items()
            if not is_enough(key, configs[topic].get(key), value)
        }
        if not wrong:
            continue
        set_config(admin, topic, wrong, wait_s)
        changed += [f"{topic}: {key}={value}" for key, value in wrong.items()]
    return tuple(changed)


def cluster_id(admin: AdminClient, *, wait_s: float = 30.0) -> str:
    """The Kafka cluster's own name. Raises KafkaUnavailable."""
    try:
        found = admin.list_topics(timeout=wait_s).cluster_id
    except KafkaException as error:
        raise KafkaUnavailable(f"Kafka does not answer: {describe(error)}") from error
    return str(found)


def partition_count(admin: AdminClient, names: InternalTopics, *, wait_s: float = 30.0) -> int:
    """How many partitions half and op topic have. Raises TopologyError unless both exist."""
    layouts = topic_layouts(admin, (names.half, names.op), wait_s)
    count = _common_count(names, layouts)
    if count is None or not all(layouts.values()):
        raise TopologyError("The half and op topics do not exist: run `halfhitch topics init`.")
    return count


def _common_count(names: InternalTopics, layouts: Mapping[str, Layout | None]) -> int | None:
    counts = {len(layout) for t in (names.half, names.op) if (layout := layouts[t]) is not None}
    if len(counts) > 1:
        raise TopologyError(equal_counts(names, layouts).sentence + " " + UNEQUAL_REMEDY)
    return counts.pop() if counts else None


def _why_counts_are_fixed(names: InternalTopics, known: int, wanted: int) -> str:
    return (
        f"{names.half} has {known} partitions, not {wanted}, and the number cannot change while "
        "anything is pending: a retried prepare would land in another partition and be forwarded "
        f"twice. Set topics.partitions to {known}; or, to change it: stop new prepares, wait until "
        "`halfhitch status` shows nothing pending, stop every sidecar, and start them all with a "
        "new topics.prefix and the new number."
    )


def _refuse_a_lost_topic(
    admin: AdminClient, names: InternalTopics, layouts: Mapping[str, Layout | None], wait_s: float
) -> None:
    """A half log without its op log (or the reverse) means that decisions or messages are lost."""
    for present, absent in ((names.half, names.op), (names.op, names.half)):
        layout = layouts[present]
        if layout is None or layouts[absent] is not None:
            continue
        ends = _ends(admin, present, len(layout), wait_s)
        if any(ends):
            raise TopologyError(
                f"{present} holds records, but {absent} does not exist: what was decided or stored "
                "there is lost. Restore it from a mirror, or start with a new topics.prefix."
            )


def _create(
    admin: AdminClient,
    names: InternalTopics,
    missing: Sequence[str],
    *,
    count: int,
    replication_factor: int,
    message_bytes_max: int,
    wait_s: float,
) -> tuple[str, ...]:
    """Gives those that were not there; a description may be behind, and others start, too."""
    cluster = answer(admin.describe_cluster(request_timeout=wait_s), wait_s, "describe the cluster")
    broker_count = len(cluster.nodes)
    if broker_count < replication_factor:
        raise TopologyError(
            f"topics.replication_factor is {replication_factor}, but the number of brokers is "
            f"{broker_count}: add brokers, or set topics.replication_factor to {broker_count} "
            f"(--topics-replication-factor {broker_count}) to accept fewer copies."
        )
    wanted = [
        NewTopic(
            topic,
            num_partitions=count,
            replication_factor=replication_factor,
            config=required_config(
                names,
                topic,
                message_bytes_max=message_bytes_max,
                replication_factor=replication_factor,
            ),
        )
        for topic in missing
    ]
    futures = admin.create_topics(wanted, operation_timeout=wait_s, request_timeout=wait_s)
    created = []
    for topic, future in futures.items():
        # Two instances that start at once both create; whoever comes second is content.
        answer(future, wait_s, f"create the topic {topic}", KafkaError.TOPIC_ALREADY_EXISTS)
        if future.exception() is None:
            created.append(topic)
    return tuple(created)


def _ends(admin: AdminClient, topic: str, count: int, wait_s: float) -> list[int]:
    """The end of each partition; a topic that was created just now has no leaders for a moment."""
    deadline_s = time.monotonic() + wait_s
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    while True:
        asked = {TopicPartition(topic, number): latest for number in range(count)}
        try:
            return [
                answer(future, wait_s, f"read the end of {topic}").offset
                for future in admin.list_offsets(asked, request_timeout=wait_s).values()
            ]
        except KafkaUnavailable:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(_POLL_S)


def _settled(
    admin: AdminClient,
    names: InternalTopics,
    *,
    message_bytes_max: int,
    wait_s: float,
    settle_s: float,
) -> list[Finding]:
    """Verify until nothing fails. What was changed a moment ago is not known to every broker yet.

    After `settle_s` a failure is raised, unless it may pass by itself.
    """
    deadline_s = time.monotonic() + settle_s
    while True:
        is_late = time.monotonic() > deadline_s
        try:
            findings = verify(admin, names, message_bytes_max=message_bytes_max, wait_s=wait_s)
        except KafkaUnavailable:
            if is_late:
                raise
        else:
            failing = [finding for finding in findings if finding.severity is Severity.FAIL]
            lasting = [finding for finding in failing if not finding.may_pass]
            if not failing or (is_late and not lasting):
                return findings
            if is_late:
                raise TopologyError(f"{lasting[0].sentence} {lasting[0].remedy}")
        time.sleep(_POLL_S)


def set_config(admin: AdminClient, topic: str, wanted: Mapping[str, str], wait_s: float) -> None:
    """Set these, and wait until they can be read: the next `verify` must not see the old ones.

    Raises BackendError.
    """
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource], request_timeout=wait_s).values():
        answer(future, wait_s, f"change the settings of {topic}")
    deadline_s = time.monotonic() + wait_s
    while time.monotonic() < deadline_s:
        configs, _ = topic_configs(admin, [topic], wait_s)
        if all(is_enough(key, configs[topic].get(key), value) for key, value in wanted.items()):
            return
        time.sleep(_POLL_S)
    raise KafkaUnavailable(
        f"The new settings of {topic} could not be read back within {wait_s:g} s: "
        "run `halfhitch topics verify`."
    )
