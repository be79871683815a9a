"""Who has a place among the connections of the door, and who makes room when all are taken.

Owns `Arrivals`, one for a door. Where signatures are asked for, a connection that has shown none
makes room first: for whoever comes, or within the share of its address. So whoever has a key cannot
be kept out by those who have none. An identity has its share, from all its addresses together: a
connection beyond that is as good as a stranger's, and what it asks is refused.

Where no signature is asked for nobody is a stranger: newcomers are turned away.
"""

from collections import Counter
from typing import Final, Protocol

from halfhitch.doors.crowd import Crowd
from halfhitch.doors.holding import Holding, OpenConnection, Refused
from halfhitch.doors.rocketmq.limits import Limits
from halfhitch.errors import Overloaded

_WORDS: Final = (
    "{whose} {count_max} connections already: let clients share theirs, or raise rocketmq.{setting}"
)


class Comer(OpenConnection, Protocol):
    """A connection."""

    def make_room(self) -> None:
        """Leave, at once: others may come before its transport has closed."""
        ...


class Arrivals:
    """Used on the event loop."""

    __slots__ = ("_asks", "_limits", "_load", "_of_identity", "_unproven")

    def __init__(self, load: Holding, limits: Limits, *, asks_for_signatures: bool) -> None:
        self._load = load
        self._limits = limits
        self._asks = asks_for_signatures
        self._unproven: Crowd[Comer] = Crowd()
        self._of_identity: Counter[str] = Counter()

    def enter(self, comer: Comer, peer: str) -> tuple[Refused, str] | None:
        """Give it a place, if need be that of another one; else say why there is none.

        It counts among the door's connections already.
        """
        load, limits, unproven = self._load, self._limits, self._unproven
        count_max = limits.connection_peer_count_max
        if load.came(peer) > count_max:
            if not self._made_room(unproven.oldest(peer)):
                return "peer", _sentence("its address has", count_max, "connections_peer_max")
        elif len(load.connections) > limits.connection_count_max and not self._made_room(
            unproven.next_to_go(peer)
        ):
            count_max = limits.connection_count_max
            return "full", _sentence("there are", count_max, "connections_max")
        if self._asks:
            unproven.add(comer, peer)
        return None

    def prove(self, comer: Comer, name: str | None) -> None:
        """It has shown a signature that counts, of this identity. Raises Overloaded."""
        count_max = self._limits.connection_identity_count_max
        if name is not None:
            if self._of_identity[name] >= count_max:
                whose = f"identity {name!r} has, from all its addresses,"
                sentence = _sentence(whose, count_max, "connections_max")
                self._load.refused("identity", f"identity {name}", sentence)
                raise Overloaded(sentence)
            self._of_identity[name] += 1
        self._unproven.discard(comer)

    def left(self, comer: Comer, name: str | None) -> None:
        """It is gone; `name` is that of the identity that it was proven for."""
        self._unproven.discard(comer)
        if name is not None:
            self._of_identity[name] -= 1
            if not self._of_identity[name]:
                del self._of_identity[name]

    def _made_room(self, chosen: Comer | None) -> bool:
        if chosen is None:
            return False
        chosen.make_room()
        return True


def _sentence(whose: str, count_max: int, setting: str) -> str:
    return _WORDS.format(whose=whose, count_max=count_max, setting=setting)
