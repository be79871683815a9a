"""Who has come and shown little yet, in the order of coming, and from which addresses.

Owns `Crowd`. Where all places are taken somebody has to make room; with this it costs the same
however many there are.
"""

from typing import Generic, TypeVar

M = TypeVar("M")


class Crowd(Generic[M]):
    """Members leave in any order; the oldest is whoever came first of those still there."""

    __slots__ = ("_peer_of", "_peers")

    def __init__(self) -> None:
        self._peer_of: dict[M, str] = {}
        self._peers: dict[str, dict[M, None]] = {}

    def add(self, member: M, peer: str) -> None:
        """It is the youngest now."""
        self._peer_of[member] = peer
        self._peers.setdefault(peer, {})[member] = None

    def discard(self, member: M) -> None:
        """It has gone, or is no longer one of these."""
        peer = self._peer_of.pop(member, None)
        if peer is not None:
            of_peer = self._peers[peer]
            del of_peer[member]
            if not of_peer:
                del self._peers[peer]

    def __len__(self) -> int:
        return len(self._peer_of)

    def __contains__(self, member: M) -> bool:
        return member in self._peer_of

    def count_of(self, peer: str) -> int:
        """How many come from this address."""
        return len(self._peers.get(peer, ()))

    def oldest(self, peer: str | None = None) -> M | None:
        """Of this address, or of all."""
        return next(iter(self._peer_of if peer is None else self._peers.get(peer, ())), None)

    def next_to_go(self, peer: str) -> M | None:
        """When this address brings one more: of its own if most are its own, else the oldest.

        So an address that comes again and again pushes out itself, and nobody who is just coming.
        """
        return self.oldest(peer if self.count_of(peer) * 2 > len(self) else None)
