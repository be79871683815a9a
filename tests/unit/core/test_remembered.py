"""The compact map: what is put in is found again, by whoever asks, and nothing else is."""

import tracemalloc
from threading import Thread

from halfhitch.core.model import Identity, ProducerGroup, TransactionId
from halfhitch.core.remembered import Remembered, hash_of
from harness.ledger_script import identity_of

COUNT = 20_000


def put(entries: Remembered, identity: Identity, number: int, digest: int) -> int | None:
    return entries.put(hash_of(identity), identity, number, digest)


def find(entries: Remembered, identity: Identity) -> int:
    return entries.find(hash_of(identity), identity)


def numbered(number: int) -> Identity:
    return identity_of(f"{number:032x}")


def test_what_is_put_in_is_found_and_what_is_not_is_not() -> None:
    entries = Remembered()
    for number in range(COUNT):
        assert put(entries, numbered(number), number % 900, number + 1) is None
    assert len(entries) == COUNT
    for number in range(COUNT):
        entry = find(entries, numbered(number))
        assert entries.number(entry) == number % 900
        assert entries.digest(entry) == number + 1
    assert all(find(entries, numbered(COUNT + number)) == -1 for number in range(COUNT))


def test_index_and_group_are_part_of_what_is_known() -> None:
    entries = Remembered()
    one = identity_of("T1")
    put(entries, one, 1, 7)
    entries.put(hash_of(one, 1), one, 1, 8)
    put(entries, (ProducerGroup("other"), TransactionId("T1")), 1, 9)
    found = [entries.digest(entries.find(hash_of(one, index), one)) for index in (0, 1)]
    assert (found, entries.find(hash_of(one, 2), one), len(entries)) == ([7, 8], -1, 3)


def test_an_entry_is_changed_in_place_and_no_digest_leaves_the_one_that_is_known() -> None:
    entries = Remembered()
    put(entries, identity_of("T1"), -2, 2**64 - 1)
    assert put(entries, identity_of("T1"), 1_000, 0) == -2
    entry = find(entries, identity_of("T1"))
    assert (entries.number(entry), entries.digest(entry), len(entries)) == (1_000, 2**64 - 1, 1)
    put(entries, identity_of("T1"), 1, 5)
    assert entries.digest(entry) == 5
    entries.forget_digest(entry)
    assert entries.digest(entry) == 0


def test_an_id_that_no_text_can_hold_is_known_too() -> None:
    odd = identity_of("\ud800")
    entries = Remembered()
    put(entries, odd, 1, 0)
    assert find(entries, odd) == 0


def test_two_ids_of_one_hash_are_told_apart() -> None:
    """Else the new one would be taken for a late copy of the finished one, and dropped."""
    entries = Remembered()
    for number in range(5):
        entries.put(12, numbered(number), number, 0)
    found = [entries.number(entries.find(12, numbered(number))) for number in range(5)]
    assert found == [0, 1, 2, 3, 4]
    assert entries.find(12, numbered(5)) == -1


def test_another_thread_finds_all_that_was_there_while_the_map_grows() -> None:
    entries = Remembered()
    wrong: list[int] = []
    is_over = False

    def look() -> None:
        while not is_over:
            known = len(entries)
            number = known // 2
            entry = find(entries, numbered(number)) if known else 0
            if entry < 0 or (known and entries.digest(entry) != number + 1):
                wrong.append(number)

    reader = Thread(target=look)
    reader.start()
    for number in range(COUNT):
        put(entries, numbered(number), 1, number + 1)
    is_over = True
    reader.join(10.0)
    assert wrong == []


def test_a_million_take_less_than_fifty_megabytes() -> None:
    """README says so of each entry; measured with a twentieth."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    entries = Remembered()
    for number in range(50_000):
        put(entries, numbered(number), 1, number)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    each_bytes = (after - before) / len(entries)
    print(f"{each_bytes:.1f} bytes an entry")
    assert each_bytes < 50
