"""The memory of the finished: what is remembered, for how long, and from where it is rebuilt."""

import pytest

from halfhitch.core.finished import Finished
from halfhitch.core.model import GIVEN_UP, PARKED, ROLLED_BACK, OpOffset, ProducerGroup, TimestampMs
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


def test_what_a_transaction_said_is_remembered_by_index() -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    memory.advance(TimestampMs(0), OpOffset(0))
    memory.remember(identity_of("T1"), 2, (7, 8))
    memory.remember(identity_of("T2"), 1)
    assert [memory.digest(identity_of("T1"), index) for index in range(3)] == [7, 8, 0]
    assert memory.digests(identity_of("T1")) == (7, 8)
    assert memory.digests(identity_of("T2")) == ()
    assert len(memory) == 3, "a transaction counts by its messages"


@pytest.mark.parametrize("apart_ms", [0, 500])
def test_a_mark_that_says_nothing_takes_away_nothing_that_was_said(apart_ms: int) -> None:
    """A late copy was marked by an owner of an older release."""
    memory = Finished(horizon_ms=1_000, count_max=30)
    memory.advance(TimestampMs(0), OpOffset(0))
    memory.remember(identity_of("T1"), 1, (7,))
    remember(memory, "T1", apart_ms, 1)
    assert (memory.ending(identity_of("T1")), memory.digests(identity_of("T1"))) == (1, (7,))


def test_one_that_was_put_back_and_has_ended_counts_again() -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    remember(memory, "T1", 0, 0, PARKED)
    memory.forget(identity_of("T1"))
    assert len(memory) == 0
    remember(memory, "T1", 0, 1, 2)
    assert (len(memory), memory.ending(identity_of("T1"))) == (1, 2)


def test_an_empty_memory_knows_nothing_and_needs_no_replay() -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    assert memory.ending(identity_of("T1")) is None
    assert memory.first_op_offset is None
    assert len(memory) == 0


def test_the_same_id_in_another_group_is_another_transaction() -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    remember(memory, "T1", 0, 0)
    assert memory.ending((ProducerGroup("payments"), identity_of("T1")[1])) is None


@pytest.mark.parametrize("before", [GIVEN_UP, PARKED])
@pytest.mark.parametrize("after", [GIVEN_UP, PARKED, ROLLED_BACK, 1])
def test_a_mark_read_twice_is_one_memory_and_the_last_word_counts(before: int, after: int) -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    remember(memory, "T1", 0, 0, before)
    remember(memory, "T1", 0, 1, after)
    assert len(memory) == 1
    assert memory.ending(identity_of("T1")) == after


@pytest.mark.parametrize("apart_ms", [0, 500])
@pytest.mark.parametrize("before", [ROLLED_BACK, 1, 7])
@pytest.mark.parametrize("after", [GIVEN_UP, PARKED])
def test_that_it_was_parked_in_a_former_life_does_not_undo_how_it_ended(
    before: int, after: int, apart_ms: int
) -> None:
    """The mark of a copy that was very late comes behind the mark of the present life."""
    memory = Finished(horizon_ms=1_000, count_max=30)
    remember(memory, "T1", 0, 0, before)
    remember(memory, "T1", apart_ms, 1, after)
    assert memory.ending(identity_of("T1")) == before


@pytest.mark.parametrize("apart_ms", [0, 500])
def test_one_that_is_put_back_is_forgotten_in_every_generation(apart_ms: int) -> None:
    memory = Finished(horizon_ms=1_000, count_max=30)
    remember(memory, "T1", 0, 0, PARKED)
    remember(memory, "T2", 0, 1, PARKED)
    remember(memory, "T1", apart_ms, 2, PARKED)
    memory.forget(identity_of("T1"))
    memory.forget(identity_of("T1"))
    memory.forget((ProducerGroup("payments"), identity_of("T1")[1]))
    assert memory.ending(identity_of("T1")) is None
    assert memory.ending(identity_of("T2")) == PARKED
    assert len(memory) == 1


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
    remember(memory, "T1", 0, 0, PARKED)
    remember(memory, "T1", 500, 1, 2)
    assert memory.ending(identity_of("T1")) == 2


def test_the_smallest_memory_still_keeps_the_last_one() -> None:
    memory = Finished(horizon_ms=0, count_max=0)
    for place in range(5):
        remember(memory, f"T{place}", place, place)
        assert memory.ending(identity_of(f"T{place}")) == 1
    assert len(memory) == 3
