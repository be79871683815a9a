"""How far an owner is behind its logs, in seconds.

Measured with one clock, ours: now and then Kafka is asked where the logs end, and the time until
everything below has been read and carried out is the lag. A difference between broker time and the
clock of this machine would be taken for a lag that lasts for ever.

A log that gives nothing although it is asked for more is not the owner's lag: it is at its end, or
somebody's open Kafka transaction hides the rest.

Belongs to one owner and its thread; `seconds` may be asked from any.
"""

from typing import Final

from halfhitch.core.ledger import Ledger
from halfhitch.errors import KafkaUnavailable
from halfhitch.ports import Clock, PartitionReader, ReadBatch
from halfhitch.service.owner.feeding import Feed

#: Where the logs end is asked so often, while something is read at all.
_ASK_S: Final = 1.0
#: The question blocks, and must not be all that an owner does whose broker is in trouble.
_ASK_AGAIN_S: Final = 15.0
#: A log that has given nothing for so long, in so many reads, has nothing to give.
_SILENT_S: Final = 1.0
_SILENT_READS: Final = 5


class _Silence:
    """Of one log."""

    __slots__ = ("count", "since_s")

    def __init__(self) -> None:
        self.count = 0
        self.since_s = 0.0

    def read(self, record_count: int, now_s: float) -> None:
        """So many records came."""
        if record_count:
            self.count = 0
            return
        if self.count == 0:
            self.since_s = now_s
        self.count += 1

    def is_long(self, now_s: float) -> bool:
        """Whether nothing more can be read."""
        return self.count >= _SILENT_READS and now_s - self.since_s >= _SILENT_S


class Lag:
    """See the module's text."""

    def __init__(self, reader: PartitionReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """A takeover begins."""
        self._half, self._op = _Silence(), _Silence()
        self._ask_at_s = 0.0
        self._asked_s: float | None = None  # when the goal was set that is not reached yet
        self._goal = (0, 0)
        self._written_count = 0
        self._written_goal: int | None = None  # everything of the goal is read: so much is to do
        self._measured_s = 0.0

    def seconds(self) -> float:
        """Now; 0 where little is to be done."""
        asked_s = self._asked_s
        if asked_s is None:
            return self._measured_s
        return max(self._measured_s, self._clock.monotonic_s() - asked_s)

    def wrote(self, transaction_count: int) -> None:
        """So many transactions were carried out."""
        self._written_count += transaction_count

    def look(self, ledger: Ledger, feed: Feed, batch: ReadBatch) -> None:
        """Once a turn, after what was read has been fed."""
        now_s = self._clock.monotonic_s()
        self._half.read(len(batch.half), now_s)
        self._op.read(len(batch.op), now_s)
        if self._asked_s is not None:
            if self._is_reached(ledger, feed, now_s):
                self._measured_s = now_s - self._asked_s
                self._asked_s = self._written_goal = None
        elif self._half.is_long(now_s) and self._op.is_long(now_s):
            self._measured_s = 0.0
        elif now_s >= self._ask_at_s and (batch.half or batch.op):
            self._ask(now_s)

    def _ask(self, now_s: float) -> None:
        try:
            self._goal = (self._reader.half_end(), self._reader.op_end())
        except KafkaUnavailable:
            self._ask_at_s = now_s + _ASK_AGAIN_S
        else:
            self._asked_s, self._ask_at_s = now_s, now_s + _ASK_S

    def _is_reached(self, ledger: Ledger, feed: Feed, now_s: float) -> bool:
        if self._written_goal is None:
            half_goal, op_goal = self._goal
            reader = self._reader
            if not (reader.half_read_to() >= half_goal or self._half.is_long(now_s)):
                return False
            if not (reader.op_read_to() >= op_goal or self._op.is_long(now_s)):
                return False
            if not (feed.is_fed_to(op_goal) or self._op.is_long(now_s)):
                return False
            self._written_goal = self._written_count + len(ledger.ready)
        # Those that wait for a target that is away leave the queue, and are not waited for.
        return self._written_count >= self._written_goal or not len(ledger.ready)
