"""The halves of a transaction: where they lie, and what they say."""

from typing import Any

from halfhitch.core.halves import Halves

ONE, OTHER = 11, 12


def take(halves: Halves, index: int, half_offset: Any, **more: Any) -> int:
    return halves.take(index, half_offset, 100, **more)


def test_messages_stand_by_index_in_whatever_order_they_were_read() -> None:
    halves = Halves()
    for index, half_offset in ((2, 7), (0, 9), (1, 8)):
        assert take(halves, index, half_offset) == -1
    assert halves.messages() == [(0, 9), (1, 8), (2, 7)]
    assert (halves.message_count, halves.size_bytes) == (3, 300)


def test_a_repeated_prepare_is_a_copy_and_collapses_to_the_first() -> None:
    halves = Halves()
    take(halves, 0, 5, digest=ONE)
    assert take(halves, 0, 6, digest=ONE) == -1
    assert (halves.messages(), halves.size_bytes) == ([(0, 5)], 100)
    assert sorted(halves.half_offsets()) == [5, 6]
    assert list(halves.indexed_halves()) == [(0, 5), (0, 6)]


def test_another_message_under_the_same_index_is_given_back_to_be_marked() -> None:
    halves = Halves()
    take(halves, 0, 5, digest=ONE)
    assert take(halves, 0, 6, digest=OTHER) == 6
    assert halves.messages() == [(0, 5)]
    assert halves.digest_of(0) == ONE


def test_what_is_appended_anew_makes_the_older_one_its_copy() -> None:
    halves = Halves()
    take(halves, 1, 5, digest=ONE)
    assert take(halves, 1, 9, supersedes=True, digest=ONE) == -1
    assert halves.messages() == [(1, 9)]
    assert halves.copies == [5]
    assert halves.size_bytes == 100


def test_a_copy_that_says_something_else_than_what_was_read_gives_that_back() -> None:
    """A replay may meet the other message first, and then the copy of the one before it."""
    halves = Halves()
    take(halves, 0, 5, digest=OTHER)
    assert take(halves, 0, 9, supersedes=True, digest=ONE) == 5
    assert halves.digest_of(0) == ONE


def test_a_digest_that_is_not_known_differs_from_nothing() -> None:
    halves = Halves()
    take(halves, 0, 5)
    assert halves.says(0, ONE)
    assert take(halves, 0, 6, digest=OTHER) == -1
    assert halves.digests == ()
    take(halves, 2, 7, digest=ONE)
    assert halves.digests == (0, 0, ONE)


def test_a_half_that_needs_nothing_more_is_dropped_wherever_it_stands() -> None:
    halves = Halves()
    for index, half_offset in ((0, 1), (0, 2), (1, 3), (2, 4)):
        take(halves, index, half_offset)
    for half_offset in (1, 2, 3):
        halves.drop(half_offset)  # type: ignore[arg-type]
    assert halves.half_offsets() == [4]
    assert halves.message_count == 1
