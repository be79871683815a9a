"""A compact map from (identity, index of a message) to a number and the message's digest.

Ids are remembered by the million, and as texts each would take 150 bytes and more. Here an entry is
known by 96 bits of it: Python's own hash of 64, which finds its place, and the CRC-32 of the id,
which is looked at only where the hash agrees. Two ids that share both would be taken for one
another; DESIGN.md says how seldom that is. An entry takes 22 bytes, its place in the table 8 to 16.

Entries are only added, or changed in place; what is old goes with the whole map. `find` may be
called from another thread than the one that writes: an entry stands complete before the table
points to it, and a table that has grown is put in place by one assignment.
"""

from array import array
from typing import Final
from zlib import crc32

from halfhitch.core.model import Identity

_HASH_BITS: Final = (1 << 64) - 1
_TABLE_MIN: Final = 1_024


def hash_of(identity: Identity, index: int = 0) -> int:
    """Where the search for an entry begins; the same for all maps."""
    return (hash(identity) if index == 0 else hash((identity, index))) & _HASH_BITS


def _check(identity: Identity) -> int:
    transaction_id = identity[1]
    try:
        raw = transaction_id.encode()  # compiled, the quick way needs this very form
    except UnicodeEncodeError:
        # What a stranger has written into a log may hold half of a surrogate pair.
        raw = transaction_id.encode(errors="surrogatepass")
    return crc32(raw)


class Remembered:
    """`count_expected`: so many take their places without the table having to grow."""

    __slots__ = ("_checks", "_digests", "_hashes", "_numbers", "_table")

    def __init__(self, count_expected: int = 0) -> None:
        self._hashes = array("Q")
        self._checks = array("I")
        self._digests = array("Q")
        self._numbers = array("h")
        # 0: free; else an entry's number, counted from 1. At least half of it is free.
        self._table = _table(max(_TABLE_MIN, 2 * count_expected))

    def __len__(self) -> int:
        return len(self._hashes)

    def put(self, hashed: int, identity: Identity, number: int, digest: int) -> int | None:
        """Add an entry or change it; a digest of 0 leaves the one that is known.

        Gives the number that was there before.
        """
        table, hashes, check = self._table, self._hashes, _check(identity)
        last = len(table) - 1
        slot = hashed & last
        while count := table[slot]:
            if hashes[count - 1] == hashed and self._checks[count - 1] == check:
                return self._change(count - 1, number, digest)
            slot = (slot + 1) & last
        self._checks.append(check)
        self._digests.append(digest)
        self._numbers.append(number)
        hashes.append(hashed)
        count = len(hashes)
        if 2 * count > len(table):
            self._grow()
        else:
            table[slot] = count
        return None

    def _change(self, entry: int, number: int, digest: int) -> int:
        before = self._numbers[entry]
        self._numbers[entry] = number
        if digest:
            self._digests[entry] = digest
        return before

    def find(self, hashed: int, identity: Identity) -> int:
        """The entry's number, from 0; -1: there is none. `hashed`: that of the identity."""
        table, hashes = self._table, self._hashes
        last = len(table) - 1
        slot = hashed & last
        while entry := table[slot]:
            if hashes[entry - 1] == hashed and self._checks[entry - 1] == _check(identity):
                return entry - 1
            slot = (slot + 1) & last
        return -1

    def number(self, entry: int) -> int:
        """Of an entry that was found."""
        return self._numbers[entry]

    def renumber(self, entry: int, number: int) -> None:
        """Change an entry that was found."""
        self._numbers[entry] = number

    def digest(self, entry: int) -> int:
        """Of an entry that was found; 0: it was not known."""
        return self._digests[entry]

    def forget_digest(self, entry: int) -> None:
        """It is not known any more."""
        self._digests[entry] = 0

    def _grow(self) -> None:
        table = _table(2 * len(self._table))
        last = len(table) - 1
        for number, hashed in enumerate(self._hashes, 1):
            slot = hashed & last
            while table[slot]:
                slot = (slot + 1) & last
            table[slot] = number
        self._table = table


def _table(size_min: int) -> "array[int]":
    size = 1 << (size_min - 1).bit_length()
    return array("I", bytes(4 * size))
