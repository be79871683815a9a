"""A sidecar on a Kafka with an authorizer, with the rights that docs/operations.md names."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from chaos.kit.proxy import KafkaProxy
from chaos.kit.rights import OPTIONS, PROPERTIES
from halfhitch.adapters.kafka.audit_topic import AuditOptions, ensure_audit
from halfhitch.adapters.kafka.topics import ensure
from halfhitch.core.model import Resolution
from halfhitch.embedded import EmbeddedKafka
from halfhitch.service.api import Filter
from halfhitch.service.operators.stories import StoryQuery
from halfhitch_cli.app import main
from harness.check_site import RULES, CheckSite
from harness.check_witness import LATER_COMMIT, UNDECIDED
from harness.checkers import Fate
from harness.defaults import owner_limits
from harness.engines import DEADLINE_S, GROUP, PARTITION_COUNT, until
from harness.kafka import admin_client, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from halfhitch.engine import Engine

pytestmark = pytest.mark.kafka

TEXT = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
USER = "User:sidecar"
SASL = dict(option.split("=", 1) for option in OPTIONS.split(","))
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}
OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Delete": AclOperation.DELETE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}


def rights(text: str, prefix: str, targets: tuple[str, ...]) -> list[AclBinding]:
    """The table of the text, for these topics."""
    section = text.partition("\n## What Kafka must allow\n")[2].partition("\n## ")[0]
    rows = re.findall(
        r"^\| ([a-z ]+) \| (.*?) ?\| ([A-Z][\w, ]+)(?:; [\w ]+)? \|", section, re.MULTILINE
    )
    found = []
    for kind, name, operations in rows:
        called = re.findall(r"`([^`]+)`", name)
        names = [each if each.startswith("__") else prefix + each for each in called]
        names = names or list(targets)
        if kind == "cluster":
            names = ["kafka-cluster"]
        is_prefixed = "(prefixed)" in name
        pattern = ResourcePatternType.PREFIXED if is_prefixed else ResourcePatternType.LITERAL
        found += [
            AclBinding(
                RESOURCES[kind], each, pattern, USER, "*", OPERATIONS[operation],
                AclPermissionType.ALLOW,
            )
            for each in names
            for operation in operations.split(", ")
        ]  # fmt: skip
    return found


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    """Whoever comes through the proxy is somebody, and may do what it was given."""
    properties = PROPERTIES | {"allow.everyone.if.no.acl.found": "false"}
    with EmbeddedKafka(short_lived=True, proxy_listener=True, properties=properties) as cluster:
        (route,) = cluster.proxies
        with KafkaProxy(route.listen_port, route.target_port):
            yield cluster


@pytest.fixture
def site(guarded: EmbeddedKafka) -> CheckSite:
    """Its topics are there, and the rights are given."""
    site = CheckSite(guarded.bootstrap)
    site.create_targets()
    admin = admin_client(guarded.bootstrap)
    ensure(admin, site.names, partition_count=PARTITION_COUNT, replication_factor=1)
    ensure_audit(admin, site.names, AuditOptions(24, 1), half_count=PARTITION_COUNT)
    given = rights(TEXT.read_text(encoding="utf-8"), site.prefix, site.targets)
    for future in admin.create_acls(given).values():
        future.result(DEADLINE_S)
    wait_until(lambda: _is_known(guarded), DEADLINE_S, what="the broker knows the rights")
    return site


def _is_known(guarded: EmbeddedKafka) -> bool:
    """Rights come to a broker in their order: that to its settings is the last of the table."""
    admin = AdminClient({"bootstrap.servers": guarded.proxy_bootstrap, **SASL})
    broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    try:
        return bool(admin.describe_configs([broker])[broker].result(DEADLINE_S))
    except KafkaException:
        return False


def as_user(guarded: EmbeddedKafka) -> dict[str, Any]:
    return {
        "bootstrap": guarded.proxy_bootstrap,
        "create_topics": False,
        "producer_options": SASL,
        "consumer_options": SASL,
        "admin_options": SASL,
    }


async def until_cut(site: CheckSite, engine: Engine) -> None:
    """End transactions until records of both internal logs were deleted."""
    admin = admin_client(site.bootstrap)
    end_s = time.monotonic() + 2 * DEADLINE_S

    def is_cut(topic: str) -> bool:
        logs = [TopicPartition(topic, n) for n in range(PARTITION_COUNT)]
        futures = admin.list_offsets(dict.fromkeys(logs, OffsetSpec.earliest()))
        return any(future.result(DEADLINE_S).offset > 0 for future in futures.values())

    while not (is_cut(site.names.half) and is_cut(site.names.op)):
        assert time.monotonic() < end_s, "neither log, or one of them only, was cut"
        await site.run(engine, [site.message(key=b"k")], Fate.COMMITTED, wait_visible=True)


async def test_the_rights_that_are_named_are_enough_for_all_that_a_sidecar_does(
    guarded: EmbeddedKafka, site: CheckSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="halfhitch")
    # A second is remembered of what is finished, so that the op log can be cut soon.
    options = as_user(guarded)
    options["owner_limits"] = owner_limits(check_rules=RULES, horizon_ms=1_000)
    async with site.engine(**options) as owner, site.doorkeeper(**options) as other:
        site.link(owner)
        for engine, resolution in ((owner, Resolution.COMMIT), (other, Resolution.ROLLBACK)):
            name = resolution.name.lower()
            prepared = await site.orphan(engine, name, UNDECIDED)
            await site.end(other, prepared.handle, resolution, wait_visible=True)
        await site.orphan(other, "checked", LATER_COMMIT)
        await site.orphan(other, "given-up", UNDECIDED)
        await owner.transactions.sends.send(site.message(value=b"plain"), [])
        await until(lambda: "given-up" in site.parked(), "it is parked")
        await owner.operations.resume(GROUP, "given-up", reason="a test", operator="tester")
        wanted = Filter(producer_group=GROUP, transaction_id="given-up")
        while not (await owner.operations.undecided(wanted)).transactions:
            await asyncio.sleep(0.05)
        decided = Resolution.ROLLBACK
        await other.operations.decide(GROUP, "given-up", decided, reason="a", operator="tester")
        await until(lambda: not any(s.pending_count for s in owner.partitions()), "all are decided")
        await until_cut(site, owner)
        assert [*owner.degraded_reasons(), *other.degraded_reasons()] == []
    values = {record.value for record in site.read(site.orders)}
    assert values >= {b"plain", b"order commit", b"order checked"}
    assert not values & {b"order rollback", b"order given-up"}
    said = [line for line in caplog.messages if re.search(r"authoriz|not allowed|trimmed", line)]
    assert said == []


async def test_offsets_of_a_target_that_may_not_be_read_are_not_waited_for(
    guarded: EmbeddedKafka, site: CheckSite
) -> None:
    async with site.engine(**as_user(guarded)) as engine:
        prepared = await site.prepare(engine, site.pair("mine"), "order-1")
        await engine.transactions.end(prepared.handle, Resolution.COMMIT, wait_visible=True)
        query = StoryQuery(transaction_id="order-1", with_offsets=True)
        while not (stories := (await engine.stories.stories(query)).stories):
            await asyncio.sleep(0.05)
    trouble = str(stories[0].events[-1].landed_trouble)
    assert re.search(
        f"0 of 2 found: the sidecar may not read ({site.orders}|{site.points})", trouble
    )


async def test_a_doctor_finds_nothing_that_these_rights_hide(
    guarded: EmbeddedKafka, site: CheckSite, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["doctor", "--kafka-bootstrap", guarded.proxy_bootstrap, "--kafka-options", OPTIONS]
    given += ["--topics-prefix", site.prefix, "--handle-key", "k" * 32]
    code = await asyncio.to_thread(main, given)
    shown = capsys.readouterr().out
    assert not re.search(r"authoriz|not allowed|has not what", shown, re.IGNORECASE), shown
    assert "This user may do what a sidecar does" in shown
    assert code == 0, shown


@pytest.mark.parametrize(
    ("kind", "lacking", "severity"),
    [("half", AclOperation.WRITE, "fail"), ("target", AclOperation.WRITE, "warn"),
     ("audit", AclOperation.READ, "warn"), ("owner_group", AclOperation.READ, "fail")],
)  # fmt: skip
async def test_a_right_that_is_missing_was_found_by_the_sidecar_alone(
    guarded: EmbeddedKafka,
    site: CheckSite,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    lacking: AclOperation,
    severity: str,
) -> None:
    name = site.orders if kind == "target" else getattr(site.names, kind)
    of_what = ResourceType.GROUP if kind == "owner_group" else ResourceType.TOPIC
    refused = AclBinding(
        of_what, name, ResourcePatternType.LITERAL, USER, "*", lacking, AclPermissionType.DENY
    )
    admin = admin_client(guarded.bootstrap)
    for future in admin.create_acls([refused]).values():
        future.result(DEADLINE_S)
    given = ["doctor", "--kafka-bootstrap", guarded.proxy_bootstrap, "--kafka-options", OPTIONS]
    given += ["--topics-prefix", site.prefix, "--handle-key", "k" * 32, "-o", "json"]

    def rights_found() -> dict[str, str]:
        main(given)
        findings = json.loads(capsys.readouterr().out)["findings"]
        return next((one for one in findings if one["check"] == "rights"), {})

    end_s = time.monotonic() + DEADLINE_S
    while (found := await asyncio.to_thread(rights_found)).get("severity") != severity:
        assert time.monotonic() < end_s, found  # rights take a moment to reach the broker
    what = "group" if kind == "owner_group" else "topic"
    assert f"{lacking.name.capitalize()} on {what} {name}" in found["sentence"]


def test_the_table_is_read() -> None:
    found = rights(TEXT.read_text(encoding="utf-8"), "p.", ("orders",))
    assert {one.restype for one in found} == set(RESOURCES.values())
    assert {one.operation for one in found} == set(OPERATIONS.values())
    names = {one.name for one in found}
    assert {"p.RMQ_SYS_TRANS_HALF_TOPIC", "p.CID_RMQ_SYS_TRANS_SKIPS"} <= names
