"""The judge of a soak: slots against what a fresh reader finds, and whether a process has grown.

Takes records one by one and keeps one byte of each transaction, so a million of them take little.
Pure but for reading the slots.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from chaos.kit.log_model import identity_and_index
from chaos.kit.slots import (
    ACKED,
    COMMITTED,
    FATE,
    FATE_COMMIT,
    FATE_ROLLBACK,
    LETTER,
    NO_FATE,
    ROLLED_BACK,
    SENT,
    STORED,
    Place,
    content_of,
)
from harness.partitioning import java_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from chaos.kit.readers import Seen
    from chaos.kit.slots import Book

KINDS = ("lost", "doubled", "invented", "torn", "corrupted", "misrouted")
_SHOWN_MAX = 20
_INDEXES_MAX = 4  # two bits each in a byte
_NEVER, _CONTESTED = ord("N"), ord("T")
_OWN_HEADERS = 3


class SoakJudge:
    """See the module's text. Feed `visible` and `parked`, then ask for the verdict."""

    def __init__(self, books: Iterable[Book], topics: Sequence[str], partition_count: int) -> None:
        self._books = {book.name: book for book in books}
        self._topics, self._partition_count = topics, partition_count
        #: By book: for each number, how often each of its messages was seen; and which was parked.
        self._seen = {name: bytearray(book.count + 1) for name, book in self._books.items()}
        self._parked = {name: bytearray(book.count + 1) for name, book in self._books.items()}
        self._found: dict[str, list[str]] = defaultdict(list)
        self.found_counts: Counter[str] = Counter()
        self.counters: Counter[str] = Counter()

    @property
    def examples(self) -> dict[str, list[str]]:
        """Some sentences of each kind."""
        return dict(self._found)

    def _say(self, kind: str, sentence: str) -> None:
        self.found_counts[kind] += 1
        if len(self._found[kind]) < _SHOWN_MAX:
            self._found[kind].append(sentence)

    def visible(self, seen: Seen) -> None:
        """A record that the fresh reader of committed records found on a target."""
        self.counters["records"] += 1
        found = identity_and_index(seen.headers)
        place = None if found is None else Place.of(found[0][1])
        if found is None or place is None or not self._is_known(place, found[1]):
            self._say("invented", f"{seen.place} is of nobody's sending: {found}")
            return
        (_, transaction_id), index = found
        counts, shift = self._seen[place.book], 2 * index
        times = (counts[place.number] >> shift & 3) + 1
        if times > 1:
            self._say("doubled", f"{transaction_id} message {index} at {seen.place}, once more")
        if times < 4:
            counts[place.number] += 1 << shift
        self._compare(transaction_id, index, seen)

    def _is_known(self, place: Place, index: int) -> bool:
        book = self._books.get(place.book)
        if book is None or not 0 < place.number <= book.count or index >= _INDEXES_MAX:
            return False
        is_same = book.get(place.number, LETTER) == ord(place.letter)
        return is_same and index < book.get(place.number, SENT)

    def _compare(self, transaction_id: str, index: int, seen: Seen) -> None:
        sent = content_of(transaction_id, index, self._topics)
        where = f"{transaction_id} message {index} at {seen.place}"
        key = sent.key
        assert key is None or isinstance(key, bytes)
        at_home = key is None or java_partition(key, self._partition_count) == seen.partition
        if seen.topic != sent.topic or not at_home:
            self._say("misrouted", f"{where} was sent to {sent.topic} with key {key!r}")
        headers = [*seen.headers[:-_OWN_HEADERS]]
        if (seen.key, seen.value, headers) != (key, sent.value, sent.headers):
            self._say("corrupted", f"{where} is not what was sent")

    def parked(self, transaction_id: str, index: int) -> None:
        """A message on the parked topic, whenever it came there."""
        self.counters["parked_messages"] += 1
        place = Place.of(transaction_id)
        if place is None or not self._is_known(place, index):
            self._say("invented", f"{transaction_id} message {index} is parked, and nobody's")
            return
        self._parked[place.book][place.number] |= 1 << index

    def finish(self) -> None:
        """Every transaction, when nothing is under way any more."""
        for name, book in self._books.items():
            for number, slot in book.slots():
                self.counters["transactions"] += 1
                transaction_id = f"{name}.{number}.{chr(slot[LETTER])}"
                seen, parked = self._seen[name][number], self._parked[name][number]
                indexes = {i for i in range(_INDEXES_MAX) if seen >> (2 * i) & 3}
                self._judge(transaction_id, slot, indexes, parked)

    def _judge(self, transaction_id: str, slot: bytes, seen: set[int], parked: int) -> None:
        stored, fate = slot[STORED], slot[FATE]
        whole = set(range(stored))
        # More than was acknowledged may lie there: an application that is killed in a prepare or an
        # add never hears of what has been stored.
        acknowledged = (1 << stored) - 1
        parked_whole = stored > 0 and parked & acknowledged == acknowledged
        may_be_seen = slot[COMMITTED] > 0 if slot[LETTER] == _CONTESTED else fate == FATE_COMMIT
        if parked and parked & acknowledged != acknowledged:
            self._say("torn", f"{transaction_id}: parked in part, {stored} were stored")
        elif seen and parked:
            self._say("doubled", f"{transaction_id} is visible, and parked as well")
        elif seen and not may_be_seen:
            self._say("invented", f"{transaction_id} is visible, and nobody has committed it")
        elif seen and not whole <= seen:
            self._say("torn", f"{transaction_id}: {sorted(seen)} can be read, {stored} were stored")
        elif seen:
            self.counters["committed"] += 1
        elif slot[LETTER] == _CONTESTED:
            is_contested = slot[ROLLED_BACK] > 0 or fate == FATE_ROLLBACK
            if slot[COMMITTED] == ACKED and not is_contested and not parked:
                self._say("lost", f"{transaction_id}: its commit was the only end, it is nowhere")
            else:
                self.counters["rolled_back"] += 1
        elif fate == FATE_COMMIT and slot[COMMITTED] == ACKED:
            self._say("lost", f"{transaction_id}: its commit was acknowledged, it is nowhere")
        elif fate == FATE_COMMIT and not parked_whole:
            self._say(
                "lost", f"{transaction_id} was to be committed; it is neither there nor parked"
            )
        elif fate == NO_FATE and slot[LETTER] == _NEVER and stored and not parked_whole:
            self._say("lost", f"{transaction_id} was never answered for, and is not parked")
        else:
            self.counters["parked" if parked_whole else "rolled_back"] += 1


# -- memory and descriptors ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Growth:
    """What a process used, early and late."""

    first: float
    last: float
    samples: int
    ratio_max: float
    slack: float

    @property
    def is_flat(self) -> bool:
        """Late is no more than early, but for what any process breathes."""
        return (
            self.samples >= _SAMPLES_MIN and self.last <= self.first * self.ratio_max + self.slack
        )


_SAMPLES_MIN = 9


def growth(values: Sequence[float], *, ratio_max: float = 1.15, slack: float = 0.0) -> Growth:
    """Medians of the first and the last third. The caller leaves the warming up out."""
    third = max(1, len(values) // 3)
    first, last = median(values[:third] or [0.0]), median(values[-third:] or [0.0])
    return Growth(first, last, len(values), ratio_max, slack)
