"""Simulated time: what happens when, in one order that only the seed decides.

True time is what really passes. Clocks are made from it (see clocks.py); nothing that is under test
ever sees it.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

START_MS = 1_700_000_000_000


class Timeline:
    """`now_ms` is true time. `count` says what has happened how often."""

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.seed = seed
        self.dice = Random(seed)
        self.now_ms = START_MS
        self.count: Counter[str] = Counter()
        self.lines: list[str] | None = [] if is_traced else None
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Let this happen then."""
        self._sequence += 1
        heappush(self._events, (self.now_ms + max(0, delay_ms), self._sequence, action))

    def pass_until(self, until_ms: int) -> None:
        """Everything that happens up to then."""
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, action = heappop(self._events)
            action()
        self.now_ms = max(self.now_ms, until_ms)

    def pass_one(self, until_ms: int) -> bool:
        """The next thing that happens up to then; False: time has passed without one."""
        if self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, action = heappop(self._events)
            action()
            return True
        self.now_ms = max(self.now_ms, until_ms)
        return False

    @property
    def is_quiet(self) -> bool:
        """Whether nothing will happen by itself."""
        return not self._events

    def chance(self, probability: float) -> bool:
        """Thrown with the seed's dice."""
        return probability > 0 and self.dice.random() < probability

    def note(self, text: str, *values: object) -> None:
        """A line of the trace; costs nothing while nobody traces."""
        if self.lines is not None:
            passed_s = (self.now_ms - START_MS) / 1000
            self.lines.append(f"{passed_s:10.3f}  {text.format(*values)}")
