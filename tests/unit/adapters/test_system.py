"""The real clock and real ids."""

from halfhitch.adapters.system import SystemClock, new_transaction_id


def test_the_wall_clock_counts_milliseconds_and_the_other_one_never_runs_backwards() -> None:
    clock = SystemClock()
    before_s, before_ms = clock.monotonic_s(), clock.wall_ms()
    after_s, after_ms = clock.monotonic_s(), clock.wall_ms()
    assert before_s <= after_s
    assert abs(after_ms - before_ms) < 86_400_000
    assert 1_600_000_000_000 < before_ms < 10_000_000_000_000


def test_ids_are_32_hexadecimal_digits_and_never_the_same() -> None:
    made = [new_transaction_id() for _ in range(1_000)]
    assert len(set(made)) == 1_000
    assert all(len(text) == 32 and int(text, 16) >= 0 for text in made)
