"""The canaries of one client: one for each server that holds keys.

Owns which keys they are. A Redis Cluster's servers lose their data one by one, and a canary tells
only of its own; names are numbered until every primary has one.
"""

import os
from dataclasses import dataclass
from typing import Final

from halfhitch.adapters.redis import connect
from halfhitch.adapters.redis.canary import GARBAGE, Canary
from halfhitch.adapters.redis.keys import CANARY_KEPT_S, Keys
from halfhitch.adapters.redis.pipeline import Work

_NUMBERS_MAX: Final = 500


@dataclass(slots=True)
class _Bracket:
    """The values of one batch and what was found in their places."""

    canary: Canary
    first: str
    last: str
    found_first: bytes | None = None
    found_last: bytes | None = None
    is_garbage: bool = False

    def read_first(self, answer: bytes | None) -> None:
        self.found_first = answer

    def read_last(self, answer: bytes | None) -> None:
        self.found_last = answer

    def meet_garbage(self) -> None:
        self.is_garbage = True


class Watch:
    """Puts a batch between canaries and judges what they met."""

    def __init__(self, keys: Keys, instance: str) -> None:
        self._keys = keys
        self._instance = instance
        #: Of this process.
        self.nonce = os.urandom(8).hex()
        self._canaries: dict[str, Canary] = {}
        self._brackets: dict[str, _Bracket] = {}

    def open(self, client: connect.Client, work: Work) -> None:
        """First of all."""
        self._brackets = {}
        for key in self.keys(client):
            canary = self._canaries.setdefault(key, Canary(self.nonce))
            bracket = self._brackets[key] = _Bracket(canary, *canary.begin())
            work.add(
                *("GETSET", key, bracket.first),
                key=key,
                repair=bracket.meet_garbage,
                read=bracket.read_first,
            )

    def close(self, work: Work) -> None:
        """Last of all."""
        for key, bracket in self._brackets.items():
            work.add("GETSET", key, bracket.last, key=key, read=bracket.read_last)
            work.add("EXPIRE", key, CANARY_KEPT_S)

    def judge(self) -> str | None:
        """Once the batch is surely written: why what Redis held is not ours any more, if so."""
        reasons: list[str] = []
        for key, bracket in self._brackets.items():
            if bracket.is_garbage:
                # It has been deleted: that it is missing next time must say nothing.
                del self._canaries[key]
                reasons.append(GARBAGE)
            elif reason := bracket.canary.judge(bracket.found_first, bracket.found_last):
                reasons.append(reason)
        return reasons[0] if reasons else None

    def keys(self, client: connect.Client) -> list[str]:
        """The same ones as long as the servers and their slots are the same."""
        if not connect.is_cluster(client):
            return [self._keys.canary(self._instance, self.nonce)]
        found: dict[str, str] = {}
        wanted = connect.primary_count(client)
        for number in range(_NUMBERS_MAX):
            key = self._keys.canary(self._instance, self.nonce, number)
            found.setdefault(connect.server_of(client, key), key)
            if len(found) == wanted:
                break
        return list(found.values())
