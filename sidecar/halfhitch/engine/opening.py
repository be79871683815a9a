"""What an engine looks at before it serves: the internal topics, which it may have to create."""

from confluent_kafka.admin import AdminClient

from halfhitch.adapters.kafka import inspection, topics
from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.adapters.kafka.topic_watch import TopicWatch
from halfhitch.engine.options import EngineOptions
from halfhitch.errors import ConfigurationError
from halfhitch.wire.topics import InternalTopics


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
    names = InternalTopics(options.topic_prefix)
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
