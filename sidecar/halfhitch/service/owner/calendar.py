"""What day it is, for the age limit: this machine's wall clock, held against the broker's.

Half records carry the broker's time (LogAppendTime), which tells how far the broker's clock is from
our monotonic one. It is known as soon as one half was read since the takeover, and before anybody
can be given up by the calendar his own copies were.

The earlier of the two clocks counts: whose clock is ahead, by days perhaps, makes nothing old. Of
the broker's the last reading counts, for it may have been set back; who reads late sees it behind.

Where the two differ by more than late reading explains, that is said. For this the reading counts
that shows the broker's furthest ahead of those of a minute or two.

Belongs to one owner and its thread; `trouble` and `ahead_s` may be read from any.
"""

import logging
from collections.abc import Sequence
from typing import Final

from halfhitch.ports import Clock, StoredRecord

logger = logging.getLogger(__name__)

#: Readings count for one to two of these.
_WINDOW_S: Final = 60.0
#: For so long somebody else's open Kafka transaction may hide records from us, as brokers are set
#: by default; then they look so old.
_DIFFER_MS: Final = 900_000


class Calendar:
    """See the module's text."""

    def __init__(self, partition: int, clock: Clock) -> None:
        self._partition = partition
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """A takeover begins: what it reads was stored who knows when."""
        # The broker's clock minus our monotonic one, in milliseconds: as read last, and the highest
        # of this window and of the one before.
        self._shift_ms: int | None = None
        self._highest_ms = self._highest_before_ms = 0
        self._window_s = self._known_s = 0.0
        #: Why the two clocks cannot both be right, in a sentence.
        self.trouble: str | None = None
        #: How far this machine's clock is ahead of the broker's (negative: behind); 0: not known.
        self.ahead_s = 0.0

    def read(self, halves: Sequence[StoredRecord]) -> None:
        """These have just been read, and were stored since the takeover."""
        if not halves:
            return
        now_s = self._clock.monotonic_s()
        shift_ms = halves[-1].timestamp()[1] - self._monotonic_ms()
        if self._shift_ms is None:
            self._window_s = self._known_s = now_s
            self._highest_ms = self._highest_before_ms = shift_ms
        elif now_s - self._window_s >= _WINDOW_S:
            self._window_s = now_s
            self._highest_before_ms, self._highest_ms = self._highest_ms, shift_ms
        else:
            self._highest_ms = max(self._highest_ms, shift_ms)
        self._shift_ms = shift_ms

    def now_ms(self) -> int | None:
        """By the earlier of the two clocks; None while the broker's is not known."""
        if self._shift_ms is None:
            return None
        return min(self._monotonic_ms() + self._shift_ms, self._clock.wall_ms())

    def look(self) -> None:
        """Once a second: whether the clocks differ. The first reading alone may be a late one."""
        now_ms = self._monotonic_ms()
        if self._shift_ms is None or now_ms - self._known_s * 1000 < _WINDOW_S * 1000:
            return
        broker_ms = now_ms + max(self._highest_ms, self._highest_before_ms)
        ahead_ms = self._clock.wall_ms() - broker_ms
        self.ahead_s = ahead_ms / 1000
        if abs(ahead_ms) <= _DIFFER_MS:
            self._say(None)
            return
        word = "ahead of" if ahead_ms > 0 else "behind"
        self._say(
            f"this machine's clock is {_days(abs(ahead_ms))} {word} that of the broker of half "
            f"partition {self._partition}: set them right (NTP); until then the age limit "
            "(checks.age_s_max) goes by the earlier of the two"
        )

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)

    def _say(self, trouble: str | None) -> None:
        if trouble is not None and self.trouble is None:
            logger.warning("%s", trouble, extra={"action": "clocks_differ"})
        elif trouble is None and self.trouble is not None:
            logger.info(
                "this machine's clock and that of the broker of half partition %d agree again",
                self._partition,
                extra={"action": "clocks_agree"},
            )
        self.trouble = trouble


def _days(span_ms: int) -> str:
    minutes = span_ms // 60_000
    if minutes < 120:
        return f"{minutes} minutes"
    hours = minutes // 60
    return f"{hours} hours" if hours < 48 else f"{hours // 24} days"
