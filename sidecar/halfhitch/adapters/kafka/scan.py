"""Reading logs from one offset to another: for whoever looks something up, or judges.

Not for an owner's turn, which has no end. The consumer has a hand-made assignment, joins nothing,
commits nothing, and tells where partitions end (`enable.partition.eof`). One thread uses it;
everything here blocks, for a moment or until a deadline.

- The position passes over what no reader is given: markers and aborted records. So an end is
  reached by the position, not by a record's offset.
- Where a read_committed reader meets the end of what it can read, there may be more: an open Kafka
  transaction hides what lies behind its first record. Nothing follows from not seeing it.
- Where the log was trimmed or deleted under the reader, that is told, never jumped over.
- What ends the reading is raised by the next call, for what came before it is handed on first.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.log_ends import Log
from halfhitch.adapters.kafka.readable import headers_of
from halfhitch.errors import KafkaUnavailable

_ASK_S: Final = 5.0
_POLL_S: Final = 0.1
_CHUNK: Final = 500
#: Positions are asked for only so often: it is a call for each partition.
_LOOK_S: Final = 0.1

_TRIMMED: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_DELETED: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})


class LogTrimmed(KafkaUnavailable):
    """What was to be read is not in the log any more."""


class NotInTime(KafkaUnavailable):
    """The end was not reached. `is_held`: all was read that can be read now."""

    def __init__(
        self, log: Log, read_to: int, end: int, *, is_held: bool, trouble: str | None
    ) -> None:
        self.is_held = is_held
        why = f": {trouble}" if trouble else ""
        super().__init__(
            f"{log[0]}-{log[1]} can be read up to {read_to} of {end}: a Kafka transaction is open "
            "there, and hides what lies behind it until it ends (halfhitch doctor names its "
            "producer); ask again then"
            if is_held
            else f"{log[0]}-{log[1]} could not be read in time, up to {read_to} of {end}{why}; ask "
            "again (halfhitch doctor tells more)"
        )


class LogScan:
    """Logs that are read side by side, and how far each is.

    `read_to`: kept by whoever goes on later with another consumer. `on_trimmed`: what to do instead
    of raising LogTrimmed; it may `leave` the log and `begin` it anew.
    """

    def __init__(
        self,
        consumer: Consumer,
        read_to: dict[Log, int] | None = None,
        *,
        on_trimmed: Callable[[Log], None] | None = None,
        count_max: int = _CHUNK,
    ) -> None:
        self._consumer = consumer
        self._on_trimmed = on_trimmed
        self._count_max = count_max
        #: The offset of what comes next, of all logs that were ever begun.
        self.read_to = {} if read_to is None else read_to
        self.followed: set[Log] = set()
        #: The last error that the client goes on trying after.
        self.trouble: str | None = None
        #: Topics that this user may not read.
        self.refused: set[str] = set()
        self._at_end: set[Log] = set()
        self._failure: KafkaUnavailable | None = None
        self._looked_s = time.monotonic()

    def begin(self, starts: Mapping[Log, int]) -> None:
        """Follow these too."""
        if starts:
            self.read_to.update(starts)
            self.followed |= starts.keys()
            self._at_end -= starts.keys()
            asked = [TopicPartition(*log, start) for log, start in starts.items()]
            self._consumer.incremental_assign(asked)

    def leave(self, logs: Collection[Log]) -> None:
        """Follow these no longer."""
        if logs:
            self._consumer.incremental_unassign([TopicPartition(*log) for log in logs])
            self.followed.difference_update(logs)

    def below(self, ends: Mapping[Log, int]) -> set[Log]:
        """Those that have not been read to these ends."""
        return {log for log, end in ends.items() if self.read_to[log] < end}

    def is_at_end(self, log: Log) -> bool:
        """All was read that could be read when it was looked at last."""
        return log in self._at_end

    def some(self, wait_s: float = _POLL_S) -> list[Any]:
        """The records that come next. Raises KafkaUnavailable, LogTrimmed among them."""
        if self._failure is not None:
            raise self._failure
        good: list[Any] = []
        try:
            first: Any = self._consumer.poll(wait_s)
            for message in [] if first is None else self._with_more(first):
                if message.error() is not None:
                    self._event(message)
                    continue
                log = message.topic(), message.partition()
                self.read_to[log] = message.offset() + 1
                self._at_end.discard(log)
                headers_of(message)  # who asks the record later finds none, and lives
                good.append(message)
            if first is None or time.monotonic() - self._looked_s >= _LOOK_S:
                self._pass_markers()
        except KafkaException as error:
            raise KafkaUnavailable(f"the logs cannot be read: {describe(error)}") from error
        return good

    def _with_more(self, first: Any) -> list[Any]:
        return [first, *self._consumer.consume(self._count_max, 0)]

    def _pass_markers(self) -> None:
        self._looked_s = time.monotonic()
        asked = [TopicPartition(*log) for log in self.followed]
        for where in self._consumer.position(asked) if asked else ():
            log = where.topic, where.partition
            self.read_to[log] = max(self.read_to[log], where.offset)

    def _event(self, message: Any) -> None:
        error: Any = message.error()
        code, log = error.code(), (message.topic(), message.partition())
        if code == KafkaError._PARTITION_EOF:
            self.read_to[log] = max(self.read_to[log], message.offset())
            self._at_end.add(log)
        elif code in _TRIMMED:
            if self._on_trimmed is None:
                self._failure = LogTrimmed(
                    f"{log[0]}-{log[1]} was trimmed while it was read; try again"
                )
            elif log in self.followed:
                self._on_trimmed(log)
        elif code in _DELETED:
            self._failure = KafkaUnavailable(f"{log[0]} was deleted while it was read; try again")
        elif error.fatal():
            self._failure = KafkaUnavailable(f"the logs cannot be read: {error.str()}")
        else:
            self.trouble = error.str()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED and log[0]:
                self.refused.add(log[0])


def records(
    consumer: Consumer,
    log: Log,
    start: int,
    end: int,
    give_up_s: float,
    *,
    readable_only: bool = False,
) -> Iterator[Any]:
    """All records of one log from `start` to below `end`, which was asked for (see log_ends.py).

    With `readable_only` it ends where nothing more can be read now. Raises NotInTime when
    `give_up_s` of the monotonic clock has passed, LogTrimmed, KafkaUnavailable. What the consumer
    was given before is no longer followed.
    """
    consumer.unassign()
    scan = LogScan(consumer, {log: start})
    ends = {log: end}
    if scan.below(ends):
        scan.begin({log: start})
    while scan.below(ends):
        for message in scan.some():
            if message.offset() < end:
                yield message
        if not scan.below(ends) or (readable_only and scan.is_at_end(log)):
            return
        if time.monotonic() > give_up_s:
            held = scan.is_at_end(log)
            raise NotInTime(log, scan.read_to[log], end, is_held=held, trouble=scan.trouble)


def pick(
    consumer: Consumer, log: Log, log_offsets: Collection[int], give_up_s: float
) -> dict[int, Any]:
    """The records at these offsets, by offset; one that is gone is missing.

    Raises NotInTime, KafkaUnavailable.
    """
    wanted, found = set(log_offsets), {}
    for run_start, end in _runs(sorted(wanted)):
        start = run_start
        while start < end:
            try:
                for message in records(consumer, log, start, end, give_up_s, readable_only=True):
                    if message.offset() in wanted:
                        found[message.offset()] = message
                break
            except LogTrimmed:
                # What is left of the run lies further on.
                start = max(start + 1, _first(consumer, log))
    return found


def _first(consumer: Consumer, log: Log) -> int:
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(*log), _ASK_S)
    except KafkaException as error:
        raise KafkaUnavailable(f"{log[0]} cannot be read: {describe(error)}; try again") from error
    return int(low)


def _runs(log_offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Start and end of those that lie so close together that what lies between is read as well."""
    start = end = -1
    for log_offset in log_offsets:
        if start >= 0 and log_offset - end > _CHUNK:
            yield start, end
            start = -1
        if start < 0:
            start = log_offset
        end = log_offset + 1
    if start >= 0:
        yield start, end
