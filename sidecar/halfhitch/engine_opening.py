"""What an engine needs before it serves: topics that were looked at, and its optional parts.

Here is what follows from the options alone; how the parts are tied together is the engine's.
"""

from collections.abc import Awaitable, Callable, Mapping

from confluent_kafka.admin import AdminClient

from halfhitch.adapters.callback.links import CallbackLinks
from halfhitch.adapters.callback.target import Target
from halfhitch.adapters.kafka import inspection, topics
from halfhitch.adapters.kafka.held_logs import HeldLogs
from halfhitch.adapters.kafka.log_ends import LogEnds
from halfhitch.adapters.kafka.parked_store import KafkaParkedStore
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_watch import TopicWatch
from halfhitch.adapters.redis.index import RedisIndex
from halfhitch.core.model import Resolution
from halfhitch.engine_clients import EngineClients
from halfhitch.engine_options import EngineOptions
from halfhitch.errors import ConfigurationError
from halfhitch.ports import Observer, OnPost
from halfhitch.service.checking.desk import Desk

__all__ = ["callbacks", "held_logs", "made_index", "parked_store", "verified"]

#: In one look for Kafka transactions that hang; the internal ones come first.
_LOGS_MAX = 2_000


def verified(
    admin: AdminClient,
    stored_offsets: StoredOffsets,
    watch: TopicWatch,
    options: EngineOptions,
    *,
    wait_s: float,
) -> tuple[str, int]:
    """The cluster's id and the number of half partitions. Blocks, `wait_s` for each question.

    Raises KafkaUnavailable; ConfigurationError for what would break a promise.
    """
    names = topics.InternalTopics(options.topic_prefix)
    cluster_id = topics.cluster_id(admin, wait_s=wait_s)
    if options.create_topics:
        topics.ensure(
            admin,
            names,
            partition_count=options.partition_count,
            replication_factor=options.replication_factor,
            message_bytes_max=options.message_bytes_max,
            adopt=True,
            wait_s=wait_s,
        )
    findings = inspection.inspect(
        admin,
        stored_offsets,
        names,
        transaction_timeout_ms=options.transaction_timeout_ms,
        session_timeout_ms=options.session_timeout_ms,
        message_bytes_max=options.message_bytes_max,
        wait_s=wait_s,
    )
    for finding in findings:
        if finding.severity is topics.Severity.FAIL and not finding.may_pass:
            raise ConfigurationError(f"{finding.sentence} {finding.remedy}")
    count = topics.partition_count(admin, names, wait_s=wait_s)
    watch.open()
    inspection.tell(findings)
    return cluster_id, count


def held_logs(
    admin: AdminClient,
    ends: LogEnds,
    options: EngineOptions,
    *,
    partition_count: Callable[[], int],
    targets: Callable[[], Mapping[str, int]],
    observer: Observer,
) -> HeldLogs:
    """Looks at both internal logs, and at the targets that are known here."""
    names = topics.InternalTopics(options.topic_prefix)

    def logs() -> list[tuple[str, int]]:
        halves = range(partition_count())
        found = [(topic, p) for topic in (names.half, names.op) for p in halves]
        if found:
            found += [(topic, p) for topic, count in targets().items() for p in range(count)]
        return found[:_LOGS_MAX]

    return HeldLogs(
        admin,
        ends,
        logs=logs,
        always=(names.half, names.op),
        bootstrap=options.bootstrap,
        options=options.admin_options,
        tell=observer.unreadable,
        after_s=options.held_after_s,
    )


def callbacks(
    options: EngineOptions, desk: Desk, end: Callable[[str, Resolution], Awaitable[None]]
) -> CallbackLinks | None:
    """Where producers are asked by POST; None where that is not wanted."""
    if options.check_url is None:
        return None
    return CallbackLinks(
        Target.parse(options.check_url, options.check_url_networks),
        desk=desk,
        end=end,
        groups=options.check_url_groups,
        token=options.check_url_token,
        answer_s=options.desk_limits.answer_s,
    )


def made_index(
    url: str, cluster_id: str, options: EngineOptions, *, observer: Observer, on_post: OnPost
) -> RedisIndex:
    """Redis, not started."""
    return RedisIndex(
        url,
        # Installations that share a Redis are told apart by what they share least.
        cluster=f"{cluster_id}{options.topic_prefix and '.'}{options.topic_prefix}",
        instance=options.instance,
        observer=observer,
        on_post=on_post,
        # As long as anything can be pending, and a little longer.
        kept_s=options.owner_limits.check_rules.age_ms_max // 1000 + 3_600,
        body_bytes_max=options.message_bytes_max * 2 + topics.RECORD_OVERHEAD_BYTES,
    )


def parked_store(
    clients: EngineClients, admin: AdminClient, options: EngineOptions
) -> KafkaParkedStore:
    """What was given up, to be looked at and put back."""
    names = topics.InternalTopics(options.topic_prefix)
    return KafkaParkedStore(
        clients.consumer,
        clients.resume_producer,
        lambda: admin,
        half_topic=names.half,
        op_topic=names.op,
        parked_topic=names.parked,
        owner_group=names.owner_group,
        transaction_timeout_ms=options.transaction_timeout_ms,
    )
