"""Whose fault a refusal is: a target's, the parked topic's, or our own; on a Kafka in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from halfhitch.adapters.memory import MemoryPartitionWriter, WriteFault
from halfhitch.core.model import Resolution
from halfhitch.service.owner.turn import OutcomeLostError, StepFailedError
from halfhitch.service.topic_policy import TopicPolicy
from harness.defaults import owner_limits
from harness.refusals import LARGE, RULES, failures, parked, put, turns
from harness.twin import PARKED, RecordingWriter, Twin, turn_until_idle

if TYPE_CHECKING:
    pass


# -- targets ------------------------------------------------------------------------------------


def test_a_revoked_right_to_write_parks_what_is_meant_for_that_target_and_nothing_else() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.kafka.faults.forbidden = {"points"}
    put(twin, "both", "orders", "points")
    for n in range(20):
        put(twin, f"T{n}", "points" if n % 2 else "orders")
    turns(twin, owner, 2)
    assert twin.values() == [b"T%d" % n for n in range(0, 20, 2)]
    assert len(parked(twin)) == 12
    assert all("no right to write" in why for _, why in parked(twin))
    assert failures(twin) == 1


def test_what_fails_at_once_and_unexplained_again_and_again_is_found_and_put_aside() -> None:
    twin = Twin()
    owner = twin.working_owner()
    for n in range(100):
        put(twin, f"T{n}", "points" if n == 37 else "orders")
    twin.kafka.faults.unexplained = {"points"}
    turns(twin, owner, 20)
    assert twin.values() == [b"T%d" % n for n in range(100) if n != 37]
    assert owner.waiting_by_topic == {"points": 1}
    assert parked(twin) == [], "nobody has said that it will never be taken"
    twin.kafka.faults.unexplained = set()
    turns(twin, owner, 10)
    assert twin.values("points") == [b"T37"]


@pytest.mark.parametrize("large_first", [True, False])
@pytest.mark.parametrize("how", ["refused", "unexplained"])
def test_a_small_transaction_and_a_large_one_are_told_apart(how: str, large_first: bool) -> None:
    """Half of their messages are still both of them, for ever."""
    twin = Twin()
    owner = twin.working_owner()
    names = ["large", "small"] if large_first else ["small", "large"]
    for name in names:
        topics = ("orders", "orders", "points") if name == "large" else ("points",)
        put(twin, name, *topics, value=LARGE if name == "small" else b"fits")
    if how == "refused":
        twin.kafka.record_bytes_max["points"] = 1_000
    else:
        twin.kafka.faults.unexplained = {"points"}
    turns(twin, owner, 20)
    if how == "refused":
        assert [value for value, _ in parked(twin)] == [LARGE]
        assert twin.values("points") == [b"fits"]
    else:
        assert owner.waiting_by_topic["points"] == 2


def test_who_is_fenced_again_and_again_blames_no_target() -> None:
    twin = Twin()
    owner = twin.working_owner()
    put(twin, "T1", "orders")
    twin.kafka.generation += 1
    owner._writer._generation = lambda: twin.kafka.generation - 1  # type: ignore[attr-defined]
    for _ in range(20):
        with pytest.raises(StepFailedError):
            owner.turn(0.0)
    assert owner.waiting_by_topic == {}
    assert owner._forwarder.messages_max == owner._limits.batch_count_max


# -- whose limit counts ---------------------------------------------------------------------------


def test_what_another_instance_took_is_forwarded_whatever_the_owner_would_have_taken() -> None:
    twin = Twin()
    put(twin, "T1", "secret")
    twin.kafka.create_topic("secret")
    twin.policy = TopicPolicy(internal_topics=(PARKED,), allow=("orders",))
    turn_until_idle(twin.working_owner())
    assert twin.values("secret") == [b"T1"]
    assert parked(twin) == []


def test_what_can_neither_be_forwarded_nor_parked_waits_alone() -> None:
    """As where the owner's own limit is smaller than that of the instance that took it."""
    twin = Twin()
    writer = MemoryPartitionWriter(twin.kafka, record_bytes_max=1_000)
    owner = twin.working_owner(writer=writer)
    for n in range(20):
        put(twin, f"T{n}", "orders", value=LARGE if n == 7 else None)
    turns(twin, owner, 1)
    assert twin.values() == [b"T%d" % n for n in range(20) if n != 7]
    (trouble,) = owner.troubles
    assert trouble.startswith("1 transactions that can only be parked wait for " + PARKED)
    failed = failures(twin)
    assert failed <= 3
    put(twin, "later", "orders")
    turns(twin, owner, 60)
    assert twin.values()[-1] == b"later"
    assert failures(twin) - failed <= 8, "tried again ever more rarely"
    assert twin.stored()[0] == 7, "and nothing of it is lost"
    writer._record_bytes_max = None
    turns(twin, owner, 40)
    assert [value for value, _ in parked(twin)] == [LARGE]
    assert (owner.troubles, owner.waiting_by_topic) == ([], {})


# -- the parked topic ---------------------------------------------------------------------------


def test_what_the_parked_topic_does_not_take_holds_back_no_other_parking() -> None:
    twin = Twin()
    twin.kafka.record_bytes_max[PARKED] = 1_000
    owner = twin.working_owner()
    for n in range(50):
        put(twin, f"T{n}", "gone" if n % 5 == 0 else "orders", value=LARGE if n == 20 else None)
    turns(twin, owner, 2)
    assert twin.values() == [b"T%d" % n for n in range(50) if n % 5]
    assert sorted(v or b"" for v, _ in parked(twin)) == sorted(
        b"T%d" % n for n in range(0, 50, 5) if n != 20
    )
    assert owner.waiting_by_topic == {PARKED + " (does not take the message)": 1}
    put(twin, "T50", "gone")
    turns(twin, owner, 60)
    assert parked(twin)[-1][0] == b"T50"
    del twin.kafka.record_bytes_max[PARKED]
    turns(twin, owner, 40)
    assert parked(twin)[-1][0] == LARGE


@pytest.mark.parametrize("how", ["forbidden", "deleted"])
def test_a_parked_topic_that_takes_nothing_holds_back_what_must_be_parked_and_nothing_else(
    how: str,
) -> None:
    twin = Twin()
    owner = twin.working_owner()
    if how == "forbidden":
        twin.kafka.faults.forbidden = {PARKED}
    else:
        twin.kafka.delete_topic(PARKED)
    for n in range(20):
        put(twin, f"T{n}", "gone" if n % 2 else "orders")
    twin.half("P1")
    twin.decide(Resolution.PARK, "P1")
    turns(twin, owner, 1)
    assert twin.values() == [b"T%d" % n for n in range(0, 20, 2)]
    assert owner.waiting_by_topic == {PARKED: 11}
    (trouble,) = owner.troubles
    assert "11 transactions" in trouble
    assert PARKED in trouble
    failed = failures(twin)
    turns(twin, owner, 60)
    assert failures(twin) - failed <= 8
    twin.kafka.faults.forbidden = set()
    if how == "deleted":
        twin.kafka.create_topic(PARKED)
    turns(twin, owner, 40)
    assert len(parked(twin)) == 11
    assert owner.troubles == []


# -- the half and the op topic --------------------------------------------------------------------


def test_no_transaction_is_condemned_for_what_our_own_topics_refuse() -> None:
    twin = Twin(limits=owner_limits(check_rules=RULES))
    owner = twin.working_owner()
    put(twin, "T1", "orders")
    for forbidden in (twin.kafka.op_topic, twin.kafka.half_topic):
        twin.kafka.faults.forbidden = {forbidden}
        twin.half("P1")
        turns(twin, owner, 30)
    twin.kafka.faults.forbidden = set()
    turns(twin, owner, 5)
    assert twin.values() == [b"T1"]
    assert parked(twin) == []


def test_what_is_too_large_for_the_op_topic_is_written_in_smaller_steps() -> None:
    twin = Twin()
    owner = twin.working_owner()
    for n in range(100):
        put(twin, f"T{n}", "orders")
    twin.kafka.record_bytes_max[twin.kafka.op_topic] = 500
    turns(twin, owner, 10)
    assert twin.values() == [b"T%d" % n for n in range(100)]
    assert parked(twin) == []


# -- what the stored watermarks say ---------------------------------------------------------------


def test_a_step_that_was_taken_for_aborted_is_noticed_although_no_watermark_moves() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("pending")
    put(twin, "before", "orders")
    turn_until_idle(owner)
    stored = twin.stored()
    put(twin, "T1", "orders")
    twin.kafka.faults.writes = [WriteFault.COMMITTED_LATE]
    with pytest.raises(OutcomeLostError, match="taken for aborted"):
        owner.turn(0.0)
    assert twin.stored() == stored, "which is why they alone prove nothing"
    turn_until_idle(twin.working_owner())
    assert twin.values() == [b"before", b"T1"]


def test_a_stranger_that_writes_is_noticed_although_no_watermark_moves() -> None:
    twin = Twin()
    writer = RecordingWriter(twin.kafka, twin.calls)
    owner = twin.working_owner(writer=writer)
    twin.half("pending")
    put(twin, "T1", "orders")

    def overtake() -> None:
        writer.before_write = None
        turn_until_idle(twin.working_owner())

    writer.before_write = overtake
    stored = twin.stored()
    with pytest.raises(OutcomeLostError, match="somebody else"):
        owner.turn(0.0)
    assert twin.stored() == (0, 0)
    assert stored == (None, None)
    put(twin, "T2", "orders")
    turn_until_idle(owner := twin.working_owner(writer=writer))
    stored = twin.stored()
    writer.before_write = overtake
    put(twin, "T3", "orders")
    with pytest.raises(OutcomeLostError, match="somebody else"):
        owner.turn(0.0)
    assert twin.stored() == stored, "which is why they alone prove nothing"
    assert twin.values() == [b"T1", b"T2", b"T3"]
