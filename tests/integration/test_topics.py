"""The internal topics on a real broker: created as promised, and every broken promise is seen."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from halfhitch.adapters.kafka import brokers, topics
from halfhitch.adapters.kafka.topics import Finding, Severity
from halfhitch.errors import KafkaUnavailable, TopologyError
from halfhitch.wire.topics import InternalTopics
from harness.kafka import admin_client, create_topics, fresh_name, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import GivenKafka

pytestmark = pytest.mark.kafka
WAIT_S = 20.0


@pytest.fixture
def admin(kafka: GivenKafka) -> AdminClient:
    return admin_client(kafka.bootstrap)


@pytest.fixture
def names(admin: AdminClient) -> Iterator[InternalTopics]:
    names = InternalTopics(fresh_name("topics") + ".")
    yield names
    for future in admin.delete_topics(list(names.all)).values():
        future.exception(WAIT_S)


def ensure(admin: AdminClient, names: InternalTopics, **changes: object) -> topics.Ensured:
    wanted = {"partition_count": 2, "replication_factor": 1, "wait_s": WAIT_S, **changes}
    return topics.ensure(admin, names, **wanted)  # type: ignore[arg-type]


def config_of(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(WAIT_S)
    return {key: entry.value for key, entry in entries.items()}


def set_config(admin: AdminClient, topic: str, **changes: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in changes.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    wanted = {entry.name: entry.value for entry in entries}
    wait_until(lambda: wanted.items() <= config_of(admin, topic).items(), WAIT_S)


def failures(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.severity is Severity.FAIL]


def test_names_are_rocketmqs_behind_the_prefix() -> None:
    assert InternalTopics().all == (
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
    )
    assert InternalTopics("shop.").half == "shop.RMQ_SYS_TRANS_HALF_TOPIC"
    assert InternalTopics("shop.").owner_group == "shop.CID_RMQ_SYS_TRANS"


def test_topics_are_created_with_the_settings_the_promises_rest_on(
    admin: AdminClient, names: InternalTopics
) -> None:
    ensured = ensure(admin, names, message_bytes_max=2_000_000)
    assert ensured.created == names.all
    assert ensured.partition_count == 2
    for topic in names.all:
        config = config_of(admin, topic)
        assert config["retention.ms"] == "-1"
        assert config["retention.bytes"] == "-1"
        assert config["cleanup.policy"] == "delete"
        assert config["min.insync.replicas"] == "1"
        assert config["unclean.leader.election.enable"] == "false"
        assert int(config["max.message.bytes"]) >= 2_000_000
    for topic in (names.half, names.op):
        assert config_of(admin, topic)["message.timestamp.type"] == "LogAppendTime"
    found = topics.verify(admin, names, message_bytes_max=2_000_000, wait_s=WAIT_S)
    assert failures(found) == []
    assert topics.partition_count(admin, names, wait_s=WAIT_S) == 2


def test_creating_twice_changes_nothing(admin: AdminClient, names: InternalTopics) -> None:
    ensure(admin, names)
    assert ensure(admin, names).created == ()


def test_instances_that_start_together_create_the_topics_once(
    kafka: GivenKafka, admin: AdminClient, names: InternalTopics
) -> None:
    results: list[topics.Ensured | BaseException] = []
    together = threading.Barrier(4)

    def start() -> None:
        own = admin_client(kafka.bootstrap)
        together.wait(WAIT_S)
        try:
            results.append(ensure(own, names))
        except BaseException as error:  # noqa: BLE001 - shown by the assertion
            results.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_S)
    assert [getattr(result, "partition_count", result) for result in results] == [2, 2, 2, 2]


def test_another_number_of_partitions_is_refused_with_the_way_to_it(
    admin: AdminClient, names: InternalTopics
) -> None:
    ensure(admin, names)
    with pytest.raises(TopologyError) as caught:
        ensure(admin, names, partition_count=3)
    assert "has 2 partitions, not 3" in caught.value.message
    assert "topics.partitions to 2" in caught.value.message
    assert "topics.prefix" in caught.value.message
    assert ensure(admin, names, partition_count=3, adopt=True).partition_count == 2


def test_more_copies_than_brokers_are_refused_with_a_good_number(
    admin: AdminClient, names: InternalTopics
) -> None:
    with pytest.raises(TopologyError, match=r"replication_factor is 7.*set .* to [1-6]"):
        ensure(admin, names, replication_factor=7)
    assert len(failures(topics.verify(admin, names, wait_s=WAIT_S))) == 4


def test_missing_topics_are_failures_that_say_how_to_create_them(
    admin: AdminClient, names: InternalTopics
) -> None:
    found = failures(topics.verify(admin, names, wait_s=WAIT_S))
    assert {finding.check for finding in found} == {"partition counts", *names.all}
    assert all("halfhitch topics init" in finding.remedy for finding in found)
    with pytest.raises(TopologyError, match="topics init"):
        topics.partition_count(admin, names, wait_s=WAIT_S)


def test_unequal_partition_counts_are_a_failure(admin: AdminClient, names: InternalTopics) -> None:
    ensure(admin, names)
    admin.create_partitions([NewPartitions(names.half, 3)])[names.half].result(WAIT_S)
    wait_until(
        lambda: len(admin.list_topics(names.half).topics[names.half].partitions) == 3, WAIT_S
    )
    (failure,) = failures(topics.verify(admin, names, wait_s=WAIT_S))
    assert "has 3 partitions" in failure.sentence
    assert "has 2" in failure.sentence
    with pytest.raises(TopologyError, match="has 3 partitions"):
        ensure(admin, names, adopt=True)


@pytest.mark.parametrize(
    ("role", "change", "word"),
    [
        ("half", {"retention_ms": "604800000"}, "retention.ms=604800000"),
        ("half", {"retention_bytes": "1000000"}, "retention.bytes=1000000"),
        ("half", {"cleanup_policy": "compact"}, "compaction"),
        ("half", {"cleanup_policy": "compact,delete"}, "compaction"),
        ("half", {"message_timestamp_type": "CreateTime"}, "clocks"),
        ("op", {"message_timestamp_type": "CreateTime"}, "clocks"),
        ("op", {"retention_ms": "1000"}, "retention.ms=1000"),
        ("parked", {"retention_ms": "1000"}, "retention.ms=1000"),
    ],
)
def test_a_setting_that_breaks_a_promise_is_a_failure_and_can_be_repaired(
    admin: AdminClient, names: InternalTopics, role: str, change: dict[str, str], word: str
) -> None:
    ensure(admin, names)
    topic = getattr(names, role)
    set_config(admin, topic, **change)
    (failure,) = failures(topics.verify(admin, names, wait_s=WAIT_S))
    assert failure.check == topic
    assert word in failure.sentence
    assert "--repair" in failure.remedy
    with pytest.raises(TopologyError, match="--repair"):
        ensure(admin, names)

    (repaired,) = topics.repair(admin, names, wait_s=WAIT_S)
    assert repaired.startswith(topic)
    assert failures(topics.verify(admin, names, wait_s=WAIT_S)) == []
    assert topics.repair(admin, names, wait_s=WAIT_S) == ()


def test_a_parked_topic_that_takes_less_than_the_half_topic_is_repaired_to_as_much(
    admin: AdminClient, names: InternalTopics
) -> None:
    """The half topic was widened alone; what is required of both is less."""
    ensure(admin, names)
    set_config(admin, names.half, max_message_bytes="5000000")
    (failure,) = failures(topics.verify(admin, names, wait_s=WAIT_S))
    assert failure.check == names.parked
    with pytest.raises(TopologyError, match="could not be parked"):
        ensure(admin, names)
    assert topics.repair(admin, names, wait_s=WAIT_S) == (
        f"{names.parked}: max.message.bytes=5000000",
    )
    assert failures(topics.verify(admin, names, wait_s=WAIT_S)) == []
    assert topics.repair(admin, names, wait_s=WAIT_S) == ()


def test_a_small_message_limit_and_unclean_elections_are_warnings(
    admin: AdminClient, names: InternalTopics
) -> None:
    ensure(admin, names)
    set_config(admin, names.half, max_message_bytes="1000", unclean_leader_election_enable="true")
    found = topics.verify(admin, names, wait_s=WAIT_S)
    warnings = [f.sentence for f in found if f.severity is Severity.WARN and f.check == names.half]
    assert any("max.message.bytes=1000" in sentence for sentence in warnings)
    assert any("unclean.leader.election.enable=true" in sentence for sentence in warnings)
    assert any("one copy" in sentence for sentence in warnings)
    assert failures(found) == []


def test_too_few_copies_in_sync_fail_the_check_but_not_the_start(
    admin: AdminClient, names: InternalTopics
) -> None:
    ensure(admin, names)
    set_config(admin, names.half, min_insync_replicas="2")
    (failure,) = failures(topics.verify(admin, names, wait_s=WAIT_S))
    assert "copies in sync" in failure.sentence
    assert failure.may_pass
    assert failure in ensure(admin, names).findings


def test_a_half_log_without_its_op_log_is_never_taken_for_a_fresh_start(
    kafka: GivenKafka, admin: AdminClient, names: InternalTopics
) -> None:
    create_topics(kafka.bootstrap, {names.half: 2})
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    producer.produce(names.half, b"a half message", partition=1)
    assert producer.flush(WAIT_S) == 0
    with pytest.raises(TopologyError, match=r"holds records, but .* does not exist"):
        ensure(admin, names)
    with pytest.raises(TopologyError, match="topics init"):
        topics.partition_count(admin, names, wait_s=WAIT_S)


def test_a_start_that_died_half_way_is_completed(admin: AdminClient, names: InternalTopics) -> None:
    config = topics.required_config(
        names, names.half, message_bytes_max=1_048_576, replication_factor=1
    )
    admin.create_topics([NewTopic(names.half, 2, 1, config=config)])[names.half].result(WAIT_S)
    ensured = ensure(admin, names)
    assert ensured.created == (names.op, names.parked)


def test_the_broker_itself_is_fit(admin: AdminClient) -> None:
    cluster = brokers.describe_cluster(admin, wait_s=WAIT_S)
    assert cluster.cluster_id
    assert cluster.broker_count >= 1
    found = brokers.inspect_brokers(
        admin, transaction_timeout_ms=15_000, session_timeout_ms=10_000, wait_s=WAIT_S
    )
    assert {finding.check for finding in found} == {
        "Kafka version",
        "transaction timeout",
        "session timeout",
        "frozen owner",
        "positions",
        "transactional ids",
        "producer ids",
        "transaction log",
        "positions log",
    }
    assert {finding.severity for finding in found} == {Severity.OK}


def test_timeouts_the_broker_would_refuse_are_failures(admin: AdminClient) -> None:
    found = brokers.inspect_brokers(
        admin, transaction_timeout_ms=900_001, session_timeout_ms=5_999, wait_s=WAIT_S
    )
    bad = {finding.check: finding for finding in failures(found)}
    assert set(bad) == {"transaction timeout", "session timeout"}
    assert "900000" in bad["transaction timeout"].sentence
    assert "6000" in bad["session timeout"].sentence


def test_a_kafka_that_is_away_is_said_to_be_away_in_time() -> None:
    nobody = admin_client("127.0.0.1:1")
    with pytest.raises(KafkaUnavailable, match="reach Kafka"):
        brokers.describe_cluster(nobody, wait_s=0.5)
    with pytest.raises(KafkaUnavailable, match="describe the topic"):
        topics.verify(nobody, InternalTopics(), wait_s=0.5)
