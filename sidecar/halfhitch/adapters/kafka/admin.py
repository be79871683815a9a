"""Questions to the cluster, with a deadline and our errors.

Owns how the answer of an AdminClient is waited for and what its errors mean: no answer is
KafkaUnavailable, a missing right is ConfigurationError, a refused topic is TopologyError.
Everything here blocks and is called from threads.
"""

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclOperation,
    AdminClient,
    ConfigResource,
    ResourceType,
)

from halfhitch.errors import (
    ConfigurationError,
    HalfHitchError,
    KafkaUnavailable,
    TopologyError,
)

_GRACE_S = 5.0  # librdkafka answers by itself at its own limit; this catches it when it does not


@dataclass(frozen=True, slots=True)
class PartitionLayout:
    """Where one partition is."""

    leader: int | None
    replica_count: int
    in_sync_count: int


Layout = tuple[PartitionLayout, ...]


_NO_RIGHT = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
#: A topic that cannot even be described.
_GONE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
_REFUSALS = frozenset(
    {
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_CONFIG,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
    }
)


def answer(future: "Future[Any]", wait_s: float, action: str, accepted: int | None = None) -> Any:
    """The future's result; None for the one error code that is an answer too."""
    try:
        return future.result(wait_s + _GRACE_S)
    except TimeoutError:
        raise KafkaUnavailable(
            f"Could not {action}: Kafka did not answer within {wait_s:g} s."
        ) from None
    except KafkaException as error:
        reason = error.args[0]
        if reason.code() == accepted:
            return None
        raise refused(reason, action) from error


def refused(reason: Any, action: str) -> HalfHitchError:
    """What Kafka's answer to the question means."""
    code = reason.code()
    if code in _NO_RIGHT:
        return ConfigurationError(
            f"Could not {action}: this user is not allowed to ({reason.str()})."
        )
    if code in _REFUSALS:
        return TopologyError(f"Could not {action}: {reason.str()}.")
    return KafkaUnavailable(f"Could not {action}: {reason.str()}.")


def topic_layouts(
    admin: AdminClient, topics: Sequence[str], wait_s: float
) -> dict[str, Layout | None]:
    """Partitions by topic; None where the topic surely does not exist."""
    futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=wait_s)
    layouts: dict[str, Layout | None] = {}
    for topic, future in futures.items():
        described = answer(
            future, wait_s, f"describe the topic {topic}", KafkaError.UNKNOWN_TOPIC_OR_PART
        )
        layouts[topic] = described and tuple(
            PartitionLayout(
                leader=None if p.leader is None or p.leader.id < 0 else p.leader.id,
                replica_count=len(p.replicas),
                in_sync_count=len(p.isr),
            )
            for p in described.partitions
        )
    return layouts


def unwritable(admin: AdminClient, topics: Collection[str], wait_s: float) -> dict[str, str]:
    """Of these topics those that surely take no record of ours, with the reason.

    The right to write is asked for by its name: who may describe or read a topic may still not
    write to it. What is not answered in time is not among them.
    """
    found: dict[str, str] = {}
    futures = admin.describe_topics(
        TopicCollection(sorted(topics)), include_authorized_operations=True, request_timeout=wait_s
    )
    for topic, future in futures.items():
        try:
            allowed = future.result(wait_s + _GRACE_S).authorized_operations
        except TimeoutError:
            continue
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() in _GONE:
                found[topic] = f"{topic}: {reason.str()}"
            continue
        if allowed is not None and AclOperation.WRITE not in allowed:
            found[topic] = f"{topic}: Kafka does not let Half Hitch write to it; give it the right"
    return found


def topic_configs(
    admin: AdminClient, topics: Sequence[str], wait_s: float
) -> tuple[dict[str, dict[str, str | None]], str | None]:
    """Settings by topic, and why they could not be read (only for want of rights)."""
    if not topics:
        return {}, None
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    configs: dict[str, dict[str, str | None]] = {}
    try:
        futures = admin.describe_configs(resources, request_timeout=wait_s)
        for resource, future in futures.items():
            entries = answer(future, wait_s, f"read the settings of {resource.name}")
            configs[resource.name] = {key: entry.value for key, entry in entries.items()}
    except ConfigurationError as error:
        return {}, error.message
    return configs, None
