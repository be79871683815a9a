"""Deleting what both logs of a half partition need no more.

Only what an EARLIER Kafka transaction has committed is deleted: the newest one may be rolled back
in the eyes of whoever reads the stored watermarks just before it. See DESIGN.md.
"""

from typing import Final

from halfhitch.crash_points import reached
from halfhitch.ports import Clock, PartitionWriter

#: Delete when so many records or so many seconds have passed since the last time.
_RECORDS: Final = 20_000
_PAUSE_S: Final = 10.0


class Trimmer:
    """Knows the watermarks that were committed, and how far was deleted."""

    def __init__(self, writer: PartitionWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self.watermarks = (0, 0)  # of the last committed step
        self._trimmed = (0, 0)
        self._trimmed_at_s = 0.0

    def begin(self, half_start: int, op_start: int) -> None:
        """A takeover found these."""
        self.watermarks = self._trimmed = (half_start, op_start)

    def committed(self, half_watermark: int, op_watermark: int) -> None:
        """A step was committed with these."""
        before, self.watermarks = self.watermarks, (half_watermark, op_watermark)
        now_s = self._clock.monotonic_s()
        records = sum(before) - sum(self._trimmed)
        if records >= _RECORDS or (records > 0 and now_s - self._trimmed_at_s >= _PAUSE_S):
            self._trimmed, self._trimmed_at_s = before, now_s
            reached("before_delete")
            self._writer.delete_below(*before)
            reached("after_delete")
