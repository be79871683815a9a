"""What one connection's requests looked like so far, so that the next ones cost less.

A producer sends the same header again and again: the same group and topic, one more id, one more
time of birth. Once such a header was read in full, its unchanging pieces are kept as bytes together
with what they mean; the next header is cut at the same places, and a piece that is equal, byte by
byte, means the same. Whatever does not fit is read in full, so a shape can make reading faster but
never different.

A piece includes its keys and lengths, up to and with the length of the value that follows, and is
kept only when reading in full found the same borders: equal bytes from a known border on must then
parse equally. Everything here is bounded: a client that never repeats itself gains nothing and
costs little.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

#: Of one kind of piece for one connection; when there are more, all are forgotten and learned anew.
PIECES_MAX: Final = 128
#: Longer pieces are not kept, nor headers of other kinds learned that are longer.
PIECE_BYTES_MAX: Final = 1_024
#: Different shapes of one length.
LIKE_MAX: Final = 4

Key = TypeVar("Key")
Value = TypeVar("Value")

#: producer group, topic, default topic, default queue count.
Prefix = tuple[str, str, str, int]
#: reconsume count, batch, broker name, namespace.
Suffix = tuple[int, bool, str | None, str | None]


class EndShape(NamedTuple):
    """The header of a request to end a transaction, cut by fixed lengths."""

    cut: Callable[[bytes], tuple[bytes, ...]]  # into fixed and changing pieces, in turn
    fixed: tuple[bytes, ...]
    pick: Callable[[tuple[bytes, ...]], tuple[bytes, ...]]  # the changing ones, as they are read
    meaning: tuple[str, bool, str | None, str | None]  # group, from check, broker name, namespace


class Shapes:
    """The memory of one connection."""

    __slots__ = ("ends", "flags", "middles", "prefixes", "suffixes")

    def __init__(self) -> None:
        self.prefixes: dict[bytes, Prefix] = {}
        self.middles: dict[bytes, tuple[int, int]] = {}  # queue id, sysFlag
        self.flags: dict[bytes, int] = {}
        self.suffixes: dict[bytes, Suffix] = {}
        self.ends: dict[int, list[EndShape]] = {}  # by length of the header's fields


def keep(known: dict[Key, Value], key: Key, value: Value) -> None:
    """One more piece, within the bound."""
    if len(known) >= PIECES_MAX:
        known.clear()
    known[key] = value


class Span:
    """Where one field lies in the fields of a binary header."""

    __slots__ = ("at", "end", "name", "value_at")

    def __init__(self, name: bytes, at: int, value_at: int, end: int) -> None:
        self.name = name
        self.at = at
        self.value_at = value_at
        self.end = end


def spans(raw: bytes) -> list[Span]:
    """Of fields that are known to parse."""
    found: list[Span] = []
    at = 0
    while at < len(raw):
        key_at = at + 2
        value_at = key_at + int.from_bytes(raw[at:key_at], "big") + 4
        end = value_at + int.from_bytes(raw[value_at - 4 : value_at], "big")
        found.append(Span(raw[key_at : value_at - 4], at, value_at, end))
        at = end
    return found
