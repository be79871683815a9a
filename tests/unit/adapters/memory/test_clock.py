"""A clock that stands still until a test moves it."""

from halfhitch.adapters.memory.clock import MemoryClock


def test_it_stands_still() -> None:
    clock = MemoryClock(5_000)
    assert clock.wall_ms() == clock.wall_ms() == 5_000
    assert clock.monotonic_s() == clock.monotonic_s()


def test_time_that_passes_moves_both_hands_and_a_jump_only_the_wall_clock() -> None:
    clock = MemoryClock(5_000)
    began_s = clock.monotonic_s()
    clock.advance(1.5)
    assert (clock.wall_ms(), clock.monotonic_s() - began_s) == (6_500, 1.5)
    clock.jump(-3)
    assert (clock.wall_ms(), clock.monotonic_s() - began_s) == (3_500, 1.5)
