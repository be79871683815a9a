"""The ground truth of a very long run, eight bytes for each transaction.

A worker of an application process has a file of slots, one for each transaction number, and writes
into its memory: what it writes stays, however the process ends. Nothing of a message is kept, for
its content follows from the transaction's id and its index (`content_of`).

| byte | what |
|---|---|
| 0 | the local transaction's fate: 0 none, 1 COMMIT, 2 ROLLBACK |
| 1 | messages that were ever sent |
| 2 | messages whose storing was acknowledged, counted from the first |
| 3 | commit: 0 not asked for, 1 asked for, 2 acknowledged |
| 4 | roll back, likewise |
| 5 | the letter at the id's end |

Slot 0 holds the highest number instead.
"""

from __future__ import annotations

import mmap
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from halfhitch.client import Message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SLOT_BYTES: Final = 8
SLOTS_MAX: Final = 2**20
FATE, SENT, STORED, COMMITTED, ROLLED_BACK, LETTER = range(6)
NO_FATE, FATE_COMMIT, FATE_ROLLBACK = range(3)
ASKED, ACKED = 1, 2
_FATES = {"COMMIT": FATE_COMMIT, "ROLLBACK": FATE_ROLLBACK}
_FATE_NAMES = {number: name for name, number in _FATES.items()}
_SUFFIX = ".slots"
_KEYS = 40


@dataclass(frozen=True, slots=True)
class Place:
    """Where a transaction's slot is: `book` is application, life and worker."""

    book: str
    number: int
    letter: str

    @classmethod
    def of(cls, transaction_id: str) -> Place | None:
        """From an id; None when no application of ours has made it."""
        book, _, rest = transaction_id.rpartition(".")
        book, _, number = book.rpartition(".")
        if not book or not number.isdigit() or len(rest) != 1:
            return None
        return cls(book, int(number), rest)


def content_of(transaction_id: str, index: int, topics: Sequence[str]) -> Message:
    """The one message that has this index: topic, key, value and headers."""
    dice = crc32(b"%s/%d" % (transaction_id.encode(), index))
    value = b"%s/%d" % (transaction_id.encode(), index) + b" " * (dice >> 8 & 0x7F)
    key = None if dice & 0xF == 0 else b"key-%d" % (dice % _KEYS)
    headers = [("trace", transaction_id.encode()), ("empty", None)]
    return Message(topics[(dice >> 16) % len(topics)], value, key, headers)


class Book:
    """One file of slots, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self.name = path.name.removesuffix(_SUFFIX)
        with path.open("ab") as file:
            file.truncate(SLOTS_MAX * SLOT_BYTES)  # a hole: what is not used takes no room
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def get(self, number: int, what: int) -> int:
        """One byte of a slot."""
        return self._memory[number * SLOT_BYTES + what]

    def put(self, number: int, what: int, value: int) -> None:
        """One byte of a slot."""
        self._memory[number * SLOT_BYTES + what] = value

    def raise_to(self, number: int, what: int, value: int) -> None:
        """It never goes back."""
        if value > self.get(number, what):
            self.put(number, what, value)

    def begin(self, number: int, letter: str) -> None:
        """A transaction: its number is the highest so far."""
        if number >= SLOTS_MAX:
            raise RuntimeError(f"a worker has room for {SLOTS_MAX} transactions")
        self.put(number, LETTER, ord(letter))
        self._memory[:SLOT_BYTES] = number.to_bytes(SLOT_BYTES, "little")

    @property
    def count(self) -> int:
        """The highest number."""
        return int.from_bytes(self._memory[:SLOT_BYTES], "little")

    def slots(self) -> Iterator[tuple[int, bytes]]:
        """Number and slot of every transaction."""
        for number in range(1, self.count + 1):
            at = number * SLOT_BYTES
            yield number, self._memory[at : at + SLOT_BYTES]


class Books:
    """All files of a folder; opened, or made, when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._books: dict[str, Book] = {}
        self._lock = threading.Lock()

    def book(self, name: str, *, is_new: bool = False) -> Book | None:
        """By its name; None when there is none and none shall be made."""
        found = self._books.get(name)
        if found is None:
            path = self._folder / f"{name}{_SUFFIX}"
            if not is_new and not path.exists():
                return None
            with self._lock:
                found = self._books.setdefault(name, Book(path))
        return found

    def all(self) -> list[Book]:
        """Of all lives of all applications so far."""
        names = (path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}"))
        return [book for name in sorted(names) if (book := self.book(name)) is not None]

    def count(self) -> int:
        """Transactions that were begun so far."""
        return sum(book.count for book in self.all())


class SlotFates:
    """apps.Fates: the first fate of a transaction stands."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._lock = threading.Lock()

    def settle(self, transaction_id: str, fate: str) -> str:
        """Record a fate unless there is one, and give what is recorded."""
        place = Place.of(transaction_id)
        book = None if place is None else self._books.book(place.book)
        if place is None or book is None:
            return "ROLLBACK"  # nothing of ours: nothing was carried out for it
        with self._lock:
            found = book.get(place.number, FATE) or _FATES[fate]
            book.put(place.number, FATE, found)
        return _FATE_NAMES[found]


class SlotHistory:
    """history.Writer, as far as apps.AppProcess needs one."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def begin(
        self,
        op: str,
        identity: tuple[str, str],
        messages: Sequence[Any] = (),
        *,
        number: int | None = None,
    ) -> SlotCall:
        """Before the call."""
        place = Place.of(identity[1])
        if place is None:
            raise ValueError(f"{identity} is not an id of ours")
        book = self._books.book(place.book, is_new=True)
        assert book is not None
        if op == "prepare":
            book.begin(place.number, place.letter)
        return SlotCall(book, place.number, op, len(messages))


class SlotCall:
    """history.Call: one call under way."""

    def __init__(self, book: Book, number: int, op: str, message_count: int) -> None:
        self._book, self._number, self._op = book, number, op
        before = book.get(number, STORED) if op == "add" else 0
        self._stored = before + message_count
        if op in ("prepare", "add"):
            book.raise_to(number, SENT, self._stored)
        self._ended(ASKED)

    def _ended(self, how: int) -> None:
        if self._op in ("commit", "rollback"):
            what = COMMITTED if self._op == "commit" else ROLLED_BACK
            self._book.raise_to(self._number, what, how)

    def ok(self) -> None:
        """It was acknowledged."""
        if self._op in ("prepare", "add"):
            self._book.raise_to(self._number, STORED, self._stored)
        self._ended(ACKED)

    def say(self, phase: str, **more: Any) -> None:
        """Of a check: nothing is kept of it but the fate."""

    def fail(self, error: str) -> None:
        """It surely did not happen; that it was asked for stands."""

    def info(self, error: str) -> None:
        """Nobody knows."""
