"""When a producer group is left alone for a while: a circuit breaker, as plain state.

It owns no clock, no dice and no permits: times and the jitter are arguments.

    closed      checks flow; too many bad outcomes in a row open it
    open        nothing is asked until the pause is over; each further opening pauses longer
    half-open   probes alone; a bad one opens it again, any good outcome closes it

Checks of before an opening go on to fail while it is open, or while a probe is out. They say
nothing new, so each check carries the generation in which it left: bad outcomes of an older
generation are passed over. Good ones always count.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_DOUBLINGS_MAX: Final = 32  # the pause is bounded anyway; keeps the power finite


class BreakerState(StrEnum):
    """What may be asked now."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerLimits:
    """`failure_count` in a row open it."""

    failure_count: int = 20
    pause_s: float = 5.0
    pause_s_max: float = 60.0
    #: A pause is longer by up to this part of it, so that groups do not come back together.
    jitter: float = 0.2
    probe_count: int = 1


class Breaker:
    """Of one producer group."""

    __slots__ = ("_failures", "_limits", "_openings", "_probes", "_until_s", "generation", "state")

    def __init__(self, limits: BreakerLimits) -> None:
        self._limits = limits
        self.state = BreakerState.CLOSED
        #: Which opening lies behind us.
        self.generation = 0
        self._failures = 0
        self._openings = 0  # since it was closed last
        self._probes = 0
        self._until_s = 0.0

    def take(self, wanted_count: int, now_s: float) -> int:
        """How many of so many checks may go; they count as under way."""
        if self.state is BreakerState.CLOSED:
            return wanted_count
        if self.state is BreakerState.OPEN:
            if now_s < self._until_s:
                return 0
            self._half_open()
        granted_count = min(wanted_count, max(0, self._limits.probe_count - self._probes))
        self._probes += granted_count
        return granted_count

    def unused(self, count: int) -> None:
        """So many that were taken were not sent, or what became of them says nothing."""
        self._probes = max(0, self._probes - count)

    def good(self) -> None:
        """Somebody answered: the group works."""
        self.state = BreakerState.CLOSED
        self._failures = self._openings = self._probes = 0

    def bad(self, generation: int, now_s: float, dice: float) -> None:
        """A check that left in this generation came to nothing; `dice` is from 0 to 1."""
        if generation != self.generation or self.state is BreakerState.OPEN:
            return
        self._failures += 1
        if self.state is BreakerState.HALF_OPEN or self._failures >= self._limits.failure_count:
            self._open(now_s, dice)

    def newcomer(self) -> None:
        """Another producer of the group is live: worth a probe at once."""
        if self.state is BreakerState.OPEN:
            self._half_open()

    def opens_in_s(self, now_s: float) -> float | None:
        """How long the pause still is; None when there is none."""
        return max(0.0, self._until_s - now_s) if self.state is BreakerState.OPEN else None

    def _open(self, now_s: float, dice: float) -> None:
        limits = self._limits
        pause_s = limits.pause_s * 2 ** min(self._openings, _DOUBLINGS_MAX)
        pause_s = min(pause_s, limits.pause_s_max)
        self.state = BreakerState.OPEN
        self.generation += 1
        self._openings += 1
        self._failures = self._probes = 0
        self._until_s = now_s + pause_s * (1 + limits.jitter * dice)

    def _half_open(self) -> None:
        self.state = BreakerState.HALF_OPEN
        self._probes = 0
