"""How one message is known again at the consumer, and what the load notes of it.

A body begins with the number of its cell and its own number within the cell. All times are of
`time.monotonic`, which is one clock for all processes of a machine on Linux.
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

BODY_BYTES: Final = 1024
#: Added to the number of a cell: messages of transactions that are to be rolled back. The watcher
#: must never see one.
DROPPED: Final = 1 << 31
_STAMP: Final = struct.Struct("!IQ")
_FILLER: Final = bytes(range(256)) * 4

read_stamp = _STAMP.unpack_from


def body(cell: int, number: int, size_bytes: int = BODY_BYTES) -> bytes:
    """What transaction `number` of a cell sends."""
    stamp = _STAMP.pack(cell, number)
    if size_bytes <= len(_FILLER):
        return stamp + _FILLER[_STAMP.size : size_bytes]
    return stamp + bytes(_FILLER[_STAMP.size :]) + bytes(size_bytes - len(_FILLER))


def orphan(cell: int, number: int) -> bytes:
    """What undecided transaction `number` of a cell holds: every other one is to be committed."""
    return body(cell if number % 2 == 0 else cell | DROPPED, number // 2)


def is_dropped(orphan_body: bytes) -> bool:
    """Whether the transaction that holds this is to be rolled back."""
    return bool(read_stamp(orphan_body)[0] & DROPPED)


class Tally:
    """What a load notes; the index is the number of the transaction."""

    def __init__(self) -> None:
        self.prepare_s = array("d")
        self.commit_s = array("d")
        self.acknowledged_at_s = array("d")

    def begin(self) -> int:
        """The number of a new transaction."""
        number = len(self.prepare_s)
        for column in (self.prepare_s, self.commit_s, self.acknowledged_at_s):
            column.append(0.0)
        return number

    def prepared(self, number: int, elapsed_s: float) -> None:
        """The halves are stored."""
        self.prepare_s[number] = elapsed_s

    def committed(self, number: int, elapsed_s: float, now_s: float) -> None:
        """The decision is durable."""
        self.commit_s[number] = elapsed_s
        self.acknowledged_at_s[number] = now_s

    def save(self, path: Path) -> int:
        """For the director; gives the number of transactions."""
        save(path, self.prepare_s + self.commit_s + self.acknowledged_at_s)
        return len(self.prepare_s)

    @classmethod
    def load(cls, path: Path) -> Tally:
        """What `save` has written."""
        values = load(path)
        count = len(values) // 3
        tally = cls()
        tally.prepare_s = values[:count]
        tally.commit_s = values[count : 2 * count]
        tally.acknowledged_at_s = values[2 * count :]
        return tally


def save(path: Path, values: array[float]) -> None:
    """Times, as they are in memory."""
    path.write_bytes(values.tobytes())


def load(path: Path) -> array[float]:
    """What `save` has written."""
    values = array("d")
    values.frombytes(path.read_bytes())
    return values
