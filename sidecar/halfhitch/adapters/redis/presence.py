"""Which instances have live producers, as last heard, and which groups somebody asks about.

Owns two small tables between the callers (any thread) and the writer thread. Invariants: what was
not heard again for `PRESENCE_S / 2` counts as unknown; groups that nobody has asked about for a
minute are forgotten; both tables are bounded.
"""

import threading
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from halfhitch.adapters.redis.keys import PRESENCE_S

_ASKED_S: Final = 60.0
_ASKED_MAX: Final = 10_000
_HEARD_S: Final = PRESENCE_S / 2
_INSTANCES_MAX: Final = 1_000
_NAME_BYTES_MAX: Final = 1_024


class PresenceTable:
    """What is announced and what was heard."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._lock = threading.Lock()
        self._announced: frozenset[str] = frozenset()
        self._withdrawn: set[str] = set()
        self._asked: dict[str, float] = {}
        self._heard: dict[str, tuple[float, tuple[str, ...]]] = {}

    def announce(self, producer_groups: Collection[str]) -> bool:
        """True when this is news."""
        groups = frozenset(producer_groups)
        if groups == self._announced:
            return False
        with self._lock:
            self._withdrawn |= self._announced - groups
            self._withdrawn -= groups
            self._announced = groups
        return True

    def instances(self, producer_group: str) -> tuple[Sequence[str], bool]:
        """What was heard, and whether the group is newly asked about."""
        now_s = time.monotonic()
        is_new = producer_group not in self._asked
        with self._lock:
            if is_new and len(self._asked) >= _ASKED_MAX:
                return (), False
            self._asked[producer_group] = now_s
        heard_s, names = self._heard.get(producer_group, (0.0, ()))
        return (names if now_s - heard_s < _HEARD_S else ()), is_new

    def to_announce(self) -> tuple[frozenset[str], set[str]]:
        """For the writer: what is announced, and what is not any more (told once)."""
        with self._lock:
            withdrawn, self._withdrawn = self._withdrawn, set()
            return self._announced, withdrawn

    def withdraw_again(self, withdrawn: Iterable[str]) -> None:
        """It could not be written."""
        with self._lock:
            self._withdrawn |= set(withdrawn) - self._announced

    def to_ask(self) -> list[str]:
        """For the writer: groups worth knowing about."""
        oldest_s = time.monotonic() - _ASKED_S
        with self._lock:
            for group in [group for group, asked_s in self._asked.items() if asked_s < oldest_s]:
                del self._asked[group]
                self._heard.pop(group, None)
            return list(self._asked)

    def heard(self, producer_group: str, answer: object) -> None:
        """For the writer: the members that have not expired, whatever they are."""
        names: set[str] = set()
        for raw in answer if isinstance(answer, list) else ():
            if not isinstance(raw, bytes) or not 0 < len(raw) <= _NAME_BYTES_MAX:
                continue
            try:
                names.add(raw.decode())
            except UnicodeDecodeError:
                continue
        names.discard(self._instance)
        self._heard[producer_group] = (time.monotonic(), tuple(sorted(names)[:_INSTANCES_MAX]))
