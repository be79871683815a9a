"""Bytes of frames that are not complete, of all connections of a door: bounded, and shared fairly.

Owns `Unfinished`. Whoever can reach the door can begin a frame and never end it. So strangers,
whose connections have shown no signature that counts, have half of the room together; nobody who
has shown one is cut off for their sake. Where room is short, the address or identity that holds
most gives its largest frame up.

Where no signature is asked for nobody is a stranger, and addresses share all of it.
"""

from collections import Counter
from typing import Final, NamedTuple, Protocol

_REASON: Final = (
    "too many unfinished frames are held for all connections together, and most of them for {}"
)


class Taker(NamedTuple):
    """Whom bytes are counted for."""

    is_stranger: bool
    name: str  # address or identity


class Holder(Protocol):
    """A connection."""

    def cut_off(self, reason: str) -> None:
        """Close it: its unfinished frame is needed no more, and counted no more."""
        ...


class Unfinished:
    """Used on the event loop."""

    __slots__ = ("_bytes_max", "_held", "_of_taker", "_strangers_bytes", "held_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: dict[Holder, tuple[Taker, int]] = {}
        self._of_taker: Counter[Taker] = Counter()
        self._strangers_bytes = 0
        #: Of all connections.
        self.held_bytes = 0

    def hold(self, holder: Holder, taker: Taker, held_bytes: int) -> None:
        """The connection's unfinished frame has so many bytes now; 0: it has none."""
        self._release(holder)
        if not held_bytes:
            return
        self._held[holder] = taker, held_bytes
        self._count(taker, held_bytes)
        while (short := self._is_short()) is not None:
            victim, of = self._largest(among_strangers=short)
            self._release(victim)
            victim.cut_off(_REASON.format(of.name))

    def _is_short(self) -> bool | None:
        """Whether strangers must make room, or anybody (False); None: there is room."""
        if self._strangers_bytes * 2 > self._bytes_max:
            return True
        if self.held_bytes > self._bytes_max:
            return self._strangers_bytes > 0
        return None

    def _largest(self, *, among_strangers: bool) -> tuple[Holder, Taker]:
        of_taker = self._of_taker
        takers = [taker for taker in of_taker if taker.is_stranger or not among_strangers]
        most = max(takers, key=of_taker.__getitem__)
        held = self._held
        of_most = [holder for holder, (taker, _) in held.items() if taker == most]
        return max(of_most, key=lambda holder: held[holder][1]), most

    def _release(self, holder: Holder) -> None:
        taker, held_bytes = self._held.pop(holder, (None, 0))
        if taker is not None:
            self._count(taker, -held_bytes)

    def _count(self, taker: Taker, held_bytes: int) -> None:
        self.held_bytes += held_bytes
        if taker.is_stranger:
            self._strangers_bytes += held_bytes
        self._of_taker[taker] += held_bytes
        if not self._of_taker[taker]:
            del self._of_taker[taker]
