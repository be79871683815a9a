"""The audit topic on a real broker: created, looked at, told to; and nothing waits for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException

from halfhitch.adapters.kafka import audit_topic, topics
from halfhitch.adapters.kafka.audit_topic import AuditOptions, AuditTopic
from halfhitch.adapters.kafka.topics import Severity
from halfhitch.wire import story
from halfhitch.wire.half import Garbage
from halfhitch.wire.story import Ended
from halfhitch.wire.topics import InternalTopics
from harness.checkers import Fate
from harness.engines import Site, until, until_idle
from harness.kafka import admin_client, create_topics, fresh_name, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from confluent_kafka.admin import AdminClient

    from conftest import GivenKafka

pytestmark = pytest.mark.kafka
WAIT_S = 20.0
OPTIONS = AuditOptions(retention_h=24, replication_factor=1)


@pytest.fixture
def admin(kafka: GivenKafka) -> AdminClient:
    return admin_client(kafka.bootstrap)


@pytest.fixture
def names(admin: AdminClient) -> Iterator[InternalTopics]:
    names = InternalTopics(fresh_name("audit") + ".")
    topics.ensure(admin, names, partition_count=2, replication_factor=1, wait_s=WAIT_S)
    yield names
    for future in admin.delete_topics(list(names.reserved)).values():
        future.exception(WAIT_S)


def looked(admin: AdminClient, names: InternalTopics, *, creates: bool = False) -> AuditTopic:
    found = AuditTopic(admin, names, OPTIONS)
    found.look(2, creates=creates, wait_s=WAIT_S)
    return found


def test_it_is_created_once_with_a_partition_for_indexes(
    admin: AdminClient, names: InternalTopics
) -> None:
    assert audit_topic.ensure_audit(admin, names, OPTIONS, half_count=2)
    wait_until(lambda: looked(admin, names).index_partition == 2, WAIT_S)
    assert not audit_topic.ensure_audit(admin, names, OPTIONS, half_count=2)
    assert [f.severity for f in audit_topic.verify_audit(admin, names, OPTIONS)] == [Severity.OK]
    assert looked(admin, names).trouble is None


def test_where_it_is_missing_that_is_said_and_nothing_else_is_wrong(
    admin: AdminClient, names: InternalTopics
) -> None:
    (found,) = audit_topic.verify_audit(admin, names, OPTIONS)
    assert (found.severity, found.check) == (Severity.WARN, names.audit)
    missing = looked(admin, names)
    assert missing.index_partition is None
    assert "halfhitch topics init" in str(missing.trouble)
    missing.look(2, creates=True, wait_s=WAIT_S)
    wait_until(lambda: looked(admin, names).index_partition == 2, WAIT_S)
    assert AuditTopic(admin, names, None).index_partition is None


def test_a_topic_that_was_just_created_was_called_missing_until_the_next_look(
    admin: AdminClient, names: InternalTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For half a minute, by /readyz and `halfhitch doctor`: a broker did not know it yet."""
    real = audit_topic.topic_layouts
    asked: list[tuple[str, ...]] = []

    def late(admin: AdminClient, topics: tuple[str, ...], wait_s: float) -> Any:
        asked.append(topics)
        found = real(admin, topics, wait_s)
        return dict.fromkeys(topics) if len(asked) < 4 else found

    monkeypatch.setattr(audit_topic, "topic_layouts", late)
    assert looked(admin, names, creates=True).trouble is None
    assert looked(admin, names).index_partition == 2


def test_another_number_of_partitions_is_not_told_to(
    kafka: GivenKafka, admin: AdminClient, names: InternalTopics
) -> None:
    create_topics(kafka.bootstrap, {names.audit: 2})
    (found,) = audit_topic.verify_audit(admin, names, OPTIONS)
    assert "2 partitions, not 3" in found.sentence
    assert "2 partitions, not 3" in str(looked(admin, names).trouble)


def test_its_settings_are_repaired_when_somebody_asks_for_it(
    admin: AdminClient, names: InternalTopics
) -> None:
    audit_topic.ensure_audit(admin, names, OPTIONS, half_count=2)
    longer = AuditOptions(retention_h=48, replication_factor=1)
    wait_until(lambda: looked(admin, names).index_partition == 2, WAIT_S)
    (found,) = audit_topic.verify_audit(admin, names, longer)
    assert found.sentence.startswith(f"{names.audit} has retention.ms=86400000")
    assert audit_topic.repair_audit(admin, names, longer) == (
        f"{names.audit}: retention.ms=172800000",
    )
    wait_until(
        lambda: audit_topic.verify_audit(admin, names, longer)[0].severity is Severity.OK, WAIT_S
    )
    assert audit_topic.repair_audit(admin, InternalTopics("none."), longer) == ()


def test_its_ends_are_told_without_waiting(admin: AdminClient, names: InternalTopics) -> None:
    audit = AuditTopic(admin, names, OPTIONS)
    audit.look(2, creates=True, wait_s=WAIT_S)
    wait_until(lambda: looked(admin, names).index_partition == 2, WAIT_S)

    def is_told() -> bool:
        answer = audit.ask_end(1)
        wait_until(lambda: _is_answered(answer), WAIT_S)
        try:
            return answer() == 0
        except KafkaException:  # who leads a new partition is not known everywhere at once
            return False

    wait_until(is_told, WAIT_S)


def _is_answered(answer: Callable[[], int | None]) -> bool:
    try:
        return answer() is not None
    except KafkaException:
        return True


def ended(site: Site) -> list[Ended]:
    found: list[Ended] = []
    for message in site.read(site.names.audit):
        record = story.read(message.offset, message.value, message.headers)
        if not isinstance(record, Garbage):
            found += [entry for entry in record.entries if isinstance(entry, Ended)]
    return found


async def test_every_transaction_that_has_ended_is_told_of_once(kafka: GivenKafka) -> None:
    site = Site(kafka.bootstrap)
    site.create_targets()
    async with site.engine() as engine:
        fates = [Fate.COMMITTED, Fate.ROLLED_BACK, Fate.PENDING]
        runs = [site.run(engine, site.pair(f"{n}"), fates[n % 3]) for n in range(60)]
        await asyncio.gather(*runs)
        await until_idle(engine)
        await until(lambda: len(ended(site)) >= 40, "the endings")
    told = {entry.transaction_id: entry for entry in ended(site)}
    assert len(told) == len(ended(site)) == 40
    for truth in site.truths:
        entry = told.get(truth.transaction_id)
        assert (entry is None) is (truth.fate is Fate.PENDING)
        if entry is not None:
            assert entry.ending == (2 if truth.fate is Fate.COMMITTED else 0)
            assert [target.topic for target in entry.targets] == [site.orders, site.points]


async def test_a_topic_that_is_deleted_meanwhile_holds_nothing_up(kafka: GivenKafka) -> None:
    site = Site(kafka.bootstrap)
    site.create_targets()
    async with site.engine() as engine:
        await site.run(engine, site.pair("one"), Fate.COMMITTED, wait_visible=True)
        admin = admin_client(kafka.bootstrap)
        admin.delete_topics([site.names.audit])[site.names.audit].result(WAIT_S)
        for n in range(5):
            await site.run(engine, site.pair(f"{n}"), Fate.COMMITTED, wait_visible=True)
        await site.until_faultless()
