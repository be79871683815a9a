"""The owner reads two logs, and either may be ahead: commits keep their order all the same."""

from __future__ import annotations

from harness.twin import BlindReader, Twin, identity
from harness.twin import turn_until_idle as finish


def test_commits_keep_their_order_when_the_op_log_is_read_ahead_of_the_half_log() -> None:
    twin = Twin()
    reader = BlindReader(twin.kafka, twin.calls)
    owner = twin.working_owner(reader=reader)
    twin.half("second", value=b"second")
    finish(owner)
    reader.set_blind(blind=True)
    twin.half("first", value=b"first")
    twin.commit("first", hints=[1])
    twin.commit("second", hints=[0])
    finish(owner)
    assert twin.written_values() == []
    reader.set_blind(blind=False)
    finish(owner)
    assert twin.values() == [b"first", b"second"]


def test_commits_keep_their_order_while_a_copy_made_for_a_check_is_not_read_back() -> None:
    twin = Twin()
    twin.gate.room = 10
    reader = BlindReader(twin.kafka, twin.calls)
    owner = twin.working_owner(reader=reader)
    twin.half("first", value=b"first")
    finish(owner)
    twin.clock.advance(4.0)
    twin.half("second", value=b"second")
    finish(owner)
    twin.clock.advance(4.0)
    reader.set_blind(blind=True)
    finish(owner)
    assert [check.identity for check in twin.gate.sent] == [identity("first")]
    twin.commit("first", hints=[0])
    twin.commit("second", hints=[1])
    finish(owner)
    reader.set_blind(blind=False)
    finish(owner)
    assert twin.values() == [b"first", b"second"]


def test_a_hint_beyond_the_end_of_the_half_log_holds_nothing_up() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    twin.commit("nobody", hints=[10**12])
    twin.commit("T1", hints=[0])
    finish(owner)
    assert twin.values() == [b"value"]


def test_a_hint_at_a_marker_in_the_half_log_holds_nothing_up() -> None:
    twin = Twin()
    owner = twin.working_owner()
    twin.half("T1")
    stranger = twin.kafka.begin("stranger", twin.kafka.init_producer("stranger"))
    twin.kafka.append(twin.kafka.half_topic, 0, None, b"x", [], stranger)
    twin.kafka.abort(stranger)
    twin.commit("nobody", hints=[2])
    twin.commit("T1", hints=[0])
    finish(owner)
    assert twin.values() == [b"value"]


def test_while_halves_cannot_be_read_the_op_log_is_not_read_into_memory() -> None:
    twin = Twin()
    reader = BlindReader(twin.kafka, twin.calls, read_max=100)
    owner = twin.working_owner(reader=reader)
    reader.set_blind(blind=True)
    twin.half("T1")
    for _ in range(2_000):
        twin.commit("T1", hints=[0])
    for _ in range(50):
        owner.turn(0.0)
    assert reader.op_position <= 1_000
    reader.set_blind(blind=False)
    finish(owner)
    assert twin.values() == [b"value"]
