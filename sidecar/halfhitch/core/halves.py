"""The halves of a transaction: where they lie, and what they say as far as digests tell it.

A digest (see wire/digest.py) of 0 is not known: an older release took the message. It differs from
nothing, and what came first stands: nothing is learned from halves that have collapsed to it.
"""

from collections.abc import Iterator
from typing import Final

from halfhitch.core.model import HalfOffset

NO_OFFSET: Final = HalfOffset(-1)
#: Each of these numbers is in memory once, however many transactions have it.
_SMALL_MAX: Final = 8_192
_SMALL: Final = tuple(range(_SMALL_MAX))


class Halves:
    """By index. Slotted: there may be a million of them.

    `first` is the half offset of index 0 (-1: not read) and `digest` says what it is; further
    indexes and duplicate copies are rare and cost a container only where they occur.
    """

    __slots__ = ("copies", "digest", "first", "further", "further_digests", "size_bytes")

    def __init__(self) -> None:
        self.first = NO_OFFSET
        self.further: dict[int, HalfOffset] | None = None
        self.copies: list[HalfOffset] | None = None
        self.size_bytes = 0
        self.digest = 0
        self.further_digests: dict[int, int] | None = None

    def take(
        self,
        index: int,
        half_offset: HalfOffset,
        size_bytes: int,
        *,
        supersedes: bool = False,
        digest: int = 0,
    ) -> HalfOffset:
        """Add a half. A second one of the same index is a copy and collapses to the first.

        Not so one that `supersedes`: it was appended anew, and the older ones are its copies. Gives
        a half that is no copy, for it says something else, and needs no more than a mark; -1: none.
        """
        is_same = self.says(index, digest)
        before = self.first if index == 0 else (self.further or {}).get(index, NO_OFFSET)
        if not supersedes and (before >= 0 or not is_same):
            self._add_copy(half_offset)
            return NO_OFFSET if is_same else half_offset
        if before >= 0:
            self._add_copy(before)
        else:
            size_bytes += self.size_bytes
            self.size_bytes = _SMALL[size_bytes] if size_bytes < _SMALL_MAX else size_bytes
        self.learn(index, digest)
        if index == 0:
            self.first = half_offset
        else:
            if self.further is None:
                self.further = {}
            self.further[index] = half_offset
        # A replay may meet the other message first, and then the copy of the one before it.
        return NO_OFFSET if is_same else before

    def _add_copy(self, half_offset: HalfOffset) -> None:
        if self.copies is None:
            self.copies = []
        self.copies.append(half_offset)

    def drop(self, half_offset: HalfOffset) -> None:
        """This half needs nothing more, while the transaction goes on."""
        if self.first == half_offset:
            self.first = NO_OFFSET
        elif self.copies is not None and half_offset in self.copies:
            self.copies.remove(half_offset)
        elif self.further is not None:
            self.further = {i: o for i, o in self.further.items() if o != half_offset}

    def messages(self) -> list[tuple[int, HalfOffset]]:
        """Index and half offset of every message that was read, by index; no duplicate copies."""
        result = [(0, self.first)] if self.first >= 0 else []
        return result + sorted((self.further or {}).items())

    def half_offsets(self) -> list[HalfOffset]:
        """All half offsets, copies included."""
        result = [self.first] if self.first >= 0 else []
        if self.further is not None:
            result.extend(self.further.values())
        if self.copies is not None:
            result.extend(self.copies)
        return result

    def indexed_halves(self) -> Iterator[tuple[int, HalfOffset]]:
        """All half offsets with their index; copies count as index 0, which is always covered."""
        if self.first >= 0:
            yield 0, self.first
        yield from (self.further or {}).items()
        for half_offset in self.copies or ():
            yield 0, half_offset

    @property
    def message_count(self) -> int:
        """Distinct messages read so far."""
        return (self.first >= 0) + len(self.further or ())

    # -- what they say ---------------------------------------------------------------------------

    def says(self, index: int, digest: int) -> bool:
        """Whether a half with this digest is, as far as can be known, the message of this index."""
        known = self.digest_of(index)
        return not known or not digest or digest == known

    def learn(self, index: int, digest: int) -> None:
        """This is the message of this index; 0 leaves what is known."""
        if not digest:
            return
        if index == 0:
            self.digest = digest
            return
        if self.further_digests is None:
            self.further_digests = {}
        self.further_digests[index] = digest

    def digest_of(self, index: int) -> int:
        """Of the message of this index; 0 when it is not known."""
        return self.digest if index == 0 else (self.further_digests or {}).get(index, 0)

    @property
    def digests(self) -> tuple[int, ...]:
        """By index, those that are not known as 0."""
        further = self.further_digests
        if further is None:
            return (self.digest,) if self.digest else ()
        return (self.digest, *(further.get(index, 0) for index in range(1, max(further) + 1)))
