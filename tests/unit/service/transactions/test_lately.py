"""The memory of the last minute: two generations, and what falls out of them."""

from __future__ import annotations

from halfhitch.core.remembered import hash_of
from halfhitch.service.transactions.lately import Lately
from harness.twin import identity

T1, T2 = identity("T1"), identity("T2")


def digests(lately: Lately, asked: tuple[str, str]) -> list[int]:
    return [entries.digest(entry) for entries, entry in lately.found(hash_of(asked), asked)]


def test_an_entry_lives_for_a_minute_or_two_and_the_newest_comes_first() -> None:
    lately = Lately(100.0, 10)
    lately.put(hash_of(T1), T1, 7)
    lately.forget(161.0)
    assert digests(lately, T1) == [7]
    lately.put(hash_of(T1), T1, 8)
    assert digests(lately, T1) == [8, 7]
    assert digests(lately, T2) == []
    lately.forget(222.0)
    assert digests(lately, T1) == [8]
    lately.forget(343.0)
    assert digests(lately, T1) == []


def test_a_full_generation_becomes_the_older_one_at_once() -> None:
    lately = Lately(0.0, 1)
    for asked in (T1, T2):
        lately.forget(0.0)
        lately.put(hash_of(asked), asked, 5)
    assert digests(lately, T1) == digests(lately, T2) == [5]
    lately.forget(0.0)
    assert (digests(lately, T1), digests(lately, T2)) == ([], [5])
