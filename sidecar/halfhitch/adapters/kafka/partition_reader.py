"""The owner's reading side: one half partition, its op log, and the watermarks stored for them.

Used by one thread, the partition's worker. Everything here may block; librdkafka releases the
interpreter lock meanwhile.

A stored watermark names the other: the half watermark says in its metadata which op watermark was
stored with it, and the other way round. Whoever sets one of them from outside breaks the pair, and
a broken pair is not believed: done marks below the op watermark are needed again when the half
watermark has gone back, or what they finished would be forwarded once more. The op log is read
from its start then, which is always right and only slow.

The pair also carries the stamp of the write that stored it. Watermarks may stand still while steps
are written; the stamp never does, so it tells whether anybody has written since we did.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from halfhitch.adapters.kafka.errors import describe
from halfhitch.adapters.kafka.half_fetching import ANSWER_S, LOG_IS_GONE, HalfFetcher, low_of
from halfhitch.adapters.kafka.log_consumer import LogConsumer, PlainLogConsumer
from halfhitch.adapters.kafka.log_ends import LogEnds, held_sentence
from halfhitch.adapters.kafka.silent_logs import SilentLogs
from halfhitch.adapters.watchdog import progress, resting
from halfhitch.errors import BelowLogError, KafkaUnavailable, TopologyError
from halfhitch.ports import ReadBatch, StoredRecord

logger = logging.getLogger(__name__)

#: One read takes at most this many records: a turn must stay short.
READ_MAX: Final = 2_000


class KafkaPartitionReader:
    """ports.PartitionReader."""

    def __init__(
        self,
        make_consumer: Callable[[], Consumer],
        *,
        ends: LogEnds,
        half_topic: str,
        op_topic: str,
        partition: int,
        native: LogConsumer | None = None,
    ) -> None:
        """`native`: reads the two logs in place of a consumer that is made here."""
        self._consumer = native or PlainLogConsumer(make_consumer(), half_topic)
        self._ends = ends
        self._fetcher = HalfFetcher(make_consumer, half_topic)
        self._half = (half_topic, partition)
        self._op = (op_topic, partition)
        self._half_read_to = self._op_read_to = 0
        self._silent = SilentLogs(ends.readable)
        self._is_op_held = False
        #: See ports.PartitionReader.
        self.stamp = ""

    def committed_positions(self) -> tuple[int | None, int | None]:
        """See ports.PartitionReader."""
        asked = [TopicPartition(*self._half), TopicPartition(*self._op)]
        progress()
        try:
            half, op = self._consumer.committed(asked, ANSWER_S)
        except KafkaException as error:
            raise KafkaUnavailable(
                f"the stored watermarks cannot be read: {describe(error)}"
            ) from error
        self.stamp = stamp_of(half, op)
        return believed(half, op)

    def begin(self, half_position: int | None, op_position: int | None) -> tuple[int, int]:
        """See ports.PartitionReader. A position outside its log is refused, loudly."""
        (half_start, half_below), (op_start, op_below) = (
            self._start(self._half, half_position),
            self._start(self._op, op_position),
        )
        if below := half_below or op_below:
            raise BelowLogError(below)
        self._half_read_to, self._op_read_to = half_start, op_start
        self._assign()
        self.hold_op()
        return half_start, op_start

    def _assign(self) -> None:
        """To where they have been read."""
        self._consumer.assign(
            [
                TopicPartition(*self._half, self._half_read_to),
                TopicPartition(*self._op, self._op_read_to),
            ]
        )
        self._silent.begin(self._half)

    def _start(self, log: tuple[str, int], position: int | None) -> tuple[int, str]:
        """Where to begin; and why not there, when it lies below the log."""
        low, high = low_of(self._consumer, log), self._end(log)
        if position is None:
            return low, ""
        if low <= position <= high:
            return position, ""
        refusal = (
            f"{log[0]}-{log[1]} holds offsets {low} to {high}, but the stored watermark is "
            f"{position}: records were deleted or the topic was recreated; nothing is "
            "forwarded from this partition until an operator has looked (halfhitch doctor)"
        )
        if position > high:
            raise TopologyError(refusal)
        return position, refusal

    def _end(self, log: tuple[str, int]) -> int:
        progress()
        return self._ends.existing([log])[log]

    def hold_op(self) -> None:
        """See ports.PartitionReader."""
        self._is_op_held = True
        self._silent.leave(self._op)
        self._consumer.pause([TopicPartition(*self._op)])

    def release_op(self) -> None:
        """See ports.PartitionReader."""
        self._is_op_held = False
        self._silent.begin(self._op)
        self._consumer.resume([TopicPartition(*self._op)])

    def read(self, wait_s: float) -> ReadBatch:
        """See ports.PartitionReader."""
        progress()
        taken = self._consumer.take(wait_s, READ_MAX)
        for other in taken.others:
            self._event(other)
        if taken.half:
            self._half_read_to = max(self._half_read_to, taken.half[-1].offset() + 1)
            self._silent.heard(self._half)
        if taken.op:
            self._op_read_to = max(self._op_read_to, taken.op[-1].offset() + 1)
            self._silent.heard(self._op)
        if taken.has_taken_all:
            self._look_at_silent()
        return ReadBatch(taken.half, taken.op)

    def _look_at_silent(self) -> None:
        read_to = {self._half: self._half_read_to, self._op: self._op_read_to}
        if self._is_op_held:
            self._silent.leave(self._op)  # what was on its way when it was held may have come
        progress()
        stuck = self._silent.stuck(read_to)
        if not stuck:
            return
        for log, end in stuck.items():
            logger.warning(
                "%s-%d gives nothing from %d on, though it can be read to %d; both logs of the "
                "half partition are fetched anew",
                *log,
                read_to[log],
                end,
                extra={"action": "log_silent"},
            )
        self._assign()
        if self._is_op_held:
            self.hold_op()
        else:
            self.release_op()

    def _event(self, message: Any) -> None:
        error: Any = message.error()
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            if message.topic() == self._half[0]:
                self._half_read_to = max(self._half_read_to, message.offset())
            else:
                self._op_read_to = max(self._op_read_to, message.offset())
            self._silent.heard((message.topic(), message.partition()))
        elif code in LOG_IS_GONE:
            raise TopologyError(
                f"{message.topic()}-{message.partition()} cannot be read where it was left: "
                f"{error.str()}; records were deleted or the topic is gone (halfhitch doctor)"
            )
        elif not error.retriable() and code not in (
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._RESOLVE,
        ):
            raise KafkaUnavailable(f"reading {message.topic()} failed: {error.str()}")

    def half_end(self) -> int:
        """See ports.PartitionReader."""
        return self._end(self._half)

    def op_end(self) -> int:
        """See ports.PartitionReader."""
        return self._end(self._op)

    def half_read_to(self) -> int:
        """See ports.PartitionReader."""
        return self._half_read_to

    def op_read_to(self) -> int:
        """See ports.PartitionReader."""
        return self._op_read_to

    def held(self) -> str | None:
        """See ports.PartitionReader."""
        logs = (self._half, self._op)
        progress()
        try:
            existing, readable = self._ends.existing(logs), self._ends.readable(logs)
        except KafkaUnavailable:
            return None
        return held_sentence(logs, existing, readable)

    def fetch_halves(self, half_offsets: Sequence[int]) -> dict[int, StoredRecord]:
        """See ports.PartitionReader."""
        return self._fetcher.fetch(self._half[1], half_offsets)

    def wake(self) -> None:
        """See ports.PartitionReader."""
        self._consumer.wake()

    def close(self) -> None:
        """See ports.PartitionReader."""
        for consumer in (self._consumer, self._fetcher.consumer):
            if consumer is not None:
                progress()
                try:
                    consumer.close()
                except (KafkaException, RuntimeError, SystemError) as error:
                    logger.debug("a consumer did not close cleanly: %s", error)
        resting()


def pair_metadata(half_watermark: int, op_watermark: int, stamp: str) -> str:
    """What is stored beside both watermarks of one Kafka transaction."""
    return f"1;{half_watermark};{op_watermark};{stamp}"


def stamp_of(half: TopicPartition, op: TopicPartition) -> str:
    """Of the write that stored both; empty where earlier releases did, or two different writes."""
    said = half.metadata or ""
    return "".join(said.split(";", 3)[3:]) if said == op.metadata else ""


def believed(half: TopicPartition, op: TopicPartition) -> tuple[int | None, int | None]:
    """Both stored watermarks; the op watermark is None unless they are a pair.

    It stays beside a half watermark that is lost alone: Kafka forgets that one with its topic.
    """
    half_position, op_position = _position(half), _position(op)
    if half_position is None or op_position is None:
        paired = False
    else:
        # Earlier releases wrote no stamp.
        pair = f"1;{half_position};{op_position}"
        said = half.metadata or ""
        paired = said == op.metadata and (said == pair or said.startswith(f"{pair};"))
    if paired:
        return half_position, op_position
    if half.metadata or op.metadata:
        logger.warning(
            "the stored watermarks %s-%d %s and %s-%d %s were not stored together: somebody has "
            "changed them from outside; the op log is read from its start, nothing is done twice",
            half.topic,
            half.partition,
            half_position,
            op.topic,
            op.partition,
            op_position,
            extra={"action": "watermarks_changed"},
        )
    return half_position, None if half_position is not None else op_position


def _position(stored: TopicPartition) -> int | None:
    return stored.offset if stored.offset >= 0 else None
