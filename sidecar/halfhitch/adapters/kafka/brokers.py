"""What the promises ask of the brokers, and looking whether it is so.

Owns `inspect_brokers`: version as far as it can be told, transaction and session limits, retention
of committed positions. Blocks; changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from halfhitch.adapters.kafka.admin import answer
from halfhitch.adapters.kafka.topic_checks import Finding, Severity
from halfhitch.errors import ConfigurationError

_DAY_MS = 86_400_000


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
    """One finding for each thing that was looked at; the first broker stands for all."""
    nodes = answer(admin.describe_cluster(request_timeout=wait_s), wait_s, "reach Kafka").nodes
    resource = ConfigResource(ResourceType.BROKER, str(min(node.id for node in nodes)))
    try:
        entries = answer(
            admin.describe_configs([resource], request_timeout=wait_s)[resource],
            wait_s,
            "read the brokers' settings",
        )
    except ConfigurationError as error:
        return [
            Finding(
                "broker settings",
                Severity.WARN,
                error.message,
                "Allow this user DescribeConfigs on the cluster to have them checked.",
            )
        ]
    config = {key: entry.value for key, entry in entries.items()}
    return [
        _version(config),
        _transaction_timeout(config, transaction_timeout_ms),
        _session_timeout(config, session_timeout_ms),
        _expiry(config),
    ]


def _version(config: Mapping[str, str | None]) -> Finding:
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


def _transaction_timeout(config: Mapping[str, str | None], wanted_ms: int) -> Finding:
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


def _session_timeout(config: Mapping[str, str | None], wanted_ms: int) -> Finding:
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


def _expiry(config: Mapping[str, str | None]) -> Finding:
    minutes = _number(config, "offsets.retention.minutes")
    expiry_ms = _number(config, "transactional.id.expiration.ms")
    if minutes is not None and minutes * 60_000 < _DAY_MS:
        return Finding(
            "expiry",
            Severity.WARN,
            f"The brokers forget the positions of an idle group after {minutes} minutes "
            "(offsets.retention.minutes): a takeover after that reads both logs from the start.",
            "Set offsets.retention.minutes to a day or more.",
        )
    if expiry_ms is not None and expiry_ms < _DAY_MS:
        return Finding(
            "expiry",
            Severity.WARN,
            f"The brokers forget an idle owner's transactional.id after {expiry_ms} ms: one that "
            "was frozen longer would no longer be fenced.",
            "Set transactional.id.expiration.ms to a day or more.",
        )
    return Finding("expiry", Severity.OK, "Positions and transactional ids outlast a day's pause.")


def _number(config: Mapping[str, str | None], key: str) -> int | None:
    value = config.get(key)
    return int(value) if value is not None and value.lstrip("-").isdigit() else None
