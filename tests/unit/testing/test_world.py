"""What the coordinator in memory is made of, where it is not what is shipped."""

from __future__ import annotations

import pytest

from halfhitch.core.model import ProducerGroup, Resolution
from halfhitch.errors import TransactionGone
from halfhitch.testing.world import AskedCheck, Gate, OpLog
from harness.twin import GROUP, Twin, identity, turn_until_idle


class DeskThatCounts:
    """What the gate stands before."""

    def __init__(self):
        self.calls = []

    def take(self, producer_group, wanted_count):
        self.calls.append(("take", producer_group, wanted_count))
        return wanted_count

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


def test_a_gate_that_is_shut_lets_nobody_be_asked():
    desk = DeskThatCounts()
    gate = Gate(desk)
    group = ProducerGroup(GROUP)
    assert gate.take(group, 3) == 3
    gate.is_shut = True
    assert gate.take(group, 3) == 0
    assert desk.calls == [("take", group, 3)]


def test_everything_else_goes_through_the_gate():
    desk = DeskThatCounts()
    gate = Gate(desk)
    gate.give_back(ProducerGroup(GROUP), 2)
    gate.forget([identity("t-1")])
    gate.decide(0, identity("t-1"), Resolution.ROLLBACK, 1, (7,), "too old")
    gate.send([])
    assert [call[0] for call in desk.calls] == ["give_back", "forget", "decide", "send"]
    assert gate.asked == []
    assert AskedCheck("t-1", GROUP, 1).number == 1


async def test_the_op_log_tells_what_was_decided_first_and_whether_it_is_done():
    twin = Twin()
    log = OpLog(twin.kafka)
    half_offset = twin.half("t-1")
    assert await log.look_up(0, identity("t-1"), half_offset) == (None, False)
    twin.commit("t-1")
    twin.roll_back("t-1")
    assert await log.look_up(0, identity("t-1"), half_offset) == (Resolution.COMMIT, False)
    assert await log.look_up(0, identity("t-2"), half_offset) == (None, False)
    turn_until_idle(twin.working_owner())
    assert await log.look_up(0, identity("t-1"), half_offset) == (Resolution.COMMIT, True)


async def test_what_lies_below_the_log_is_gone_and_not_undecided():
    twin = Twin()
    half_offset = twin.half("t-1")
    twin.half("t-2")
    twin.kafka.delete_below(twin.kafka.half_topic, 0, half_offset + 1)
    with pytest.raises(TransactionGone):
        await OpLog(twin.kafka).look_up(0, identity("t-1"), half_offset)
