"""Deleting what both logs of a half partition need no more.

Only what an EARLIER Kafka transaction has committed is deleted: the newest one may be rolled back
in the eyes of whoever reads the stored watermarks just before it. And only what an op record
proves to be committed (wire/proof.py): should Kafka forget the pair, it is found in the op log. No
op watermark passes the op log's end, so the record that proves a pair lies above all that is
deleted with it, and the newest one always names places within both logs. See DESIGN.md.
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
        self._proven = (0, 0)  # of the last committed step that wrote op records
        self._trimmed = (0, 0)
        self._trimmed_at_s = 0.0

    def begin(self, half_start: int, op_start: int) -> None:
        """A takeover found these."""
        # By what they were proven, if at all, is not known: they count as deleted.
        self.watermarks = self._proven = self._trimmed = (half_start, op_start)
        # Not at once: instances that are asked to ask read the halves of the first checks first.
        self._trimmed_at_s = self._clock.monotonic_s()

    def committed(self, half_watermark: int, op_watermark: int, *, is_proven: bool) -> None:
        """A step was committed with these; whether an op record of its proves them."""
        before, self.watermarks = self._proven, (half_watermark, op_watermark)
        if is_proven:
            self._proven = self.watermarks
        now_s = self._clock.monotonic_s()
        records = sum(before) - sum(self._trimmed)
        if records >= _RECORDS or (records > 0 and now_s - self._trimmed_at_s >= _PAUSE_S):
            self._trimmed, self._trimmed_at_s = before, now_s
            reached("before_delete")
            self._writer.delete_below(*before)
            reached("after_delete")
