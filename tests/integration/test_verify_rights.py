"""`halfhitch verify` and `doctor` for a user who may not see, or do, everything, on a real Kafka
with an authorizer.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from halfhitch.adapters.kafka.stored import StoredOffsets
from halfhitch.embedded import EmbeddedKafka
from halfhitch.errors import ConfigurationError
from halfhitch.verify.kafka_targets import TargetFinder, Wanted
from halfhitch.wire.topics import InternalTopics
from halfhitch_cli.app import main
from harness.checkers import Fate
from harness.engines import DEADLINE_S, PARTITION_COUNT, Site, until, until_idle
from harness.kafka import admin_client

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

_AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedKafka]:
    """Everybody may do everything, until a test takes something away."""
    with EmbeddedKafka(short_lived=True, properties=_AUTHORIZER) as cluster:
        yield cluster


@pytest.fixture
async def worked(guarded: EmbeddedKafka) -> Site:
    """Some transactions, all carried out; no half of theirs is left."""
    site = Site(guarded.bootstrap)
    site.create_targets()
    async with site.engine() as engine:
        for number in range(4):
            await site.run(engine, site.pair(str(number)), Fate.COMMITTED)
        await until_idle(engine)
        await site.until_faultless()
    return site


def acl(topic: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    pattern = ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType.TOPIC, topic, pattern, "User:ANONYMOUS", "*", operation, permission
    )


async def take_away(site: Site, topic: str, *operations: AclOperation) -> None:
    """These rights to a topic, from everybody."""
    admin = admin_client(site.bootstrap)
    given = [acl(topic, AclOperation.ALL, AclPermissionType.ALLOW)]
    given += [acl(topic, operation, AclPermissionType.DENY) for operation in operations]
    for future in admin.create_acls(given).values():
        future.result(DEADLINE_S)
    finder = TargetFinder(
        admin, InternalTopics(site.prefix), Wanted(only=[topic]), wait_s=DEADLINE_S
    )

    def is_gone() -> bool:
        try:
            return bool(finder.find().unclear)
        except ConfigurationError:  # it may not be read or seen
            return True

    await until(is_gone, lambda: f"no {operations} of {topic}")


@pytest.fixture
def verify(worked: Site, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command, with the targets as its allow list; exit code, JSON, stderr."""

    async def verify(*more: str) -> tuple[int, Any, str]:
        given = ["verify", "--kafka-bootstrap", worked.bootstrap, "--topics-prefix", worked.prefix]
        given += [part for topic in worked.targets for part in ("--topics-allow", topic)]
        code = await asyncio.to_thread(main, [*given, "-o", "json", *more])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else None, captured.err

    return verify


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.DESCRIBE])
async def test_what_lies_on_a_topic_that_may_not_be_read_or_seen_was_called_lost(
    worked: Site, verify: Any, operation: AclOperation
) -> None:
    code, found, _ = await verify()
    assert (code, found["transactions"]["committed_and_judged_whole"]) == (0, 4)
    await take_away(worked, worked.points, operation)
    code, found, err = await verify()
    assert (code, found["verdict"], found["complete"]) == (4, "not_judged", False)
    assert found["violations"] == []
    unjudged = {row["reason"]: row["count"] for row in found["not_judged"]}
    assert sum(unjudged.values()) == 4
    # The halves of the last ones may be there still, and name the topic.
    hidden = {"target_hidden"} if operation is AclOperation.DESCRIBE else set()
    assert unjudged.keys() <= {"target_unreadable", *hidden}
    assert found["window"]["unreadable_topics"] == [worked.points]
    assert "0 of 4 that have ended could be judged, and some leave a question open" in err
    code, _, err = await verify("--topic", worked.points)
    assert code == 2
    assert f"may not read the topic {worked.points!r}" in err


async def test_without_the_right_to_read_the_internal_topics_it_says_so_at_once(
    worked: Site, verify: Any
) -> None:
    await take_away(worked, worked.names.op, AclOperation.READ)
    code, found, err = await verify()
    assert (code, found) == (1, None)
    assert f"may not read the topic {worked.names.op}" in err


async def test_what_is_all_there_is_clean_without_the_right_to_see_a_topics_settings(
    worked: Site, verify: Any
) -> None:
    await take_away(worked, worked.orders, AclOperation.DESCRIBE_CONFIGS)
    code, found, _ = await verify()
    assert (code, found["clean"], found["not_judged"]) == (0, True, [])


# -- doctor ----------------------------------------------------------------------------------------


@pytest.fixture
def doctor(worked: Site, capsys: pytest.CaptureFixture[str]) -> Any:
    """The command; what it finds about the group in which instances tell each other."""

    async def doctor() -> tuple[int, dict[str, str]]:
        given = ["doctor", "--kafka-bootstrap", worked.bootstrap, "--topics-prefix", worked.prefix]
        code = await asyncio.to_thread(main, [*given, "--handle-key", "k" * 32, "-o", "json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        (found,) = [finding for finding in findings if finding["check"] == "bounds"]
        return code, found

    return doctor


def group_acl(group: str, operation: AclOperation, permission: AclPermissionType) -> AclBinding:
    pattern = ResourcePatternType.LITERAL
    return AclBinding(
        ResourceType.GROUP, group, pattern, "User:ANONYMOUS", "*", operation, permission
    )


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.DESCRIBE])
async def test_a_group_that_instances_may_not_tell_each_other_by_was_not_looked_at(
    worked: Site, doctor: Any, operation: AclOperation
) -> None:
    code, found = await doctor()
    assert (code, found["severity"]) == (0, "ok")
    group = worked.names.bounds_group
    rights = [
        group_acl(group, AclOperation.ALL, AclPermissionType.ALLOW),
        group_acl(group, operation, AclPermissionType.DENY),
    ]
    admin = admin_client(worked.bootstrap)
    for future in admin.create_acls(rights).values():
        future.result(DEADLINE_S)
    deadline_s = asyncio.get_running_loop().time() + DEADLINE_S
    while found["severity"] == "ok" and asyncio.get_running_loop().time() < deadline_s:
        code, found = await doctor()  # rights take a moment to reach the broker
    assert (code, found["severity"]) == (0, "warn")
    assert f"under the group {group}: this user is not allowed to" in found["sentence"]
    assert found["remedy"] == f"Allow this user Read on the group {group}."


async def test_a_look_at_the_group_leaves_nothing_in_it(worked: Site, doctor: Any) -> None:
    await doctor()
    config = {"bootstrap.servers": worked.bootstrap, "group.id": worked.names.bounds_group}
    stored = StoredOffsets(lambda: Consumer(config))
    partitions = range(PARTITION_COUNT)
    places = [TopicPartition(worked.names.half, p) for p in partitions]
    places.append(TopicPartition(f"{worked.names.half}-nowhere", 0))
    assert all(place.offset < 0 for place in stored.of(places, DEADLINE_S, "look"))
