"""The memory of the finished: what is remembered, for how long, and from where it is rebuilt."""

from halfhitch.core.finished import Finished
from halfhitch.core.model import PARKED, ROLLED_BACK, OpOffset, ProducerGroup, TimestampMs
from harness.ledger_script import identity_of


def remember(memory: Finished, name: str, at_ms: int, op_offset: int, ending: int = 1) -> None:
    memory.advance(TimestampMs(at_ms), OpOffset(op_offset))
    memory.remember(identity_of(name), ending)


def test_what_ended_is_remembered_with_how_it_ended() -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    remember(memory, "T1", 0, 0, 3)
    remember(memory, "T2", 0, 1, ROLLED_BACK)
    remember(memory, "T3", 0, 2, PARKED)
    endings = [memory.ending(identity_of(name)) for name in ("T1", "T2", "T3", "T4")]
    assert endings == [3, ROLLED_BACK, PARKED, None]
    assert len(memory) == 3


def test_an_empty_memory_knows_nothing_and_needs_no_replay() -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    assert memory.ending(identity_of("T1")) is None
    assert memory.first_op_offset is None
    assert len(memory) == 0


def test_the_same_id_in_another_group_is_another_transaction() -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    remember(memory, "T1", 0, 0)
    assert memory.ending((ProducerGroup("payments"), identity_of("T1")[1])) is None


def test_a_mark_read_twice_is_one_memory_and_the_last_word_counts() -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    remember(memory, "T1", 0, 0, 1)
    remember(memory, "T1", 0, 1, PARKED)
    assert len(memory) == 1
    assert memory.ending(identity_of("T1")) == PARKED


def test_everything_is_remembered_for_the_whole_horizon() -> None:
    memory = Finished(horizon_ms=1_000, count_max=3_000)
    remember(memory, "T1", 0, 0)
    for at_ms in range(1, 1_001):
        memory.advance(TimestampMs(at_ms), OpOffset(at_ms))
        assert memory.ending(identity_of("T1")) == 1, at_ms


def test_after_the_horizon_the_oldest_generation_goes_and_replay_may_begin_later() -> None:
    memory = Finished(horizon_ms=1_000, count_max=3_000)
    for place in range(4):
        assert memory.first_op_offset in (None, 0)
        remember(memory, f"T{place}", 500 * place, 10 * place)
    assert memory.ending(identity_of("T0")) is None
    assert [memory.ending(identity_of(f"T{n}")) for n in (1, 2, 3)] == [1, 1, 1]
    assert memory.first_op_offset == 10


def test_a_full_generation_rolls_over_before_its_time() -> None:
    memory = Finished(horizon_ms=900_000, count_max=6)
    for place in range(7):
        remember(memory, f"T{place}", 0, place)
    known = [place for place in range(7) if memory.ending(identity_of(f"T{place}")) is not None]
    assert known == [2, 3, 4, 5, 6]
    assert memory.first_op_offset == 2
    assert len(memory) == 5


def test_the_newest_ending_counts_when_two_generations_hold_one() -> None:
    memory = Finished(horizon_ms=1_000, count_max=3_000)
    remember(memory, "T1", 0, 0, 2)
    remember(memory, "T1", 500, 1, PARKED)
    assert memory.ending(identity_of("T1")) == PARKED


def test_the_smallest_memory_still_keeps_the_last_one() -> None:
    memory = Finished(horizon_ms=0, count_max=0)
    for place in range(5):
        remember(memory, f"T{place}", place, place)
        assert memory.ending(identity_of(f"T{place}")) == 1
    assert len(memory) == 3
