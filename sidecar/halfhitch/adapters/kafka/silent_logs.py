"""Logs that give nothing although there is something to read, and although no error says why.

An owner of an empty op log was seen to get nothing of it for half a minute, while the same consumer
read the half log beside it: neither a record nor the log's end. Nothing that was decided there
would ever be carried out, and nobody asked. Whatever the client has lost, it finds it again when
the logs are assigned anew; so Kafka is asked now and then whether a silent log has more.

What is on its way when they are assigned anew is thrown away. A log that stays silent for that
long because its records are slow to come (a quota, a thin line) would never give them; so each
such attempt waits twice as long as the last, until the log has given something.

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
_SILENT_MAX_S: Final = 300.0


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
        self._patience_s: dict[Log, float] = {}  # of those that were stuck and gave nothing since
        self._ends: dict[Log, int] = {}  # of those that had more to read when it was looked last
        self._look_at_s = 0.0

    def begin(self, log: Log) -> None:
        """It is read from now on."""
        self._heard_s[log] = self._now_s()
        self._ends.pop(log, None)

    def heard(self, log: Log) -> None:
        """It has given something."""
        self.begin(log)
        self._patience_s.pop(log, None)

    def leave(self, log: Log) -> None:
        """It is not read now."""
        self._heard_s.pop(log, None)
        self._ends.pop(log, None)

    def stuck(self, read_to: Mapping[Log, int]) -> dict[Log, int]:
        """Those that do not give what can be read, and how far that would be.

        Ask only when all that the client has fetched is taken: what lies in its queue was given.
        """
        now_s = self._now_s()
        if now_s < self._look_at_s:
            return {}
        silent = [
            log
            for log, heard_s in self._heard_s.items()
            if now_s - heard_s >= self._patience_s.get(log, _SILENT_S)
        ]
        self._look_at_s = now_s + _AGAIN_S
        if not silent:
            return {}
        stuck = {log: self._ends[log] for log in silent if read_to[log] < self._ends.get(log, 0)}
        if stuck:
            for log in stuck:
                patience_s = 2 * self._patience_s.get(log, _SILENT_S)
                self._patience_s[log] = min(patience_s, _SILENT_MAX_S)
            return stuck
        try:
            ends = self._readable(silent)
        except KafkaUnavailable:
            return {}
        self._ends = {log: end for log, end in ends.items() if read_to[log] < end}
        self._look_at_s = now_s + (_AGAIN_S if self._ends else _SILENT_S)
        return {}
