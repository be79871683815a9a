"""What a writer promises of halves that its reader has read: wherever their content lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halfhitch.ports import WriteOutcome
from halfhitch.service.owner.forwarding import Forwarder
from halfhitch.service.owner.payloads import payload_of
from halfhitch.service.topic_policy import TopicPolicy
from halfhitch.wire.half import HalfRecord, system_headers
from harness.worlds import SMALL_RECORD_BYTES_MAX, TARGET_PARTITION_COUNT, NativeWorld, drain

if TYPE_CHECKING:
    from halfhitch.ports import KafkaHeaders, PartitionReader, TargetRecord, WriteResult
    from harness.worlds import World

USERS: KafkaHeaders = [("color", b"red"), ("color", None), ("", b""), ("größe", b"\xff\x00")]


def half(world: World, value: bytes | None, *, to: str, key: bytes | None = b"k",
         partition: int | None = None, users: KafkaHeaders = USERS) -> None:  # fmt: skip
    record = HalfRecord("first", "shop", 0, 1, "vm-1", to, partition, digest=7)
    world.put(world.half_topic, [value], key=key, headers=[*system_headers(record), *users])


def forwards(world: World, reader: PartitionReader) -> list[TargetRecord]:
    """What a step would write of all halves that are there, each of a transaction of two."""
    reader.begin(None, None)
    halves, _ = drain(reader, op=False)
    forwarder = Forwarder(
        0,
        policy=TopicPolicy(internal_topics=(world.half_topic, world.op_topic), allow=()),
        parked_topic="parked",
        step_messages_max=10,
        check_count_max=15,
    )
    found: list[TargetRecord] = []
    for record in halves:
        payload = payload_of(record)
        records, why = forwarder._forwards([record.offset()] * 2, {record.offset(): payload})
        assert why is None
        found += records[:1]
    return found


def told_why(world: World, targets: list[TargetRecord]) -> WriteResult:
    """Of a step that is refused: after the first try, or after the second that tells more."""
    writer = world.writer()
    writer.fence()
    result = writer.write(targets, [], 0, 0)
    assert result.outcome is WriteOutcome.FAIL
    if result.is_unexplained:
        assert not any((result.poisoned, result.refusing, result.closed, result.away_topics))
        writer.fence()
        result = writer.write(targets, [], 0, 0)
    assert result.outcome is WriteOutcome.FAIL
    assert not result.is_unexplained
    for topic in world.targets:
        assert world.committed(topic) == []
    writer.fence()
    good = [t for t in targets if t.topic == world.targets[0]]
    assert writer.write(good, [], 0, 0).outcome is WriteOutcome.OK
    assert writer.write(good, [], 0, 0).outcome is WriteOutcome.OK
    assert len(world.committed(world.targets[0])) == 2 * len(good)
    return result


def test_a_half_is_forwarded_with_its_bytes_untouched_and_says_whose_it_is(world: World) -> None:
    target = world.targets[0]
    half(world, b"value \x00\xff", to=target)
    half(world, None, to=target, key=None, partition=TARGET_PARTITION_COUNT - 1, users=[])
    half(world, b"", to=target, key=b"", partition=0)
    writer = world.writer()
    writer.fence()
    found = forwards(world, world.reader())
    assert {record.outside is not None for record in found} == {isinstance(world, NativeWorld)}
    assert writer.write(found, [], 3, 0).outcome is WriteOutcome.OK
    whose = (
        ("UNIQ_KEY", b"first"),
        ("PGROUP", b"shop"),
        ("HALFHITCH", b"1;0;1;vm-1;n=2;d=0000000000000007"),
    )
    committed = {r.value: r for r in world.committed(target)}
    assert committed.keys() == {b"value \x00\xff", None, b""}
    assert committed[b"value \x00\xff"].headers == (*USERS, *whose)
    assert committed[b"value \x00\xff"].key == b"k"
    gone = committed[None]
    assert (gone.key, gone.headers, gone.partition) == (None, whose, TARGET_PARTITION_COUNT - 1)
    assert (committed[b""].key, committed[b""].partition) == (b"", 0)


def test_of_halves_to_a_topic_that_does_not_exist_the_places_are_told(world: World) -> None:
    half(world, b"1", to=world.targets[0])
    half(world, b"2", to=world.targets[0] + "-gone")
    result = told_why(world, forwards(world, world.reader()))
    assert set(result.poisoned) == {1}


def test_a_half_that_its_topic_never_takes_is_told_from_bad_luck(world: World) -> None:
    half(world, b"1", to=world.targets[0])
    half(world, bytes(2 * SMALL_RECORD_BYTES_MAX), to=world.targets[1])
    result = told_why(world, forwards(world, world.reader()))
    assert set(result.poisoned) == {1} or set(result.refusing) == {world.targets[1]}


def test_a_half_for_a_partition_that_does_not_exist_is_told_from_bad_luck(world: World) -> None:
    half(world, b"1", to=world.targets[0])
    half(world, b"2", to=world.targets[1], partition=TARGET_PARTITION_COUNT)
    result = told_why(world, forwards(world, world.reader()))
    assert set(result.poisoned) == {1} or set(result.refusing) == {world.targets[1]}
