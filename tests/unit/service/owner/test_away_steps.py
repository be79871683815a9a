"""A target that is away holds up nobody but those that need it, on a Kafka in memory."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.memory import WriteFault
from halfhitch.core.model import Resolution
from halfhitch.core.standing import Standing
from halfhitch.ports import WriteOutcome, WriteResult
from halfhitch.service.owner.turn import StepFailedError
from halfhitch.wire.parked import LATE, TOO_OLD, LateDecision, read_parked
from harness.defaults import check_rules, owner_limits
from harness.twin import PARKED, RecordingWriter, Twin, identity, turn_until_idle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.ports import TargetRecord
    from halfhitch.service.owner.turn import PartitionOwner


def pass_time(twin: Twin, owner: PartitionOwner, seconds: float) -> None:
    """In steps, as turns come; a worker pauses after a failure."""
    while seconds > 0:
        twin.clock.advance(0.25)
        seconds -= 0.25
        go_on(owner)


def go_on(owner: PartitionOwner) -> None:
    try:
        turn_until_idle(owner)
    except StepFailedError:
        return


def writes(twin: Twin) -> int:
    return twin.calls.count("write")


def put(twin: Twin, name: str, *topics: str, key: bytes | None = None) -> None:
    """A committed transaction with a message for each of the topics; its value is its name."""
    for index, topic in enumerate(topics):
        twin.half(name, index=index, topic=topic, key=key, value=name.encode())
    twin.commit(name, covered=len(topics))


def away(twin: Twin, *topics: str) -> None:
    twin.kafka.faults.away_topics = set(topics)


def test_transactions_for_other_targets_go_on_while_one_is_away() -> None:
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "orders")
    for n in range(20):
        put(twin, f"T{n}", "orders" if n % 2 else "points")
    go_on(owner)
    assert twin.values("points") == [b"T%d" % n for n in range(0, 20, 2)]
    assert twin.values("orders") == []
    assert owner.waiting_by_topic == {"orders": 10}
    assert writes(twin) == 2, "one failure is enough to know"
    put(twin, "later", "points")
    go_on(owner)
    assert twin.values("points")[-1] == b"later"
    assert owner.standing(identity("T1"), 1) is Standing.COMMITTING


def test_what_waits_is_counted_once_each_until_its_target_is_back() -> None:
    """It is this number that bounds what is taken: it was in no bound, and filled the memory."""
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "orders", "points")
    for n in range(6):
        put(twin, f"T{n}", *(("orders", "points") if n % 2 else ("orders",)))
    go_on(owner)
    pass_time(twin, owner, 20)
    assert owner.waiting_by_topic == {"orders": 6, "points": 3}
    assert owner.waiting_count == 6
    away(twin)
    pass_time(twin, owner, 40)
    assert len(twin.values("orders")) == 6
    assert owner.waiting_count == 0


def test_what_waited_goes_on_in_its_order_when_the_target_is_back() -> None:
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "orders")
    for n in range(50):
        put(twin, f"T{n}", "orders", key=b"k")
        if n % 10 == 0:
            go_on(owner)
    pass_time(twin, owner, 5)
    away(twin)
    put(twin, "last", "orders", key=b"k")
    pass_time(twin, owner, 40)
    assert twin.values() == [b"T%d" % n for n in range(50)] + [b"last"]
    assert owner.waiting_by_topic == {}
    assert len(twin.done_ids()) == len(set(twin.done_ids())) == 51


def test_all_messages_of_a_transaction_wait_together() -> None:
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "points")
    put(twin, "T1", "orders", "points")
    put(twin, "T2", "orders")
    go_on(owner)
    assert twin.values("orders") == [b"T2"]
    away(twin)
    pass_time(twin, owner, 5)
    assert twin.values("orders") == [b"T2", b"T1"]
    assert twin.values("points") == [b"T1"]


def test_messages_of_one_key_do_not_pass_one_that_waits_with_another_message() -> None:
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "points")
    put(twin, "T1", "orders", "points", key=b"k")
    put(twin, "T2", "orders", key=b"k")
    put(twin, "T3", "orders", key=b"other")
    go_on(owner)
    assert twin.values("orders") == [b"T3"]
    away(twin)
    pass_time(twin, owner, 5)
    assert twin.values("orders") == [b"T3", b"T1", b"T2"]


def test_probes_become_rare_and_small() -> None:
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "orders")
    for n in range(100):
        put(twin, f"T{n}", "orders")
    go_on(owner)
    before = writes(twin)
    pass_time(twin, owner, 200)
    failures = [c for c in twin.observer.of("kafka_transaction") if c[1] == "fail"]
    assert 6 <= writes(twin) - before <= 12
    assert {count for _, _, _, count, _ in failures[1:]} == {10}


def test_a_target_that_everybody_can_see_has_no_leader_is_not_probed() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.kafka.faults.leaderless = {"orders"}
    put(twin, "T1", "orders")
    go_on(owner)
    before = writes(twin)
    pass_time(twin, owner, 60)
    assert writes(twin) == before
    twin.kafka.faults.leaderless = set()
    pass_time(twin, owner, 2)
    assert twin.values() == [b"T1"], "and it is tried soon once it has one"


def test_what_waits_holds_the_watermarks_and_a_successor_carries_it_out() -> None:
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "orders")
    put(twin, "T1", "orders")
    put(twin, "T2", "points")
    go_on(owner)
    pass_time(twin, owner, 30)
    assert twin.stored() == (0, 0)
    away(twin)
    turn_until_idle(twin.working_owner())
    assert (twin.values("orders"), twin.values("points")) == ([b"T1"], [b"T2"])
    put(twin, "T3", "points")
    successor = twin.working_owner()
    turn_until_idle(successor)
    assert twin.values("orders") == [b"T1"]


def test_payloads_that_had_to_be_let_go_are_read_again() -> None:
    twin = Twin(limits=owner_limits(payload_cache_bytes=10_000))
    owner = twin.working_owner()
    away(twin, "orders")
    for n in range(50):
        put(twin, f"T{n}", "orders")
    go_on(owner)
    assert len(owner._payloads) < 15
    away(twin)
    pass_time(twin, owner, 5)
    assert twin.values() == [b"T%d" % n for n in range(50)]


def test_one_line_is_logged_when_a_target_goes_away_and_one_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "orders")
    for n in range(5):
        put(twin, f"T{n}", "orders")
    go_on(owner)
    pass_time(twin, owner, 20)
    away(twin)
    pass_time(twin, owner, 30)
    lines = [r.getMessage() for r in caplog.records if "target_" in getattr(r, "action", "")]
    assert len(lines) == 2
    assert "topic orders is away: not stored in time; 5 transactions wait" in lines[0]
    assert "topic orders takes messages again" in lines[1]


def test_a_topic_that_is_deleted_while_it_is_away_gets_its_transactions_parked() -> None:
    twin = Twin()
    twin.kafka.create_topic("extra")
    owner = twin.working_owner()
    away(twin, "extra")
    for n in range(30):
        put(twin, f"T{n}", "extra")
    go_on(owner)
    assert owner.waiting_by_topic == {"extra": 30}
    twin.kafka.delete_topic("extra")
    away(twin)
    pass_time(twin, owner, 3)
    assert len(twin.kafka.committed(PARKED)) == 30
    assert owner.waiting_by_topic == {}


def test_one_too_large_among_those_that_waited_is_found_and_parked() -> None:
    twin = Twin()
    twin.kafka.record_bytes_max["orders"] = 1_000
    owner = twin.working_owner()
    away(twin, "orders")
    for n in range(30):
        twin.half(f"T{n}", value=bytes(2_000) if n == 4 else b"%d" % n)
        twin.commit(f"T{n}")
    go_on(owner)
    away(twin)
    pass_time(twin, owner, 10)
    assert twin.values() == [b"%d" % n for n in range(30) if n != 4]
    assert [r.value() for r in twin.kafka.committed(PARKED)] == [bytes(2_000)]


def test_the_parked_topic_may_be_away_too_and_nothing_is_lost() -> None:
    rules = check_rules(immunity_ms=1_000, interval_ms=1_000, jitter=0.0, count_max=1)
    twin = Twin(limits=owner_limits(check_rules=rules))
    owner = twin.working_owner()
    away(twin, PARKED)
    put(twin, "bad", "no_such_topic")
    put(twin, "good", "orders")
    go_on(owner)
    assert twin.values() == [b"good"]
    assert owner.waiting_by_topic == {PARKED: 1}
    away(twin)
    pass_time(twin, owner, 5)
    assert [r.value() for r in twin.kafka.committed(PARKED)] == [b"bad"]


def test_a_note_beside_what_is_parked_waits_for_the_parked_topic_and_nobody_for_the_note() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.decide(Resolution.PARK, "T1")
    go_on(owner)
    away(twin, PARKED)
    op_offset = twin.commit("T1")
    put(twin, "T2", "orders")
    go_on(owner)
    assert twin.values() == [b"T2"]
    pass_time(twin, owner, 30)
    stored = twin.stored()[1]
    assert stored is not None
    assert stored <= op_offset, "a replay must find it"
    away(twin)
    pass_time(twin, owner, 120)
    late = [read_parked(r.offset(), r.headers()) for r in twin.kafka.committed(PARKED)][1:]
    assert [(type(note), note.op_offset) for note in late if isinstance(note, LateDecision)] == [
        (LateDecision, op_offset)
    ]
    assert len(late) == 1


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_message_that_came_after_the_giving_up_waits_for_the_parked_topic(
    *, is_taken_over: bool
) -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1", value=b"0", digest=10)
    twin.decide(Resolution.PARK, "T1")
    go_on(owner)
    away(twin, PARKED)
    half_offset = twin.half("T1", index=1, value=b"1", digest=11)
    put(twin, "T2", "orders")
    go_on(owner)
    assert twin.values() == [b"T2"]
    assert owner.waiting_by_topic == {PARKED: 1}
    pass_time(twin, owner, 30)
    assert twin.stored()[0] == half_offset, "a replay must find it"
    if is_taken_over:
        owner = twin.working_owner()
    away(twin)
    pass_time(twin, owner, 40)
    found = [(r.value(), read_parked(0, r.headers())) for r in twin.kafka.committed(PARKED)]
    assert sorted((value, why.reason, why.half_offset) for value, why in found) == [  # type: ignore[type-var, union-attr]
        (b"0", TOO_OLD, half_offset - 1),
        (b"1", LATE, half_offset),
    ]
    assert {why.decision for _, why in found} == {None}  # type: ignore[union-attr]
    # One transaction, two messages; one of them alone.
    assert twin.observer.of("parked") == [(1, 1), (0, 1)]


def test_a_target_goes_away_twice() -> None:
    twin = Twin()
    owner = twin.working_owner()
    for n in range(3):
        away(twin, "orders")
        put(twin, f"T{n}", "orders")
        go_on(owner)
        assert owner.waiting_by_topic == {"orders": 1}
        away(twin)
        pass_time(twin, owner, 5)
        assert owner.waiting_by_topic == {}
    assert twin.values() == [b"T0", b"T1", b"T2"]


class _Silent(RecordingWriter):
    """A write for one of `silent` takes five seconds and fails without a word of which it was."""

    twin: Twin
    silent: set[str]

    def write(self, targets: Sequence[TargetRecord], *rest: Any) -> WriteResult:
        if self.silent.isdisjoint(target.topic for target in targets):
            return super().write(targets, *rest)
        self.calls.append("write")
        self.twin.clock.advance(5)
        self._producer_epoch = None
        return WriteResult(WriteOutcome.FAIL, "timed out")


def silent_twin(*silent: str) -> tuple[Twin, _Silent]:
    twin = Twin()
    writer = _Silent(twin.kafka, twin.calls)
    writer.twin, writer.silent = twin, set(silent)
    return twin, writer


def test_a_failure_that_says_nothing_is_closed_in_on() -> None:
    twin, writer = silent_twin("orders")
    owner = twin.working_owner(writer=writer)
    for n in range(64):
        put(twin, f"T{n}", "orders" if n == 37 else "points")
    for _ in range(20):
        go_on(owner)
    assert twin.values("points") == [b"T%d" % n for n in range(64) if n != 37]
    assert owner.waiting_by_topic == {"orders": 1}
    writer.silent.clear()
    pass_time(twin, owner, 10)
    assert twin.values("orders") == [b"T37"]


def test_when_it_was_kafka_itself_everything_goes_on_at_once_when_it_is_back() -> None:
    twin, writer = silent_twin("orders", "points")
    owner = twin.working_owner(writer=writer)
    for n in range(20):
        put(twin, f"T{n}", "orders" if n % 2 else "points")
    for _ in range(40):
        go_on(owner)
        twin.clock.advance(0.25)
    writer.silent.clear()
    pass_time(twin, owner, 6)
    assert len(twin.values("orders")) == len(twin.values("points")) == 10
    assert owner.waiting_by_topic == {}


def test_a_few_quick_failures_are_no_targets_fault() -> None:
    twin = Twin()
    owner = twin.working_owner()
    put(twin, "T1", "orders")
    twin.kafka.faults.writes = [WriteFault.ABORTED] * 4
    for _ in range(4):
        with pytest.raises(StepFailedError):
            owner.turn(0.0)
        assert owner.waiting_by_topic == {}
    turn_until_idle(owner)
    assert twin.values() == [b"T1"]


def test_checks_go_on_while_a_target_is_away() -> None:
    rules = check_rules(immunity_ms=6_000, interval_ms=60_000, jitter=0.0)
    twin = Twin(limits=owner_limits(check_rules=rules))
    twin.gate.room = 10
    owner = twin.working_owner()
    away(twin, "orders")
    put(twin, "T1", "orders")
    twin.half("T2", topic="points")
    go_on(owner)
    pass_time(twin, owner, 10)
    assert [check.number for check in twin.gate.sent] == [1]
    assert twin.gate.taken == 0


def test_rolled_back_transactions_wait_for_nobody() -> None:
    twin = Twin()
    owner = twin.working_owner()
    away(twin, "orders")
    put(twin, "T1", "orders")
    go_on(owner)
    twin.half("T2")
    twin.roll_back("T2")
    go_on(owner)
    assert twin.done_ids() == ["T2"]
