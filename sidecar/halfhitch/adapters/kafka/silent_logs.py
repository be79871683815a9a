"""Logs that give nothing although there is something to read, and although no error says why.

An owner of an empty op log was seen to get nothing of it for half a minute, while the same consumer
read the half log beside it: neither a record nor the log's end. Nothing that was decided there
would ever be carried out, and nobody asked. Whatever the client has lost, it finds it again when
the logs are assigned anew; so Kafka is asked now and then whether a silent log has more.

Used by one thread. Not here: what is done about it (partition_reader.py).
"""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from halfhitch.adapters.kafka.log_ends import Log
from halfhitch.errors import KafkaUnavailable

#: Of a log that is at its end this costs a question for each such time.
_SILENT_S: Final = 10.0
#: What could be read at one look has come by the next.
_AGAIN_S: Final = 5.0


class SilentLogs:
    """Of one consumer. `readable`: LogEnds.readable."""

    def __init__(
        self,
        readable: Callable[[Collection[Log]], Mapping[Log, int]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._readable = readable
        self._now_s = now_s
        self._heard_s: dict[Log, float] = {}
        self._ends: dict[Log, int] = {}  # of those that had more to read when it was looked last
        self._look_at_s = 0.0

    def heard(self, log: Log) -> None:
        """It has given something, or begins to be read."""
        self._heard_s[log] = self._now_s()
        self._ends.pop(log, None)

    def leave(self, log: Log) -> None:
        """It is not read now."""
        self._heard_s.pop(log, None)
        self._ends.pop(log, None)

    def stuck(self, read_to: Mapping[Log, int]) -> dict[Log, int]:
        """Those that do not give what can be read, and how far that would be."""
        now_s = self._now_s()
        if now_s < self._look_at_s:
            return {}
        silent = [log for log, heard_s in self._heard_s.items() if now_s - heard_s >= _SILENT_S]
        self._look_at_s = now_s + _AGAIN_S
        if not silent:
            return {}
        stuck = {log: self._ends[log] for log in silent if read_to[log] < self._ends.get(log, 0)}
        if stuck:
            return stuck
        try:
            ends = self._readable(silent)
        except KafkaUnavailable:
            return {}
        self._ends = {log: end for log, end in ends.items() if read_to[log] < end}
        self._look_at_s = now_s + (_AGAIN_S if self._ends else _SILENT_S)
        return {}
