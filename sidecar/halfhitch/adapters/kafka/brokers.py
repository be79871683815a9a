"""What the promises ask of the brokers, and looking whether it is so.

Owns `inspect_brokers`: version as far as it can be told, transaction and session limits, how long
positions and producers are remembered, how many copies the brokers keep of that memory. Every
broker is asked, and each thing is told once, for the broker that is worst. Blocks; changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from halfhitch.adapters.kafka.admin import answer, topic_configs, topic_layouts
from halfhitch.adapters.kafka.topic_checks import Finding, Severity, copies_of, in_sync_min_for
from halfhitch.errors import ConfigurationError, KafkaUnavailable

_HOUR_MS = 3_600_000
_DAY_MS = 86_400_000
#: Readers of a target wait for a frozen owner's transaction until the brokers look for it.
_CLEANUP_MS_MAX = 10_000
_WORST_FIRST = (Severity.FAIL, Severity.WARN, Severity.OK)

_Config = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Who answered."""

    cluster_id: str
    broker_count: int
    controller_id: int | None


def describe_cluster(admin: AdminClient, *, wait_s: float = 10.0) -> Cluster:
    """Reach the cluster. Raises KafkaUnavailable."""
    found = answer(admin.describe_cluster(request_timeout=wait_s), wait_s, "reach Kafka")
    return Cluster(
        cluster_id=found.cluster_id or "",
        broker_count=len(found.nodes),
        controller_id=found.controller.id if found.controller else None,
    )


def inspect_brokers(
    admin: AdminClient,
    *,
    transaction_timeout_ms: int,
    session_timeout_ms: int,
    wait_s: float = 10.0,
) -> list[Finding]:
    """One finding for each thing that was looked at; the worst broker stands for all."""
    nodes = answer(admin.describe_cluster(request_timeout=wait_s), wait_s, "reach Kafka").nodes
    ids = sorted(node.id for node in nodes)
    try:
        configs, silent = _configs(admin, ids, wait_s)
    except ConfigurationError as error:
        return [
            Finding(
                "broker settings",
                Severity.WARN,
                error.message,
                "Allow this user DescribeConfigs on the cluster to have them checked.",
            )
        ]
    looks: list[Callable[[_Config], Finding]] = [
        _version,
        lambda config: _transaction_timeout(config, transaction_timeout_ms),
        lambda config: _session_timeout(config, session_timeout_ms),
        _frozen_owner,
        _positions_expiry,
        _owner_expiry,
        lambda config: _producer_expiry(config, transaction_timeout_ms),
    ]
    found = [_worst(look, configs) for look in looks]
    found += [_silent(silent)] if silent else []
    return found + [
        _state_topic(admin, role, len(ids), next(iter(configs.values())), wait_s)
        for role in _STATE_TOPICS
    ]


def _configs(
    admin: AdminClient, ids: list[int], wait_s: float
) -> tuple[dict[int, _Config], list[int]]:
    """Settings by broker, and the brokers that did not answer; one at least has."""
    asked = {number: ConfigResource(ResourceType.BROKER, str(number)) for number in ids}
    futures = {
        number: admin.describe_configs([resource], request_timeout=wait_s)[resource]
        for number, resource in asked.items()
    }
    configs: dict[int, _Config] = {}
    trouble: KafkaUnavailable | None = None
    for number, future in futures.items():
        try:
            entries = answer(future, wait_s, f"read the settings of broker {number}")
        except KafkaUnavailable as error:  # it may have gone since the cluster was described
            trouble = error
        else:
            configs[number] = {key: entry.value for key, entry in entries.items()}
    if not configs:
        raise trouble or KafkaUnavailable("Could not read the brokers' settings: there are none.")
    return configs, [number for number in ids if number not in configs]


def _worst(look: Callable[[_Config], Finding], configs: Mapping[int, _Config]) -> Finding:
    found = {number: look(config) for number, config in configs.items()}
    number, worst = min(found.items(), key=lambda item: _WORST_FIRST.index(item[1].severity))
    if all(finding == worst for finding in found.values()):
        return worst
    told = f"{worst.sentence} (Broker {number}; the brokers' settings differ.)"
    return Finding(worst.check, worst.severity, told, worst.remedy)


def _silent(numbers: list[int]) -> Finding:
    return Finding(
        "broker settings",
        Severity.WARN,
        f"The settings of the brokers {numbers} could not be read: they did not answer in time.",
        "Look at them, and run this again.",
    )


def _version(config: _Config) -> Finding:
    # No client API tells a broker's version. Brokers before 4.0 state the version of the protocol
    # among themselves; 4.0 removed that setting.
    stated = config.get("inter.broker.protocol.version")
    if "transaction.partition.verification.enable" not in config:
        return Finding(
            "Kafka version",
            Severity.FAIL,
            "The brokers are older than Kafka 3.6 (or not Apache Kafka): a late record can leave a "
            "transaction hanging.",
            "Use Apache Kafka 3.7 or newer.",
        )
    if config["transaction.partition.verification.enable"] != "true":
        return Finding(
            "Kafka version",
            Severity.FAIL,
            "The brokers have transaction.partition.verification.enable=false: a late record can "
            "leave a transaction hanging.",
            "Set it to true on every broker.",
        )
    return Finding(
        "Kafka version",
        Severity.OK,
        f"Protocol {stated}." if stated else "4.0 or newer.",
    )


def _transaction_timeout(config: _Config, wanted_ms: int) -> Finding:
    limit_ms = _number(config, "transaction.max.timeout.ms")
    if limit_ms is not None and limit_ms < wanted_ms:
        return Finding(
            "transaction timeout",
            Severity.FAIL,
            f"owner.transaction_timeout_ms is {wanted_ms}, but the brokers allow at most "
            f"{limit_ms} (transaction.max.timeout.ms).",
            f"Set owner.transaction_timeout_ms to {limit_ms} or less.",
        )
    return Finding(
        "transaction timeout", Severity.OK, f"{wanted_ms} ms, the brokers allow {limit_ms} ms."
    )


def _session_timeout(config: _Config, wanted_ms: int) -> Finding:
    low_ms = _number(config, "group.min.session.timeout.ms")
    high_ms = _number(config, "group.max.session.timeout.ms")
    if (low_ms is not None and wanted_ms < low_ms) or (high_ms is not None and wanted_ms > high_ms):
        return Finding(
            "session timeout",
            Severity.FAIL,
            f"owner.session_timeout_ms is {wanted_ms}, but the brokers allow {low_ms} to "
            f"{high_ms} (group.min.session.timeout.ms, group.max.session.timeout.ms).",
            "Set owner.session_timeout_ms to a value between them.",
        )
    return Finding("session timeout", Severity.OK, f"{wanted_ms} ms, within the brokers' limits.")


def _frozen_owner(config: _Config) -> Finding:
    interval_ms = _number(config, "transaction.abort.timed.out.transaction.cleanup.interval.ms")
    if interval_ms is not None and interval_ms > _CLEANUP_MS_MAX:
        return Finding(
            "frozen owner",
            Severity.WARN,
            f"The brokers look for transactions that are over time only every {interval_ms} ms "
            "(transaction.abort.timed.out.transaction.cleanup.interval.ms): the readers of the "
            "targets may wait that much longer for an owner that is frozen.",
            f"Set it to {_CLEANUP_MS_MAX} or less.",
        )
    return Finding("frozen owner", Severity.OK, "Its Kafka transaction is ended in good time.")


def _positions_expiry(config: _Config) -> Finding:
    minutes = _number(config, "offsets.retention.minutes")
    if minutes is not None and minutes * 60_000 < _DAY_MS:
        return Finding(
            "positions",
            Severity.WARN,
            f"The brokers forget the positions of an idle group after {minutes} minutes "
            "(offsets.retention.minutes): a takeover after that reads both logs from the start.",
            "Set offsets.retention.minutes to a day or more.",
        )
    return Finding(
        "positions", Severity.OK, "Committed offsets are kept for at least a day without readers."
    )


def _owner_expiry(config: _Config) -> Finding:
    expiry_ms = _number(config, "transactional.id.expiration.ms")
    if expiry_ms is not None and expiry_ms < _DAY_MS:
        return Finding(
            "transactional ids",
            Severity.WARN,
            f"The brokers forget an idle owner's transactional.id after {expiry_ms} ms: one that "
            "was frozen longer would no longer be fenced.",
            "Set transactional.id.expiration.ms to a day or more.",
        )
    return Finding("transactional ids", Severity.OK, "They outlast a day's pause.")


def _producer_expiry(config: _Config, transaction_timeout_ms: int) -> Finding:
    expiry_ms = _number(config, "producer.id.expiration.ms")
    needed_ms = max(_HOUR_MS, 4 * transaction_timeout_ms)
    if expiry_ms is not None and expiry_ms < needed_ms:
        return Finding(
            "producer ids",
            Severity.WARN,
            f"The brokers forget what a producer has written after {expiry_ms} ms "
            "(producer.id.expiration.ms): a request that was held up longer may be stored twice.",
            f"Set producer.id.expiration.ms to {needed_ms} or more; Kafka's default is a day.",
        )
    return Finding("producer ids", Severity.OK, "They outlast every request.")


@dataclass(frozen=True, slots=True)
class _StateTopic:
    """One of the brokers' own topics that our promises rest on."""

    topic: str
    check: str
    holds: str
    copies_key: str
    in_sync_key: str | None


_STATE_TOPICS = (
    _StateTopic(
        "__transaction_state",
        "transaction log",
        "who may write in whose name and what became of each Kafka transaction",
        "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr",
    ),
    _StateTopic(
        "__consumer_offsets",
        "positions log",
        "who owns which partition and how far it has come",
        "offsets.topic.replication.factor",
        None,
    ),
)


def _state_topic(
    admin: AdminClient, role: _StateTopic, broker_count: int, broker: _Config, wait_s: float
) -> Finding:
    """The topic as it is; where there is none yet, as the brokers would make it."""
    try:
        layout = topic_layouts(admin, [role.topic], wait_s)[role.topic]
    except ConfigurationError as error:
        remedy = f"Allow this user Describe and DescribeConfigs on {role.topic} to have it checked."
        return Finding(role.check, Severity.WARN, error.message, remedy)
    configs, refusal = topic_configs(admin, [] if layout is None else [role.topic], wait_s)
    config = configs.get(role.topic, {})
    if layout is not None:
        copies: int | None = copies_of(layout)
        in_sync = None if refusal else _number(config, "min.insync.replicas")
    else:
        copies = _number(broker, role.copies_key)
        in_sync = _number(broker, role.in_sync_key or "min.insync.replicas")
    if copies is None:
        return Finding(role.check, Severity.OK, "The brokers do not tell.")
    wanted = min(3, broker_count)
    if copies < wanted:
        return Finding(
            role.check,
            Severity.WARN,
            f"{role.topic} has {copies} of {wanted} possible copies ({role.copies_key}): a broker "
            f"that is lost takes along {role.holds}.",
            "Raise its copies with kafka-reassign-partitions.sh, and the setting on every broker.",
        )
    if in_sync is not None and in_sync < in_sync_min_for(copies):
        key = role.in_sync_key or "min.insync.replicas"
        return Finding(
            role.check,
            Severity.WARN,
            f"{role.topic} has min.insync.replicas={in_sync}: one broker alone may confirm, and "
            f"then lose, {role.holds}.",
            f"Set min.insync.replicas={in_sync_min_for(copies)} on that topic ({key} makes it so "
            "when it is created).",
        )
    if config.get("unclean.leader.election.enable") == "true":
        return Finding(
            role.check,
            Severity.WARN,
            f"{role.topic} has unclean.leader.election.enable=true: a stale copy may become leader "
            f"and forget {role.holds}.",
            "Set unclean.leader.election.enable=false on every broker.",
        )
    return Finding(role.check, Severity.OK, "1 copy." if copies == 1 else f"{copies} copies.")


def _number(config: _Config, key: str) -> int | None:
    value = config.get(key)
    return int(value) if value is not None and value.lstrip("-").isdigit() else None
