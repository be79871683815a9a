"""The owner of one half partition, on a Kafka in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from halfhitch.adapters.memory import MemoryKafka, MemoryPartitionReader, WriteFault
from halfhitch.core.early import KEPT_MS
from halfhitch.core.model import ConflictKind, ConflictRead, DoneRead, Resolution
from halfhitch.core.standing import Standing
from halfhitch.errors import KafkaUnavailable, TopologyError
from halfhitch.ports import ReadBatch
from halfhitch.service.owner.feeding import NewerReleaseError
from halfhitch.service.owner.numbers import OwnerNumbers
from halfhitch.service.owner.turn import OutcomeLostError, StepFailedError
from halfhitch.wire import op as op_wire
from halfhitch.wire.half import HalfRecord, system_headers
from harness.defaults import check_rules, owner_limits
from harness.twin import (
    GROUP,
    INSTANCE,
    BlindReader,
    RecordingWriter,
    Twin,
    identity,
    turn_until_idle,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from halfhitch.service.owner.turn import PartitionOwner
    from halfhitch.wire.op import OpRead


def finish(owner: PartitionOwner) -> None:
    turn_until_idle(owner)


# -- takeover ------------------------------------------------------------------------------------


def test_a_takeover_fences_before_it_asks_for_the_watermarks_and_reads_halves_before_ops() -> None:
    twin = Twin()
    twin.half("T0")
    twin.commit("T0")
    finish(twin.working_owner())
    twin.half("T1")
    twin.commit("T1")
    twin.calls.clear()
    twin.working_owner()
    calls = twin.calls
    order = ["fence", "committed_positions", "begin", "read", "release_op"]
    assert [calls.index(name) for name in order] == sorted(calls.index(name) for name in order)
    assert calls.count("fence") == 1
    assert "read" in calls[calls.index("release_op") :]
    assert "write" not in calls


def test_what_the_predecessor_left_open_is_gone_before_anything_is_read() -> None:
    twin = Twin()
    twin.half("T1")
    twin.commit("T1")
    owner = twin.working_owner()
    twin.kafka.faults.writes = [WriteFault.LEFT_OPEN]
    with pytest.raises(OutcomeLostError):
        owner.turn(0.0)
    assert twin.values() == []
    finish(twin.working_owner())
    assert twin.values() == [b"value"]
    assert twin.written_values() == [b"value", b"value"]


def test_a_takeover_ends_when_both_logs_were_read_to_their_ends() -> None:
    twin = Twin()
    for n in range(50):
        twin.half(f"T{n}")
        twin.roll_back(f"T{n}")
    small_reads = MemoryPartitionReader(twin.kafka, read_max=7)
    owner = twin.working_owner(reader=small_reads)
    assert twin.observer.of("takeover")[0][2] == 100
    assert (owner.numbers().half_position, owner.numbers().op_position) == (50, 50)


def test_who_waits_for_decisions_of_others_hears_them_before_and_after_they_count() -> None:
    twin = Twin()
    told: list[tuple[object, Standing | None]] = []

    def hear(read: Sequence[OpRead] | None) -> None:
        what = None if read is None else [event.identity[1] for event in read]
        told.append((what, owner.standing(identity("T1"), half_offset)))

    owner = twin.owner(on_read=hear)
    half_offset = twin.half("T1")
    owner.take_over()
    before, after = (None, Standing.UNKNOWN), (None, Standing.PENDING)
    assert told == [before, after], "who was told in between that nothing is known hears of it"
    twin.roll_back("T1")
    told.clear()
    finish(owner)
    assert told[:2] == [(["T1"], Standing.PENDING), (["T1"], Standing.ROLLING_BACK)]


def test_a_partition_can_be_taken_over_again_after_a_failure() -> None:
    twin = Twin()
    twin.half("T1")
    owner = twin.owner()
    twin.kafka.faults.is_away = True
    with pytest.raises(KafkaUnavailable):
        owner.take_over()
    assert not owner.is_working
    twin.kafka.faults.is_away = False
    owner.take_over()
    assert owner.is_working
    twin.commit("T1")
    finish(owner)
    assert twin.values() == [b"value"]


class _Stuck(MemoryPartitionReader):
    """A log that gives nothing and is never at its end; time passes meanwhile."""

    twin: Twin

    def read(self, wait_s: float) -> ReadBatch:
        self.twin.clock.advance(wait_s)
        return ReadBatch([], [])


def test_a_replay_that_gets_nowhere_is_given_up() -> None:
    twin = Twin()
    twin.half("T1")
    reader = _Stuck(twin.kafka)
    reader.twin = twin
    with pytest.raises(KafkaUnavailable, match="cannot be read to their ends"):
        twin.owner(reader=reader).take_over()


class _Busy(MemoryPartitionReader):
    """Logs that are never at their ends: whenever one is read, both have grown."""

    twin: Twin
    count = 0

    def read(self, wait_s: float) -> ReadBatch:
        batch = super().read(wait_s)
        assert self.count < 100, "the takeover does not end"
        self.count += 1
        self.twin.half(f"later {self.count}")
        self.twin.commit(f"later {self.count}")
        return batch


def test_a_takeover_under_load_ends_although_the_logs_are_never_read_to_their_ends() -> None:
    twin = Twin()
    for n in range(20):
        twin.half(f"T{n}")
        twin.commit(f"T{n}")
    reader = _Busy(twin.kafka, read_max=7)
    reader.twin = twin
    owner = twin.owner(reader=reader)
    owner.take_over()
    assert owner.is_working


def test_a_watermark_below_the_log_is_refused_and_nothing_is_written() -> None:
    twin = Twin()
    for n in range(5):
        twin.half(f"T{n}")
    twin.kafka.store_position(twin.kafka.half_topic, 0, 1)
    twin.kafka.store_position(twin.kafka.op_topic, 0, 0)
    twin.kafka.delete_below(twin.kafka.half_topic, 0, 3)
    with pytest.raises(TopologyError):
        twin.working_owner()
    assert "write" not in twin.calls


def test_an_owner_that_has_not_taken_over_does_not_turn() -> None:
    with pytest.raises(KafkaUnavailable):
        Twin().owner().turn(0.0)


# -- carrying decisions out ----------------------------------------------------------------------


def test_a_committed_message_is_forwarded_once_with_its_bytes_and_headers() -> None:
    twin = Twin()
    owner = twin.working_owner()
    user = [("a", b"1"), ("a", None), ("b", b"")]
    half_offset = twin.half("T1", key=b"k", value=b"\x00v", headers=list(user), target_partition=2)
    op_offset = twin.commit("T1")
    finish(owner)
    (record,) = twin.kafka.committed("orders")
    assert (record.partition, record.key(), record.value()) == (2, b"k", b"\x00v")
    headers = record.headers()
    assert headers is not None
    assert headers[:3] == user
    assert headers[3:5] == [("UNIQ_KEY", b"T1"), ("PGROUP", GROUP.encode())]
    assert headers[5][0] == "HALFHITCH"
    assert [name for name, _ in headers].count("REAL_TOPIC") == 0
    assert twin.ops()[-1] == DoneRead(
        twin.ops()[-1].op_offset,
        0,
        identity("T1"),
        1,
        (half_offset,),  # type: ignore[arg-type]
    )
    assert [mark.identity for mark in twin.done] == [identity("T1")]
    assert twin.stored() == (1, op_offset)
    finish(owner)
    assert len(twin.written_values()) == 1


def test_a_message_without_key_value_and_headers_is_forwarded_as_it_is() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1", value=None)
    twin.commit("T1")
    finish(owner)
    (record,) = twin.kafka.committed("orders")
    assert (record.key(), record.value()) == (None, None)


def test_a_rolled_back_message_is_never_written_to_its_topic() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.roll_back("T1")
    finish(owner)
    assert twin.written_values() == []
    assert twin.done_ids() == ["T1"]
    assert owner.standing(identity("T1"), 0) is Standing.ROLLED_BACK


def test_an_undecided_message_is_never_written_and_holds_the_half_watermark() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    pending = twin.half("T2")
    twin.half("T3")
    twin.commit("T1", "T3")
    finish(owner)
    assert len(twin.written_values()) == 2
    assert twin.stored()[0] == pending
    assert owner.numbers().pending_count == 1


def test_all_messages_of_a_transaction_are_in_one_kafka_transaction_or_wait_together() -> None:
    twin = Twin(limits=owner_limits(batch_count_max=1))
    owner = twin.working_owner()
    twin.half("T1", value=b"order")
    twin.commit("T1", covered=2)
    finish(owner)
    assert twin.written_values() == [], "the second message is not there yet"
    twin.half("T1", index=1, topic="points", value=b"points")
    finish(owner)
    (order,), (points,) = twin.kafka.committed("orders"), twin.kafka.committed("points")
    assert order.kafka_transaction is points.kafka_transaction is not None


def test_a_decision_may_come_before_its_half() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.commit("T1")
    finish(owner)
    assert owner.standing(identity("T1"), 5) is Standing.EARLY
    twin.half("T1")
    finish(owner)
    assert twin.values() == [b"value"]


def test_a_prepare_that_was_stored_twice_is_forwarded_once_and_both_copies_are_done() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1", value=b"first")
    twin.half("T1", value=b"copy")
    twin.commit("T1")
    finish(owner)
    twin.half("T1", value=b"late copy")
    finish(owner)
    assert twin.written_values() == [b"first"]
    named = [o for e in twin.ops() if isinstance(e, DoneRead) for o in e.half_offsets]
    assert sorted(named) == [0, 1, 2]
    assert twin.stored()[0] == 3


def test_a_later_contrary_decision_changes_nothing_and_is_put_on_record_once() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    loser = twin.roll_back("T1")
    finish(owner)
    assert twin.values() == [b"value"]
    finish(twin.working_owner())
    conflicts = [entry for entry in twin.ops() if isinstance(entry, ConflictRead)]
    assert [(c.kind, c.losing_op_offset) for c in conflicts] == [(ConflictKind.CONTRARY, loser)]
    assert twin.observer.of("conflict") == [(ConflictKind.CONTRARY, 1)]


@pytest.mark.parametrize("second", [Resolution.COMMIT, Resolution.ROLLBACK])
def test_whatever_is_decided_later_the_done_mark_is_repeated_after_it(second: Resolution) -> None:
    """Whoever waits on another instance reads on from his own decision."""
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    finish(owner)
    later = twin.decide(second, "T1")
    finish(owner)
    marks = [entry for entry in twin.ops() if isinstance(entry, DoneRead)]
    assert [mark.ending for mark in marks] == [1, 1]
    assert marks[0].op_offset < later < marks[1].op_offset
    assert twin.written_values() == [b"value"]


def test_a_message_that_the_winning_commit_does_not_cover_is_dropped_and_put_on_record() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1", value=b"covered")
    twin.half("T1", index=1, value=b"uncovered")
    twin.commit("T1", covered=1)
    finish(owner)
    assert twin.written_values() == [b"covered"]
    assert twin.observer.of("conflict") == [(ConflictKind.UNCOVERED, 1)]
    assert twin.stored()[0] == 2


def test_a_step_takes_no_more_messages_than_it_may() -> None:
    twin = Twin(limits=owner_limits(batch_count_max=3))
    for n in range(8):
        twin.half(f"T{n}", value=b"%d" % n)
        twin.commit(f"T{n}")
    finish(twin.working_owner())
    assert twin.values() == [b"%d" % n for n in range(8)]
    forwarded = [call[3] for call in twin.observer.of("kafka_transaction")]
    assert forwarded == [3, 3, 2]


def test_the_headers_of_a_message_count_as_much_as_its_value() -> None:
    twin = Twin(limits=owner_limits(batch_bytes_max=1_000))
    for n in range(4):
        twin.half(f"T{n}", value=None, headers=[("h", bytes(1_000))])
        twin.commit(f"T{n}")
    finish(twin.working_owner())
    assert [call[3] for call in twin.observer.of("kafka_transaction")] == [1, 1, 1, 1]


def test_the_observer_learns_what_a_step_did() -> None:
    twin = Twin()
    twin.half("T1")
    twin.half("T2")
    twin.commit("T1")
    twin.roll_back("T2")
    finish(twin.working_owner())
    ((partition, outcome, _, forwarded, dropped),) = twin.observer.of("kafka_transaction")
    assert (partition, outcome, forwarded, dropped) == (0, "ok", 1, 1)


# -- replay --------------------------------------------------------------------------------------


def test_a_successor_forwards_what_was_decided_and_nothing_that_was_done() -> None:
    twin = Twin()
    first = twin.working_owner()
    for name in ("done", "dropped", "decided", "pending"):
        twin.half(name, value=name.encode())
    twin.commit("done")
    twin.roll_back("dropped")
    finish(first)
    first.close()
    twin.commit("decided")
    second = twin.working_owner()
    finish(second)
    assert twin.values() == [b"done", b"decided"]
    twin.commit("pending")
    finish(second)
    assert twin.written_values() == [b"done", b"decided", b"pending"]
    assert second.standing(identity("dropped"), 0) is Standing.ROLLED_BACK


@pytest.mark.parametrize("lost", ["half", "op", "both"])
def test_watermarks_that_were_lost_or_reset_lead_to_no_second_forward(lost: str) -> None:
    twin = Twin()
    first = twin.working_owner()
    for n in range(20):
        twin.half(f"T{n}", value=b"%d" % n)
        (twin.commit if n % 3 else twin.roll_back)(f"T{n}")
        finish(first)
    expected = twin.values()
    if lost in ("half", "both"):
        twin.kafka.store_position(twin.kafka.half_topic, 0, None)
    if lost in ("op", "both"):
        twin.kafka.store_position(twin.kafka.op_topic, 0, None)
    finish(twin.working_owner())
    assert twin.written_values() == expected


def test_a_replay_of_what_is_all_done_writes_nothing() -> None:
    twin = Twin()
    twin.half("T1")
    twin.commit("T1")
    finish(twin.working_owner())
    twin.calls.clear()
    finish(twin.working_owner())
    assert "write" not in twin.calls


# -- when a step goes wrong ----------------------------------------------------------------------


def test_a_step_that_failed_is_tried_again_and_appears_once() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    twin.kafka.faults.writes = [WriteFault.ABORTED, WriteFault.ABORTED]
    for _ in range(2):
        with pytest.raises(StepFailedError):
            owner.turn(0.0)
        assert twin.done == [], "nobody is told of a step that failed"
        assert twin.stored() == (None, None)
    finish(owner)
    assert twin.values() == [b"value"]
    assert twin.written_values() == [b"value"] * 3, "the failures were real"
    assert twin.done_ids() == ["T1"]


@pytest.mark.parametrize(
    "fault", [WriteFault.ABORTED_UNSEEN, WriteFault.COMMITTED_UNSEEN, WriteFault.LEFT_OPEN]
)
def test_an_unknown_outcome_is_settled_by_a_new_takeover_with_exactly_one_forward(
    fault: WriteFault,
) -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.half("T2", index=0)
    twin.half("T2", index=1, topic="points")
    twin.commit("T1")
    twin.commit("T2", covered=2)
    twin.kafka.faults.writes = [fault]
    with pytest.raises(OutcomeLostError):
        owner.turn(0.0)
    assert twin.done == []
    owner.close()
    successor = twin.working_owner()
    finish(successor)
    assert twin.values() == [b"value", b"value"]
    assert twin.values("points") == [b"value"]
    assert sorted(twin.done_ids()) == ["T1", "T2"]
    assert successor.standing(identity("T1"), 0) is Standing.COMMITTED


def test_with_kafka_away_nothing_is_lost_and_nothing_doubled() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    twin.kafka.faults.is_away = True
    assert owner.turn(0.0) is False, "nothing can be read, so there is nothing to do"
    twin.kafka.faults.is_away = False
    finish(owner)
    assert twin.written_values() == [b"value"]


def test_an_owner_that_was_fenced_writes_nothing_any_more() -> None:
    twin = Twin()
    older = twin.working_owner()
    newer = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    with pytest.raises(StepFailedError):
        older.turn(0.0)
    assert twin.written_values() == []
    # Failing, the older one has fenced the newer; who may write is for the generation to say.
    with pytest.raises(StepFailedError):
        newer.turn(0.0)
    finish(newer)
    assert twin.values() == [b"value"]


def test_an_owner_of_a_generation_that_is_over_can_write_nothing_even_after_fencing_again() -> None:
    twin = Twin()
    older = twin.working_owner(writer=RecordingWriter(twin.kafka, twin.calls, generation=lambda: 1))
    twin.kafka.generation = 2
    newer = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    for _ in range(3):
        with pytest.raises(StepFailedError):
            older.turn(0.0)
    # The newer one was fenced by that; it fences again and goes on.
    with pytest.raises(StepFailedError):
        newer.turn(0.0)
    finish(newer)
    assert twin.values() == [b"value"]


def test_after_a_commit_that_may_have_been_retried_silently_the_writer_is_fenced_anew() -> None:
    twin = Twin()
    owner = twin.working_owner()
    for n in range(2):
        twin.half(f"T{n}", value=b"%d" % n)
    twin.commit("T0")
    twin.kafka.faults.writes = [WriteFault.SUSPECT]
    twin.calls.clear()
    owner.turn(0.0)
    assert twin.calls == ["read", "write", "fence", "committed_positions"]
    twin.commit("T1")
    finish(owner)
    assert twin.written_values() == [b"0", b"1"]


def test_watermarks_that_somebody_else_has_moved_are_a_reason_to_take_over_anew() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.half("T2")
    finish(owner)
    other = twin.working_owner()
    twin.commit("T1")
    finish(other)
    twin.commit("T2")
    with pytest.raises(OutcomeLostError, match="somebody else"):
        owner.turn(0.0)
    finish(twin.working_owner())
    assert twin.written_values() == [b"value"] * 2


# -- strangers -----------------------------------------------------------------------------------


def test_garbage_in_both_logs_is_passed_over_and_counted() -> None:
    twin = Twin()
    owner = twin.working_owner()
    kafka = twin.kafka
    twin.half("T1")
    kafka.append(kafka.half_topic, 0, None, b"no headers", [])
    kafka.append(kafka.half_topic, 0, None, None, [("HALFHITCH", None)] * 9)
    twin.half("T2")
    kafka.append(kafka.op_topic, 0, None, b"1,", [("TAGS", b"d")])
    kafka.append(kafka.op_topic, 0, None, None, [])
    twin.commit("T1", "T2")
    finish(owner)
    assert twin.values() == [b"value", b"value"]
    assert sum(count for role, count in twin.observer.of("garbage") if role == "half") == 2
    assert sum(count for role, count in twin.observer.of("garbage") if role == "op") == 2
    assert twin.stored()[0] == 4, "garbage holds no watermark"


def test_a_decision_without_a_half_is_dropped_after_a_while_and_counted() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.commit("nobody", "knows")
    finish(owner)
    twin.clock.advance(KEPT_MS / 1000 - 6)
    owner.turn(0.0)
    assert twin.observer.of("unknown_decisions") == []
    twin.clock.advance(7)
    owner.turn(0.0)
    owner.turn(0.0)
    assert twin.observer.of("unknown_decisions") == [(2,)]
    assert owner.standing(identity("nobody"), 9) is Standing.UNKNOWN


def test_a_decision_is_not_dropped_while_the_half_log_cannot_be_read_to_its_end() -> None:
    twin = Twin()
    reader = BlindReader(twin.kafka, twin.calls)
    owner = twin.working_owner(reader=reader)
    reader.set_blind(blind=True)
    twin.half("T1")
    twin.commit("T1")
    for _ in range(20):
        twin.clock.advance(30)
        owner.turn(0.0)
    assert twin.observer.of("unknown_decisions") == []
    reader.set_blind(blind=False)
    finish(owner)
    assert twin.values() == [b"value"]


def test_a_flood_of_decisions_for_nobody_stops_the_reading_of_the_op_log_only() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.calls.clear()
    for n in range(101):
        twin.commit(*[f"{n}-{m}" for m in range(op_wire.MARKS_MAX)])
    # What was read at once is the flood; what follows is not read until it has gone.
    finish(owner)
    assert twin.calls.count("hold_op") == 1
    twin.half("T1")
    twin.commit("T1")
    finish(owner)
    assert twin.values() == []
    assert owner.numbers().half_position == 1, "halves are read all the same"
    twin.clock.advance(KEPT_MS / 1000 + 1)
    finish(owner)
    assert twin.observer.of("unknown_decisions") == [(101_000,)]
    assert twin.calls.count("release_op") == 1
    finish(owner)
    assert twin.values() == [b"value"]


@pytest.mark.parametrize("role", ["half", "op"])
def test_a_record_of_a_newer_release_stops_the_partition_instead_of_being_passed_over(
    role: str,
) -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("T1")
    kafka = twin.kafka
    if role == "half":
        headers = system_headers(HalfRecord("T2", GROUP, 0, 0, INSTANCE, "orders"))
        headers[0] = (headers[0][0], b"2" + (headers[0][1] or b"")[1:])
        kafka.append(kafka.half_topic, 0, None, b"v", headers)
    else:
        kafka.append(kafka.op_topic, 0, None, b"0,", [("TAGS", b"d"), ("HALFHITCH", b"2[]")])
    with pytest.raises(NewerReleaseError, match="upgrade this instance"):
        owner.turn(0.0)
    with pytest.raises(NewerReleaseError):
        twin.working_owner()
    assert twin.observer.of("garbage") == []


# -- trimming ------------------------------------------------------------------------------------


class _TrimCheck(RecordingWriter):
    """Notes with each deletion which watermarks were stored before the last write."""

    def __init__(self, kafka: MemoryKafka, calls: list[str], **options: Any) -> None:
        super().__init__(kafka, calls, **options)
        self.before_last_write = (0, 0)
        self.deletions: list[tuple[tuple[int, int], tuple[int, int]]] = []

    def write(self, *values: Any) -> Any:
        places = (self._half, self._op)
        half, op = (self._kafka.stored_position(*place) or 0 for place in places)
        self.before_last_write = (half, op)
        return super().write(*values)

    def delete_below(self, half_offset: int, op_offset: int) -> None:
        self.deletions.append(((half_offset, op_offset), self.before_last_write))
        super().delete_below(half_offset, op_offset)


def test_only_what_an_earlier_kafka_transaction_has_passed_is_deleted() -> None:
    twin = Twin(limits=owner_limits(horizon_ms=20_000))
    writer = _TrimCheck(twin.kafka, twin.calls)
    owner = twin.working_owner(writer=writer)
    for n in range(12):
        twin.half(f"T{n}")
        twin.commit(f"T{n}")
        finish(owner)
        twin.clock.advance(11)
    assert len(writer.deletions) >= 5
    assert writer.deletions[-1][0][0] > 0
    assert writer.deletions[-1][0][1] > 0, "the op log is trimmed too"
    for (half, op), (half_before, op_before) in writer.deletions:
        assert half <= half_before
        assert op <= op_before
    finish(twin.working_owner())
    assert len(twin.written_values()) == 12


def test_logs_are_not_trimmed_with_every_step() -> None:
    twin = Twin()
    owner = twin.working_owner()
    for n in range(50):
        twin.half(f"T{n}")
        twin.commit(f"T{n}")
        finish(owner)
        twin.clock.advance(1)
    deletions = [call for call in twin.calls if call.startswith("delete_below")]
    assert 3 <= len(deletions) <= 6


# -- what is known -------------------------------------------------------------------------------


def test_of_a_half_that_was_read_and_is_remembered_no_more_the_owner_says_so() -> None:
    twin = Twin(limits=owner_limits(horizon_ms=1_000))
    owner = twin.owner()
    assert owner.standing(identity("T1"), 0) is Standing.UNKNOWN
    owner.take_over()
    twin.half("T1")
    assert owner.standing(identity("T1"), 0) is Standing.UNKNOWN, "not read yet"
    finish(owner)
    assert owner.standing(identity("T1"), 0) is Standing.PENDING
    twin.commit("T1")
    finish(owner)
    assert owner.standing(identity("T1"), 0) is Standing.COMMITTED
    for n in range(6):
        twin.clock.advance(2)
        twin.half(f"later-{n}")
        twin.commit(f"later-{n}")
        finish(owner)
    assert owner.standing(identity("T1"), 0) is None
    assert owner.standing(identity("T1"), 99) is Standing.UNKNOWN


def test_close_lets_go_of_reader_and_writer() -> None:
    twin = Twin()
    owner = twin.working_owner()
    owner.close()
    assert not owner.is_working
    assert twin.calls[-2:] == ["close reader", "close writer"]
    assert owner.numbers() == OwnerNumbers()


# -- somebody else owns the partition -------------------------------------------------------------


def test_a_done_mark_that_is_not_ours_says_that_the_partition_is_somebody_elses() -> None:
    """He was stopped for a while, has lost the partition and has not heard of it yet."""
    twin = Twin()
    twin.half("T1")
    frozen = twin.working_owner()
    frozen.turn(0.0)
    twin.commit("T1")
    successor = twin.working_owner()
    finish(successor)
    calls = len(twin.calls)
    with pytest.raises(OutcomeLostError, match="somebody else"):
        finish(frozen)
    assert "write" not in twin.calls[calls:]
    assert twin.values() == [b"value"]


def test_marks_that_a_replay_reads_are_no_sign_of_anybody() -> None:
    twin = Twin()
    for n in range(5):
        twin.half(f"T{n}")
    twin.commit("T0", "T1", "T2")
    finish(twin.working_owner())
    twin.kafka.store_position(twin.kafka.half_topic, 0, 0)
    twin.kafka.store_position(twin.kafka.op_topic, 0, 0)
    owner = twin.working_owner()
    twin.commit("T3", "T4")
    finish(owner)
    assert twin.values() == [b"value"] * 5


def test_copies_that_somebody_else_has_appended_are_noticed_before_anything_is_asked() -> None:
    rules = check_rules(immunity_ms=1_000, interval_ms=60_000, jitter=0.0)
    twin = Twin(limits=owner_limits(check_rules=rules))
    twin.gate.room = 5
    twin.half("T1")
    frozen = twin.working_owner()
    turn_until_idle(frozen)
    successor = twin.working_owner()
    for _ in range(5):
        twin.clock.advance(1)
        turn_until_idle(successor)
    assert [check.number for check in twin.gate.sent] == [1]
    with pytest.raises(OutcomeLostError, match="somebody else"):
        turn_until_idle(frozen)
    assert [check.number for check in twin.gate.sent] == [1]


def test_a_producer_that_is_suspect_while_idle_is_replaced() -> None:
    twin = Twin()
    writer = _Suspicious(twin.kafka, twin.calls)
    owner = twin.working_owner(writer=writer)
    turn_until_idle(owner)
    assert twin.calls.count("fence") == 1
    writer.is_suspect = True
    turn_until_idle(owner)
    assert twin.calls.count("fence") == 2
    assert twin.observer.of("producer_recycled") == [(0,)]


class _Suspicious(RecordingWriter):
    is_suspect = False

    def idle(self) -> bool:
        found, self.is_suspect = self.is_suspect, False
        return found
