"""A target that is gone for days does not make replays longer and longer."""

from __future__ import annotations

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.core.model import ConflictRead, Resolution
from halfhitch.service.owner.turn import PartitionOwner, StepFailedError
from harness.defaults import check_rules, owner_limits
from harness.twin import Twin, turn_until_idle

RULES = check_rules(renew_ms=600_000)
COUNT = 30


def away_for_long(hours: float = 3.0) -> tuple[Twin, PartitionOwner]:
    """Commits for a topic that is away, in one order of keys, and others that go on."""
    twin = Twin(limits=owner_limits(check_rules=RULES, horizon_ms=60_000, batch_count_max=10))
    twin.kafka.faults.away_topics.add("orders")
    owner = twin.working_owner()
    for number in range(COUNT):
        twin.half(f"T{number}", key=b"k%d" % (number % 3), value=b"%d" % number)
    for number in range(COUNT):
        twin.commit(f"T{number}", hints=[number])
    turns(owner)
    for minute in range(int(hours * 60)):
        twin.clock.advance(60.0)
        other = twin.half(f"other-{minute}", topic="points", value=b"other")
        twin.commit(f"other-{minute}", hints=[other])
        turns(owner)
    return twin, owner


def turns(owner: PartitionOwner, count: int = 40) -> None:
    for _ in range(count):
        try:
            if not owner.turn(0.0):
                return
        except StepFailedError:
            continue


def came_back(twin: Twin, owner: PartitionOwner) -> list[bytes | None]:
    twin.kafka.faults.away_topics.clear()
    for _ in range(20):
        twin.clock.advance(40.0)
        turn_until_idle(owner)
    return twin.values()


def in_order_of_keys(values: list[bytes | None]) -> bool:
    numbers = [int(value or b"") for value in values]
    by_key = [[n for n in numbers if n % 3 == key] for key in range(3)]
    return all(found == sorted(found) for found in by_key) and len(numbers) == COUNT


def test_both_watermarks_pass_what_waits_for_a_target_that_is_away() -> None:
    twin, _ = away_for_long()
    half, op = twin.stored()
    ends = [twin.kafka.log(topic, 0).end for topic in (twin.kafka.half_topic, twin.kafka.op_topic)]
    # A quarter of an hour of everybody's halves, and what waits, but not three hours.
    assert half is not None
    assert op is not None
    assert ends[0] - half < 4 * COUNT
    assert ends[1] - op < ends[1] // 4


def test_what_was_renewed_is_delivered_once_and_in_order_when_the_target_is_back() -> None:
    twin, owner = away_for_long()
    assert in_order_of_keys(came_back(twin, owner))
    assert len([v for v in twin.values("points") if v == b"other"]) == 180


def test_a_takeover_finds_what_was_renewed_with_its_decision() -> None:
    twin, _ = away_for_long()
    successor = twin.working_owner()
    assert in_order_of_keys(came_back(twin, successor))


@pytest.mark.parametrize("steps", range(1, 7))
def test_a_crash_in_the_middle_of_a_round_changes_no_order(steps: int) -> None:
    twin, owner = away_for_long(hours=0.15)
    twin.clock.advance(120.0)
    for _ in range(steps):
        try:
            owner.turn(0.0)
        except StepFailedError:
            continue
    successor = twin.working_owner()
    assert in_order_of_keys(came_back(twin, successor))


def test_a_round_that_is_aborted_begins_again_where_it_was() -> None:
    twin, owner = away_for_long(hours=0.15)
    twin.clock.advance(120.0)
    twin.kafka.faults.writes += [WriteFault.ABORTED, None, WriteFault.ABORTED, None]
    turns(owner)
    assert in_order_of_keys(came_back(twin, twin.working_owner()))


def test_a_contrary_decision_still_loses_after_a_renewal_and_a_takeover() -> None:
    twin, _ = away_for_long()
    successor = twin.working_owner()
    twin.decide(Resolution.ROLLBACK, "T7")
    turns(successor)
    assert in_order_of_keys(came_back(twin, successor))
    lost = [entry.identity[1] for entry in twin.ops() if isinstance(entry, ConflictRead)]
    assert lost == ["T7"]


def test_a_transaction_of_several_messages_is_renewed_whole() -> None:
    twin = Twin(limits=owner_limits(check_rules=RULES))
    twin.kafka.faults.away_topics.add("orders")
    owner = twin.working_owner()
    first = twin.half("T", index=0, topic="points", value=b"points")
    second = twin.half("T", index=1, value=b"order")
    twin.commit("T", covered=2, hints=[first, second])
    turns(owner)
    for _ in range(30):
        twin.clock.advance(60.0)
        turns(owner)
    successor = twin.working_owner()
    assert came_back(twin, successor) == [b"order"]
    assert twin.values("points") == [b"points"]


def test_a_round_that_the_half_topic_refuses_is_put_off_and_begins_anew_in_order() -> None:
    """It was written again at once, for ever, and the owner never came to rest."""
    twin, owner = away_for_long(hours=0.15)
    limits, half_topic = twin.kafka.record_bytes_max, twin.kafka.half_topic
    limits[half_topic] = 1
    twin.clock.advance(120.0)
    written = [owner.turn(0.0) for _ in range(12)]
    assert written[1], "the round begins"
    assert not any(written[4:])
    del limits[half_topic]
    assert not owner.turn(0.0), "the rest waits for the next round"
    before, _ = twin.stored()
    twin.clock.advance(600.0)
    turns(owner)
    after, _ = twin.stored()
    assert before is not None
    assert after is not None
    assert after > before, "the next round renews them"
    assert in_order_of_keys(came_back(twin, twin.working_owner()))
