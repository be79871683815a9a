"""Time and chance of the client."""

import threading
import time

from halfhitch.client.pacing import REAL_PACING


def test_the_jitter_lies_from_0_to_1_and_differs() -> None:
    drawn = [REAL_PACING.jitter() for _ in range(200)]
    assert all(0.0 <= value < 1.0 for value in drawn)
    assert len(set(drawn)) > 100


def test_a_pause_ends_when_it_is_woken() -> None:
    woken = threading.Event()
    woken.set()
    began_s = REAL_PACING.clock()
    REAL_PACING.wait(woken, 3_600.0)
    assert REAL_PACING.clock() - began_s < 600
    assert REAL_PACING.clock is time.monotonic
