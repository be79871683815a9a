"""What was rolled back here a moment ago."""

from __future__ import annotations

from halfhitch.service.transactions.rolled_back import RolledBack
from harness.twin import identity


def test_a_roll_back_is_known_for_a_minute_and_forgotten_after_two() -> None:
    known = RolledBack(100.0)
    known.add(0, identity("T1"), 130.0)
    assert known.has(0, identity("T1"), 189.0)
    assert known.has(0, identity("T1"), 200.0), "it has become older"
    assert not known.has(0, identity("T2"), 200.0)
    assert not known.has(1, identity("T1"), 200.0), "another half partition"
    assert not known.has(0, identity("T1"), 261.0)


def test_nothing_of_before_a_long_pause_comes_back() -> None:
    known = RolledBack(0.0)
    known.add(0, identity("T1"), 1_000.0)
    assert not known.has(0, identity("T1"), 1_121.0)


def test_more_than_are_remembered_push_the_oldest_out() -> None:
    known = RolledBack(0.0, count_max=2)
    for number in range(5):
        known.add(0, identity(f"T{number}"), 1.0)
    assert [known.has(0, identity(f"T{number}"), 1.0) for number in range(5)] == [
        False, False, True, True, True,
    ]  # fmt: skip
