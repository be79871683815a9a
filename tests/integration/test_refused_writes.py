"""Rights that are taken away while the sidecar works, on a Kafka that asks for them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from halfhitch.adapters.kafka.admin import unwritable
from halfhitch.core.model import Resolution
from halfhitch.embedded import EmbeddedKafka
from halfhitch.engine import Engine
from halfhitch.errors import TransactionParked
from halfhitch.ports import TargetRecord, WriteOutcome
from halfhitch.service.api import OutgoingMessage
from halfhitch.wire.parked import Parked, read_parked
from harness.bare_engine import running, until
from harness.kafka import admin_client, create_topics, fresh_name, read_all, wait_until
from harness.worlds import KafkaWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

DEADLINE_S = 60.0
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
#: How long others may wait for one whose target refuses it.
SECONDS_MAX = 10.0


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedKafka(short_lived=True, properties=AUTHORIZER) as cluster:
        yield cluster.bootstrap


def _right(topic: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


def leave_reading_only(bootstrap: str, topic: str) -> None:
    """What is left are the rights to describe and to read it."""
    admin = admin_client(bootstrap)
    rights = [_right(topic, o) for o in (AclOperation.DESCRIBE, AclOperation.READ)]
    for future in admin.create_acls(rights).values():
        future.result(DEADLINE_S)
    wait_until(lambda: topic in unwritable(admin, [topic], 5.0), DEADLINE_S, what="the rights")


def give_back(bootstrap: str, topic: str) -> None:
    admin = admin_client(bootstrap)
    everything = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in admin.delete_acls([everything]).values():
        future.result(DEADLINE_S)
    wait_until(lambda: topic not in unwritable(admin, [topic], 5.0), DEADLINE_S, what="the rights")


async def prepare(engine: Engine, *messages: tuple[str, bytes]) -> str:
    prepared = await engine.transactions.prepare(
        producer_group="g", messages=[OutgoingMessage(t, None, v, []) for t, v in messages]
    )
    return prepared.handle


async def commit(engine: Engine, handle: str, *, wait_visible: bool = True) -> None:
    await engine.transactions.end(handle, Resolution.COMMIT, wait_visible=wait_visible)


def parked_of(bootstrap: str, prefix: str) -> list[tuple[bytes | None, str]]:
    found = []
    for record in read_all(bootstrap, prefix + "TRANS_CHECK_MAX_TIME_TOPIC"):
        why = read_parked(record.offset, record.headers)
        assert isinstance(why, Parked), why
        found.append((record.value, why.detail))
    return found


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    return [record.value for record in read_all(bootstrap, topic)]


async def test_a_revoked_right_to_write_stops_nobody_else_though_the_topic_can_be_described(
    bootstrap: str,
) -> None:
    good, bad, prefix = fresh_name("good"), fresh_name("bad"), fresh_name("p") + "."
    create_topics(bootstrap, {good: 1, bad: 1})
    async with running(bootstrap, prefix, deadline_s=DEADLINE_S) as engine:
        fine = [await prepare(engine, (good, b"%d" % n)) for n in range(10)]
        both = await prepare(engine, (good, b"torn?"), (bad, b"refused"))
        leave_reading_only(bootstrap, bad)
        began_s = time.monotonic()
        ends = [commit(engine, handle) for handle in [*fine[:5], both, *fine[5:]]]
        results = await asyncio.gather(*ends, return_exceptions=True)
        took_s = time.monotonic() - began_s
        print(f"took {took_s:.2f} s: {results[5]}")
        assert isinstance(results[5], TransactionParked)
        assert [r for n, r in enumerate(results) if n != 5] == [None] * 10
        assert took_s < SECONDS_MAX
        assert engine.degraded_reasons() == []
    assert sorted(values(bootstrap, good)) == [b"%d" % n for n in range(10)]  # type: ignore[type-var]
    assert values(bootstrap, bad) == []
    parked = parked_of(bootstrap, prefix)
    assert sorted(value or b"" for value, _ in parked) == [b"refused", b"torn?"]
    assert all(f"{bad}: Kafka does not let Half Hitch write to it" in why for _, why in parked)


async def test_a_revoked_right_to_park_holds_back_what_must_be_parked_and_is_shown(
    bootstrap: str,
) -> None:
    good, bad, prefix = fresh_name("good"), fresh_name("bad"), fresh_name("p") + "."
    parked_topic = prefix + "TRANS_CHECK_MAX_TIME_TOPIC"
    create_topics(bootstrap, {good: 1, bad: 1})
    async with running(bootstrap, prefix, deadline_s=DEADLINE_S) as engine:
        doomed = await prepare(engine, (bad, b"refused"))
        fine = [await prepare(engine, (good, b"%d" % n)) for n in range(2)]
        leave_reading_only(bootstrap, bad)
        leave_reading_only(bootstrap, parked_topic)
        began_s = time.monotonic()
        await commit(engine, doomed, wait_visible=False)
        await commit(engine, fine[0])
        await until(
            lambda: engine.partitions()[0].waiting_by_topic == {parked_topic: 1}, DEADLINE_S
        )
        await commit(engine, fine[1])
        took_s = time.monotonic() - began_s
        reasons = engine.degraded_reasons()
        print(f"took {took_s:.2f} s: {reasons}")
        assert took_s < SECONDS_MAX
        assert any(parked_topic in reason and "give it the right" in reason for reason in reasons)
        give_back(bootstrap, parked_topic)
        await until(lambda: engine.partitions()[0].decided_count == 0, DEADLINE_S)
        assert engine.degraded_reasons() == []
    assert values(bootstrap, good) == [b"0", b"1"]
    assert [value for value, _ in parked_of(bootstrap, prefix)] == [b"refused"]


@pytest.mark.parametrize("of", ["half topic", "op topic", "group"])
def test_a_right_of_our_own_that_is_revoked_blames_no_record(bootstrap: str, of: str) -> None:
    world = KafkaWorld(bootstrap)
    topic = world.half_topic if of == "half topic" else world.op_topic
    records = [
        TargetRecord(world.targets[0], 0, None, b"innocent", []),
        TargetRecord(world.half_topic, 0, None, b"a copy", []),
    ]
    writer = world.writer()
    writer.fence()
    if of == "group":
        leave_group_unused(bootstrap, world._names.owner_group)
    else:
        leave_reading_only(bootstrap, topic)
    try:
        result = writer.write(records, [(b"0,", [], None)], 0, 0)
        print(result)
        assert result.outcome is not WriteOutcome.OK
        assert (result.is_ours, result.poisoned, result.refusing) == (True, {}, {})
        assert set(result.closed) == (set() if of == "group" else {topic})
    finally:
        give_back(bootstrap, topic)
        world.close()


def leave_group_unused(bootstrap: str, group: str) -> None:
    """It may be described, and no offsets committed to it."""
    right = AclBinding(
        ResourceType.GROUP,
        group,
        ResourcePatternType.LITERAL,
        "User:ANONYMOUS",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    admin = admin_client(bootstrap)  # held: a client that goes takes its requests along
    for future in admin.create_acls([right]).values():
        future.result(DEADLINE_S)
    everything = AclBindingFilter(
        ResourceType.GROUP,
        group,
        ResourcePatternType.LITERAL,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    wait_until(
        lambda: admin.describe_acls(everything).result(DEADLINE_S), DEADLINE_S, what="the rights"
    )
