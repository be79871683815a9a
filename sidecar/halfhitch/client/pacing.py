"""Time and chance of the client, in one place so that tests can move them."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol


def _jitter() -> float:
    # Not `random`: its state is copied by fork, and children that back off in step help nobody.
    return int.from_bytes(os.urandom(4), "big") / 2**32


class Wakeable(Protocol):
    """A `threading.Event`, without importing it."""

    def wait(self, at_most_s: float, /) -> bool:
        """True: it was set."""
        ...


def _wait(wakeable: Wakeable, pause_s: float) -> None:
    wakeable.wait(pause_s)


class Pacing(NamedTuple):
    """A monotonic clock, and numbers from 0 to 1."""

    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = _jitter
    #: Only the sync shell's pauses; the asyncio one uses its loop.
    sleep: Callable[[float], None] = time.sleep
    #: The same for its background thread, which `close()` wakes.
    wait: Callable[[Wakeable, float], None] = _wait


REAL_PACING = Pacing()
