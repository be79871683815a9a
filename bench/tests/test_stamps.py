"""A message must be known again at the consumer, and a tally must survive its file."""

from __future__ import annotations

from bench import stamps
from bench.watcher import Seen


def test_a_body_has_its_full_size_and_tells_cell_and_number():
    body = stamps.body(7, 123_456_789)
    assert len(body) == stamps.BODY_BYTES
    assert stamps.read_stamp(body) == (7, 123_456_789)


def test_every_other_orphan_is_to_be_committed_and_those_are_numbered_without_gaps():
    orphans = [stamps.orphan(7, number) for number in range(5)]
    assert [stamps.is_dropped(orphan) for orphan in orphans] == [False, True, False, True, False]
    kept = [stamps.read_stamp(orphan) for orphan in orphans[::2]]
    assert kept == [(7, 0), (7, 1), (7, 2)]
    assert all(stamps.read_stamp(orphan)[0] != 7 for orphan in orphans[1::2])


def test_a_tally_keeps_times_by_transaction_whatever_the_order_of_answers(tmp_path):
    tally = stamps.Tally()
    first, second = tally.begin(), tally.begin()
    tally.prepared(second, 0.2)
    tally.committed(second, 0.4, 20.0)
    tally.prepared(first, 0.1)
    tally.committed(first, 0.3, 10.0)
    assert tally.save(tmp_path / "tally") == 2
    loaded = stamps.Tally.load(tmp_path / "tally")
    assert list(loaded.prepare_s) == [0.1, 0.2]
    assert list(loaded.commit_s) == [0.3, 0.4]
    assert list(loaded.acknowledged_at_s) == [10.0, 20.0]


def test_a_message_that_comes_twice_is_counted_and_keeps_its_first_arrival():
    seen = Seen()
    seen.note(5_000, 1.5)
    seen.note(0, 2.5)
    seen.note(5_000, 3.5)
    assert (seen.distinct_count, seen.doubled_count) == (2, 1)
    assert (seen.arrived_at_s[5_000], seen.arrived_at_s[0]) == (1.5, 2.5)


def test_a_body_is_as_large_as_asked_and_is_known_again() -> None:
    for size_bytes in (102, stamps.BODY_BYTES, 1_024_000):
        body = stamps.body(7, 31, size_bytes)
        assert len(body) == size_bytes
        assert stamps.read_stamp(body) == (7, 31)
