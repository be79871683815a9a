"""The real clock and real ids: the one place where time and randomness come from."""

import os
import time


class SystemClock:
    """ports.Clock."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()


def new_transaction_id() -> str:
    """128 random bits as 32 hexadecimal digits."""
    return os.urandom(16).hex()
