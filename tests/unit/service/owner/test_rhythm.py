"""Owners of one process hear of each other; what is long ago, or awaited, is left out."""

from __future__ import annotations

from halfhitch.service.owner.rhythm import WINDOW_S, Rhythm


def test_owners_and_their_transactions_are_counted_for_a_moment() -> None:
    rhythm = Rhythm()
    assert rhythm.stepped(0, 10, 0.01) == (1, 10)
    assert rhythm.stepped(1, 5, 0.02) == (2, 15)
    assert rhythm.stepped(1, 5, 0.03) == (2, 20)


def test_a_window_that_has_just_begun_is_not_taken_for_a_quiet_one() -> None:
    rhythm = Rhythm()
    rhythm.stepped(0, 10, 0.01)
    rhythm.stepped(1, 10, 0.02)
    assert rhythm.stepped(0, 1, 0.01 + WINDOW_S) == (2, 20)
    assert rhythm.stepped(0, 1, 0.01 + 2 * WINDOW_S) == (1, 1)


def test_what_was_done_before_a_pause_counts_no_more() -> None:
    rhythm = Rhythm()
    rhythm.stepped(0, 10, 0.01)
    rhythm.stepped(1, 10, 0.02)
    assert rhythm.stepped(0, 1, 1.0) == (1, 1)


def test_an_owner_that_somebody_waits_for_works_by_itself() -> None:
    rhythm = Rhythm(lambda partition: partition == 1)
    rhythm.stepped(0, 100, 0.01)
    assert rhythm.stepped(1, 100, 0.01) == (1, 100)
    assert rhythm.stepped(2, 1, 0.01) == (3, 201)
