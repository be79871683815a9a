"""A clock that stands still until a test moves it.

What it simplifies: nobody is woken when time moves; code that waits on real time still waits.
"""


class MemoryClock:
    """ports.Clock. `advance` moves both hands; `jump` only the wall's, as an operator might."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self._wall_ms = wall_ms
        self._monotonic_s = 1_000.0

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._wall_ms

    def monotonic_s(self) -> float:
        """Seconds that never run backwards."""
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._wall_ms += round(seconds * 1000)
        self._monotonic_s += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forwards or (negative) backwards; no time has passed."""
        self._wall_ms += round(seconds * 1000)
