"""What comes after the end: a mark for each copy, one mark for all who ask again."""

from halfhitch.core.late import LateMarks
from halfhitch.core.model import ROLLED_BACK, DoneRead, HalfOffset, OpOffset, TimestampMs
from halfhitch.core.ready import Ready
from halfhitch.core.transaction import State, Trigger
from halfhitch.core.watermarks import Watermarks
from harness.ledger_script import identity_of


def mark_of(name: str, ending: int) -> DoneRead:
    return DoneRead(OpOffset(50), TimestampMs(0), identity_of(name), ending, ())


class World:
    def __init__(self) -> None:
        self.ready = Ready()
        self.watermarks = Watermarks(100, 50)
        self.late = LateMarks(self.ready, self.watermarks)

    def op_watermark(self) -> int:
        return self.watermarks.after_step(OpOffset(40), [])[1]


def test_a_late_copy_becomes_a_mark_with_the_ending_and_no_resolution() -> None:
    world = World()
    mark = world.late.copy(identity_of("T1"), 2, 1, HalfOffset(30), OpOffset(20))
    assert list(world.ready) == [mark]
    assert mark.state is State.READY
    assert mark.resolution is None
    assert mark.ending == 2
    assert mark.half_offsets() == [30]
    assert mark.size_bytes == 0, "nothing of it is forwarded"
    assert world.op_watermark() == 20


def test_two_copies_are_two_marks() -> None:
    world = World()
    for half_offset in (30, 31):
        world.late.copy(identity_of("T1"), 1, 0, HalfOffset(half_offset), OpOffset(20))
    assert [mark.half_offsets() for mark in world.ready] == [[30], [31]]


def test_one_mark_answers_all_who_ask_before_it_is_read() -> None:
    world = World()
    world.late.repeat(identity_of("T1"), ROLLED_BACK, OpOffset(45))
    world.late.repeat(identity_of("T1"), ROLLED_BACK, OpOffset(46))
    world.late.repeat(identity_of("T2"), 1, OpOffset(47))
    assert [(mark.identity[1], mark.ending) for mark in world.ready] == [
        ("T1", ROLLED_BACK),
        ("T2", 1),
    ]
    assert [mark.half_offsets() for mark in world.ready] == [[], []]


def test_whoever_asks_after_the_mark_was_read_gets_another() -> None:
    world = World()
    world.late.repeat(identity_of("T1"), 1, OpOffset(45))
    world.late.done_read(mark_of("T1", 1))
    assert next(iter(world.ready)).state is State.FINISHED
    world.late.repeat(identity_of("T1"), 1, OpOffset(46))
    assert [mark.state for mark in world.ready] == [State.FINISHED, State.READY]


def test_a_mark_read_that_nobody_asked_for_changes_nothing() -> None:
    world = World()
    world.late.done_read(mark_of("T1", 1))
    assert not world.ready


def test_a_question_is_read_again_by_a_replay_until_it_is_answered() -> None:
    world = World()
    world.late.repeat(identity_of("T1"), 1, OpOffset(39))
    mark = next(iter(world.ready))
    for trigger in (Trigger.PLANNED, Trigger.CONFIRMED):
        assert world.op_watermark() == 39
        mark.move(trigger)
    assert world.op_watermark() == 39
    world.late.done_read(mark_of("T1", 1))
    assert world.op_watermark() == 40
