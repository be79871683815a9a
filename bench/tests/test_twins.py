"""What `make bench-compiled` measures takes place."""

from __future__ import annotations

from bench.twins.owner import owner_us


def test_the_owners_part_reads_its_own_done_marks_and_forwards_everything() -> None:
    # It once read op records as they were before done marks had a key, and measured nothing.
    silent, telling = owner_us(600).values()
    assert min(silent, telling) > 0
