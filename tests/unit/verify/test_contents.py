"""Is a message what was prepared, and where it was to go?"""

from __future__ import annotations

import pytest

from halfhitch.verify.report import Kind
from halfhitch.wire.count import with_count, without_count
from harness.verified import (
    C,
    copy_of,
    ended,
    look,
    only_violation,
    remove,
    trim,
)
from harness.verify_world import (
    BEGAN_MS,
    HALF,
    World,
)


def test_another_topic_or_partition_than_the_half_names_is_misrouted(world: World) -> None:
    life = ended(world, C, 1)
    (record,) = world.records_of(life)
    remove(record)
    other = "points" if record.place[0] == "orders" else "orders"
    copy_of(world, record, place=(other, record.place[1]))
    assert record.place[0] in only_violation(world, Kind.MISROUTED, life).detail


def test_another_partition_than_the_fixed_one_is_misrouted(world: World) -> None:
    life = ended(world, C, messages=[("orders", None, b"v", 1)])
    (record,) = world.records_of(life)
    remove(record)
    copy_of(world, record, place=("orders", 0))
    only_violation(world, Kind.MISROUTED, life)


@pytest.mark.parametrize("says", [1, 3])
def test_a_count_that_is_not_the_done_marks_is_corrupted(world: World, says: int) -> None:
    life = ended(world, C, 2)
    record = world.records_of(life)[0]
    *others, (name, marker) = record.stored_headers
    record.stored_headers = [*others, (name, with_count(without_count(marker or b""), says))]
    detail = only_violation(world, Kind.CORRUPTED, life).detail
    assert f"{says} messages, but 2" in detail


def test_what_an_earlier_release_forwarded_has_no_count_and_is_clean(world: World) -> None:
    for record in world.records_of(ended(world, C, 2)):
        *others, (name, marker) = record.stored_headers
        record.stored_headers = [*others, (name, without_count(marker or b""))]
    assert look(world).findings.is_clean


@pytest.mark.parametrize("part", ["key", "value", "headers"])
def test_what_differs_from_its_half_is_corrupted(world: World, part: str) -> None:
    life = ended(world, C, 1)
    (record,) = world.records_of(life)
    if part == "headers":
        record.stored_headers = [("kind", b"y"), *record.stored_headers[1:]]
    else:
        setattr(record, f"stored_{part}", b"other")
    violation = only_violation(world, Kind.CORRUPTED, life)
    assert [where.topic for where in violation.where] == [record.place[0], HALF]
    trim(world, HALF)
    violation = only_violation(world, Kind.CORRUPTED, life)
    assert [where.topic for where in violation.where] == [record.place[0]], "its digest tells"


@pytest.mark.parametrize("value", [None, b"other"])
def test_a_repeat_of_what_is_trimmed_was_called_corrupted(
    world: World, value: bytes | None
) -> None:
    """It was born later, and by another instance; that it is the same message still counts."""
    life = ended(world, C, 1)
    trim(world, HALF)
    topic, key, same, fixed = life.messages[0]
    life.messages = [(topic, key, same if value is None else value, fixed)]
    (name, marker), *others = world.half_headers(life, 0)
    later = (marker or b"").replace(b"%d;i" % BEGAN_MS, b"%d;other" % (BEGAN_MS + 60_000))
    assert later != marker
    headers = [(name, later), *others]
    place = HALF, life.partition
    life.halves = [world.append(place, key, life.messages[0][2], headers).at]
    world.done(life, 1, state="visible")
    if value is None:
        assert look(world).findings.is_clean
    else:
        only_violation(world, Kind.CORRUPTED, life)


@pytest.mark.parametrize(
    "birth", [b"garbage;nobody", b";", b"%d;i" % (BEGAN_MS + 1), b"%d;another" % BEGAN_MS]
)
def test_another_birth_than_its_halfs_was_passed_over(world: World, birth: bytes) -> None:
    """Its half is not born later than it, so it is no repeat."""
    life = ended(world, C, 1)
    (record,) = world.records_of(life)
    *others, (name, marker) = record.stored_headers
    other = (marker or b"").replace(b"%d;i" % BEGAN_MS, birth)
    assert other != marker
    record.stored_headers = [*others, (name, other)]
    only_violation(world, Kind.CORRUPTED, life)


@pytest.mark.parametrize("marker", [b"1;0;x;n=1", b"1;0;1700000000000;n=5", b"1;0;1;d=00"])
def test_a_strangers_record_with_half_a_mark_ended_verify(world: World, marker: bytes) -> None:
    life = ended(world, C, 1)
    (record,) = world.records_of(life)
    *others, (name, _) = record.stored_headers
    stranger = [*others[:-2], ("UNIQ_KEY", b"nobody"), ("PGROUP", b"g"), (name, marker)]
    world.append(record.place, b"k", b"v", stranger)
    assert look(world).findings is not None
    half = world.logs[HALF, life.partition].records[0]
    world.append(
        half.place,
        b"k",
        b"v",
        [(n, marker if n == name else v) for n, v in half.stored_headers],
    )
    assert look(world).findings is not None
